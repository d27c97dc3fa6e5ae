"""KubeVirt's kinds of virtual machines. Only hubs with KubeVirt serve them."""

from typing import Final

from fairway.api.kubevirt import (
    KUBEVIRT_GROUP,
    KubeVirt,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from kubewire.client import Resource

INSTANCES: Final = Resource(
    group=KUBEVIRT_GROUP,
    version="v1",
    plural="virtualmachineinstances",
    kind="VirtualMachineInstance",
    namespaced=True,
    type=VirtualMachineInstance,
)
INSTANCE_MIGRATIONS: Final = Resource(
    group=KUBEVIRT_GROUP,
    version="v1",
    plural="virtualmachineinstancemigrations",
    kind="VirtualMachineInstanceMigration",
    namespaced=True,
    type=VirtualMachineInstanceMigration,
)
KUBEVIRTS: Final = Resource(
    group=KUBEVIRT_GROUP,
    version="v1",
    plural="kubevirts",
    kind="KubeVirt",
    namespaced=True,
    type=KubeVirt,
)
"""KubeVirt's configuration: one object in a cluster."""
