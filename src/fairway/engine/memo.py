# mypy: disable-error-code="type-abstract"
"""The memo of a cycle, from which the next cycle of the same workload can continue."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fairway.engine import ranking
from fairway.engine.cycle import wakers_of
from fairway.engine.forms import ChooseCalls, CyclePlugins, ScoreCalls, find_form
from fairway.engine.outcome import NO_ROWS, Details, Outcome, Scored
from fairway.engine.points import (
    Context,
    CycleWorkload,
    Extent,
    FilterWarnings,
    FullCycles,
    HostWarnings,
    NormalizeScore,
    PreScore,
    Reader,
    SharedReader,
    Waker,
)
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT, Front
from fairway.engine.state import CycleState
from fairway.engine.status import Code
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Rows
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.instant import Micros

EXACT = float(1 << 53)
"""Integers up to this are exact as doubles."""


@dataclass(slots=True)
class _Range:
    """Raw scores of a normalising prioritizer by row (NaN for none), and how many rows have the lowest and highest."""

    normalizer: NormalizeScore
    raw: npt.NDArray[np.float64]
    extent: Extent | None
    lowest: int
    highest: int

    def replace(self, row: int, new: float | None) -> bool:
        """Update a row; return False if the range may have changed, which affects every score."""
        extent, old = self.extent, float(self.raw[row])
        # Without a range no row has a score. The first one makes the range, and a full cycle.
        if extent is None:
            return new is None
        if new is not None and not extent.low <= new <= extent.high:
            return False
        self.lowest += (new == extent.low) - (old == extent.low)
        self.highest += (new == extent.high) - (old == extent.high)
        self.raw[row] = np.nan if new is None else new
        # Counting the rows at both ends is enough: only when the last one leaves does the range shrink.
        return bool(self.lowest and self.highest)

    def normalize(self, raw: float) -> int:
        return 0 if self.extent is None else self.normalizer.normalize(raw, self.extent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The inputs of the plugins' results."""

    gates: frozenset[Key]
    """The cells that decide whether a row is feasible."""
    ranking: frozenset[Key]
    """The other cells."""
    anything: bool
    """Whether results depend on more than the cells of a row."""
    shared: frozenset[Key]
    """Columns whose change affects all rows."""
    updaters: tuple[tuple[SharedReader, frozenset[Key]], ...]
    """Plugins that can update what they derived from such columns, and the columns."""
    based: tuple[tuple[Reader, frozenset[Key], object], ...]
    """Plugins with a basis: the plugin, and its last basis."""


@dataclass(slots=True)
class Memo:
    """The last cycle of a workload."""

    profile: Profile
    workload: CycleWorkload
    plugins: CyclePlugins
    scores: tuple[ScoreCalls, ...]
    """The prioritizers of ``plugins`` that apply: PreScore left out the others."""
    timed: tuple[Reader, ...]
    """Plugins whose results change by time."""
    wakers: tuple[Waker, ...]
    chooser: ChooseCalls
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
    score_warnings: list[set[int] | None]
    """Rows that each prioritizer warns about."""
    filter_warnings: list[tuple[FilterWarnings, set[int]]]
    """Filters that warn about rejected rows, and the rows."""
    prepares: list[PreScore | None]
    """For each prioritizer, the plugin if ``pre_score`` must run for a row; with an equal basis it need not."""
    front: Front
    last_warning: tuple[HostWarnings | FilterWarnings, Rows] | None = None
    """The last plugin that warns, and the rows."""
    stale: bool = True
    """Whether the warnings changed since the last cycle."""
    capacity: int = 0
    """Number of rows."""
    fixed_size: int = 0
    """Size of the arrays in bytes."""
    counted: int = 0
    """Its size when it was last measured."""
    followed: bool = False
    """Whether a cycle continued from it."""
    best: list[int] | None = None
    """The last selected rows, and as an array."""
    selected: Rows = field(default_factory=lambda: NO_ROWS)
    shared: bool = False
    """Whether workloads that are alike continue from it."""
    details: Details | None = None
    """The details of the last cycle, if it is shared and they were computed."""
    number: int = field(default_factory=itertools.count(1).__next__)
    """Distinguishes it from all other memos."""

    def __post_init__(self) -> None:
        ranges = sum(score_range.raw.nbytes for score_range in self.ranges if score_range is not None)
        self.fixed_size = self.keys.nbytes + ranges
        self.capacity = len(self.keys)

    @property
    def size(self) -> int:
        return self.fixed_size + self.front.size


