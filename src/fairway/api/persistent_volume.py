"""PersistentVolume and PersistentVolumeClaim: the fields that restrict pods to nodes, or match volumes with claims."""

from typing import Final

from msgspec import Struct, field

from fairway.api.pod_affinity import NodeSelector
from kubewire.api.annotation import QuantityText
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector

LOST: Final = "Lost"
AVAILABLE: Final = "Available"
BOUND: Final = "Bound"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
FILESYSTEM: Final = "Filesystem"
STORAGE: Final = "storage"

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim whose volume is bound to it permanently."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume whose claim was chosen by a program: it may be taken back."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is to be provisioned."""
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Annotation that precedes ``storageClassName``."""


class VolumeNodeAffinity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    required: NodeSelector | None = None


class ClaimReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiVolume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    driver: str = ""
    volumeHandle: str = ""


class DiskById(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A disk of Amazon Web Services, OpenStack or Portworx."""

    volumeID: str = ""


class GceDisk(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    pdName: str = ""


class AzureDisk(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    diskURI: str = ""


class PersistentVolumeSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    awsElasticBlockStore: DiskById | None = None
    azureDisk: AzureDisk | None = None
    capacity: dict[str, QuantityText] = field(default_factory=dict)
    accessModes: tuple[str, ...] = ()
    claimRef: ClaimReference | None = None
    cinder: DiskById | None = None
    csi: CsiVolume | None = None
    gcePersistentDisk: GceDisk | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    portworxVolume: DiskById | None = None
    storageClassName: str = ""
    volumeAttributesClassName: str = ""
    volumeMode: str = FILESYSTEM


class PersistentVolumeStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""


class PersistentVolume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storageClassName)


class VolumeRequests(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    requests: dict[str, QuantityText] = field(default_factory=dict)


class PersistentVolumeClaimSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    accessModes: tuple[str, ...] = ()
    resources: VolumeRequests = VolumeRequests()
    selector: LabelSelector | None = None
    storageClassName: str = ""
    volumeAttributesClassName: str = ""
    volumeMode: str = FILESYSTEM
    volumeName: str = ""


class PersistentVolumeClaimStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storageClassName)

    @property
    def bound(self) -> bool:
        """Whether the volume is bound to the claim permanently. Without it the claim only names a volume."""
        return bool(self.spec.volumeName) and BIND_COMPLETED in self.metadata.annotations
