"""PodGroup of scheduling.x-k8s.io: pods that start together, as the scheduler plugin Coscheduling defines them."""

from typing import Final

from msgspec import Struct

from kubewire.api.annotation import Int32
from kubewire.api.meta import ObjectMeta

POD_GROUP_API: Final = "scheduling.x-k8s.io"


class PodGroupSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    minMember: Int32 = 1
    scheduleTimeoutSeconds: Int32 | None = None


class PodGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "scheduling.x-k8s.io/v1alpha1"
    kind: str = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