def remember(outcome: Outcome) -> Memo | None:
    """Create a memo; None if the next cycle must be a full one in any case."""
    context, profile = outcome.context, outcome.profile
    wanted, chooser, plugins = context.workload.wanted, outcome.chooser, outcome.plugins
    # A choice that is not by rank, a PreScore that sees all rows, and a decision as large as the fleet have nothing
    # that a single row could update.
    if chooser is None or not chooser.by_rank or profile.pre_scores or wanted is None:
        return None
    details = outcome.details
    # Its PostFilter plugins would have to run in each cycle: they read why all hosts were rejected.
    if profile.post_filters and not len(details.rows):
        return None
    readers = tuple(reader for reader in plugins.readers if reader is not None)
    # A plugin that does not declare what it reads may depend on anything, and one without a form for a single row
    # would evaluate all.
    if len(readers) < len(plugins.readers) or any(calls.by_row is None for calls in plugins.pre_filters):
        return None
    if any(find_form(reader, FullCycles) is not None for reader in readers):
        return None
    # A key has a limited number of bits for the total. Larger ones are sorted in a full cycle.
    if not ranking.fits(details.totals):
        return None
    applied = [
        (scorer, scored)
        for scorer, scored in zip(plugins.scores, details.scored, strict=True)
        if not scored.skipped
    ]
    scores = tuple(scorer for scorer, _ in applied)
    score_warnings = [_warned_rows(scorer.warner, context, details.rows) for scorer in scores]
    filter_warnings = list(_find_filter_warnings(outcome))
    if (
        outcome.status.code is not Code.SUCCESS
        and not any(score_warnings)
        and not any(warned for _, warned in filter_warnings)
    ):
        return None
    snapshot = outcome.snapshot
    admitting = len(plugins.pre_filters) + len(plugins.filters)
    sources = _sources(readers, context, admitting=admitting)
    ranges: list[_Range | None] = []
    for scorer, scored in applied:
        if scored.raw is None or scorer.normalizer is None:
            ranges.append(None)
            continue
        kept = _range(scored, scorer.normalizer, details.rows, capacity=snapshot.capacity)
        if kept is None:
            return None
        ranges.append(kept)
    settled = {id(reader) for reader, _, _ in sources.based}
    ranks = snapshot.hosts.rank[details.rows]
    # For all rows of the table, so that a row needs no lookup.
    keys = np.full(snapshot.capacity, ABSENT, dtype=np.int64)
    keys[details.rows] = ranking.keys_of(details.totals, ranks)
    return Memo(
        profile=profile,
        workload=context.workload,
        plugins=plugins,
        scores=scores,
        timed=plugins.timed,
        wakers=wakers_of(plugins),
        chooser=chooser,
        state=context.state,
        generation=snapshot.generation,
        renumbered=snapshot.hosts.renumbered,
        since=context.now,
        until=outcome.until,
        sources=sources,
        keys=keys,
        ranges=ranges,
        score_warnings=score_warnings,
        filter_warnings=filter_warnings,
        prepares=[None if id(scorer.plugin) in settled else scorer.prepare for scorer in scores],
        front=Front(details.rows, keys[details.rows], wanted=wanted),
    )


def _sources(readers: Sequence[Reader], context: Context, *, admitting: int) -> Sources:
    """Return the plugins, of which the first ``admitting`` decide feasibility."""
    cells: set[Key] = {MEMBERSHIP}
    gates: set[Key] = {MEMBERSHIP}
    anything = False
    shared: set[Key] = set()
    updaters: dict[int, tuple[SharedReader, frozenset[Key]]] = {}
    based: list[tuple[Reader, frozenset[Key], object]] = []
    for at, reader in enumerate(readers):
        reads = reader.reads(context)
        cells |= reads.cells
        if at < admitting:
            gates |= reads.cells
        anything = anything or reads.anything
        updater = find_form(reader, SharedReader)
        if updater is None:
            shared |= reads.shared
        elif reads.shared:
            updaters[id(reader)] = (updater, reads.shared)
        basis = reader.basis(context)
        if basis is not None:
            based.append((reader, reads.cells, basis))
    return Sources(
        gates=frozenset(gates),
        ranking=frozenset(cells - gates),
        anything=anything,
        shared=frozenset(shared),
        updaters=tuple(updaters.values()),
        based=tuple(based),
    )


def _warned_rows(warner: HostWarnings | None, context: Context, rows: Rows) -> set[int] | None:
    return None if warner is None else set(warner.warned_rows(context, rows).tolist())


def _find_filter_warnings(outcome: Outcome) -> Iterator[tuple[FilterWarnings, set[int]]]:
    details = outcome.details
    before = details.eligible
    for calls, stage in zip(outcome.plugins.filters, details.stages, strict=True):
        warner = calls.warner
        if warner is not None:
            rejected = bitmap.rows_of(before & ~stage.survivors)
            yield warner, set(warner.warned_rows(outcome.context, rejected).tolist())
        before = stage.survivors


def _range(scored: Scored, normalizer: NormalizeScore, rows: Rows, *, capacity: int) -> _Range | None:
    """Create it; None if doubles cannot represent the raw scores exactly."""
    extent, amounts = scored.extent, scored.raw
    raw = np.full(capacity, np.nan)
    if extent is None or amounts is None:
        return _Range(normalizer, raw, None, 0, 0)
    # Above it, two different amounts could be one double, and the last row at an end of the range would be missed.
    if max(abs(extent.low), abs(extent.high)) > EXACT and amounts.dtype == np.int64:
        return None
    values = amounts.astype(np.float64)
    if scored.present is not None:
        values[~scored.present] = np.nan
    raw[rows] = values
    lowest, highest = int((values == extent.low).sum()), int((values == extent.high).sum())
    return _Range(normalizer, raw, extent, lowest, highest)
