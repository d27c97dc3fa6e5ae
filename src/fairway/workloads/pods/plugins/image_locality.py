"""ImageLocality: prefers nodes that have the pod's images.

An image that few nodes have counts less, so that its pods do not all go to these nodes.
"""

import numpy as np

from fairway.engine.points import Context, Raw, Reads, Timeless
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Rows
from fairway.hosts.column import MEMBERSHIP
from fairway.hosts.nodes.cells import image
from fairway.workloads.pods.plugins.normalizing import HIGHEST
from fairway.workloads.pods.workload import PodPlugin, template_of

NAME = "ImageLocality"

SMALLEST = 23 << 20
"""Bytes on the node that score 0."""
LARGEST = 1000 << 20
"""Bytes for each image that score 100."""


class ImageLocality(PodPlugin, Timeless):
    name = NAME

    def score(self, context: Context, row: int, /) -> int:
        images = template_of(context).images
        total = 0
        for name, share in self._shares(context):
            size = context.snapshot.numbers(image(name)).values[row]
            total += 0 if size != size else int(float(size) * share)
        largest = LARGEST * len(images)
        return (
            HIGHEST * (min(max(total, SMALLEST), largest) - SMALLEST) // (largest - SMALLEST) if images else 0
        )

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        images = template_of(context).images
        totals = np.zeros(len(rows), dtype=np.int64)
        for name, share in self._shares(context):
            sizes = np.nan_to_num(context.snapshot.numbers(image(name)).values[rows], copy=False)
            totals += (sizes * share).astype(np.int64)
        largest = LARGEST * len(images)
        if not images or not totals.any():
            return Raw(np.zeros(len(rows), dtype=np.int64))
        return Raw(HIGHEST * (totals.clip(SMALLEST, largest) - SMALLEST) // (largest - SMALLEST))

    def _shares(self, context: Context) -> tuple[tuple[str, float], ...]:
        """Return each image that a node has, with the share of nodes that have it."""
        known: tuple[tuple[str, float], ...] | None = context.state.find(NAME, tuple)
        if known is None:
            counted = [(name, *self._having(context, name)) for name in template_of(context).images]
            known = tuple((name, having / nodes) for name, having, nodes in counted if having)
            context.state.write(NAME, known)
        return known

    @staticmethod
    def _having(context: Context, name: str) -> tuple[int, int]:
        snapshot = context.snapshot
        having = int(np.count_nonzero(~np.isnan(snapshot.numbers(image(name)).values)))
        return having, bitmap.count(snapshot.live)

    def reads(self, context: Context, /) -> Reads:
        return Reads(cells=frozenset({MEMBERSHIP, *map(image, template_of(context).images)}))

    def basis(self, context: Context, /) -> object:
        return tuple(self._having(context, name) for name in template_of(context).images)
