"""Decide when a reading is worth a write. No I/O: events in, next check and publication out.

Every write of a score makes placements schedule again, so most readings must not cause one. These do: a score that
moved by its deadband or across a threshold, other score names, another condition, and a validity that would be half
over before the next reading. With the default validity of three intervals, every regular reading renews; readings in
between, caused by events, do not. Validity always counts from the last successful reading. While readings fail, nothing
extends it: published scores expire.

**Clocks.** The hub's clock decides when a score expires, ours sets the times. As scores are renewed with half their
validity left, the clocks may differ by that half minus one interval without effect. When our clock is set back,
``shift_back`` shifts recorded times: a reading gets no younger, and a pause no longer. Scores published with the old
clock are valid for too long, and are written again.

**Other writers.** ``observe`` gets the state of the hub: a deleted object is created again, a foreign value corrected.
Without a current reading, the hub's scores are not changed: scores that were marked silent or deleted stay so until
there is a new reading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from fairway.providers.assessment import Assessment
from fairway.providers.provider import HIGHEST, LOWEST, Score
from kubewire.client.clock import Backoff

CONDITION: Final = "AddOnPlacementScoreUpdated"
"""Condition type, and its reason while its status is True."""

SHORTEST_SECONDS: Final = 180.0
INTERVALS: Final = 3
"""Default validity in intervals, but at least SHORTEST_SECONDS."""
LEAST_INTERVALS: Final = 1.25
"""Minimum validity in intervals: readings have jitter and take time."""
JITTER: Final = 0.1
"""Share of the interval by which readings vary, so that the agents of a fleet do not write at once."""
LONGEST_SECONDS: Final = 10 * 366 * 86400.0
TOO_SHORT: Final = (
    "scores valid for {valid_for:g} s would expire between two readings, which are {interval:g} s apart; "
    "make them valid for {least:g} s or more, or read more often"
)
TOO_LONG: Final = (
    "scores valid for {valid_for:g} s would practically never expire; make them valid for ten years or less"
)

TOLERANCE: Final = timedelta(seconds=5)
"""Smaller differences are clock adjustments, not a clock that was set back."""
RETRIES: Final = Backoff(base=1.0, cap=60.0)

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_LINES: Final = (LOWEST, 0, HIGHEST)

Scores = tuple[tuple[str, int], ...]
"""Sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The scores of one provider for one cluster, as stored on the hub or to be stored."""

    scores: Scores
    valid_until: datetime | None
    """In whole seconds. None only for objects that another client wrote."""
    ok: bool
    reason: str
    """Empty only for a stored object without our condition."""
    message: str
    changed_at: datetime
    """When ``ok`` last changed."""
    raw: Mapping[str, float] = field(default_factory=dict)
    """Raw values by score name; empty if read from a hub."""
    read_at: datetime | None = None
    silenced: bool = False
    """Whether the scores controller replaced the values because they were not renewed."""


def horizon(*, interval: float, valid_for: float | None = None) -> float:
    """Return the validity of a reading in seconds. Raises ValueError."""
    if valid_for is None:
        return max(INTERVALS * interval, SHORTEST_SECONDS)
    least = LEAST_INTERVALS * interval
    if not valid_for >= least:
        raise ValueError(TOO_SHORT.format(valid_for=valid_for, interval=interval, least=least))
    if valid_for > LONGEST_SECONDS:
        raise ValueError(TOO_LONG.format(valid_for=valid_for))
    return valid_for


def is_significant(score: Score, before: int, now: int) -> bool:
    """Whether a change of a score justifies a write."""
    if abs(now - before) >= max(1, score.deadband):
        return True
    # A deadband of 2 hides the step from 1 to 0, and of a score over a threshold that a Placement filters by: there
    # even a small change moves placements.
    return any(_side(before, line) != _side(now, line) for line in (*_LINES, *score.thresholds))


def _side(value: int, line: int) -> int:
    return (value > line) - (value < line)


class PublicationState:
    """Publication state of one provider for one cluster.

    Every event returns the time of the next ``take_due``; None for no check. After ``take_due`` returned a
    publication, ``record_write`` or ``record_failure`` must follow before it returns another.
    """

    __slots__ = (
        "_error",
        "_existed",
        "_failures",
        "_horizon",
        "_longest_pause",
        "_published",
        "_retry_at",
        "_scores",
        "_shortest_pause",
        "_since",
        "_version",
        "_writing",
        "_written_at",
        "reading",
    )

    def __init__(self, scores: Sequence[Score], *, horizon: float, interval: float) -> None:
        self._scores = {score.name: score for score in scores}
        self._horizon = timedelta(seconds=horizon)
        self._shortest_pause = timedelta(seconds=interval * (1 - JITTER))
        self._longest_pause = timedelta(seconds=interval * (1 + JITTER))
        self._published: Publication | None = None
        self._existed = False
        """Whether the hub had the object before: if it is missing now, another client deleted it."""
        self._version = self._since = 0
        """Newest known resource version, now and at the start of the last write."""
        self.reading: Assessment | None = None
        self._error: tuple[str, str] | None = None
        self._writing: Publication | None = None
        self._written_at: datetime | None = None
        self._failures = 0
        self._retry_at: datetime | None = None

    @property
    def published(self) -> Publication | None:
        """Last known state of the hub."""
        return self._published

    @property
    def failures(self) -> int:
        """Number of failed writes since the last successful one."""
        return self._failures

    @property
    def pending(self) -> bool:
        """Whether a write is in progress or waits for a retry."""
        return self._writing is not None or self._retry_at is not None

    def valid(self, now: datetime) -> bool:
        """Whether the hub has scores that are not expired."""
        # The state of the hub, not the last reading: readiness means that consumers see valid scores.
        publication = self._published
        if publication is None or publication.valid_until is None:
            return False
        return bool(publication.scores) and publication.valid_until > now

    def record_reading(self, assessment: Assessment, *, now: datetime) -> datetime | None:
        self.reading, self._error = assessment, None
        return self.next_check(now)

    def record_reading_failure(self, *, reason: str, message: str, now: datetime) -> datetime | None:
        self._error = (reason, message)
        return self.next_check(now)

    def observe(
        self, publication: Publication | None, *, version: int, now: datetime, history_reset: bool = False
    ) -> datetime | None:
        """Record the hub's state at resource version ``version``; 0 if that is not a number.

        ``history_reset``: the hub's history was reset, so earlier versions cannot be compared.
        """
        if history_reset:
            self._version = self._since = 0
        # Responses and watch events arrive in any order. An older version must not replace a newer one, or the next
        # write would repeat or revert what was just written.
        if version == 0 or version > self._version:
            self._existed = self._existed or self._published is not None
            self._published, self._version = publication, max(version, self._version)
        return self.next_check(now)

    def shift_back(self, by: timedelta) -> None:
        """Move recorded times back after the wall clock was set back."""
        if self.reading is not None:
            self.reading = replace(self.reading, at=self.reading.at - by)
        if self._retry_at is not None:
            self._retry_at -= by
        if self._written_at is not None:
            self._written_at -= by

    def take_due(self, *, now: datetime) -> Publication | None:
        """Return the publication to write now, and mark the write as in progress; None if none is due."""
        # One write at a time: a second one would be based on the same stored version, and lose or repeat the first.
        if self._writing is not None or (self._retry_at is not None and now < self._retry_at):
            return None
        wanted = self._wanted(now)
        if wanted is None or not self._is_due(wanted, now):
            return None
        self._writing, self._since = wanted, self._version
        return wanted

    def record_write(self, *, version: int, now: datetime) -> datetime | None:
        assert self._writing is not None
        if version < self._since:
            # A write gets a newer version than all before it, unless the hub's history was reset.
            self._version = 0
        # A watch event may have reported a still newer state, of another client, while this write was in progress.
        if version == 0 or version >= self._version:
            self._published, self._version = self._writing, max(version, self._version)
        self._writing, self._written_at = None, now
        self._failures, self._retry_at = 0, None
        return self.next_check(now)

    def record_failure(
        self, *, now: datetime, after: float | None = None, jitter: float = 1.0
    ) -> datetime | None:
        """Record a failed write, or a failed request for the stored object.

        ``after``: seconds that the hub asked to wait. ``jitter``: factor of the pause.
        """
        delay = RETRIES.delay(self._failures) * jitter
        self._writing = None
        self._failures += 1
        self._retry_at = now + timedelta(seconds=max(delay, after or 0.0))
        return self.next_check(now)

    def retry_by(self, moment: datetime) -> None:
        """Shorten the current pause to end at ``moment``."""
        if self._retry_at is not None:
            self._retry_at = min(self._retry_at, moment)

    def next_check(self, now: datetime) -> datetime | None:
        if self._writing is not None:
            return None
        wanted = self._wanted(now)
        if wanted is None:
            return None
        # A pause after a failure ends at its own time: a new reading does not shorten it, however often readings come.
        if self._is_due(wanted, now):
            return now if self._retry_at is None else max(now, self._retry_at)
        published = self._published
        if published is not None and published.valid_until is not None and _later(wanted, published):
            # Readings usually come earlier. If they stop, the last one is still published for its full validity.
            return max(published.valid_until - self._horizon / 4, now + _SECOND)
        return None

    def _wanted(self, now: datetime) -> Publication | None:
        reading, error, published = self.reading, self._error, self._published
        if reading is None and error is None:
            return None
        scores: Scores
        valid_until: datetime
        raw: Mapping[str, float] = {}
        read_at: datetime | None = None
        true_until = _LONG_AGO if reading is None else _seconds(min(reading.at, now) + self._horizon)
        fresh = true_until > now
        # Without a fresh reading there is nothing true to write: the hub's scores were silenced because they expired,
        # or another client deleted them, and stale values would undo that.
        if not fresh and (self._existed if published is None else published.silenced):
            return None
        # An error keeps the last reading's values until they expire, because consumers treat a missing score as the
        # worst one.
        if reading is not None and (fresh or error is None):
            scores, raw, read_at = reading.scores, reading.raw, reading.at
            valid_until = true_until
        else:
            scores = () if published is None else published.scores
            # Expired from the start, so that the reason of the failure is visible and the values are not trusted.
            valid_until = _seconds(now)
            if published is not None and published.valid_until is not None:
                # A failure never extends the validity of values that were read before it.
                valid_until = min(published.valid_until, _seconds(now + self._horizon))
        if error is not None:
            ok, (reason, message) = False, error
        else:
            assert reading is not None
            ok, reason, message = reading.ok, reading.reason, reading.message
        changed_at = _seconds(now)
        # As in Kubernetes conditions, the time changes with the status, not with the reason.
        if published is not None and published.reason and published.ok == ok:
            changed_at = published.changed_at
        return Publication(
            scores=scores,
            valid_until=valid_until,
            ok=ok,
            reason=reason,
            message=message,
            changed_at=changed_at,
            raw=raw,
            read_at=read_at,
        )

    def _is_due(self, wanted: Publication, now: datetime) -> bool:
        published = self._published
        if published is None or (published.ok, published.reason) != (wanted.ok, wanted.reason):
            return True
        if self._has_moved(published.scores, wanted.scores):
            return True
        # Another client, or this one with a wrong clock, promised more validity than a reading has.
        if published.valid_until is None or published.valid_until > now + self._horizon + TOLERANCE:
            return True
        if _later(wanted, published):
            # An unchanged score is renewed once half of its validity is over, not at every reading, which would be most
            # of the writes of a quiet fleet. If the next reading would come after that, this one renews.
            half_over = published.valid_until - self._horizon / 2
            read_at = published.valid_until - self._horizon
            return now >= half_over or (
                now >= read_at + self._shortest_pause and now + self._longest_pause > half_over
            )
        # Another message for the same reason can wait: some contain a time or a changing number.
        quiet = self._written_at is None or now >= self._written_at + self._horizon / 2
        return not wanted.ok and wanted.message != published.message and quiet

    def _has_moved(self, before: Scores, now: Scores) -> bool:
        if before == now:
            return False
        old = dict(before)
        if len(before) != len(now) or any(name not in old for name, _ in now):
            return True
        return any(
            is_significant(score, old[name], value)
            if (score := self._scores.get(name))
            else old[name] != value
            for name, value in now
        )


def _later(wanted: Publication, published: Publication) -> bool:
    assert wanted.valid_until is not None
    return published.valid_until is None or wanted.valid_until > published.valid_until


def _seconds(moment: datetime) -> datetime:
    """Truncate to whole seconds, the precision of Kubernetes."""
    return moment.replace(microsecond=0)
