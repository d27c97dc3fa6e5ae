"""The checker of elections."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from chaos.leadership import Entry, Guarded, Held, problems

START = datetime(2026, 3, 1, tzinfo=UTC)


def held(version: int, holder: str, token: int, acquired: float, renewed: float) -> Held:
    return Held(
        version=version,
        uid="u",
        holder=holder,
        token=token,
        acquired=START + timedelta(seconds=acquired),
        renewed=START + timedelta(seconds=renewed),
        lasts=timedelta(seconds=2),
    )


@dataclass
class ElectionHistory:
    """Replica a leads and stops responding, b acquires and releases the lease, c acquires it at once."""

    lease: list[Held] = field(
        default_factory=lambda: [
            held(10, "a", 0, 0, 0),
            held(12, "a", 0, 0, 1),
            held(14, "b", 1, 3, 3),
            held(16, "b", 1, 3, 4),
            held(18, "", 1, 3, 4.5),
            held(20, "c", 2, 4.6, 4.6),
        ]
    )
    ledger: list[Entry] = field(
        default_factory=lambda: [
            Entry(version=11, holder="a", token=0, number=1),
            Entry(version=13, holder="a", token=0, number=2),
            Entry(version=17, holder="b", token=1, number=3),
            Entry(version=21, holder="c", token=2, number=4),
        ]
    )
    guards: list[Guarded] = field(
        default_factory=lambda: [
            Guarded(holder="a", token=0, begun=0.1, ended=0.3),
            Guarded(holder="a", token=0, begun=0.2, ended=0.4),
            Guarded(holder="b", token=1, begun=3.1, ended=4.0),
            Guarded(holder="c", token=2, begun=4.7, ended=5.0),
        ]
    )

    def problem_kinds(self) -> set[str]:
        return {problem.kind for problem in problems(self.lease, self.ledger, self.guards)}


def test_correct_election_has_no_problems() -> None:
    assert ElectionHistory().problem_kinds() == set()
    story = ElectionHistory()
    story.lease.append(
        replace(held(25, "d", 0, 5, 5), uid="another")
    )  # it was deleted, and any process may create one
    assert story.problem_kinds() == set()


def take_it_too_early(story: ElectionHistory) -> None:
    story.lease[2] = held(14, "b", 1, 2.9, 3)


def take_it_without_a_token(story: ElectionHistory) -> None:
    story.lease[2] = held(14, "b", 0, 0, 3)
    story.lease[3:] = [replace(entry, token=entry.token - 1) for entry in story.lease[3:]]


def take_a_token_twice(story: ElectionHistory) -> None:
    story.lease[5] = held(20, "c", 1, 4.6, 4.6)


def take_it_again_with_the_same_token(story: ElectionHistory) -> None:
    story.lease[1] = held(12, "a", 0, 1, 1)


def count_tokens_down(story: ElectionHistory) -> None:
    story.lease[2:5] = [replace(entry, token=-1) for entry in story.lease[2:5]]


def leave_a_token_out(story: ElectionHistory) -> None:
    story.lease[5] = replace(story.lease[5], token=3)


def send_versions_back(story: ElectionHistory) -> None:
    story.lease[1] = replace(story.lease[1], version=9)


def renew_in_the_past(story: ElectionHistory) -> None:
    story.lease[3] = held(16, "b", 1, 3, 3)


def write_after_the_term(story: ElectionHistory) -> None:
    story.ledger[1] = replace(story.ledger[1], version=15)


def write_after_giving_it_back(story: ElectionHistory) -> None:
    story.ledger[2] = replace(story.ledger[2], version=19)


def write_without_a_leader(story: ElectionHistory) -> None:
    story.ledger[0] = replace(story.ledger[0], version=9)


def write_with_an_old_token(story: ElectionHistory) -> None:
    story.ledger[2] = replace(story.ledger[2], token=0)


def write_twice(story: ElectionHistory) -> None:
    story.ledger[3] = replace(story.ledger[3], number=3)


def be_inside_at_the_same_time(story: ElectionHistory) -> None:
    story.guards[1] = replace(story.guards[1], ended=3.5)


IMPROPER: dict[Callable[[ElectionHistory], None], str] = {
    take_it_too_early: "usurped",
    take_it_without_a_token: "token",
    take_a_token_twice: "token",
    take_it_again_with_the_same_token: "token",
    count_tokens_down: "token",
    leave_a_token_out: "token",
    send_versions_back: "back",
    renew_in_the_past: "back",
    write_after_the_term: "intruder",
    write_after_giving_it_back: "intruder",
    write_without_a_leader: "intruder",
    write_with_an_old_token: "intruder",
    write_twice: "back",
    be_inside_at_the_same_time: "together",
}


@pytest.mark.parametrize("deed", IMPROPER, ids=lambda deed: deed.__name__)
def test_incorrect_election_is_reported(deed: Callable[[ElectionHistory], None]) -> None:
    story = ElectionHistory()
    deed(story)
    assert IMPROPER[deed] in story.problem_kinds()
