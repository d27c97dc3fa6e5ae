"""Cycles that go on from where the last one of the same workload stopped.

After a cycle, the memory keeps who was feasible and everybody's total. When the same workload comes again and
only a few rows have changed since, only those are asked again, and the best rows are known without looking at the
rest. The outcome is the same as that of a cycle from scratch, which is what runs whenever this cannot be shown:
after a change of something shared, when a normalising prioritizer's range moved, when time made a difference.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fairway.engine import cycle, ranking
from fairway.engine.outcome import Outcome, Scored
from fairway.engine.points import (
    Amounts,
    Cautious,
    CautiousFilter,
    Context,
    Extent,
    Reader,
    Workload,
    points_of,
)
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT, Front
from fairway.engine.state import CycleState
from fairway.engine.status import OK, Code, Status
from fairway.fleet import bitmap
from fairway.fleet.bitmap import Rows
from fairway.fleet.cells import MEMBERSHIP
from fairway.fleet.column import Key
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot

GONE = Status(code=Code.UNRESOLVABLE, reasons=("is gone",))

_PASSING = (Code.SUCCESS, Code.SKIP)

FEW = 64
"""Up to so many changed rows are followed; more make a cycle from scratch."""


EXACT = float(1 << 53)
"""Whole numbers up to here are the same as doubles."""


@dataclass(slots=True)
class _Range:
    """A normalising prioritizer's raw scores by row, not-a-number for none, and how many lie at either end."""

    raw: npt.NDArray[np.float64]
    extent: Extent | None
    lowest: int
    highest: int

    def replace(self, row: int, new: float | None) -> bool:
        """False when the ends may have moved, so that every score may be another."""
        extent, old = self.extent, float(self.raw[row])
        if extent is None:
            return new is None
        if new is not None and not extent.low <= new <= extent.high:
            return False
        self.lowest += (new == extent.low) - (old == extent.low)
        self.highest += (new == extent.high) - (old == extent.high)
        self.raw[row] = np.nan if new is None else new
        return bool(self.lowest and self.highest)


@dataclass(slots=True)
class _Memo:
    """The last cycle of one workload."""

    profile: Profile
    state: CycleState
    generation: int
    renumbered: int
    since: Micros
    """When it was last run: what has run out by then may be good again at an earlier time."""
    until: Micros
    cells: frozenset[Key]
    gates: frozenset[Key]
    """Those of the cells that decide whether a row is feasible."""
    anything: bool
    """Whether the cells are not all that matters of a row."""
    shared: frozenset[Key]
    based: list[tuple[Reader, frozenset[Key], object]]
    """Readers with a basis: what it depends on, and what it was."""
    keys: npt.NDArray[np.int64]
    """Each row's place in the ranking, see ``ranking``."""
    ranges: list[_Range | None]
    doubts: list[set[int] | None]
    """Of each prioritizer that warns of single rows, the rows."""
    turned_away: list[tuple[CautiousFilter, set[int]]]
    """Filters that warn of rows they do not let pass, and the rows."""
    prepares: list[bool]
    """Of each prioritizer, whether it must be asked before it scores a row. One with a basis has been: it is equal."""
    front: Front
    warned: tuple[Cautious | CautiousFilter, Rows] | None = None
    """The last plugin that warns, and of which rows."""
    stale: bool = True
    """Whether the doubts have changed since."""
    counted: int = 0
    """What it was counted as when it was last looked at."""

    @property
    def size(self) -> int:
        ranges = sum(each.raw.nbytes for each in self.ranges if each is not None)
        return self.keys.nbytes + ranges + self.front.size


