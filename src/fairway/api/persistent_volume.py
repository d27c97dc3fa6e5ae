"""PersistentVolume and PersistentVolumeClaim: the fields that restrict a pod to nodes."""

from typing import Final

from msgspec import Struct

from fairway.api.meta import ObjectMeta
from fairway.api.pod_affinity import NodeSelector

LOST: Final = "Lost"


class VolumeNodeAffinity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    nodeAffinity: VolumeNodeAffinity | None = None


class PersistentVolume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class PersistentVolumeClaimSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    volumeName: str = ""


class PersistentVolumeClaimStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
