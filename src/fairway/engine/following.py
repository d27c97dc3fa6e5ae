"""An incremental cycle: evaluates only the changed rows, and continues from the memo of the last cycle."""

from typing import Any

import numpy as np

from fairway.engine import cycle, ranking
from fairway.engine.fault import FaultError
from fairway.engine.forms import CyclePlugins
from fairway.engine.memo import Memo
from fairway.engine.outcome import Details, Outcome
from fairway.engine.points import Context, CycleWorkload
from fairway.engine.ranking import ABSENT
from fairway.engine.status import OK, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.instant import Micros
from fairway.hosts.journal import Journal
from fairway.hosts.snapshot import Snapshot

DELETED = Status(code=Code.UNRESOLVABLE, reasons=("was deleted",))

_PASSING = (Code.SUCCESS, Code.SKIP)

MOST_CHANGED_ROWS = 64
"""Maximum number of changed rows for an incremental cycle; more start a full one."""


def follow(memo: Memo, snapshot: Snapshot[Any], workload: CycleWorkload, *, now: Micros) -> Outcome | None:
    """Return the outcome; None if a full cycle is needed, and the memo is then invalid."""
    # Keys contain the ranks of names and have one entry per row, so both must be as they were. An outdated snapshot
    # is not followed: changes of columns that did not exist yet were not reported to it.
    if (
        snapshot.capacity != len(memo.keys)
        or snapshot.hosts.renumbered != memo.renumbered
        or snapshot.generation != snapshot.journal.generation
        or workload.wanted != memo.front.wanted
    ):
        return None
    rows = _changed_rows(memo, snapshot.journal)
    if rows is None:
        return None
    gated, ranked = rows
    journal, since = snapshot.journal, memo.generation
    changed = [updater for updater, keys in memo.sources.updaters if journal.has_changed(keys, since)]
    if changed:
        memo.state = memo.state.clone()  # earlier outcomes keep theirs
    context = Context(snapshot=snapshot, workload=workload, now=now, state=memo.state)
    for updater in changed:
        affected = updater.update_shared(context, since)
        if affected is None or len(affected) > MOST_CHANGED_ROWS:
            return None
        gated.update(affected)
    for reader, cells, basis in memo.sources.based:
        if journal.has_changed(cells, since) and reader.basis(context) != basis:
            return None
    if gated or ranked or changed or memo.sources.anything:
        # Details have the results of all hosts, so one changed row makes them outdated.
        memo.details = None
    # From here on the memo is half updated: where one row needs a full cycle, it cannot be used again.
    for row in gated:
        if not _evaluate(memo, context, row):
            return None
    for row in ranked:
        if row not in gated and not _rescore(memo, context, row):
            return None
    best = memo.front.take()
    # Without a feasible host PostFilter plugins run, which read why all hosts were rejected.
    if best is None or (not best and memo.profile.post_filters):
        return None
    # ``take`` returns the same list while no selected row moved; then its array is kept, too.
    if best is not memo.best:
        memo.best = best
        memo.selected = np.array(best, dtype=np.int64)
    memo.generation = snapshot.generation
    memo.since = now
    memo.followed = True
    return Outcome(
        context=context,
        profile=memo.profile,
        plugins=memo.plugins,
        chooser=memo.chooser,
        status=_status(memo, context),
        details=lambda: _details(memo, snapshot, workload, now=now),
        selected=memo.selected,
        wake=cycle.wake_of(context, memo.wakers),
        until=memo.until,
    )


def _changed_rows(memo: Memo, journal: Journal) -> tuple[set[int], set[int]] | None:
    """Return the rows that changed since the last cycle: those that may have become feasible or infeasible, and
    feasible ones whose scores changed. None if a full cycle is needed.
    """
    since, sources = memo.generation, memo.sources
    if not journal.reaches(since) or journal.has_changed(sources.shared, since):
        return None
    if sources.anything:
        gated = {row for change in journal.since(since) or () for row in change.rows}
        return (gated, set()) if len(gated) <= MOST_CHANGED_ROWS else None
    gated = set(journal.rows_since(sources.gates, since))
    ranked = journal.rows_since(sources.ranking, since)
    # Changed scores cannot make an infeasible row feasible.
    key_of = memo.keys.item
    scored = {row for row in ranked if key_of(row) != ABSENT} if ranked else set()
    return (gated, scored) if len(gated) + len(scored) <= MOST_CHANGED_ROWS else None


