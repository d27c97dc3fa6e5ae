"""Kinds of storage.k8s.io: the fields that decide on which nodes volumes are provisioned, and how many fit there."""

from typing import Final

from msgspec import Struct

from kubewire.api.annotation import Int32, QuantityText
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector

STORAGE_GROUP: Final = "storage.k8s.io"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: the volume plugins of Kubernetes, comma-separated, that CSI drivers replace on the node."""


class TopologyLabels(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A label of a node and its possible values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """All labels must match; a term without labels matches no node."""

    matchLabelExpressions: tuple[TopologyLabels, ...] = ()


class StorageClass(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volumeBindingMode: str = ""
    allowedTopologies: tuple[TopologyTerm, ...] = ()
    """One term must match; without terms every node does."""


class CSIDriverSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    storageCapacity: bool = False
    """Whether the driver reports its free capacity, so that it limits where volumes are provisioned."""
    preventPodSchedulingIfMissing: bool = False
    """Whether pods with its volumes may only run on nodes that have the driver."""


class CSIDriver(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The free capacity of a class on some nodes."""

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSIStorageCapacity"
    metadata: ObjectMeta = ObjectMeta()
    storageClassName: str = ""
    nodeTopology: LabelSelector | None = None
    """Without it no node can use the capacity."""
    capacity: QuantityText | None = None
    maximumVolumeSize: QuantityText | None = None


class VolumeLimit(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    count: Int32 | None = None


class CSINodeDriver(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class AttachmentSource(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    persistentVolumeName: str = ""


class VolumeAttachmentSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    attacher: str = ""
    nodeName: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class CSINode(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The drivers on a node, which has the same name."""

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()
