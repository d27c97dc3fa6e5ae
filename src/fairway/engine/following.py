"""An incremental cycle: evaluates only the changed rows, and continues from the memo of the last cycle."""

from typing import Any, cast

import numpy as np

from fairway.engine import cycle, ranking
from fairway.engine.memo import Memo
from fairway.engine.outcome import Outcome
from fairway.engine.points import Cautious, Context, CycleWorkload, Reader
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT
from fairway.engine.status import OK, Code, Status
from fairway.fleet import bitmap
from fairway.fleet.column import Key
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot

GONE = Status(code=Code.UNRESOLVABLE, reasons=("is gone",))

_PASSING = (Code.SUCCESS, Code.SKIP)

FEW = 64
"""Maximum number of changed rows for an incremental cycle; more start a full one."""


def follow(memo: Memo, snapshot: Snapshot[Any], workload: CycleWorkload, *, now: Micros) -> Outcome | None:
    """Return the outcome; None if a full cycle is needed, and the memo is then invalid."""
    if (
        snapshot.capacity != len(memo.keys)
        or snapshot.hosts.renumbered != memo.renumbered
        or snapshot.generation != snapshot.journal.generation
        or workload.wanted != memo.front.wanted
    ):
        return None
    changes = snapshot.journal.since(memo.generation)
    if changes is None:
        return None
    rows: set[int] = set()
    columns: set[Key] = set()
    keys, sources = memo.keys, memo.sources
    for change in changes:
        if not sources.shared.isdisjoint(change.columns):
            return None
        if sources.anything or not sources.cells.isdisjoint(change.columns):
            if sources.anything or not sources.gates.isdisjoint(change.columns):
                rows.update(change.rows)
            else:
                # Changed scores cannot make an infeasible row feasible.
                rows.update([row for row in change.rows if keys.item(row) != ABSENT])
            columns |= change.columns
            if len(rows) > FEW:
                return None
    context = Context(snapshot=snapshot, workload=workload, now=now, state=memo.state)
    for reader, cells, basis in sources.based:
        if not cells.isdisjoint(columns) and reader.basis(context) != basis:
            return None
    for row in rows:
        if not _ask(memo, context, row):
            return None
    best = memo.front.take()
    if best is None:
        return None
    memo.generation = snapshot.generation
    memo.since = now
    profile = memo.profile
    return Outcome(
        context=context,
        profile=profile,
        status=_status(memo, context),
        details=lambda: cycle.run(snapshot, workload, profile, now=now).details,
        selected=np.array(best, dtype=np.int64),
        wake=cycle.wake_of(context, profile),
        until=memo.until,
    )


def _ask(memo: Memo, context: Context, row: int) -> bool:
    """Replace the results of one row; return False if the change affects other rows."""
    status = _admission(memo.profile, context, row)
    if status.aborts or status.code is Code.WARNING:
        return False
    for warner, doubted in memo.turned_away:
        rejected = status.rejects and status.plugin == warner.name
        _doubt(memo, doubted, row, rejected and bool(len(warner.doubtful(context, np.array([row])))))
    if status.rejects:
        return _leave(memo, row)
    total = 0
    alone = np.array([row], dtype=np.int64)
    until = memo.until
    for scorer, kept, doubts, prepares in zip(
        memo.profile.scores, memo.ranges, memo.doubts, memo.prepares, strict=True
    ):
        plugin: Any = scorer.plugin
        raw = plugin.score(context, row)
        if kept is None:
            total += scorer.weight * (scorer.missing if raw is None else raw)
        else:
            if not kept.replace(row, raw):
                return False
            normal = scorer.missing if raw is None else plugin.normalize(raw, kept.extent)
            total += scorer.weight * normal
        if doubts is not None:
            _doubt(memo, doubts, row, bool(len(plugin.doubtful(context, alone))))
        elif prepares and plugin.pre_score(context, alone).code is not Code.SUCCESS:
            return False
        until = min(until, plugin.until(context, alone))
    for reader in cast("tuple[Reader, ...]", (*memo.profile.pre_filters, *memo.profile.filters)):
        until = min(until, reader.until(context, alone))
    if abs(total) >= ranking.TOTAL_BOUND:
        return False
    memo.until = until
    _move(memo, row, ranking.key_of(total, int(context.snapshot.hosts.rank[row])))
    return True


def _doubt(memo: Memo, doubts: set[int], row: int, doubtful: bool) -> None:
    if (row in doubts) != doubtful:
        memo.stale = True
        (doubts.add if doubtful else doubts.discard)(row)


def _status(memo: Memo, context: Context) -> Status:
    """Return the last warning, as in a full cycle. A memo keeps no status: its message references a snapshot."""
    if memo.stale:
        memo.warned = None
        for warner, doubted in memo.turned_away:
            if doubted:
                memo.warned = (warner, np.fromiter(doubted, np.int64, len(doubted)))
        for scorer, doubts in zip(memo.profile.scores, memo.doubts, strict=True):
            if doubts:
                rows = np.fromiter(doubts, np.int64, len(doubts))
                memo.warned = (cast("Cautious", scorer.plugin), rows)
        memo.stale = False
    if memo.warned is None:
        return OK
    plugin, rows = memo.warned
    return plugin.caution(context, rows)


def _admission(profile: Profile, context: Context, row: int) -> Status:
    """Return the status of the first filter that rejects the row or warns about it."""
    if not bitmap.test(context.snapshot.live, row):
        return GONE
    for plugin in profile.pre_filters:
        status = plugin.admits(context, row)
        if status is not OK and status.code not in _PASSING:
            return status
    for each in profile.filters:
        status = each.filter(context, row)
        if status is not OK and status.code not in _PASSING:
            return status
    return OK


def _leave(memo: Memo, row: int) -> bool:
    if memo.keys[row] == ABSENT:
        return True
    if not all(kept is None or kept.replace(row, None) for kept in memo.ranges):
        return False
    for doubts in memo.doubts:
        if doubts is not None:
            _doubt(memo, doubts, row, False)
    _move(memo, row, ABSENT)
    return True


def _move(memo: Memo, row: int, key: int) -> None:
    memo.front.move(row, int(memo.keys[row]), key)
    memo.keys[row] = key
