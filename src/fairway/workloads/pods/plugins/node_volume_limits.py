"""NodeVolumeLimits: rejects nodes to which a CSI driver can attach no more volumes, by the limits of their CSINodes.

A volume counts once, however many pods of the node use it. A VolumeAttachment that no pod of the node explains counts
as well: the volume of a deleted pod is still attached.
"""

from collections import Counter
from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.pod_columns import (
    CLAIM,
    CSI_DRIVER,
    STORAGE_CLASS,
    VOLUME,
    attached_volumes,
    pod_claim,
    volume_limit,
)
from fairway.hosts.nodes.snapshot import NodeSnapshot, volumes_on
from fairway.hosts.nodes.storage import IN_TREE_DRIVERS, AttachedVolume
from fairway.workloads.pods.workload import PodPlugin, nodes_of, template_of

NAME: Final = "NodeVolumeLimits"
EXCEEDED: Final = "node(s) exceed max volume count"
NO_DRIVER: Final = "{driver} CSI driver is not installed on the node"

REJECTED: Final = Status(Code.UNSCHEDULABLE, (EXCEEDED,), plugin=NAME)


class NodeVolumeLimits(PodPlugin, Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template = template_of(context)
        return (OK if template.claims or template.disks else SKIPPED), None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        snapshot = nodes_of(context)
        node = snapshot.hosts.names[row]
        new = snapshot.storage.volumes_of(template_of(context), node)
        limits = snapshot.storage.limits(node)
        for driver in sorted({volume.driver for volume in new}):
            if driver not in limits and _is_required(snapshot, driver):
                return Status(Code.UNSCHEDULABLE, (NO_DRIVER.format(driver=driver),), plugin=NAME)
        if not any(limits.get(volume.driver) is not None for volume in new):
            return OK
        # New volumes that are attached already, although no pod uses them, count twice, as in kube-scheduler.
        new -= volumes_on(snapshot.pods, snapshot.storage, node)
        for driver, count in Counter(volume.driver for volume in new).items():
            limit = limits.get(driver)
            attached = snapshot.counts(attached_volumes(driver)).values.item(row)
            if limit is not None and attached + count > limit:
                return REJECTED
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot, template = nodes_of(context), template_of(context)
        if snapshot.storage.depends_on_node(template):
            rows = [row for row in bitmap.rows_of(candidates).tolist() if self.filter(context, row) is OK]
            return OK, bitmap.from_rows(rows, snapshot.capacity)
        passed = candidates
        for driver, count in Counter(volume.driver for volume in _new_volumes(context)).items():
            limits = snapshot.counts(volume_limit(driver)).values
            attached = snapshot.counts(attached_volumes(driver)).values
            passed = passed & bitmap.pack((limits < 2) | (attached + count + 2 <= limits))
            if _is_required(snapshot, driver):
                passed = passed & bitmap.pack(limits > 0)
        # Pods there use some of the volumes, which then count once.
        sharing = {
            node
            for claim in template.claims
            for node in snapshot.pods.holders(pod_claim(template.namespace, claim))
        }
        rows = [row for row in snapshot.rows_named(list(sharing)) if self.filter(context, row) is OK]
        return OK, passed | (candidates & bitmap.from_rows(rows, snapshot.capacity))

    def reads(self, context: Context, /) -> Reads:
        template, storage = template_of(context), nodes_of(context).storage
        if not template.claims and not template.disks:
            return Reads()
        drivers = {volume.driver for volume in _new_volumes(context)}
        if storage.depends_on_node(template):
            drivers.update(IN_TREE_DRIVERS.values())
        shared: set[Key] = set()
        for name in template.claims:
            shared.add((CLAIM, template.namespace, name))
            claim = storage.claims.get((template.namespace, name))
            if claim is not None:
                shared |= {(VOLUME, claim.spec.volumeName), (STORAGE_CLASS, claim.storage_class)}
        attached = set(map(attached_volumes, drivers))
        return Reads(
            cells=frozenset(attached | set(map(volume_limit, drivers))),
            shared=frozenset(shared | {(CSI_DRIVER, driver) for driver in drivers}),
            helps=dict.fromkeys(attached, Direction.DOWN),
        )


def _new_volumes(context: Context) -> set[AttachedVolume]:
    """Return the volumes of the pod that have the same driver on every node."""
    return nodes_of(context).storage.volumes_of(template_of(context), "")


def _is_required(snapshot: NodeSnapshot, driver: str) -> bool:
    """Return whether pods with volumes of a driver may only run on nodes that have it."""
    installed = snapshot.storage.drivers.get(driver)
    return installed is not None and installed.spec.preventPodSchedulingIfMissing
