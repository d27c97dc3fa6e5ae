"""Pods per second of the engine alone."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any, Final

from fairway.api.node import Node, NodeCondition, NodeStatus
from fairway.api.pod import Container, Pod, PodSpec, Quantities, ResourceRequirements
from fairway.api.pod_affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from fairway.engine.commit.instructions import Bound, RunBind
from fairway.engine.points import CommitContext
from fairway.engine.profile import Enabled, build_profile
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Status
from fairway.engine.workload import HostKey
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import pod_registry, pod_workload
from fairway.workloads.pods.profile import POD_KIND
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector

ROUNDS = 3
ZONES = 10
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}
SELECTOR = LabelSelector(matchLabels={"app": "bench"})

Scenario = Callable[[int], dict[str, Any]]
"""Returns the fields of the PodSpec of the pod with this number."""


def affinity(*, topology_key: str, anti: bool = False, required: bool = True) -> dict[str, Any]:
    term = PodAffinityTerm(topologyKey=topology_key, labelSelector=SELECTOR)
    if required:
        rules = PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,))
    else:
        weighted = WeightedPodAffinityTerm(weight=1, podAffinityTerm=term)
        rules = PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=(weighted,))
    return {"affinity": Affinity(podAntiAffinity=rules) if anti else Affinity(podAffinity=rules)}


def spread(*, action: str) -> dict[str, Any]:
    constraint = TopologySpreadConstraint(
        maxSkew=5, topologyKey=ZONE, whenUnsatisfiable=action, labelSelector=SELECTOR
    )
    return {"topologySpreadConstraints": (constraint,)}


def requesting(cpu: str) -> dict[str, Any]:
    requests: Quantities = {"cpu": cpu, "memory": "500Mi"}
    return {"containers": (Container(name="c", resources=ResourceRequirements(requests=requests)),)}


def different(number: int) -> dict[str, Any]:
    return requesting(f"{100 + number}m")


SCENARIOS: Final[dict[str, Scenario]] = {
    "pods alike": lambda _: {},
    "each pod different": different,
    "required topology spread over zones": lambda _: spread(action="DoNotSchedule"),
    "required anti-affinity by host": lambda _: affinity(topology_key=HOST, anti=True),
    "required affinity by zone": lambda _: affinity(topology_key=ZONE),
    "preferred topology spread over zones": lambda _: spread(action="ScheduleAnyway"),
    "preferred anti-affinity by host": lambda _: affinity(topology_key=HOST, anti=True, required=False),
    "preferred affinity by zone": lambda _: affinity(topology_key=ZONE, required=False),
}


class AtOnce:
    name = "AtOnce"

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK  # the benchmark answers for the coroutine


def pod(name: str, app: str, fields: dict[str, Any]) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests=dict(REQUESTS)))
    return Pod(
        metadata=ObjectMeta(namespace="bench", name=name, uid=name, labels={"app": app}),
        spec=PodSpec(**{"containers": (container,), **fields}),
    )


def node(number: int) -> Node:
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return Node(
        metadata=ObjectMeta(
            name=f"node-{number}",
            uid=f"uid-{number}",
            labels={HOST: f"node-{number}", ZONE: f"zone-{number % ZONES}"},
        ),
        status=NodeStatus(
            capacity=dict(resources),
            allocatable=dict(resources),
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
    )


def fleet_of(*, nodes: int) -> NodeFleet:
    fleet = NodeFleet()
    fleet.load(map(node, range(nodes)))
    for number in range(nodes):
        fleet.upsert_pod(pod(f"old-{number}", "old", {"nodeName": f"node-{number}"}))
    return fleet


def host_key(node: Node) -> HostKey:
    return HostKey(node.metadata.name, node.metadata.uid)


def scheduler_of(fleet: NodeFleet) -> Scheduler:
    registry = pod_registry(fleet=fleet)
    registry.register(AtOnce.name, AtOnce)
    spec = POD_KIND.spec(name="bench")
    points = {**spec.points, "Reserve": (Enabled("AssumePod"),), "Bind": (Enabled(AtOnce.name),)}
    profile = build_profile(replace(spec, points=points), registry)
    return Scheduler(profiles=[profile], profile_name=lambda _: "bench", host_key=host_key)


def measure(scenario: Scenario, *, nodes: int, pods: int) -> tuple[float, float]:
    """Return pods per second, the median of several runs, and the share of incremental cycles."""
    rates: list[float] = []
    followed = 0.0
    for _ in range(ROUNDS):
        fleet = fleet_of(nodes=nodes)
        scheduler = scheduler_of(fleet)
        for number in range(pods):
            scheduler.put(pod_workload(pod(f"new-{number}", "bench", scenario(number))), now=0)
        start = time.perf_counter()
        bound = place(scheduler, fleet)
        rates.append(bound / (time.perf_counter() - start))
        assert bound == pods, f"{bound} of {pods} pods were bound"
        followed = scheduler._memory.followed / pods
    return median(rates), followed


def place(scheduler: Scheduler, fleet: NodeFleet) -> int:
    bound = 0
    while (tried := scheduler.schedule_one(fleet.snapshot(), now=bound)) is not None:
        _, runs = tried
        del tried
        if not runs:
            continue
        (run,) = runs
        assert isinstance(run, RunBind)
        (result,) = scheduler.finished(run.key, run.token, OK, now=bound)
        assert isinstance(result, Bound)
        scheduler.observed(result.key, result.hosts, now=bound)
        bound += 1
    return bound
