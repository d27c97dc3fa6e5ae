"""Nodes and pods with the fields that matter for health: a few hundred bytes each.

An informer keeps every object it decodes, so these types drop everything else while they are decoded.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct, field, structs

from fairway.providers.usage.objects import slim
from kubewire.api.annotation import Time
from kubewire.api.meta import TRUE, ObjectMeta
from kubewire.api.resource import Resource

READY: Final = "Ready"
NETWORK_UNAVAILABLE: Final = "NetworkUnavailable"
PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
"""A node under pressure rejects new pods and evicts some."""
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
EVICTED: Final = "Evicted"


class _Condition(Struct, frozen=True, kw_only=True, gc=False):
    type: str = ""
    status: str = ""


class _NodeStatus(Struct, frozen=True, kw_only=True, gc=False):
    conditions: tuple[_Condition, ...] = ()


class _Terminated(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    finished_at: Time | None = None


class _State(Struct, frozen=True, kw_only=True, gc=False):
    terminated: _Terminated | None = None


class _ContainerStatus(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    restart_count: int = 0
    last_state: _State = _State()


class _PodStatus(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


_NO_NODE_STATUS: Final = _NodeStatus()
_NO_POD_STATUS: Final = _PodStatus()


class NodeHealth(Struct, frozen=True, kw_only=True, gc=False):
    """``status`` is emptied after decoding."""

    metadata: ObjectMeta = ObjectMeta()
    status: _NodeStatus = _NO_NODE_STATUS
    readiness: float = field(default=0.0, name="fairway.dev/readiness")
    """1 if ready, 0.5 if ready but under pressure, 0 otherwise."""

    def __post_init__(self) -> None:
        conditions = {condition.type: condition.status == TRUE for condition in self.status.conditions}
        readiness = (
            1.0 if conditions.get(READY, False) and not conditions.get(NETWORK_UNAVAILABLE, False) else 0.0
        )
        if any(conditions.get(pressure, False) for pressure in PRESSURES):
            readiness /= 2
        structs.force_setattr(self, "readiness", readiness)
        structs.force_setattr(self, "metadata", slim(self.metadata))
        structs.force_setattr(self, "status", _NO_NODE_STATUS)


class PodHealth(Struct, frozen=True, kw_only=True, gc=False):
    """``status`` is emptied after decoding."""

    metadata: ObjectMeta = ObjectMeta()
    status: _PodStatus = _NO_POD_STATUS
    over: bool = field(default=False, name="fairway.dev/over")
    """Whether the pod has finished."""
    evicted: bool = field(default=False, name="fairway.dev/evicted")
    ready: bool = field(default=False, name="fairway.dev/ready")
    containers: int = field(default=0, name="fairway.dev/containers")
    """Started containers."""
    restarts: int = field(default=0, name="fairway.dev/restarts")
    """Total of all containers."""
    ended: tuple[datetime, ...] = field(default=(), name="fairway.dev/ended")
    """Last termination time of each restarted container."""

    def __post_init__(self) -> None:
        status, put = self.status, structs.force_setattr
        put(self, "over", status.phase in (SUCCEEDED, FAILED))
        put(self, "evicted", status.phase == FAILED and status.reason == EVICTED)
        put(
            self,
            "ready",
            any(condition.type == READY and condition.status == TRUE for condition in status.conditions),
        )
        every = (*status.container_statuses, *status.init_container_statuses)
        put(self, "containers", len(status.container_statuses))
        put(self, "restarts", sum(container.restart_count for container in every))
        ends = (container.last_state.terminated for container in every if container.restart_count)
        moments = tuple(end.finished_at for end in ends if end is not None and end.finished_at is not None)
        put(self, "ended", moments)
        put(self, "metadata", slim(self.metadata))
        put(self, "status", _NO_POD_STATUS)

    @property
    def terminating(self) -> bool:
        return self.metadata.deletionTimestamp is not None


NODES: Final = Resource(
    group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=NodeHealth
)
PODS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=PodHealth)
