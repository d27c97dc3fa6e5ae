"""The registry of plugins for pods, and the default profile, which has the order and weights of kube-scheduler."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.engine.kind import WorkKind
from fairway.engine.profile import Enabled, Profile, ProfileSpec, build_profile
from fairway.engine.queue.plugins import PrioritySort
from fairway.engine.registry import Registry
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.pod_owners import PodOwners
from fairway.workloads.pods.plugins.assume_pod import AssumePod
from fairway.workloads.pods.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from fairway.workloads.pods.plugins.coscheduling import Coscheduling
from fairway.workloads.pods.plugins.default_preemption import DefaultPreemption
from fairway.workloads.pods.plugins.dynamic_resources import DynamicResources
from fairway.workloads.pods.plugins.image_locality import ImageLocality
from fairway.workloads.pods.plugins.inter_pod_affinity import InterPodAffinity
from fairway.workloads.pods.plugins.node_affinity import NodeAffinity
from fairway.workloads.pods.plugins.node_name import NodeName
from fairway.workloads.pods.plugins.node_ports import NodePorts
from fairway.workloads.pods.plugins.node_ready import NodeReady
from fairway.workloads.pods.plugins.node_resources_fit import NodeResourcesFit
from fairway.workloads.pods.plugins.node_unschedulable import NodeUnschedulable
from fairway.workloads.pods.plugins.node_volume_limits import NodeVolumeLimits
from fairway.workloads.pods.plugins.scheduling_gates import SchedulingGates
from fairway.workloads.pods.plugins.taint_toleration import TaintToleration
from fairway.workloads.pods.plugins.topology_spread import PodTopologySpread
from fairway.workloads.pods.plugins.vm_scaling import MachineRoom, VirtualMachineAutoscaling
from fairway.workloads.pods.plugins.volume_binding import VolumeBinder, VolumeBinding
from fairway.workloads.pods.plugins.volume_restrictions import VolumeRestrictions
from fairway.workloads.pods.plugins.volume_zone import VolumeZone

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
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    Coscheduling,
)
"""In the order of their first calls. The default profile has all but Coscheduling."""

_WEIGHTS: Final[Mapping[str, int]] = {
    TaintToleration.name: 3,
    NodeAffinity.name: 2,
    PodTopologySpread.name: 2,
    InterPodAffinity.name: 2,
}
"""The weights of kube-scheduler's default profile; 1 for the others."""
DEFAULT_BINDER: Final = "DefaultBinder"


def pod_registry(
    *,
    fleet: NodeFleet | None = None,
    room: MachineRoom | None = None,
    owners: PodOwners | None = None,
    volumes: VolumeBinder | None = None,
) -> Registry:
    """Return all plugins. With a fleet, those that count pods on their nodes before they are bound are available.

    ``room`` is what VirtualMachineAutoscaling asks; without one there are no virtual machines, and it is skipped.
    ``owners`` are the objects whose pods PodTopologySpread spreads by default. ``volumes`` binds the volumes of pods
    that have a node; without it, VolumeBinding only rejects nodes.
    """
    registry = Registry()
    for plugin in POD_PLUGINS:
        if plugin not in (PodTopologySpread, VolumeBinding):
            registry.register(plugin.name, plugin)
    registry.register(
        PodTopologySpread.name,
        lambda **args: PodTopologySpread(owners=owners, **args),
        kind=PodTopologySpread,
    )
    registry.register(
        VolumeBinding.name,
        lambda **args: VolumeBinding(binder=volumes, **args),
        kind=VolumeBinding,
    )
    registry.register(
        VirtualMachineAutoscaling.name,
        lambda **args: VirtualMachineAutoscaling(room=room, **args),
        kind=VirtualMachineAutoscaling,
    )
    registry.declare(DEFAULT_BINDER, {"Bind"})
    if fleet is not None:
        registry.register(AssumePod.name, lambda: AssumePod(fleet=fleet), kind=AssumePod)
    return registry


POD_KIND: Final = WorkKind(
    name="pods",
    profile="fairway",
    registry=pod_registry,
    enabled=(
        *(Enabled(kind.name, _WEIGHTS.get(kind.name, 0)) for kind in POD_PLUGINS if kind is not Coscheduling),
        Enabled(DEFAULT_BINDER),
    ),
    required=("QueueSort", "Bind"),
    names_profiles=True,
)


_MACHINE_POINTS: Final[Mapping[str, tuple[Enabled, ...]]] = {
    **dict.fromkeys(
        ("PreFilter", "Filter", "PostFilter", "PreScore", "Reserve"),
        (Enabled(VirtualMachineAutoscaling.name),),
    ),
    "Score": (Enabled(VirtualMachineAutoscaling.name, 1),),
}


def profile_beside_machines(spec: ProfileSpec, args: Mapping[str, Any] | None = None) -> ProfileSpec:
    """Return a profile with VirtualMachineAutoscaling, without which it would give away room of virtual machines on the
    same nodes. ``args`` replace those that the profile has for it."""
    return spec.extended(
        _MACHINE_POINTS,
        # Taking earmarked room evicts no pod, so that it comes before preemption.
        first=("PostFilter",),
        args=None if args is None else {VirtualMachineAutoscaling.name: args},
    )


def default_profile(*, name: str = POD_KIND.profile, without: frozenset[str] = frozenset()) -> Profile:
    return build_profile(POD_KIND.spec(name=name).without(*without), pod_registry())
