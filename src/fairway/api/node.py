"""Node: its resources, and whether it accepts pods."""

from typing import Final

from msgspec import Struct, field

from kubewire.api.annotation import Int64, QuantityText
from kubewire.api.meta import TRUE, ObjectMeta

READY: Final = "Ready"
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

CONTROL_PLANE_LABELS: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
"""The taint that Kubernetes adds for a cordon."""
NOT_READY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class NodeTaint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeCondition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class ContainerImage(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    names: tuple[str, ...] = ()
    sizeBytes: Int64 = 0


class NodeStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    capacity: dict[str, QuantityText] = field(default_factory=dict)
    allocatable: dict[str, QuantityText] = field(default_factory=dict)
    """The capacity that is available for pods."""
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    """The images on the node; the kubelet reports the largest 50."""


class Node(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def readiness(self) -> str | None:
        """The status of the Ready condition; None without one."""
        return next(
            (condition.status for condition in self.status.conditions if condition.type == READY), None
        )

    @property
    def ready(self) -> bool:
        """A node without a condition is not ready."""
        return self.readiness == TRUE

    @property
    def control_plane(self) -> bool:
        return any(label in self.metadata.labels for label in CONTROL_PLANE_LABELS)
