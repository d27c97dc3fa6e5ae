"""VolumeRestrictions: rejects nodes where the pod's volumes conflict with those of other pods.

A claim with the access mode ReadWriteOncePod belongs to one pod of the whole cluster. A disk that a pod mounts inline
may be mounted by a second pod of the same node only if both read it.
"""

from dataclasses import dataclass
from typing import Final

from fairway.api.persistent_volume import READ_WRITE_ONCE_POD
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.pod_columns import CLAIM, pod_claim
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.workloads.pods.plugins.volume_binding import NOT_FOUND
from fairway.workloads.pods.workload import PodPlugin, nodes_of, template_of

NAME: Final = "VolumeRestrictions"
DISK_CONFLICT: Final = "node(s) had no available disk"
CLAIM_CONFLICT: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)

REJECTED_BY_DISK: Final = Status(Code.UNSCHEDULABLE, (DISK_CONFLICT,), plugin=NAME)
REJECTED_BY_CLAIM: Final = Status(Code.UNSCHEDULABLE, (CLAIM_CONFLICT,), plugin=NAME)


@dataclass(frozen=True, slots=True)
class _Claims:
    exclusive: tuple[Key, ...]
    """The columns of the claims with ReadWriteOncePod."""


class VolumeRestrictions(PodPlugin, Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template, snapshot = template_of(context), nodes_of(context)
        named = [claim for claim in template.claims if claim not in template.ephemeral_claims]
        # Not skipped while no pod uses the claim: kept results of alike pods must follow the first one that does.
        if not named and not template.disks:
            return SKIPPED, None
        exclusive: list[Key] = []
        for name in named:
            claim = snapshot.storage.claims.get((template.namespace, name))
            if claim is None:
                return Status(Code.UNRESOLVABLE, (NOT_FOUND.format(claim=name),), plugin=NAME), None
            if READ_WRITE_ONCE_POD in claim.spec.accessModes:
                exclusive.append(pod_claim(template.namespace, name))
        context.state.write(NAME, _Claims(tuple(exclusive)))
        return OK, None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        snapshot = nodes_of(context)
        name = snapshot.hosts.names[row]
        if any(name in snapshot.nodes_holding(key) for key in _conflicting(template_of(context))):
            return REJECTED_BY_DISK
        claims = context.state.read(NAME, _Claims)
        unused = all(bitmap.test(snapshot.unheld(key), row) for key in claims.exclusive)
        return OK if unused else REJECTED_BY_CLAIM

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot = nodes_of(context)
        passed = candidates
        for key in context.state.read(NAME, _Claims).exclusive:
            passed = passed & snapshot.unheld(key)
        taken = {name for key in _conflicting(template_of(context)) for name in snapshot.nodes_holding(key)}
        if not taken:
            return OK, passed
        return OK, passed & ~bitmap.from_rows(snapshot.rows_named(list(taken)), snapshot.capacity)

    def reads(self, context: Context, /) -> Reads:
        template = template_of(context)
        claims = context.state.find(NAME, _Claims)
        keys = {*_conflicting(template), *(() if claims is None else claims.exclusive)}
        # One pod with the claim rejects every node, and no column shows it: all keys are shared ones.
        named = {(CLAIM, template.namespace, name) for name in template.claims}
        return Reads(shared=frozenset(keys | named), helps=dict.fromkeys(keys, Direction.DOWN))


def _conflicting(template: PodTemplate) -> list[Key]:
    """Return the columns that must be 0 on the node."""
    modes = (False, True)
    return [
        key
        for disk in template.disks
        for mode in modes
        if not (disk.read_only and mode)
        for key in disk.keys(read_only=mode)
    ]
