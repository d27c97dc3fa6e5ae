"""The registry of plugins for pods, and the default profile, which has the order and weights of kube-scheduler."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.engine.profile import Enabled, Profile, ProfileSpec, build_profile
from fairway.engine.queue.plugins import PrioritySort
from fairway.engine.registry import Registry
from fairway.nodes import NodeFleet
from fairway.nodes.pod_owners import PodOwners
from fairway.plugins.pods.assume_pod import AssumePod
from fairway.plugins.pods.balanced_allocation import NodeResourcesBalancedAllocation
from fairway.plugins.pods.coscheduling import Coscheduling
from fairway.plugins.pods.default_preemption import DefaultPreemption
from fairway.plugins.pods.image_locality import ImageLocality
from fairway.plugins.pods.inter_pod_affinity import InterPodAffinity
from fairway.plugins.pods.node_affinity import NodeAffinity
from fairway.plugins.pods.node_name import NodeName
from fairway.plugins.pods.node_ports import NodePorts
from fairway.plugins.pods.node_ready import NodeReady
from fairway.plugins.pods.node_resources_fit import NodeResourcesFit
from fairway.plugins.pods.node_unschedulable import NodeUnschedulable
from fairway.plugins.pods.scheduling_gates import SchedulingGates
from fairway.plugins.pods.taint_toleration import TaintToleration
from fairway.plugins.pods.topology_spread import PodTopologySpread
from fairway.plugins.pods.vm_scaling import MachineRoom, VirtualMachineAutoscaling
from fairway.plugins.pods.volume_binding import VolumeBinding
from fairway.plugins.pods.volume_zone import VolumeZone

POD_PLUGINS: Final[tuple[type[Any], ...]] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    NodeReady,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    Coscheduling,
)
"""In the order of their first calls. The default profile has all but Coscheduling."""

_POINTS: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "PreEnqueue": (SchedulingGates,),
    "QueueSort": (PrioritySort,),
    "PreFilter": (
        NodeName,
        NodeAffinity,
        NodePorts,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
    ),
    "Filter": (
        NodeUnschedulable,
        NodeName,
        NodeReady,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
    ),
    "PostFilter": (DefaultPreemption,),
    "PreScore": (NodeAffinity, PodTopologySpread, InterPodAffinity, NodeResourcesBalancedAllocation),
    "Score": (
        TaintToleration,
        NodeAffinity,
        NodeResourcesFit,
        PodTopologySpread,
        InterPodAffinity,
        NodeResourcesBalancedAllocation,
        ImageLocality,
    ),
}

WEIGHTS: Final[Mapping[str, int]] = {
    TaintToleration.name: 3,
    NodeAffinity.name: 2,
    PodTopologySpread.name: 2,
    InterPodAffinity.name: 2,
}
"""The weights of kube-scheduler's default profile; 1 for the others."""


def pod_registry(
    *, fleet: NodeFleet | None = None, room: MachineRoom | None = None, owners: PodOwners | None = None
) -> Registry:
    """Return all plugins. With a fleet, those that count pods on their nodes before they are bound are available.

    ``room`` is what VirtualMachineAutoscaling asks; without one there are no virtual machines, and it is skipped.
    ``owners`` are the objects whose pods PodTopologySpread spreads by default.
    """
    registry = Registry()
    for each in POD_PLUGINS:
        if each is not PodTopologySpread:
            registry.register(each.name, each)
    registry.register(
        PodTopologySpread.name,
        lambda **args: PodTopologySpread(owners=owners, **args),
        kind=PodTopologySpread,
    )
    registry.register(
        VirtualMachineAutoscaling.name,
        lambda **args: VirtualMachineAutoscaling(room=room, **args),
        kind=VirtualMachineAutoscaling,
    )
    if fleet is not None:
        registry.register(AssumePod.name, lambda: AssumePod(fleet=fleet), kind=AssumePod)
    return registry


def default_spec(
    *,
    name: str = "fairway",
    without: frozenset[str] = frozenset(),
    args: Mapping[str, Mapping[str, Any]] | None = None,
) -> ProfileSpec:
    """Return the default profile as data, without the named plugins and with arguments by plugin."""
    points = {
        point: tuple(
            Enabled(each.name, WEIGHTS.get(each.name, 1) if point == "Score" else 0)
            for each in plugins
            if each.name not in without
        )
        for point, plugins in _POINTS.items()
    }
    return ProfileSpec(name=name, points=points, args=args or {})


def default_profile(*, name: str = "fairway", without: frozenset[str] = frozenset()) -> Profile:
    return build_profile(default_spec(name=name, without=without), pod_registry())
