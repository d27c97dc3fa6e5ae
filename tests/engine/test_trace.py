from collections.abc import Callable

import pytest

from engine.toys import Admit, Points, Refuse, Work, fleet_of
from fairway.engine import cycle
from fairway.engine.points import Context, Scores
from fairway.engine.profile import Profile, Weighted
from fairway.engine.status import misconfigured
from fairway.engine.trace import LEFT_OUT, NONE_WANTED, Contribution, HostTrace, Trace
from fairway.fleet.bitmap import Rows

NAMES = ("a", "b", "c", "d", "e", "f")
SCORES = (Weighted(Points({"a": 1, "b": 5, "c": 5}, "One"), 2), Weighted(Points({"c": -1, "d": 0}, "Two"), 1))


def traced(profile: Profile, *, wanted: int | None = 1) -> Trace:
    return Trace(cycle.run(fleet_of(*NAMES).snapshot(), Work(wanted), profile, now=0))


PROFILE = Profile(
    name="toy",
    pre_filters=(Admit(NAMES[:5]),),
    filters=(Refuse(["e"], "First"), Refuse(["e"])),
    scores=SCORES,
)


def test_chosen_first_then_others_by_rank_then_the_rejected_by_name() -> None:
    assert [each.host for each in traced(PROFILE)] == ["b", "c", "a", "d", "e", "f"]


def test_the_chosen_has_rank_total_and_what_everybody_gave() -> None:
    assert traced(PROFILE).host("b") == HostTrace(
        host="b",
        selected=True,
        rank=1,
        total=10,
        contributions=(Contribution("One", 5, 2), Contribution("Two", 0, 1, known=False)),
    )


def test_points_are_score_times_weight() -> None:
    assert Contribution("One", -5, 3).points == -15


def test_one_not_chosen_is_told_how_many_are_better() -> None:
    found = traced(PROFILE, wanted=2).host("a")
    assert (found.selected, found.rank, found.total, found.rejected_by) == (False, 3, 2, "")
    assert found.reason == "passed every filter, but 2 better hosts fill the 2 wanted"


def test_ranks_go_on_below_the_chosen_ones() -> None:
    assert {each.host: each.rank for each in traced(PROFILE)} == {
        "b": 1,
        "c": 2,
        "a": 3,
        "d": 4,
        "e": None,
        "f": None,
    }


@pytest.mark.parametrize(
    ("host", "rejected_by", "reason"),
    [
        pytest.param("e", "First", "e is refused", id="the first filter that refuses is named"),
        pytest.param("f", "Admit", "is not admitted", id="a PreFilter comes before the filters"),
    ],
)
def test_the_rejected_are_told_by_whom_and_why(host: str, rejected_by: str, reason: str) -> None:
    assert traced(PROFILE).host(host) == HostTrace(host=host, rejected_by=rejected_by, reason=reason)


def test_a_host_nobody_knows_is_a_fault() -> None:
    with pytest.raises(KeyError):
        traced(PROFILE).host("nowhere")


def test_when_the_cycle_was_ended_its_own_words_are_everybodys() -> None:
    profile = Profile(name="toy", filters=(Refuse(["e"]),), refusal=misconfigured("no sense", plugin="P"))
    found = traced(profile)
    assert found.host("a") == HostTrace(host="a", rejected_by="P", reason="no sense")
    assert found.host("e") == HostTrace(host="e", rejected_by="Refuse", reason="e is refused")


def first_only(context: Context, rows: Rows, totals: object) -> Rows:
    return rows[:1]


def test_a_choice_may_explain_itself() -> None:
    def explain(
        context: Context, chosen: Rows, feasible: Rows, totals: Scores
    ) -> Callable[[int], str | None]:
        assert (chosen.tolist(), feasible.tolist()) == ([0], [0, 1, 2, 3, 4, 5])
        return lambda row: "because" if row == 1 else None

    found = traced(Profile(name="toy", choice=first_only, explain_choice=explain), wanted=2)
    assert found.host("b").reason == "because"
    assert found.host("c").reason == LEFT_OUT


def test_a_choice_that_leaves_out_one_of_the_best_without_a_word() -> None:
    found = traced(Profile(name="toy", choice=first_only), wanted=2)
    assert found.host("b").reason == LEFT_OUT
    everybody = traced(Profile(name="toy", choice=first_only), wanted=None)
    assert everybody.host("f").reason == LEFT_OUT


def test_workload_that_wants_no_host_passes_over_all_for_that_reason() -> None:
    assert traced(Profile(name="toy"), wanted=0).host("a").reason == NONE_WANTED


def test_hosts_are_asked_only_when_somebody_wants_to_know() -> None:
    refuse = Refuse(["e"])
    profile = Profile(name="toy", filters=(refuse,))
    outcome = cycle.run(fleet_of(*NAMES).snapshot(), Work(), profile, now=0)
    refuse.asked.clear()
    found = Trace(outcome)
    assert refuse.asked == []
    found.host("a")
    assert refuse.asked == []
    found.host("e")
    assert refuse.asked == ["e"]
