"""Scores of one calculator, read from ManagedClusterScore: ResourceRatioCPU, ResourceRatioMemory, or any other name.

Calculators may publish scores between -100 and 100, which count unchanged, or amounts of any size, such as
bytes: then the candidates' amounts are scaled to 0 to 100. A missing score counts 0, the lowest of
those, unless the placement's annotation makes it count as the worst.
"""

from collections.abc import Iterator

import numpy as np

from fairway.engine.points import Amounts, Context, Extent, Raw, Reads, Scores, Timeless
from fairway.engine.remedies import MoveNumber
from fairway.engine.status import OK, Status, misconfigured
from fairway.hosts.bitmap import Mask, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.workloads.placement.plugins.trust import COUNTS_WORST, COUNTS_ZERO, NO_CALCULATOR, Missing

RATIOS = ("ResourceRatioCPU", "ResourceRatioMemory")
UNKNOWN = "incorrect builtin prioritizer: {name}"
FIELD = "spec.prioritizerPolicy"
LOWEST, HIGHEST = -100, 100


class Calculator(Timeless):
    def __init__(self, *, name: str, missing: Missing = Missing.ZERO) -> None:
        self.name = name
        self.missing = missing
        self._column = (cells.CALCULATOR, name.lower())

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        """Return an error if no score of this name is published, unless the name is well-known."""
        if self.name in RATIOS or self._column[1] in clusters_of(context.snapshot).calculators:
            return OK
        return misconfigured(UNKNOWN.format(name=self.name), field=FIELD)

    def score(self, context: Context, row: int, /) -> int | None:
        column = context.snapshot.score_column(self._column)
        return int(column.values[row]) if column.present[row] else None

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        column = context.snapshot.score_column(self._column)
        present = column.present[rows]
        return Raw(column.values[rows], None if present.all() else present)

    def remark(self, context: Context, row: int, /) -> str:
        if context.snapshot.score_column(self._column).present[row]:
            return ""
        words = COUNTS_WORST if self.missing is Missing.WORST else COUNTS_ZERO
        return words.format(why=NO_CALCULATOR.format(calculator=self.name))

    def knows(self, context: Context, rows: Rows, /) -> Mask:
        known: Mask = context.snapshot.score_column(self._column).present[rows]
        return known

    def normalize(self, raw: float, extent: Extent, /) -> int:
        if extent.low >= LOWEST and extent.high <= HIGHEST:
            return int(raw)
        low, high = float(extent.low), float(extent.high)
        if high == low:
            return HIGHEST
        return int(100.0 * ((float(raw) - low) / (high - low)))

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        if extent.low >= LOWEST and extent.high <= HIGHEST:
            return raw.astype(np.int64)
        low, high = float(extent.low), float(extent.high)
        if high == low:
            return np.full(len(raw), HIGHEST, dtype=np.int64)
        ratio = (raw.astype(np.float64) - low) / (high - low)
        return (100.0 * ratio).astype(np.int64)

    def score_remedies(self, _context: Context, _row: int, weight: int, /) -> Iterator[MoveNumber]:
        yield MoveNumber(self._column, up=weight > 0, title=self.name)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({self._column}))

    def basis(self, context: Context, /) -> object:
        return self._column[1] in clusters_of(context.snapshot).calculators