class Memory:
    """Keeps the most recently used workloads, as many as fit ``limit`` bytes."""

    def __init__(self, *, limit: int = 256 << 20) -> None:
        self._limit = limit
        self.size = 0
        """In bytes, of all it keeps."""
        self._memos: OrderedDict[tuple[str, str], _Memo] = OrderedDict()
        self.followed = 0
        """How many cycles went on from the one before."""

    def run(self, snapshot: Snapshot, workload: Workload, profile: Profile, *, now: Micros) -> Outcome:
        """What ``cycle.run`` returns, sooner. The snapshot must be of the same fleet every time."""
        key = (workload.namespace, workload.name)
        memo = self._memos.get(key)
        if memo is not None:
            if memo.profile is profile and memo.since <= now < memo.until:
                followed = _follow(memo, snapshot, workload, now=now)
                if followed is not None:
                    self.followed += 1
                    self._memos.move_to_end(key)
                    self._count(memo)
                    return followed
            self._drop(key)
        outcome = cycle.run(snapshot, workload, profile, now=now)
        memo = _remember(outcome)
        if memo is not None and memo.size <= self._limit:
            self._memos[key] = memo
            self._count(memo)
        return outcome

    def considers(self, namespace: str, name: str, rows: Iterable[int]) -> bool:
        """Whether one of these rows was feasible in the workload's last cycle. True when that is not known."""
        memo = self._memos.get((namespace, name))
        if memo is None:
            return True
        keys, size = memo.keys, len(memo.keys)
        for row in rows:  # noqa: SIM110 asked of every placement for every score that changes, and any() takes longer
            if row >= size or keys.item(row) != ABSENT:
                return True
        return False

    def forget(self, namespace: str, name: str) -> None:
        """A workload that is gone."""
        if (namespace, name) in self._memos:
            self._drop((namespace, name))

    def _count(self, memo: _Memo) -> None:
        self.size += memo.size - memo.counted
        memo.counted = memo.size
        while self.size > self._limit:
            self._drop(next(iter(self._memos)))

    def _drop(self, key: tuple[str, str]) -> None:
        self.size -= self._memos.pop(key).counted


def _remember(outcome: Outcome) -> _Memo | None:
    """None when the next cycle has to start from scratch in any case."""
    context, profile = outcome.context, outcome.profile
    wanted = context.workload.wanted
    if outcome.status.aborts or profile.choice is not None or profile.post_filters or wanted is None:
        return None
    details = outcome.details
    plugins: list[Any] = [*profile.pre_filters, *profile.filters, *(each.plugin for each in profile.scores)]
    if not all("Reader" in points_of(type(plugin)) for plugin in plugins):
        return None
    if not ranking.fits(details.totals):
        return None
    doubts = [_doubts(each.plugin, context, details.rows) for each in profile.scores]
    turned_away = list(_turned_away(outcome))
    if (
        outcome.status.code is not Code.SUCCESS
        and not any(doubts)
        and not any(each for _, each in turned_away)
    ):
        return None
    snapshot = outcome.snapshot
    if snapshot.generation != snapshot.journal.generation:
        return None  # Whether the changes since were all reported, nobody knows.
    cells: set[Key] = {MEMBERSHIP}
    anything = False
    shared: set[Key] = set()
    based: list[tuple[Reader, frozenset[Key], object]] = []
    gates: set[Key] = {MEMBERSHIP}
    admitting = len(profile.pre_filters) + len(profile.filters)
    for at, plugin in enumerate(cast("list[Reader]", plugins)):
        reads = plugin.reads(context)
        cells |= reads.cells
        if at < admitting:
            gates |= reads.cells
        anything = anything or reads.anything
        shared |= reads.shared
        basis = plugin.basis(context)
        if basis is not None:
            based.append((plugin, reads.cells, basis))
    ranges: list[_Range | None] = []
    for scored in details.scored:
        if scored.raw is None:
            ranges.append(None)
            continue
        kept = _range(scored, details.rows, capacity=snapshot.capacity)
        if kept is None:
            return None
        ranges.append(kept)
    settled = {id(reader) for reader, _, _ in based}
    ranks = snapshot.hosts.rank[details.rows]
    keys = np.full(snapshot.capacity, ABSENT, dtype=np.int64)
    keys[details.rows] = ranking.keys_of(details.totals, ranks)
    return _Memo(
        profile=profile,
        state=context.state,
        generation=snapshot.generation,
        renumbered=snapshot.hosts.renumbered,
        since=context.now,
        until=outcome.until,
        cells=frozenset(cells),
        gates=frozenset(gates),
        anything=anything,
        shared=frozenset(shared),
        based=based,
        keys=keys,
        ranges=ranges,
        doubts=doubts,
        turned_away=turned_away,
        prepares=[
            "PreScore" in points_of(type(each.plugin)) and id(each.plugin) not in settled
            for each in profile.scores
        ],
        front=Front(details.rows, keys[details.rows], wanted=wanted),
    )


