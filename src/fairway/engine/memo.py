"""The memo of a cycle, from which the next cycle of the same workload can continue."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fairway.engine import cycle, ranking
from fairway.engine.outcome import Outcome, Scored
from fairway.engine.points import Amounts, Cautious, CautiousFilter, Context, Extent, Reader, points_of
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT, Front
from fairway.engine.state import CycleState
from fairway.engine.status import Code
from fairway.fleet.bitmap import Rows
from fairway.fleet.column import MEMBERSHIP, Key
from fairway.fleet.instant import Micros

EXACT = float(1 << 53)
"""Integers up to this are exact as doubles."""


@dataclass(slots=True)
class _Range:
    """Raw scores of a normalising prioritizer by row (NaN for none), and how many rows have the lowest and highest."""

    raw: npt.NDArray[np.float64]
    extent: Extent | None
    lowest: int
    highest: int

    def replace(self, row: int, new: float | None) -> bool:
        """Update a row; return False if the range may have changed, which affects every score."""
        extent, old = self.extent, float(self.raw[row])
        if extent is None:
            return new is None
        if new is not None and not extent.low <= new <= extent.high:
            return False
        self.lowest += (new == extent.low) - (old == extent.low)
        self.highest += (new == extent.high) - (old == extent.high)
        self.raw[row] = np.nan if new is None else new
        return bool(self.lowest and self.highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The inputs of the plugins' results."""

    cells: frozenset[Key]
    gates: frozenset[Key]
    """The cells that decide whether a row is feasible."""
    anything: bool
    """Whether results depend on more than the cells of a row."""
    shared: frozenset[Key]
    based: tuple[tuple[Reader, frozenset[Key], object], ...]
    """Plugins with a basis: the plugin, and its last basis."""


@dataclass(slots=True)
class Memo:
    """The last cycle of a workload."""

    profile: Profile
    state: CycleState
    generation: int
    renumbered: int
    since: Micros
    """Time of the last run. At an earlier time, expired scores may be valid again."""
    until: Micros
    sources: Sources
    keys: npt.NDArray[np.int64]
    """The ranking key of each row, see ``ranking``."""
    ranges: list[_Range | None]
    doubts: list[set[int] | None]
    """Rows that each prioritizer warns about."""
    turned_away: list[tuple[CautiousFilter, set[int]]]
    """Filters that warn about rejected rows, and the rows."""
    prepares: list[bool]
    """For each prioritizer, whether ``pre_score`` must run before it scores a row; with an equal basis it need not."""
    front: Front
    warned: tuple[Cautious | CautiousFilter, Rows] | None = None
    """The last plugin that warns, and the rows."""
    stale: bool = True
    """Whether the warnings changed since the last cycle."""
    counted: int = 0
    """Its size when it was last measured."""

    @property
    def size(self) -> int:
        ranges = sum(each.raw.nbytes for each in self.ranges if each is not None)
        return self.keys.nbytes + ranges + self.front.size


def remember(outcome: Outcome) -> Memo | None:
    """Create a memo; None if the next cycle must be a full one in any case."""
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
    admitting = len(profile.pre_filters) + len(profile.filters)
    sources = _sources(cast("list[Reader]", plugins), context, admitting=admitting)
    ranges: list[_Range | None] = []
    for scored in details.scored:
        if scored.raw is None:
            ranges.append(None)
            continue
        kept = _range(scored, details.rows, capacity=snapshot.capacity)
        if kept is None:
            return None
        ranges.append(kept)
    settled = {id(reader) for reader, _, _ in sources.based}
    ranks = snapshot.hosts.rank[details.rows]
    keys = np.full(snapshot.capacity, ABSENT, dtype=np.int64)
    keys[details.rows] = ranking.keys_of(details.totals, ranks)
    return Memo(
        profile=profile,
        state=context.state,
        generation=snapshot.generation,
        renumbered=snapshot.hosts.renumbered,
        since=context.now,
        until=outcome.until,
        sources=sources,
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


def _sources(readers: Sequence[Reader], context: Context, *, admitting: int) -> Sources:
    """Return the plugins, of which the first ``admitting`` decide feasibility."""
    cells: set[Key] = {MEMBERSHIP}
    gates: set[Key] = {MEMBERSHIP}
    anything = False
    shared: set[Key] = set()
    based: list[tuple[Reader, frozenset[Key], object]] = []
    for at, reader in enumerate(readers):
        reads = reader.reads(context)
        cells |= reads.cells
        if at < admitting:
            gates |= reads.cells
        anything = anything or reads.anything
        shared |= reads.shared
        basis = reader.basis(context)
        if basis is not None:
            based.append((reader, reads.cells, basis))
    return Sources(
        cells=frozenset(cells),
        gates=frozenset(gates),
        anything=anything,
        shared=frozenset(shared),
        based=tuple(based),
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
    """Create it; None if doubles cannot represent the raw scores exactly."""
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
