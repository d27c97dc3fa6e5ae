"""Kinds beside Nodes and Pods that decide where pods run."""

from typing import Any, Final

from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_group import POD_GROUP_API, PodGroup
from fairway.api.pod_owner import ReplicaSet, ReplicationController, Service, StatefulSet
from fairway.api.storage import (
    STORAGE_GROUP,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from kubewire.client import Resource

CLAIMS: Final = Resource(
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    namespaced=True,
    type=PersistentVolumeClaim,
)
VOLUMES: Final = Resource(
    group="",
    version="v1",
    plural="persistentvolumes",
    kind="PersistentVolume",
    namespaced=False,
    type=PersistentVolume,
)
STORAGE_CLASSES: Final = Resource(
    group=STORAGE_GROUP,
    version="v1",
    plural="storageclasses",
    kind="StorageClass",
    namespaced=False,
    type=StorageClass,
)
CSI_DRIVERS: Final = Resource(
    group=STORAGE_GROUP,
    version="v1",
    plural="csidrivers",
    kind="CSIDriver",
    namespaced=False,
    type=CSIDriver,
)
CSI_NODES: Final = Resource(
    group=STORAGE_GROUP,
    version="v1",
    plural="csinodes",
    kind="CSINode",
    namespaced=False,
    type=CSINode,
)
CAPACITIES: Final = Resource(
    group=STORAGE_GROUP,
    version="v1",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    namespaced=True,
    type=CSIStorageCapacity,
)
ATTACHMENTS: Final = Resource(
    group=STORAGE_GROUP,
    version="v1",
    plural="volumeattachments",
    kind="VolumeAttachment",
    namespaced=False,
    type=VolumeAttachment,
)
STORAGE: Final[tuple[Resource[Any], ...]] = (STORAGE_CLASSES, CSI_DRIVERS, CSI_NODES, CAPACITIES, ATTACHMENTS)
"""Kinds that decide about volumes; a hub may serve none of them."""
BUDGETS: Final = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    namespaced=True,
    type=PodDisruptionBudget,
)
OWNERS: Final[tuple[Resource[Any], ...]] = (
    Resource(group="", version="v1", plural="services", kind="Service", namespaced=True, type=Service),
    Resource(
        group="",
        version="v1",
        plural="replicationcontrollers",
        kind="ReplicationController",
        namespaced=True,
        type=ReplicationController,
    ),
    Resource(
        group="apps", version="v1", plural="replicasets", kind="ReplicaSet", namespaced=True, type=ReplicaSet
    ),
    Resource(
        group="apps",
        version="v1",
        plural="statefulsets",
        kind="StatefulSet",
        namespaced=True,
        type=StatefulSet,
    ),
)
"""Kinds whose selectors decide which pods are spread by default."""
POD_GROUPS: Final = Resource(
    group=POD_GROUP_API,
    version="v1alpha1",
    plural="podgroups",
    kind="PodGroup",
    namespaced=True,
    type=PodGroup,
)
"""Only hubs with the CRD of the Coscheduling plugin serve it."""
