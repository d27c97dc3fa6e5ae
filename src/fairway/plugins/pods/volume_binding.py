"""VolumeBinding: rejects nodes that cannot reach the volumes of the pod's claims, by the node affinity of each volume.

Only claims that are bound to a volume are supported. kube-scheduler also binds claims that wait for their first
consumer, which needs storage classes, capacities and CSI drivers: a pod with such a claim is rejected here.
"""

from dataclasses import dataclass

from fairway.api.persistent_volume import LOST
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.fleet.bitmap import Bits
from fairway.fleet.column import Key
from fairway.nodes.node_selection import RequiredNodes, compile_terms
from fairway.nodes.pod_columns import VOLUMES
from fairway.plugins.pods.workload import PodPlugin, nodes_of, template_of

NAME = "VolumeBinding"
CONFLICT = "node(s) had volume node affinity conflict"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOT_FOUND = 'persistentvolumeclaim "{claim}" not found'
DELETED = 'persistentvolumeclaim "{claim}" is being deleted'
LOST_VOLUME = 'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"'
NOT_BOUND = 'persistentvolumeclaim "{claim}" is not bound; only pods with bound claims are scheduled'

REJECTED = Status(Code.UNRESOLVABLE, (CONFLICT,), plugin=NAME)
REJECTED_WITHOUT_VOLUME = Status(Code.UNRESOLVABLE, (NO_VOLUME,), plugin=NAME)


@dataclass(frozen=True, slots=True)
class _Volumes:
    required: tuple[RequiredNodes, ...]
    """Where each volume with a node affinity is."""
    missing: bool
    """Whether a claim is bound to a volume that does not exist."""


class VolumeBinding(PodPlugin, Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template, snapshot = template_of(context), nodes_of(context)
        if not template.claims:
            return SKIPPED, None
        required: list[RequiredNodes] = []
        missing = False
        for name in template.claims:
            claim = snapshot.claims.get((template.namespace, name))
            if claim is None:
                return _rejected(NOT_FOUND.format(claim=name)), None
            if claim.metadata.deletionTimestamp is not None:
                return _rejected(DELETED.format(claim=name)), None
            volume_name = claim.spec.volumeName
            if claim.status.phase == LOST:
                return _rejected(LOST_VOLUME.format(claim=name, volume=volume_name)), None
            if not volume_name:
                return _rejected(NOT_BOUND.format(claim=name)), None
            volume = snapshot.volumes.get(volume_name)
            missing = missing or volume is None
            affinity = None if volume is None else volume.spec.nodeAffinity
            if affinity is not None and affinity.required is not None:
                required.append(RequiredNodes((), compile_terms(affinity.required.nodeSelectorTerms)))
        context.state.write(NAME, _Volumes(tuple(required), missing))
        return OK, None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        volumes, node = context.state.read(NAME, _Volumes), context.snapshot.host(row).metadata
        if volumes.missing:
            return REJECTED_WITHOUT_VOLUME
        return OK if all(each.matches(node.name, node.labels) for each in volumes.required) else REJECTED

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        volumes = context.state.read(NAME, _Volumes)
        if volumes.missing:
            return OK, context.snapshot.none()
        passed = candidates
        for each in volumes.required:
            passed = each.select(context.snapshot, passed)
        return OK, passed

    def reads(self, context: Context, /) -> Reads:
        if not template_of(context).claims:
            return Reads()
        volumes = context.state.find(NAME, _Volumes)
        cells: set[Key] = set()
        for each in () if volumes is None else volumes.required:
            cells |= each.columns()
        return Reads(cells=frozenset(cells), shared=frozenset({VOLUMES}))


def _rejected(reason: str) -> Status:
    return Status(Code.UNRESOLVABLE, (reason,), plugin=NAME)
