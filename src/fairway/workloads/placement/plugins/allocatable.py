"""ResourceAllocatableCPU and ResourceAllocatableMemory: prefers clusters with more allocatable of a resource.

The score is the position of a cluster between the smallest and the largest candidate. A cluster that does not
report the resource in capacity and allocatable gets no score.
"""

from collections.abc import Iterator

import numpy as np

from fairway.engine.points import Amounts, Context, Extent, Raw, Reads, Scores, Timeless
from fairway.engine.remedies import MoveNumber
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters.cells import ALLOCATABLE, CAPACITY

RESOURCES = {"ResourceAllocatableCPU": "cpu", "ResourceAllocatableMemory": "memory"}


class Allocatable(Timeless):
    def __init__(self, *, name: str) -> None:
        self.name = name
        self._allocatable = (ALLOCATABLE, RESOURCES[name])
        self._capacity = (CAPACITY, RESOURCES[name])

    def score(self, context: Context, row: int, /) -> float | None:
        amount = context.snapshot.numbers(self._allocatable).values[row]
        capacity = context.snapshot.numbers(self._capacity).values[row]
        return None if amount != amount or capacity != capacity else float(amount)

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        amounts = context.snapshot.numbers(self._allocatable).values[rows]
        missing = np.isnan(amounts)
        missing |= np.isnan(context.snapshot.numbers(self._capacity).values[rows])
        if not missing.any():
            return Raw(amounts)
        amounts[missing] = 0.0
        return Raw(amounts, ~missing)

    def normalize(self, raw: float, extent: Extent, /) -> int:
        if extent.high == extent.low:
            return 100
        return int(((raw - extent.low) / (extent.high - extent.low) - 0.5) * 2.0 * 100.0)

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        if extent.high == extent.low:
            return np.full(len(raw), 100, dtype=np.int64)
        ratio = raw - extent.low
        ratio /= extent.high - extent.low
        ratio -= 0.5
        ratio *= 2.0
        ratio *= 100.0
        return ratio.astype(np.int64)

    def score_remedies(self, _context: Context, _row: int, weight: int, /) -> Iterator[MoveNumber]:
        yield MoveNumber(self._allocatable, up=weight > 0)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({self._allocatable, self._capacity}))
