"""TaintPreference: prefers clusters without PreferNoSelect taints that the placement does not tolerate.

Opt-in: Placements that do not name it ignore such taints.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from fairway.api.cluster import PREFER_NO_SELECT
from fairway.api.placement import Toleration
from fairway.engine.points import Amounts, Context, Extent, Raw, Reads, Scores, Timeless
from fairway.engine.remedies import RemoveTaint, Tolerate
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.cells import Shape
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.workloads.placement.plugins.taints import matches
from fairway.workloads.placement.workload import placement_of

NAME = "TaintPreference"


class TaintPreference(Timeless):
    """Raw scores count the taints: 100 without taints, -100 for as many as the worst candidate has."""

    name = NAME

    def score(self, context: Context, row: int, /) -> int:
        tolerations = placement_of(context).placement.spec.tolerations
        return _unwanted(cells.shape_of(clusters_of(context.snapshot).cluster(row).spec.taints), tolerations)

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        tolerations = placement_of(context).placement.spec.tolerations
        column = context.snapshot.codes(cells.TAINTS)
        table = np.zeros(len(column.values), dtype=np.int64)
        for value, code in column.items():
            table[code] = _unwanted(cast("Shape", value), tolerations)
        return Raw(table[column.codes[rows]])

    def normalize(self, raw: float, extent: Extent, /) -> int:
        return 100 if raw == 0 else int(100 - 200 * raw / extent.high)

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        if extent.high == 0:
            return np.full(len(raw), 100, dtype=np.int64)
        return (100 - 200 * raw / extent.high).astype(np.int64)

    def score_remedies(self, context: Context, row: int, weight: int, /) -> Iterator[Tolerate | RemoveTaint]:
        tolerations = placement_of(context).placement.spec.tolerations
        for taint in cells.shape_of(clusters_of(context.snapshot).cluster(row).spec.taints):
            if weight > 0 and _unwanted((taint,), tolerations):
                yield Tolerate(*taint)
                yield RemoveTaint(*taint)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.TAINTS}))


def _unwanted(shape: Shape, tolerations: Sequence[Toleration]) -> int:
    """Ignore tolerations that expire: a preference does not end at an instant."""
    return sum(
        effect == PREFER_NO_SELECT
        and not any(
            toleration.tolerationSeconds is None and matches(toleration, key, value, effect)
            for toleration in tolerations
        )
        for key, value, effect in shape
    )