def _details(memo: Memo, snapshot: Snapshot[Any], workload: CycleWorkload, *, now: Micros) -> Details:
    """Return the details of a full cycle, which are those of this one, unless a plugin fails now.

    They are kept for workloads that share the memo, until a row changes. Time changes none of them before the end of
    the memo: that would take a filter whose results change by time, and workloads with one are not alike.
    """
    current = memo.shared and snapshot.generation == memo.generation
    if current and memo.details is not None:
        return memo.details
    outcome = cycle.run(snapshot, workload, memo.profile, now=now)
    if outcome.faults:
        raise FaultError(outcome.faults[0])
    if current:
        memo.details = outcome.details
    return outcome.details


def _evaluate(memo: Memo, context: Context, row: int) -> bool:
    """Replace the results of one row; return False if the change affects other rows."""
    status = _admission(memo.plugins, context, row)
    # These end or mark the cycle as a whole, not only this row.
    if status.aborts or status.code in (Code.WARNING, Code.WAIT):
        return False
    for warner, warned in memo.filter_warnings:
        rejected = status.rejects and status.plugin == warner.name
        warns = rejected and bool(len(warner.warned_rows(context, np.array([row]))))
        _record_warning(memo, warned, row, warns)
    if status.rejects:
        return _exclude(memo, row)
    return _rescore(memo, context, row)


def _rescore(memo: Memo, context: Context, row: int) -> bool:
    """Replace the scores of a feasible row; return False if the change affects other rows."""
    total = 0
    alone = np.array([row], dtype=np.int64)
    until = memo.until
    for scorer, kept, scored, prepares in zip(
        memo.scores, memo.ranges, memo.score_warnings, memo.prepares, strict=True
    ):
        raw = scorer.plugin.score(context, row)
        # The range of raw scores may have changed, and with it the normalised score of every row.
        if kept is not None and not kept.replace(row, raw):
            return False
        points = scorer.missing
        if raw is not None:
            points = int(raw) if kept is None else kept.normalize(raw)
        total += scorer.weight * points
        if scored is not None and scorer.warner is not None:
            _record_warning(memo, scored, row, bool(len(scorer.warner.warned_rows(context, alone))))
        elif prepares is not None and prepares.pre_score(context, alone).code is not Code.SUCCESS:
            return False
    for reader in memo.timed:
        until = min(until, reader.until(context, alone))
    # Does not fit a key: a full cycle sorts such totals.
    if abs(total) >= ranking.TOTAL_BOUND:
        return False
    memo.until = until
    _move(memo, row, ranking.key_of(total, int(context.snapshot.hosts.rank[row])))
    return True


def _record_warning(memo: Memo, warned: set[int], row: int, warns: bool) -> None:
    if (row in warned) != warns:
        memo.stale = True
        (warned.add if warns else warned.discard)(row)


def _status(memo: Memo, context: Context) -> Status:
    """Return the last warning, as in a full cycle. A memo keeps no status: its message references a snapshot."""
    if memo.stale:
        memo.last_warning = None
        for warner, warned in memo.filter_warnings:
            if warned:
                memo.last_warning = (warner, np.fromiter(warned, np.int64, len(warned)))
        for scorer, scored in zip(memo.scores, memo.score_warnings, strict=True):
            if scored and scorer.warner is not None:
                memo.last_warning = (scorer.warner, np.fromiter(scored, np.int64, len(scored)))
        memo.stale = False
    if memo.last_warning is None:
        return OK
    plugin, rows = memo.last_warning
    return plugin.warning(context, rows)


def _admission(plugins: CyclePlugins, context: Context, row: int) -> Status:
    """Return the status of the first filter that rejects the row or warns about it."""
    if not bitmap.test(context.snapshot.live, row):
        return DELETED
    for calls in plugins.pre_filters:
        status = cycle.admission(context, calls, None, row)
        if status is not OK and status.code not in _PASSING:
            return status
    for filtering in plugins.filters:
        status = filtering.plugin.filter(context, row)
        if status is not OK and status.code not in _PASSING:
            return status
    return OK


def _exclude(memo: Memo, row: int) -> bool:
    # Most changes of infeasible hosts leave them infeasible. Ranges and warnings have nothing of them.
    if memo.keys[row] == ABSENT:
        return True
    if not all(kept is None or kept.replace(row, None) for kept in memo.ranges):
        return False
    for warned in memo.score_warnings:
        if warned is not None:
            _record_warning(memo, warned, row, False)
    _move(memo, row, ABSENT)
    return True


def _move(memo: Memo, row: int, key: int) -> None:
    memo.front.move(row, int(memo.keys[row]), key)
    memo.keys[row] = key
