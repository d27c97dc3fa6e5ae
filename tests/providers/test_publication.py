"""When a reading is worth a write: values compared, with a clock that is an argument."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairway.providers.assessment import OK, Assessment
from fairway.providers.definition import LONGEST_INTERVAL
from fairway.providers.provider import Score
from fairway.providers.publication import TOLERANCE, Publication, PublicationState, horizon, is_significant
from fairway.providers.scales import Direct

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
H = timedelta(seconds=180)
FREE = Score(name="free", scale=Direct())
BUSY = Score(name="busy", scale=Direct(), deadband=10, thresholds=(50,))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(seconds: float, *, message: str = "", well: bool = True, **scores: int) -> Assessment:
    return Assessment(
        scores=tuple(sorted(scores.items())),
        at=at(seconds),
        ok=well,
        reason=OK if well else "Partial",
        message=message,
    )


def published(publishing: PublicationState, assessment: Assessment) -> Publication:
    """Read and written, at the same moment."""
    now = assessment.at
    assert publishing.record_reading(assessment, now=now) == now
    publication = publishing.take_due(now=now)
    assert publication is not None
    publishing.record_write(version=0, now=now)
    return publication


@pytest.fixture
def publishing() -> PublicationState:
    return PublicationState((FREE, BUSY), horizon=H.total_seconds(), interval=0)


def test_first_reading_is_written_with_validity(publishing: PublicationState) -> None:
    publication = published(publishing, seen(0.7, free=10, message="free 10 things"))
    assert publication == Publication(
        scores=(("free", 10),),
        valid_until=at(180),
        ok=True,
        reason=OK,
        message="free 10 things",
        changed_at=at(0),
        read_at=at(0.7),
    )
    assert publishing.valid(at(179))
    assert not publishing.valid(at(180))


@pytest.mark.parametrize("value", [9, 10, 11])
def test_change_below_deadband_is_not_written(publishing: PublicationState, value: int) -> None:
    published(publishing, seen(0, free=10))
    assert publishing.record_reading(seen(60, free=value), now=at(60)) == at(135)
    assert publishing.take_due(now=at(60)) is None


@pytest.mark.parametrize("value", [8, 12, -100])
def test_change_of_deadband_is_written(publishing: PublicationState, value: int) -> None:
    published(publishing, seen(0, free=10))
    assert published(publishing, seen(60, free=value)).scores == (("free", value),)


@pytest.mark.parametrize(
    ("before", "now", "worth"),
    [
        (1, 0, True),
        (0, -1, True),
        (99, 100, True),
        (100, 99, True),
        (-99, -100, True),
        (49, 50, True),
        (50, 51, True),
        (51, 55, False),
        (1, 9, False),
        (30, 39, False),
        (30, 40, True),
    ],
)
def test_crossed_threshold_is_written(before: int, now: int, worth: bool) -> None:
    assert is_significant(BUSY, before, now) is worth


def test_deadband_zero_needs_a_difference() -> None:
    score = Score(name="free", scale=Direct(), deadband=0)
    assert not is_significant(score, 10, 10)
    assert is_significant(score, 10, 11)


def test_published_score_drifts_at_most_by_deadband(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    assert publishing.record_reading(seen(1, free=11), now=at(1)) != at(1)
    assert published(publishing, seen(2, free=12)).scores == (("free", 12),)


def test_changed_score_names_are_written_at_once(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    published(publishing, seen(1, free=10, busy=3))
    assert published(publishing, seen(2, busy=3)).scores == (("busy", 3),)


def test_score_is_renewed_at_half_validity(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    assert publishing.record_reading(seen(89, free=10), now=at(89)) == at(135)
    assert published(publishing, seen(90, free=11)).valid_until == at(270)


@pytest.mark.parametrize(
    ("interval", "seconds", "due"), [(60, 30, False), (60, 60, True), (20, 60, False), (20, 70, True)]
)
def test_score_is_renewed_by_the_last_reading_before_half_validity(
    interval: float, seconds: float, due: bool
) -> None:
    publishing = PublicationState((FREE,), horizon=H.total_seconds(), interval=interval)
    published(publishing, seen(0, free=10))
    checked_at = publishing.record_reading(seen(seconds, free=10), now=at(seconds))
    assert (checked_at == at(seconds)) is due
    assert not publishing.pending


def test_last_reading_is_published_before_expiry(publishing: PublicationState) -> None:
    """Its validity counts from the time of the reading."""
    published(publishing, seen(0, free=10))
    assert publishing.record_reading(seen(60, free=10), now=at(60)) == at(135)
    renewed = publishing.take_due(now=at(135))
    assert renewed is not None
    assert renewed.valid_until == at(240)
    assert publishing.record_write(version=0, now=at(135)) is None


def test_failure_is_written_once_without_extending_validity(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10, message="free 10"))
    assert publishing.record_reading_failure(
        reason="Down", message="no answer after 3.1 s", now=at(60)
    ) == at(60)
    failure = publishing.take_due(now=at(60))
    assert failure is not None
    assert (failure.ok, failure.reason, failure.message) == (False, "Down", "no answer after 3.1 s")
    assert (failure.scores, failure.valid_until) == ((("free", 10),), at(180))
    assert failure.changed_at == at(60)
    publishing.record_write(version=0, now=at(60))
    for second in range(61, 120, 10):
        assert (
            publishing.record_reading_failure(
                reason="Down", message=f"no answer after {second} s", now=at(second)
            )
            is None
        )
    back = published(publishing, seen(120, free=10))
    assert (back.ok, back.changed_at, back.valid_until) == (True, at(120), at(300))


def test_changed_failure_message_waits_for_half_validity(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    publishing.record_reading_failure(reason="Down", message="one", now=at(10))
    assert publishing.take_due(now=at(10)) is not None
    publishing.record_write(version=0, now=at(10))
    assert publishing.record_reading_failure(reason="Down", message="two", now=at(99)) is None
    assert publishing.record_reading_failure(reason="Down", message="two", now=at(100)) == at(100)
    again = publishing.take_due(now=at(100))
    assert again is not None
    assert (again.message, again.valid_until, again.changed_at) == ("two", at(180), at(10))


def test_failure_publishes_last_valid_reading(publishing: PublicationState) -> None:
    """A reading that was not worth a write was one all the same."""
    published(publishing, seen(0, free=10))
    publishing.record_reading(seen(60, free=11), now=at(60))
    publishing.record_reading_failure(reason="Down", message="gone", now=at(70))
    failure = publishing.take_due(now=at(70))
    assert failure is not None
    assert (failure.scores, failure.valid_until) == ((("free", 11),), at(240))


def test_failure_before_first_reading_publishes_no_score(publishing: PublicationState) -> None:
    assert publishing.record_reading_failure(reason="Down", message="gone", now=at(0)) == at(0)
    failure = publishing.take_due(now=at(0))
    assert failure is not None
    assert (failure.scores, failure.valid_until, failure.ok) == ((), at(0), False)


def test_failure_after_restart_keeps_published_scores(publishing: PublicationState) -> None:
    other = PublicationState((FREE,), horizon=180, interval=0)
    left = published(other, seen(0, free=10))
    publishing.observe(left, version=7, now=at(100))
    publishing.record_reading_failure(reason="Down", message="gone", now=at(100))
    failure = publishing.take_due(now=at(100))
    assert failure is not None
    assert (failure.scores, failure.valid_until, failure.ok) == (left.scores, at(180), False)


def test_restart_does_not_rewrite_published_scores(publishing: PublicationState) -> None:
    left = published(PublicationState((FREE,), horizon=180, interval=0), seen(0, free=10))
    assert publishing.observe(left, version=7, now=at(30)) is None
    assert publishing.record_reading(seen(30, free=11), now=at(30)) == at(135)


def test_failure_does_not_extend_scores_without_validity(publishing: PublicationState) -> None:
    forever = Publication(
        scores=(("free", 3),), valid_until=None, ok=True, reason=OK, message="", changed_at=at(-99)
    )
    publishing.observe(forever, version=7, now=at(0))
    publishing.record_reading_failure(reason="Down", message="gone", now=at(0))
    failure = publishing.take_due(now=at(0))
    assert failure is not None
    assert failure.valid_until == at(0)


def test_foreign_scores_stay_without_valid_reading(publishing: PublicationState) -> None:
    """Such as those that a janitor wrote when ours had expired."""
    published(publishing, seen(0, free=10))
    publishing.record_reading_failure(reason="Down", message="gone", now=at(60))
    last = publishing.take_due(now=at(60))
    assert last is not None
    publishing.record_write(version=0, now=at(60))
    worst = Publication(
        scores=(("free", -100),),
        valid_until=last.valid_until,
        ok=False,
        reason="Down",
        message="gone",
        changed_at=last.changed_at,
    )
    assert publishing.observe(worst, version=9, now=at(200)) is None
    assert publishing.record_reading_failure(reason="Down", message="gone", now=at(260)) is None
    assert published(publishing, seen(300, free=10)).scores == (("free", 10),)


def test_silenced_score_stays_until_valid_reading(publishing: PublicationState) -> None:
    """The scores controller would treat a write as a return of the provider, and mark it silent again."""
    published(publishing, seen(0, free=10))
    publishing.record_reading_failure(reason="Down", message="gone", now=at(60))
    publishing.take_due(now=at(60))
    publishing.record_write(version=0, now=at(60))
    worst = Publication(
        scores=(("free", -100),),
        valid_until=None,
        ok=False,
        reason="Down",
        message="gone",
        changed_at=at(60),
        silenced=True,
    )
    assert publishing.observe(worst, version=9, now=at(250)) is None
    assert publishing.record_reading_failure(reason="Away", message="other words", now=at(600)) is None
    assert publishing.take_due(now=at(600)) is None
    back = published(publishing, seen(700, free=10))
    assert (back.scores, back.valid_until, back.silenced) == ((("free", 10),), at(880), False)


def test_valid_reading_replaces_silenced_score(publishing: PublicationState) -> None:
    ours = published(publishing, seen(0, free=10))
    silenced = replace(ours, scores=(("free", -100),), valid_until=None, silenced=True)
    assert publishing.observe(silenced, version=9, now=at(30)) == at(30)
    again = publishing.take_due(now=at(30))
    assert again is not None
    assert again.scores == ours.scores


def test_deleted_score_stays_deleted_until_valid_reading(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    publishing.record_reading_failure(reason="Down", message="gone", now=at(200))
    assert publishing.take_due(now=at(200)) is not None
    publishing.record_write(version=8, now=at(200))
    assert publishing.observe(None, version=9, now=at(260)) is None
    assert publishing.observe(None, version=10, now=at(270)) is None  # as after a second list
    assert publishing.record_reading_failure(reason="Away", message="other words", now=at(300)) is None
    assert published(publishing, seen(400, free=10)).valid_until == at(580)


def test_foreign_value_is_corrected(publishing: PublicationState) -> None:
    ours = published(publishing, seen(0, free=10))
    theirs = Publication(
        scores=(("free", 90),),
        valid_until=ours.valid_until,
        ok=True,
        reason=OK,
        message="",
        changed_at=ours.changed_at,
    )
    assert publishing.observe(theirs, version=5, now=at(10)) == at(10)
    corrected = publishing.take_due(now=at(10))
    assert corrected is not None
    assert corrected.scores == ours.scores


def test_deleted_object_is_recreated_from_valid_reading(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    assert publishing.observe(None, version=5, now=at(10)) == at(10)
    assert publishing.take_due(now=at(10)) is not None


def test_observed_older_version_is_ignored(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    first = publishing.take_due(now=at(0))
    publishing.record_write(version=5, now=at(0))
    publishing.record_reading(seen(60, free=30), now=at(60))
    assert publishing.take_due(now=at(60)) is not None
    publishing.record_write(version=8, now=at(60))
    assert publishing.observe(first, version=5, now=at(61)) is None
    assert publishing.observe(None, version=7, now=at(61)) is None
    assert publishing.published is not None
    assert publishing.published.scores == (("free", 30),)
    assert publishing.observe(first, version=3, now=at(62), history_reset=True) == at(62)


def test_object_deleted_during_write_is_recreated(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    assert publishing.take_due(now=at(0)) is not None
    assert publishing.observe(None, version=9, now=at(0)) is None
    assert publishing.record_write(version=8, now=at(1)) == at(1)
    assert publishing.take_due(now=at(1)) is not None


def test_reset_hub_history_is_accepted(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    assert publishing.take_due(now=at(0)) is not None
    publishing.record_write(version=1000, now=at(0))
    publishing.record_reading(seen(100, free=10), now=at(100))
    second = publishing.take_due(now=at(100))
    assert second is not None
    assert publishing.record_write(version=501, now=at(100)) is None  # and not again and again
    assert publishing.published == second
    assert publishing.observe(None, version=502, now=at(101)) == at(101)


def test_observation_after_history_reset_wins_over_write(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    assert publishing.take_due(now=at(0)) is not None
    publishing.record_write(version=1000, now=at(0))
    publishing.record_reading(seen(100, free=40), now=at(100))
    assert publishing.take_due(now=at(100)) is not None
    assert publishing.observe(None, version=502, now=at(100), history_reset=True) is None
    assert publishing.record_write(version=501, now=at(101)) == at(101)
    assert publishing.published is None


def test_only_one_write_is_in_progress(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    assert publishing.take_due(now=at(0)) is not None
    assert publishing.take_due(now=at(0)) is None
    assert publishing.record_reading(seen(1, free=40), now=at(1)) is None
    assert publishing.take_due(now=at(1)) is None
    assert publishing.record_write(version=0, now=at(2)) == at(2)
    second = publishing.take_due(now=at(2))
    assert second is not None
    assert second.scores == (("free", 40),)


def test_failed_writes_back_off(publishing: PublicationState) -> None:
    now = at(0)
    publishing.record_reading(seen(0, free=10), now=now)
    pauses = []
    for _ in range(8):
        assert publishing.take_due(now=now) is not None
        again = publishing.record_failure(now=now)
        assert again is not None
        pauses.append((again - now).total_seconds())
        assert publishing.record_reading(seen(0, free=10), now=now) == again
        assert publishing.take_due(now=again - timedelta(seconds=0.1)) is None
        now = again
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert publishing.failures == 8
    assert publishing.take_due(now=now) is not None
    publishing.record_write(version=0, now=now)
    assert publishing.failures == 0


def test_write_is_pending_while_in_progress_and_until_its_retry(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    pending = [publishing.pending]
    publishing.take_due(now=at(0))
    pending.append(publishing.pending)
    publishing.record_failure(now=at(0))
    pending.append(publishing.pending)
    publishing.take_due(now=at(1))
    publishing.record_write(version=1, now=at(1))
    assert [*pending, publishing.pending] == [False, True, True, False]


def test_retry_after_of_hub_is_honoured(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    publishing.take_due(now=at(0))
    assert publishing.record_failure(now=at(0), after=42) == at(42)


def test_latest_reading_is_written_after_outage(publishing: PublicationState) -> None:
    publishing.record_reading(seen(0, free=10), now=at(0))
    publishing.take_due(now=at(0))
    publishing.record_failure(now=at(0), after=30)
    publishing.record_reading(seen(20, free=50), now=at(20))
    late = publishing.take_due(now=at(30))
    assert late is not None
    assert (late.scores, late.valid_until) == ((("free", 50),), at(200))


def test_too_long_validity_after_clock_step_is_corrected(publishing: PublicationState) -> None:
    published(publishing, seen(3600, free=10))
    assert publishing.record_reading(seen(0, free=10), now=at(0)) == at(0)
    shorter = publishing.take_due(now=at(0))
    assert shorter is not None
    assert shorter.valid_until == at(180)
    publishing.record_write(version=0, now=at(0))
    assert publishing.record_reading(seen(1, free=10), now=at(1)) is not None
    assert publishing.take_due(now=at(1)) is None


def test_clock_step_keeps_age_of_reading(publishing: PublicationState) -> None:
    """Nothing that is old is published for longer, be the clock set back by hours."""
    published(publishing, seen(3600, free=10))
    publishing.shift_back(timedelta(seconds=3500))
    assert publishing.record_reading_failure(reason="Down", message="gone", now=at(150)) == at(150)
    failure = publishing.take_due(now=at(150))
    assert failure is not None
    assert (failure.scores, failure.valid_until) == ((("free", 10),), at(280))
    publishing.record_write(version=0, now=at(150))
    for second in range(160, 3800, 60):
        publishing.record_reading_failure(reason="Down", message=f"for {second} s", now=at(second))
        late = publishing.take_due(now=at(second))
        if late is not None:
            assert late.valid_until == at(280)
            publishing.record_write(version=0, now=at(second))
    assert not publishing.valid(at(280))


def test_clock_step_keeps_length_of_pause(publishing: PublicationState) -> None:
    publishing.record_reading(seen(3600, free=10), now=at(3600))
    publishing.take_due(now=at(3600))
    assert publishing.record_failure(now=at(3600), after=30) == at(3630)
    publishing.shift_back(timedelta(seconds=3600))
    assert publishing.next_check(at(5)) == at(30)
    assert publishing.take_due(now=at(30)) is not None


def test_small_clock_adjustment_causes_no_write(publishing: PublicationState) -> None:
    published(publishing, seen(0, free=10))
    moment = START - TOLERANCE
    publishing.record_reading(Assessment(scores=(("free", 10),), at=moment), now=moment)
    assert publishing.take_due(now=moment) is None


@pytest.mark.parametrize(("interval", "seconds"), [(1, 180), (60, 180), (61, 183), (600, 1800)])
def test_default_validity(interval: float, seconds: float) -> None:
    assert horizon(interval=interval) == seconds


def test_validity_must_exceed_interval() -> None:
    assert horizon(interval=60, valid_for=75) == 75
    for valid_for in (60, 74, 0, math.nan):
        with pytest.raises(ValueError, match=r"would expire between two readings, .* valid for 75 s or more"):
            horizon(interval=60, valid_for=valid_for)


def test_validity_is_limited() -> None:
    """And no moment is beyond the calendar."""
    for valid_for in (1e10, math.inf):
        with pytest.raises(ValueError, match="would practically never expire"):
            horizon(interval=60, valid_for=valid_for)
    longest = horizon(interval=LONGEST_INTERVAL)
    publishing = PublicationState((FREE,), horizon=longest, interval=0)
    assert published(publishing, seen(0, free=10)).valid_until == START + timedelta(seconds=longest)


class PublishingMachine(RuleBasedStateMachine):
    """A provider and a hub, both of which fail at times."""

    def __init__(self) -> None:
        super().__init__()
        self.publishing = PublicationState((FREE, BUSY), horizon=H.total_seconds(), interval=0)
        self.now = START
        self.hub: Publication | None = None
        self.hub_works = True
        self.truth: dict[str, int] | None = None
        self.truth_at: datetime | None = None
        self.trouble: str | None = None
        self.written_at: datetime | None = None
        self.deleted = False
        """And there was nothing true to make it history_reset with."""
        self.set_back_by = timedelta(0)
        """Since the last change on the hub."""

    def settle(self) -> None:
        """What the runner does after every event."""
        publication = self.publishing.take_due(now=self.now)
        if publication is None:
            assert self.publishing.take_due(now=self.now) is None
            return
        if not self.hub_works:
            again = self.publishing.record_failure(now=self.now)
            assert again is not None
            assert again > self.now
            return
        assert self.worth(publication)
        self.hub, self.written_at = publication, self.now
        self.deleted = False
        if self.fresh:
            self.set_back_by = timedelta(0)
        self.publishing.record_write(version=0, now=self.now)
        assert self.publishing.take_due(now=self.now) is None, "a second write of the same"

    def worth(self, publication: Publication) -> bool:
        hub = self.hub
        if hub is None or (hub.ok, hub.reason) != (publication.ok, publication.reason):
            return True
        before, now = dict(hub.scores), dict(publication.scores)
        if before.keys() != now.keys():
            return True
        if any(
            is_significant(score, before[score.name], now[score.name])
            for score in (FREE, BUSY)
            if score.name in now
        ):
            return True
        assert publication.valid_until is not None
        if hub.valid_until is None or hub.valid_until > self.now + H + TOLERANCE:
            return True
        if publication.valid_until > hub.valid_until:
            return self.now >= hub.valid_until - H / 2
        quiet = self.written_at is None or self.now >= self.written_at + H / 2
        return publication.message != hub.message and quiet

    @rule(
        values=st.dictionaries(st.sampled_from(["free", "busy"]), st.integers(-100, 100), min_size=1),
        age=st.floats(0, 20),
    )
    def read(self, values: dict[str, int], age: float) -> None:
        moment = self.now - timedelta(seconds=age)
        if self.truth_at is not None:
            moment = max(moment, self.truth_at)
        self.truth, self.truth_at, self.trouble = values, moment, None
        assessment = Assessment(scores=tuple(sorted(values.items())), at=moment, message=str(values))
        self.publishing.record_reading(assessment, now=self.now)
        self.settle()

    @rule(reason=st.sampled_from(["Down", "Slow"]), words=st.text(max_size=3))
    def fail(self, reason: str, words: str) -> None:
        self.trouble = reason
        self.publishing.record_reading_failure(reason=reason, message=words, now=self.now)
        self.settle()

    @rule(seconds=st.floats(0.1, 200))
    def wait(self, seconds: float) -> None:
        """With the runner checking whenever a check is due."""
        end = self.now + timedelta(seconds=seconds)
        while (look := self.publishing.next_check(self.now)) is not None and self.now < look <= end:
            self.now = look
            self.settle()
        self.now = end
        self.settle()

    @rule(works=st.booleans())
    def hub_changes(self, works: bool) -> None:
        self.hub_works = works

    @rule()
    def delete_by_user(self) -> None:
        self.deleted |= self.hub is not None
        self.hub = None
        self.publishing.observe(None, version=0, now=self.now)
        self.settle()

    @rule()
    def mark_silent(self) -> None:
        if self.hub is None:
            return
        worst = tuple((name, -100) for name, _ in self.hub.scores)
        self.hub = replace(self.hub, scores=worst, valid_until=None, silenced=True)
        self.publishing.observe(self.hub, version=0, now=self.now)
        self.settle()

    @rule(seconds=st.floats(1, 7200))
    def the_clock_is_set_back(self, seconds: float) -> None:
        by = timedelta(seconds=seconds)
        self.now -= by
        self.set_back_by += by
        if self.truth_at is not None:
            self.truth_at -= by
        if self.written_at is not None:
            self.written_at -= by
        self.publishing.shift_back(by)

    @rule()
    def restart(self) -> None:
        self.publishing = PublicationState((FREE, BUSY), horizon=H.total_seconds(), interval=0)
        self.truth = self.trouble = self.written_at = None
        self.deleted = False
        if self.hub is not None:
            self.publishing.observe(self.hub, version=0, now=self.now)

    @property
    def fresh(self) -> bool:
        """Whether a valid reading exists for this process. Validity has whole seconds."""
        if self.truth is None or self.truth_at is None:
            return False
        return (self.truth_at + H).replace(microsecond=0) > self.now

    @invariant()
    def no_longer_valid_than_the_last_true_reading(self) -> None:
        if self.hub is None or not self.hub.scores or self.hub.silenced:
            return
        assert self.truth_at is not None
        assert self.hub.valid_until is not None
        assert self.hub.valid_until <= self.truth_at + self.set_back_by + H

    @invariant()
    def true_but_for_the_deadband(self) -> None:
        if self.publishing.failures or self.truth is None or self.trouble is not None:
            return
        if not self.fresh and (self.deleted or (self.hub is not None and self.hub.silenced)):
            return
        assert self.hub is not None
        scores = dict(self.hub.scores)
        assert scores.keys() == self.truth.keys()
        for score in (FREE, BUSY):
            if score.name in scores:
                assert abs(scores[score.name] - self.truth[score.name]) < score.deadband
        assert self.hub.ok

    @invariant()
    def report_problem(self) -> None:
        if self.trouble is None or self.publishing.failures:
            return
        if not self.fresh and (self.deleted or (self.hub is not None and self.hub.silenced)):
            return
        assert self.hub is not None
        assert (self.hub.ok, self.hub.reason) == (False, self.trouble)


TestPublishing = PublishingMachine.TestCase
TestPublishing.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