def _doubts(plugin: Any, context: Context, rows: Rows) -> set[int] | None:
    if "Cautious" not in points_of(type(plugin)):
        return None
    return set(cast("Cautious", plugin).doubtful(context, rows).tolist())


def _turned_away(outcome: Outcome) -> Iterator[tuple[CautiousFilter, set[int]]]:
    details = outcome.details
    before = details.eligible
    for plugin, stage in zip(outcome.profile.filters, details.stages, strict=True):
        if "CautiousFilter" in points_of(type(plugin)):
            warner = cast("CautiousFilter", plugin)
            yield warner, set(cycle.doubted(outcome.context, warner, before, stage.survivors).tolist())
        before = stage.survivors


def _range(scored: Scored, rows: Rows, *, capacity: int) -> _Range | None:
    """None when doubles cannot tell the raw scores apart."""
    extent = scored.extent
    values = cast("Amounts", scored.raw).astype(np.float64)
    if scored.present is not None:
        values[~scored.present] = np.nan
    raw = np.full(capacity, np.nan)
    raw[rows] = values
    if extent is None:
        return _Range(raw, None, 0, 0)
    if (
        max(abs(extent.low), abs(extent.high)) > EXACT
        and scored.raw is not None
        and scored.raw.dtype == np.int64
    ):
        return None
    return _Range(raw, extent, int((values == extent.low).sum()), int((values == extent.high).sum()))


def _follow(memo: _Memo, snapshot: Snapshot, workload: Workload, *, now: Micros) -> Outcome | None:
    """None when it takes a cycle from scratch; the memo is then worth nothing any more."""
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
    keys = memo.keys
    for change in changes:
        if not memo.shared.isdisjoint(change.columns):
            return None
        if memo.anything or not memo.cells.isdisjoint(change.columns):
            if memo.anything or not memo.gates.isdisjoint(change.columns):
                rows.update(change.rows)
            else:
                # Other scores do not let in who was not let in.
                rows.update([row for row in change.rows if keys.item(row) != ABSENT])
            columns |= change.columns
            if len(rows) > FEW:
                return None
    context = Context(snapshot=snapshot, workload=workload, now=now, state=memo.state)
    for reader, cells, basis in memo.based:
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


def _ask(memo: _Memo, context: Context, row: int) -> bool:
    """Puts one row's new answers in the place of the old; False when they are about more than this row."""
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


def _doubt(memo: _Memo, doubts: set[int], row: int, doubtful: bool) -> None:
    if (row in doubts) != doubtful:
        memo.stale = True
        (doubts.add if doubtful else doubts.discard)(row)


def _status(memo: _Memo, context: Context) -> Status:
    """The last warning, as in a cycle from scratch. A memo keeps no status: its words hold on to a snapshot."""
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
    """What the first filter that does not just let the row pass says."""
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


def _leave(memo: _Memo, row: int) -> bool:
    if memo.keys[row] == ABSENT:
        return True
    if not all(kept is None or kept.replace(row, None) for kept in memo.ranges):
        return False
    for doubts in memo.doubts:
        if doubts is not None:
            _doubt(memo, doubts, row, False)
    _move(memo, row, ABSENT)
    return True


def _move(memo: _Memo, row: int, key: int) -> None:
    memo.front.move(row, int(memo.keys[row]), key)
    memo.keys[row] = key
