"""Kinds beside Nodes and Pods that decide where pods run."""

from typing import Any, Final

from fairway.api.kubevirt import KUBEVIRT_GROUP, VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_group import POD_GROUP_API, PodGroup
from fairway.api.pod_owner import ReplicaSet, ReplicationController, Service, StatefulSet
from fairway.kube import Resource

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
INSTANCES: Final = Resource(
    group=KUBEVIRT_GROUP,
    version="v1",
    plural="virtualmachineinstances",
    kind="VirtualMachineInstance",
    namespaced=True,
    type=VirtualMachineInstance,
)
"""Only hubs with KubeVirt serve it, and the next kind."""
INSTANCE_MIGRATIONS: Final = Resource(
    group=KUBEVIRT_GROUP,
    version="v1",
    plural="virtualmachineinstancemigrations",
    kind="VirtualMachineInstanceMigration",
    namespaced=True,
    type=VirtualMachineInstanceMigration,
)
