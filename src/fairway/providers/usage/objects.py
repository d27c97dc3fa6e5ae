"""Pods and nodes as the accounting keeps them: a few hundred bytes each.

An informer keeps every object it decodes, and a pod has kilobytes of labels, annotations and containers that matter
only until its requests are summed up. So these types compute while they are decoded and drop the rest. Pods with equal
requests share one vector.
"""

from sys import intern
from typing import Final

from msgspec import Struct, field, structs

from fairway.api.node import NO_EXECUTE, NO_SCHEDULE, Node, NodeSpec, NodeStatus, NodeTaint
from fairway.api.pod import Pod, PodSpec, PodStatus
from fairway.api.pod_requests import PODS, Amounts, amounts_of, readable_requests
from kubewire.api.meta import ObjectMeta, PartialMeta
from kubewire.api.quantity import QuantityError
from kubewire.api.resource import Resource
from kubewire.client.codec import INITIAL_EVENTS_END

Vector = tuple[tuple[str, int], ...]
"""Amounts sorted by resource: millicores, bytes, or counts."""

BAD_POD: Final = "Pod {namespace}/{name}: {what}"
BAD_NODE: Final = "Node {name}: allocatable {what}"

_MOST_SHARED: Final = 1 << 16
_shared: Final[dict[Vector, Vector]] = {}
_NO_LABELS: Final[dict[str, str]] = {}
_NO_SPEC: Final = PodSpec()
_NO_STATUS: Final = PodStatus()
_NO_NODE_SPEC: Final = NodeSpec()
_NO_NODE_STATUS: Final = NodeStatus()
_REPELLING: Final = (NO_SCHEDULE, NO_EXECUTE)


def vector_of(amounts: Amounts) -> Vector:
    vector = tuple(sorted(amounts.items()))
    known = _shared.get(vector)
    if known is not None:
        return known
    if len(_shared) >= _MOST_SHARED:
        # Sharing only saves memory.
        _shared.clear()
    return _shared.setdefault(vector, vector)


class PodUse(Struct, frozen=True, kw_only=True, gc=False):
    """``spec`` and ``status`` are emptied after decoding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = _NO_SPEC
    status: PodStatus = _NO_STATUS
    node: str = field(default="", name="fairway.dev/node")
    """Empty while unscheduled."""
    vector: Vector = field(default=(), name="fairway.dev/vector")
    """Requests, and one pod."""
    over: bool = field(default=False, name="fairway.dev/over")
    """Whether the pod has finished."""
    gated: bool = field(default=False, name="fairway.dev/gated")
    """Whether scheduling gates hold it back."""
    problem: str = field(default="", name="fairway.dev/problem")

    def __post_init__(self) -> None:
        meta, spec, status = self.metadata, self.spec, self.status
        pod = Pod(spec=spec, status=status)
        amounts, problems = self.requests_of(pod)
        amounts[PODS] = 1
        put = structs.force_setattr
        put(self, "node", intern(spec.nodeName))
        put(self, "vector", vector_of(amounts))
        put(self, "over", pod.finished)
        put(self, "gated", bool(spec.schedulingGates))
        if problems:
            what = "; ".join(problems)
            put(self, "problem", BAD_POD.format(namespace=meta.namespace, name=meta.name, what=what))
        put(self, "metadata", slim(meta))
        put(self, "spec", _NO_SPEC)
        put(self, "status", _NO_STATUS)

    @property
    def terminating(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    @staticmethod
    def requests_of(pod: Pod) -> tuple[Amounts, tuple[str, ...]]:
        """Return requests, and problems of unreadable ones."""
        return readable_requests(pod)


class UpstreamPodUse(PodUse, frozen=True, kw_only=True, gc=False):
    """Counted as OCM's add-on does: containers and overhead only.

    There, an init container counts if it requests more than all earlier pods of the node, in arbitrary order; here none
    counts.
    """

    @staticmethod
    def requests_of(pod: Pod) -> tuple[Amounts, tuple[str, ...]]:
        return readable_requests(
            Pod(spec=PodSpec(containers=pod.spec.containers, overhead=pod.spec.overhead))
        )


class NodeRoom(Struct, frozen=True, kw_only=True, gc=False):
    """``spec`` and ``status`` are emptied after decoding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = _NO_NODE_SPEC
    status: NodeStatus = _NO_NODE_STATUS
    allocatable: Amounts = field(default_factory=dict, name="fairway.dev/allocatable")
    kinds: frozenset[str] = field(default=frozenset(), name="fairway.dev/kinds")
    """Resources of its capacity or allocatable."""
    ready: bool = field(default=False, name="fairway.dev/ready")
    cordoned: bool = field(default=False, name="fairway.dev/cordoned")
    control_plane: bool = field(default=False, name="fairway.dev/control-plane")
    repelling: tuple[NodeTaint, ...] = field(default=(), name="fairway.dev/repelling")
    """NoSchedule and NoExecute taints, in order."""
    problem: str = field(default="", name="fairway.dev/problem")

    def __post_init__(self) -> None:
        meta, spec, status = self.metadata, self.spec, self.status
        node = Node(metadata=meta, spec=spec, status=status)
        allocatable, problems = _readable(status.allocatable)
        capacity, _ = _readable(status.capacity)
        kinds = (intern(name) for given in (allocatable, capacity) for name in given if given[name])
        put = structs.force_setattr
        put(self, "allocatable", {intern(name): amount for name, amount in allocatable.items()})
        put(self, "kinds", frozenset(kinds))
        put(self, "ready", node.ready)
        put(self, "cordoned", spec.unschedulable)
        put(self, "control_plane", node.control_plane)
        put(self, "repelling", tuple(taint for taint in spec.taints if taint.effect in _REPELLING))
        if problems:
            put(self, "problem", BAD_NODE.format(name=meta.name, what="; ".join(problems)))
        put(self, "metadata", slim(meta))
        put(self, "spec", _NO_NODE_SPEC)
        put(self, "status", _NO_NODE_STATUS)


def _readable(given: dict[str, str | int | float]) -> tuple[Amounts, list[str]]:
    try:
        return amounts_of(given), []
    except QuantityError:
        pass
    amounts: Amounts = {}
    problems = []
    for name, text in given.items():
        try:
            amounts |= amounts_of({name: text})
        except QuantityError as error:
            problems.append(str(error))
    return amounts, problems


def slim(meta: ObjectMeta) -> ObjectMeta:
    end = meta.annotations.get(INITIAL_EVENTS_END)
    slimmed = ObjectMeta(
        name=meta.name,
        namespace=intern(meta.namespace),
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
        deletionTimestamp=meta.deletionTimestamp,
        labels=_NO_LABELS,
        annotations=_NO_LABELS if end is None else {INITIAL_EVENTS_END: end},
    )
    return slimmed.partial(meta.unreadable) if isinstance(meta, PartialMeta) else slimmed


POD_USES: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=PodUse)
UPSTREAM_POD_USES: Final[Resource[PodUse]] = Resource(
    group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=UpstreamPodUse
)
NODE_ROOMS: Final = Resource(
    group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=NodeRoom
)
