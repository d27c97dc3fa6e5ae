"""VolumeZone: rejects nodes outside the zones and regions of the pod's volumes, by the labels of each volume.

A claim that waits for its first consumer has no zone yet; VolumeBinding handles it.
"""

from dataclasses import dataclass
from typing import Final

from fairway.api.persistent_volume import PersistentVolumeClaim
from fairway.api.storage import WAIT_FOR_FIRST_CONSUMER
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.nodes.cells import label
from fairway.hosts.nodes.pod_columns import CLAIM, STORAGE_CLASS, VOLUME
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.hosts.nodes.storage import Storage
from fairway.workloads.pods.plugins.volume_binding import NOT_FOUND
from fairway.workloads.pods.workload import PodPlugin, nodes_of, template_of

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"
VOLUME_NOT_FOUND = 'persistentvolume "{volume}" not found'
CLASS_NOT_FOUND = 'storageclass.storage.k8s.io "{class_name}" not found'
WITHOUT_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
WITHOUT_VOLUME = "PersistentVolume had no name"

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
        template, storage = template_of(context), nodes_of(context).storage
        names = _named_claims(template)
        if not names:
            return SKIPPED, None
        allowed: list[tuple[str, frozenset[str]]] = []
        for name in names:
            claim = storage.claims.get((template.namespace, name))
            if claim is None:
                return _rejected(NOT_FOUND.format(claim=name)), None
            if not claim.spec.volumeName:
                objection = _objection_to_unbound(claim, storage)
                if objection is not None:
                    return _rejected(objection), None
                continue
            volume = storage.volumes.get(claim.spec.volumeName)
            if volume is None:
                return _rejected(VOLUME_NOT_FOUND.format(volume=claim.spec.volumeName)), None
            for key, value in volume.metadata.labels.items():
                if key in ZONE_KEYS:
                    allowed.append((key, frozenset(value.split(_SEPARATOR))))
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
            matching = column.bitmap_of(
                [code for value in values if (code := column.code(value)) is not None]
            )
            fallback = current.bitmap_of(
                [code for value in values if (code := current.code(value)) is not None]
            )
            passed = passed & (matching | (column.bitmap(0) & fallback))
        return OK, passed | nowhere

    def reads(self, context: Context, /) -> Reads:
        template, storage = template_of(context), nodes_of(context).storage
        shared: set[Key] = set()
        for name in _named_claims(template):
            shared.add((CLAIM, template.namespace, name))
            claim = storage.claims.get((template.namespace, name))
            if claim is not None:
                volume = claim.spec.volumeName
                shared.add((VOLUME, volume) if volume else (STORAGE_CLASS, claim.storage_class))
        return Reads(cells=frozenset(map(label, ZONE_KEYS)), shared=frozenset(shared)) if shared else Reads()


def _named_claims(template: PodTemplate) -> list[str]:
    """Return the claims of the pod's volumes, without those of ephemeral volumes, which kube-scheduler leaves out."""
    return [name for name in template.claims if name not in template.ephemeral_claims]


def _objection_to_unbound(claim: PersistentVolumeClaim, storage: Storage) -> str | None:
    """Return why a claim without a volume has no zone, unless it waits for its first consumer."""
    if not claim.storage_class:
        return WITHOUT_CLASS
    class_ = storage.classes.get(claim.storage_class)
    if class_ is None:
        return CLASS_NOT_FOUND.format(class_name=claim.storage_class)
    return None if class_.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER else WITHOUT_VOLUME


def _rejected(reason: str) -> Status:
    return Status(Code.UNRESOLVABLE, (reason,), plugin=NAME)
