"""Changes that would let a pod fit: each is tried alone, and only those after which a node passes are returned."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from fairway.api.node import NodeSpec
from fairway.api.pod import Container, Pod, ResourceRequirements
from fairway.api.pod_affinity import DO_NOT_SCHEDULE, EXISTS, REPELLING, Toleration
from fairway.api.pod_requests import CPU, PODS
from fairway.engine.workload import ResourceList
from fairway.hosts.instant import Micros
from fairway.hosts.nodes.pod_template import template_of
from fairway.scheduling import Scheduling
from fairway.whatif.machines.world import ClusterObjects, PodWorld
from fairway.workloads.machines.settings import MachineSettings
from fairway.workloads.machines.size import ONE, describe
from kubewire.api.resource import key_of

SMALLER_REQUEST = "request at most {amount} (now {now})"
SMALLER_MACHINE = "start the virtual machine with at most {share} % of its size: {amount} (now {now})"
NO_SELECTOR = "remove spec.nodeSelector"
NO_NODE_AFFINITY = "remove the required node affinity"
NO_POD_AFFINITY = "remove the required pod affinity"
NO_ANTI_AFFINITY = "remove the required pod anti-affinity"
NO_SPREAD = "set whenUnsatisfiable: ScheduleAnyway in the topology spread constraints"
NO_PORTS = "remove the host ports"
TOLERATE = "tolerate the taint {taint}"
UNCORDON = "uncordon node {node}"
MOST_UNCORDONED = 3
STEPS = 8
"""Halvings when the largest request is searched: a precision of less than 1 %."""


@dataclass(frozen=True, slots=True)
class Remedy:
    change: str
    nodes: int
    """How many nodes pass every filter after the change."""


def remedies(
    cluster: ClusterObjects,
    pod: Pod,
    world: PodWorld,
    scheduling: Scheduling,
    settings: MachineSettings,
    *,
    now: Micros,
) -> tuple[Remedy, ...]:
    """Return the changes after which the pod fits. ``world`` is built from ``cluster``, which is without the pod."""
    proposed = [
        Remedy(words, count) for words, edit in _pod_edits(pod, cluster) if (count := _fits(world, edit))
    ]
    proposed += _smaller(cluster, pod, world, scheduling, settings, now=now)
    proposed += _uncordoned(cluster, pod, scheduling, settings, now=now)
    return tuple(proposed)


def _fits(world: PodWorld, pod: Pod) -> int:
    outcome = world.preview(pod)
    return 0 if outcome is None else len(outcome.details.rows)


def _pod_edits(pod: Pod, cluster: ClusterObjects) -> Iterator[tuple[str, Pod]]:
    spec = pod.spec
    if spec.nodeSelector:
        yield NO_SELECTOR, _edited(pod, nodeSelector=None)
    if (affinity := spec.affinity) is not None:
        node, near, apart = affinity.nodeAffinity, affinity.podAffinity, affinity.podAntiAffinity
        none: Any = None
        if node is not None and node.requiredDuringSchedulingIgnoredDuringExecution is not None:
            changed = structs.replace(node, requiredDuringSchedulingIgnoredDuringExecution=none)
            yield NO_NODE_AFFINITY, _edited(pod, affinity=structs.replace(affinity, nodeAffinity=changed))
        if near is not None and near.requiredDuringSchedulingIgnoredDuringExecution:
            kept = structs.replace(near, requiredDuringSchedulingIgnoredDuringExecution=())
            yield NO_POD_AFFINITY, _edited(pod, affinity=structs.replace(affinity, podAffinity=kept))
        if apart is not None and apart.requiredDuringSchedulingIgnoredDuringExecution:
            kept = structs.replace(apart, requiredDuringSchedulingIgnoredDuringExecution=())
            yield NO_ANTI_AFFINITY, _edited(pod, affinity=structs.replace(affinity, podAntiAffinity=kept))
    strict = [
        constraint
        for constraint in spec.topologySpreadConstraints
        if constraint.whenUnsatisfiable == DO_NOT_SCHEDULE
    ]
    if strict:
        loose = tuple(constraint for constraint in spec.topologySpreadConstraints if constraint not in strict)
        yield NO_SPREAD, _edited(pod, topologySpreadConstraints=loose)
    if any(port.hostPort for container in spec.containers for port in container.ports):
        bare = tuple(structs.replace(container, ports=()) for container in spec.containers)
        yield NO_PORTS, _edited(pod, containers=bare)
    taints = {
        (taint.key, taint.value, taint.effect): None
        for node in cluster.nodes.values()
        for taint in node.spec.taints
        if taint.effect in REPELLING
    }
    for key, value, effect in taints:
        toleration = Toleration(key=key, operator=EXISTS, effect=effect)
        words = TOLERATE.format(taint=f"{key}{f'={value}' if value else ''}:{effect}")
        yield words, _edited(pod, tolerations=(*spec.tolerations, toleration))


def _edited(pod: Pod, **changes: Any) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, **changes))


def _smaller(
    cluster: ClusterObjects,
    pod: Pod,
    world: PodWorld,
    scheduling: Scheduling,
    settings: MachineSettings,
    *,
    now: Micros,
) -> Iterator[Remedy]:
    """Yield the largest request, of one resource or of a machine, with which the pod fits."""
    if world.room.runs_machine(pod):
        size = world.room.amounts(pod)

        def smaller_machine(share: float) -> int:
            sizes = {key_of(pod): _scaled(size, share)}
            return _fits(PodWorld(cluster, scheduling, settings, now=now, sizes=sizes), pod)

        largest = _largest(smaller_machine)
        if largest is not None:
            share, count = largest
            words = SMALLER_MACHINE.format(
                share=int(share * 100), amount=describe(_scaled(size, share)), now=describe(size)
            )
            yield Remedy(words, count)
        return
    for resource, amount in _requests(pod).items():

        def smaller_request(share: float, resource: str = resource, amount: int = amount) -> int:
            return _fits(world, _requesting(pod, resource, int(amount * share)))

        largest = _largest(smaller_request)
        if largest is not None:
            most, count = _rounded(resource, int(amount * largest[0])), largest[1]
            for nicer in _nicer(resource, most, below=amount):
                if fits := _fits(world, _requesting(pod, resource, nicer)):
                    most, count = nicer, fits
                    break
            words = SMALLER_REQUEST.format(
                amount=describe({resource: most}), now=describe({resource: amount})
            )
            yield Remedy(words, count)


def _largest(fits: Callable[[float], int]) -> tuple[float, int] | None:
    """Return the largest share below 1 that fits, and on how many nodes; None if nothing fits."""
    low, high = 0.0, 1.0
    count = fits(low)
    if not count:
        return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        if fitting := fits(middle):
            low, count = middle, fitting
        else:
            high = middle
    return low, count


def _scaled(size: ResourceList, share: float) -> dict[str, int]:
    return {name: int(amount * share) for name, amount in size.items()}


def _nicer(resource: str, amount: int, *, below: int) -> Iterator[int]:
    """Yield amounts just above one that people would rather write, the most even one first."""
    steps = (1000, 500, 250, 100) if resource == CPU else [(1 << shift) * ONE for shift in (30, 29, 28, 26)]
    for step in steps:
        nicer = -(-amount // step) * step
        if amount < nicer < below:
            yield nicer


def _rounded(resource: str, amount: int) -> int:
    """Round down to what people write: hundredths of CPUs, MiB."""
    step = 10 if resource == CPU else (1 << 20) * ONE
    return amount // step * step


def _requests(pod: Pod) -> ResourceList:
    return {name: amount for name, amount in template_of(pod).requests.items() if amount and name != PODS}


def _requesting(pod: Pod, resource: str, amount: int) -> Pod:
    """Return the pod with a total request of one resource, all of it in its first container."""

    def without(container: Container) -> Container:
        requests = {k: v for k, v in (container.resources.requests or {}).items() if k != resource}
        return structs.replace(container, resources=ResourceRequirements(requests=requests))

    first, *rest = (without(container) for container in pod.spec.containers)
    requests = {**(first.resources.requests or {}), resource: f"{amount}m"}
    first = structs.replace(first, resources=ResourceRequirements(requests=requests))
    init = tuple(without(container) for container in pod.spec.initContainers)
    return _edited(pod, containers=(first, *rest), initContainers=init)


def _uncordoned(
    cluster: ClusterObjects, pod: Pod, scheduling: Scheduling, settings: MachineSettings, *, now: Micros
) -> Iterator[Remedy]:
    cordoned = [(key, node) for key, node in cluster.nodes.items() if node.spec.unschedulable]
    for key, node in cordoned[:MOST_UNCORDONED]:
        spec = NodeSpec(
            taints=tuple(t for t in node.spec.taints if t.key != "node.kubernetes.io/unschedulable")
        )
        changed = cluster.with_nodes({**cluster.nodes, key: structs.replace(node, spec=spec)})
        if count := _fits(PodWorld(changed, scheduling, settings, now=now), pod):
            yield Remedy(UNCORDON.format(node=node.metadata.name), count)
