"""Decide when a reading is worth a write. No I/O: events in, next check and publication out.

Every write of a score makes placements schedule again, so most readings must not cause one. These do: a score that
moved by its deadband or across a threshold, other score names, another condition, and a validity that would be half
over before the next reading. With the default validity of three intervals, every regular reading renews; readings in
between, caused by events, do not. Validity always counts from the last successful reading. While readings fail, nothing
extends it: published scores expire.

**Clocks.** The hub's clock decides when a score expires, ours sets the times. As scores are renewed with half their
validity left, the clocks may differ by that half minus one interval without effect. When our clock is set back,
``set_back`` shifts recorded times: a reading gets no younger, and a pause no longer. Scores published with the old
clock are valid for too long, and are written again.

**Other writers.** ``seen`` reports what the hub has: a deleted object is created again, a foreign value is corrected.
But without a current reading, the hub's scores are not changed: scores that were marked silent or deleted stay so until
there is a new reading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from fairway.kube.clock import Backoff
from fairway.providers.assessment import Assessment
from fairway.providers.provider import HIGHEST, LOWEST, Score

CONDITION: Final = "AddOnPlacementScoreUpdated"
"""The type of the condition, and its reason while everything is well."""

SHORTEST_SECONDS: Final = 180.0
INTERVALS: Final = 3
"""Scores are valid for so many intervals, and not less than the shortest time."""
LEAST_INTERVALS: Final = 1.25
"""Readings are not exactly an interval apart, and take a while themselves."""
JITTER: Final = 0.1
"""Share of the interval by which readings are spread, so that the agents of a fleet do not write all at once."""
LONGEST_SECONDS: Final = 10 * 366 * 86400.0
TOO_SHORT: Final = (
    "scores valid for {valid_for:g} s would expire between two readings, which are {interval:g} s apart; "
    "make them valid for {least:g} s or more, or read more often"
)
TOO_LONG: Final = (
    "scores valid for {valid_for:g} s would practically never expire; make them valid for ten years or less"
)

TOLERANCE: Final = timedelta(seconds=5)
"""A clock that is set back by no more is one that is kept exact."""
RETRIES: Final = Backoff(base=1.0, cap=60.0)

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_LINES: Final = (LOWEST, 0, HIGHEST)

Scores = tuple[tuple[str, int], ...]
"""Sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What the hub says of one cluster for one provider, or shall say."""

    scores: Scores
    valid_until: datetime | None
    """In whole seconds. None only for what somebody else wrote."""
    well: bool
    reason: str
    """Empty only for what is on a hub without a condition of ours."""
    message: str
    changed_at: datetime
    """When ``well`` last changed."""
    raw: Mapping[str, float] = field(default_factory=dict)
    """Values as they were read, by name of the score; empty for what was read back from a hub."""
    read_at: datetime | None = None
    silenced: bool = False
    """Whether somebody put other values in the place of ours because we did not renew them."""


def horizon(*, interval: float, valid_for: float | None = None) -> float:
    """Seconds for which a reading is published. Raises ValueError."""
    if valid_for is None:
        return max(INTERVALS * interval, SHORTEST_SECONDS)
    least = LEAST_INTERVALS * interval
    if not valid_for >= least:
        raise ValueError(TOO_SHORT.format(valid_for=valid_for, interval=interval, least=least))
    if valid_for > LONGEST_SECONDS:
        raise ValueError(TOO_LONG.format(valid_for=valid_for))
    return valid_for


def moved(score: Score, before: int, now: int) -> bool:
    """Whether the difference is worth a write."""
    if abs(now - before) >= max(1, score.deadband):
        return True
    return any(_side(before, line) != _side(now, line) for line in (*_LINES, *score.thresholds))


def _side(value: int, line: int) -> int:
    return (value > line) - (value < line)


class Publishing:
    """Of one provider for one cluster.

    After every event it says when to ``look``: at once if that moment is not in the future, never if it is None.
    ``look`` says what to write; then either ``written`` or ``not_written`` must follow before there is more.
    """

    __slots__ = (
        "_failures",
        "_gone",
        "_horizon",
        "_longest_pause",
        "_published",
        "_retry_at",
        "_scores",
        "_shortest_pause",
        "_since",
        "_trouble",
        "_truth",
        "_version",
        "_writing",
        "_written_at",
    )

    def __init__(self, scores: Sequence[Score], *, horizon: float, interval: float) -> None:
        self._scores = {score.name: score for score in scores}
        self._horizon = timedelta(seconds=horizon)
        self._shortest_pause = timedelta(seconds=interval * (1 - JITTER))
        self._longest_pause = timedelta(seconds=interval * (1 + JITTER))
        self._published: Publication | None = None
        self._gone = False
        """Whether the hub had something once, and somebody has deleted it."""
        self._version = self._since = 0
        """The newest one known, now and when the last write began."""
        self._truth: Assessment | None = None
        self._trouble: tuple[str, str] | None = None
        self._writing: Publication | None = None
        self._written_at: datetime | None = None
        self._failures = 0
        self._retry_at: datetime | None = None

    @property
    def published(self) -> Publication | None:
        """What the hub has, as far as is known."""
        return self._published

    @property
    def truth(self) -> Assessment | None:
        """The last reading that was true."""
        return self._truth

    @property
    def failures(self) -> int:
        """Writes that failed since the last one that did not."""
        return self._failures

    @property
    def pending(self) -> bool:
        """Whether something is being written, or waits to be tried again."""
        return self._writing is not None or self._retry_at is not None

    def valid(self, now: datetime) -> bool:
        """Whether the hub has scores that have not run out."""
        found = self._published
        if found is None or found.valid_until is None:
            return False
        return bool(found.scores) and found.valid_until > now

    def read(self, assessment: Assessment, *, now: datetime) -> datetime | None:
        self._truth, self._trouble = assessment, None
        return self.look_at(now)

    def failed(self, *, reason: str, message: str, now: datetime) -> datetime | None:
        self._trouble = (reason, message)
        return self.look_at(now)

    def seen(
        self, found: Publication | None, *, version: int, now: datetime, anew: bool = False
    ) -> datetime | None:
        """``version`` is the resource version at which the hub had this; 0 if that is no number.

        ``anew``: the hub's history went back, and versions before tell nothing.
        """
        if anew:
            self._version = self._since = 0
        if version == 0 or version > self._version:
            self._gone = found is None and (self._gone or self._published is not None)
            self._published, self._version = found, max(version, self._version)
        return self.look_at(now)

    def set_back(self, by: timedelta) -> None:
        """Our clock was; the next ``now`` is by the new time."""
        if self._truth is not None:
            self._truth = replace(self._truth, at=self._truth.at - by)
        if self._retry_at is not None:
            self._retry_at -= by
        if self._written_at is not None:
            self._written_at -= by

    def look(self, *, now: datetime) -> Publication | None:
        if self._writing is not None or (self._retry_at is not None and now < self._retry_at):
            return None
        wanted = self._wanted(now)
        if wanted is None or not self._is_due(wanted, now):
            return None
        self._writing, self._since = wanted, self._version
        return wanted

    def written(self, *, version: int, now: datetime) -> datetime | None:
        assert self._writing is not None
        if version < self._since:
            # A write is newer than all that was known before it, or else the hub's history went back.
            self._version = 0
        if version == 0 or version >= self._version:
            self._published, self._version, self._gone = self._writing, max(version, self._version), False
        self._writing, self._written_at = None, now
        self._failures, self._retry_at = 0, None
        return self.look_at(now)

    def not_written(
        self, *, now: datetime, after: float | None = None, jitter: float = 1.0
    ) -> datetime | None:
        """Nor was anything, if nothing was to be: the hub could not be asked what it has.

        ``after`` is for how many seconds the hub asked to be left alone; ``jitter`` shortens or stretches the pause.
        """
        delay = RETRIES.delay(self._failures) * jitter
        self._writing = None
        self._failures += 1
        self._retry_at = now + timedelta(seconds=max(delay, after or 0.0))
        return self.look_at(now)

    def hasten(self, moment: datetime) -> None:
        """Whatever pause there is need not last longer than that."""
        if self._retry_at is not None:
            self._retry_at = min(self._retry_at, moment)

    def look_at(self, now: datetime) -> datetime | None:
        """When to look if nothing more happens."""
        if self._writing is not None:
            return None
        wanted = self._wanted(now)
        if wanted is None:
            return None
        if self._is_due(wanted, now):
            return now if self._retry_at is None else max(now, self._retry_at)
        published = self._published
        if published is not None and published.valid_until is not None and _later(wanted, published):
            # Readings come sooner than this. Should they stay away, what the last one found is still published.
            return max(published.valid_until - self._horizon / 4, now + _SECOND)
        return None

    def _wanted(self, now: datetime) -> Publication | None:
        truth, trouble, published = self._truth, self._trouble, self._published
        if truth is None and trouble is None:
            return None
        scores: Scores
        valid_until: datetime
        raw: Mapping[str, float] = {}
        read_at: datetime | None = None
        true_until = _LONG_AGO if truth is None else _whole(min(truth.at, now) + self._horizon)
        fresh = true_until > now
        if not fresh and (self._gone if published is None else published.silenced):
            return None
        if truth is not None and (fresh or trouble is None):
            scores, raw, read_at = truth.scores, truth.raw, truth.at
            valid_until = true_until
        else:
            scores = () if published is None else published.scores
            valid_until = _whole(now)
            if published is not None and published.valid_until is not None:
                valid_until = min(published.valid_until, _whole(now + self._horizon))
        if trouble is not None:
            well, (reason, message) = False, trouble
        else:
            assert truth is not None
            well, reason, message = truth.well, truth.reason, truth.message
        changed_at = _whole(now)
        if published is not None and published.reason and published.well == well:
            changed_at = published.changed_at
        return Publication(
            scores=scores,
            valid_until=valid_until,
            well=well,
            reason=reason,
            message=message,
            changed_at=changed_at,
            raw=raw,
            read_at=read_at,
        )

    def _is_due(self, wanted: Publication, now: datetime) -> bool:
        published = self._published
        if published is None or (published.well, published.reason) != (wanted.well, wanted.reason):
            return True
        if self._has_moved(published.scores, wanted.scores):
            return True
        if published.valid_until is None or published.valid_until > now + self._horizon + TOLERANCE:
            return True
        if _later(wanted, published):
            half_over = published.valid_until - self._horizon / 2
            read_at = published.valid_until - self._horizon
            return now >= half_over or (
                now >= read_at + self._shortest_pause and now + self._longest_pause > half_over
            )
        # Other words for the same trouble can wait, for some name the time or a number that never is the same.
        quiet = self._written_at is None or now >= self._written_at + self._horizon / 2
        return not wanted.well and wanted.message != published.message and quiet

    def _has_moved(self, before: Scores, now: Scores) -> bool:
        if before == now:
            return False
        old = dict(before)
        if len(before) != len(now) or any(name not in old for name, _ in now):
            return True
        return any(
            moved(score, old[name], value) if (score := self._scores.get(name)) else old[name] != value
            for name, value in now
        )


def _later(wanted: Publication, published: Publication) -> bool:
    assert wanted.valid_until is not None
    return published.valid_until is None or wanted.valid_until > published.valid_until


def _whole(moment: datetime) -> datetime:
    """Kubernetes keeps no fractions; never later than the moment itself."""
    return moment.replace(microsecond=0)
