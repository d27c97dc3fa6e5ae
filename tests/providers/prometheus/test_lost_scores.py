"""What becomes of one score that could not be read, beside others that could."""

from datetime import UTC, datetime, timedelta

from fairway.providers.provider import Reading, Score
from fairway.providers.publication import Publication
from fairway.providers.publisher import Publisher
from fairway.providers.scales import Direct

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCORES = (Score(name="a", scale=Direct()), Score(name="b", scale=Direct()))


class PublisherHarness:
    """A publisher whose writes all succeed."""

    def __init__(self) -> None:
        self.publisher = Publisher(SCORES, horizon=180, interval=60)
        self.version = 0

    def read(self, reading: Reading, *, after: float) -> Publication | None:
        """What is published then."""
        now = START + timedelta(seconds=after)
        self.publisher.read({"c1": reading}, at=now, now=now)
        publishing = self.publisher.state_of("c1")
        if publishing.take_due(now=now) is not None:
            self.version += 1
            publishing.record_write(version=self.version, now=now)
        return publishing.published


def until(publication: Publication | None) -> float:
    assert publication is not None
    assert publication.valid_until is not None
    return (publication.valid_until - START).total_seconds()


def test_lost_score_stays_and_limits_validity() -> None:
    harness = PublisherHarness()
    first = harness.read(Reading(values={"a": 10, "b": 20}), after=0)
    assert until(first) == 180
    part = harness.read(Reading(values={"a": 50}, problem="b: gone", reason="Gone", lost=("b",)), after=100)
    assert part is not None
    assert dict(part.scores) == {"a": 50, "b": 20}
    assert (part.ok, part.reason) == (False, "Gone")
    assert until(part) == 180
    # Once it expired it is no longer there, and the others are as valid as they are.
    late = harness.read(Reading(values={"a": 50}, problem="b: gone", reason="Gone", lost=("b",)), after=180)
    assert late is not None
    assert dict(late.scores) == {"a": 50}
    assert until(late) == 360


def test_returned_score_no_longer_limits_validity() -> None:
    harness = PublisherHarness()
    harness.read(Reading(values={"a": 10, "b": 20}), after=0)
    harness.read(Reading(values={"a": 10}, problem="b: gone", lost=("b",)), after=60)
    back = harness.read(Reading(values={"a": 10, "b": 21}), after=120)
    assert back is not None
    assert back.ok
    assert until(back) == 300


def test_omitted_score_is_removed_at_once() -> None:
    harness = PublisherHarness()
    harness.read(Reading(values={"a": 10, "b": 20}), after=0)
    left = harness.read(Reading(values={"a": 10}), after=60)
    assert left is not None
    assert dict(left.scores) == {"a": 10}
    again = harness.read(Reading(values={"a": 10}, problem="b: gone", lost=("b",)), after=90)
    assert again is not None
    assert dict(again.scores) == {"a": 10}


def test_note_is_part_of_the_message() -> None:
    publication = PublisherHarness().read(Reading(values={"a": 10}, note="off by 2"), after=0)
    assert publication is not None
    assert publication.ok
    assert publication.message == "a 10; off by 2"
