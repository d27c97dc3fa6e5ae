"""VolumeZone: rejects nodes outside the zones and regions of the pod's volumes, by the labels of each volume.

Claims that are not bound have no zone yet; VolumeBinding handles them.
"""

from dataclasses import dataclass
from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.fleet.bitmap import Bits
from fairway.nodes.cells import label
from fairway.nodes.pod_columns import VOLUMES
from fairway.plugins.pods.workload import PodPlugin, nodes_of, template_of

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"

REJECTED = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)

ZONE_KEYS: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
_CURRENT: Final = dict(zip(ZONE_KEYS[:2], ZONE_KEYS[2:], strict=True))
"""Nodes may have only the current label of those that a volume has."""
_SEPARATOR: Final = "__"


@dataclass(frozen=True, slots=True)
class _Zones:
    allowed: tuple[tuple[str, frozenset[str]], ...]
    """Label keys, and the values of which a node must have one."""


class VolumeZone(PodPlugin, Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template, snapshot = template_of(context), nodes_of(context)
        allowed: list[tuple[str, frozenset[str]]] = []
        for name in template.claims:
            claim = snapshot.claims.get((template.namespace, name))
            volume = None if claim is None else snapshot.volumes.get(claim.spec.volumeName)
            for key, value in ({} if volume is None else volume.metadata.labels).items():
                if key in ZONE_KEYS:
                    allowed.append((key, frozenset(value.split(_SEPARATOR))))
        if not template.claims:
            return SKIPPED, None
        context.state.write(NAME, _Zones(tuple(allowed)))
        return OK, None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        labels = context.snapshot.host(row).metadata.labels
        if not any(key in labels for key in ZONE_KEYS):
            return OK  # the node is in no zone
        for key, values in context.state.read(NAME, _Zones).allowed:
            value = labels.get(key, labels.get(_CURRENT.get(key, key)))
            if value not in values:
                return REJECTED
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot, passed = context.snapshot, candidates
        columns = {key: snapshot.codes(label(key)) for key in ZONE_KEYS}
        nowhere = candidates
        for column in columns.values():
            nowhere = nowhere & column.bitmap(0)
        for key, values in context.state.read(NAME, _Zones).allowed:
            column, current = columns[key], columns[_CURRENT.get(key, key)]
            matching = column.bitmap_of([code for each in values if (code := column.code(each)) is not None])
            fallback = current.bitmap_of(
                [code for each in values if (code := current.code(each)) is not None]
            )
            passed = passed & (matching | (column.bitmap(0) & fallback))
        return OK, passed | nowhere

    def reads(self, context: Context, /) -> Reads:
        if not template_of(context).claims:
            return Reads()
        return Reads(cells=frozenset(map(label, ZONE_KEYS)), shared=frozenset({VOLUMES}))
