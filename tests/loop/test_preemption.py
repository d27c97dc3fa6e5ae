"""A search for victims holds the event loop for a bounded time, whatever the nodes and their pods are."""

from functools import partial

import pytest

from fairway.api.pod import Pod
from fairway.api.pod_affinity import Affinity, PodAffinity, PodAffinityTerm
from fairway.api.pod_disruption_budget import PodDisruptionBudget, PodDisruptionBudgetSpec
from fairway.engine import cycle
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_workload
from hosts.nodes.builders import labelled, node, pod
from kubewire.api.meta import ObjectMeta
from loop.steps import NODES, Longest, check_bounded, longest_call

PODS_OF_NODE = 4
UNREACHABLE = PodAffinityTerm(labelSelector=labelled(app="none"), topologyKey="zone")
AFFINITY = Affinity(podAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(UNREACHABLE,)))


def fleet_of(nodes: int, *, guarded: bool = False) -> NodeFleet:
    """Return nodes that are full of pods of priority 0, all of which a budget protects if they are ``guarded``."""
    fleet = NodeFleet()
    fleet.load(
        node(f"n{at}", labels={"zone": f"z{at % 3}"}, ready="True", cpu="4", pods="110")
        for at in range(nodes)
    )
    for _ in fleet.load_pods(
        pod(f"p{at}-{number}", on=f"n{at}", labels={"app": "db"}, cpu="1")
        for at in range(nodes)
        for number in range(PODS_OF_NODE)
    ):
        continue
    if guarded:
        spec = PodDisruptionBudgetSpec(selector=labelled(app="db"))
        fleet.upsert_budget(PodDisruptionBudget(metadata=ObjectMeta(namespace="ns1", name="db"), spec=spec))
    return fleet


def search(nodes: int, incoming: Pod, *, guarded: bool = False, nominated: bool = False) -> Longest:
    fleet, profile = fleet_of(nodes, guarded=guarded), default_profile()
    if nominated:
        for at in range(nodes):
            fleet.nominate(pod(f"nominated{at}", cpu="3", spec={"priority": 10}), f"n{at}")
    workload = pod_workload(incoming)
    cycle.run(fleet.snapshot(), workload, profile, now=0)  # columns are created once
    return longest_call(lambda: cycle.run(fleet.snapshot(), workload, profile, now=0))


@pytest.mark.parametrize("guarded", [False, True])
def test_search_for_victims_is_bounded(guarded: bool) -> None:
    incoming = pod("new", cpu="3", spec={"priority": 10})
    check_bounded(partial(search, incoming=incoming, guarded=guarded), sizes=(1000, 2000), limit=NODES)


def test_search_where_no_eviction_helps_is_bounded() -> None:
    incoming = pod("new", cpu="3", spec={"priority": 10, "affinity": AFFINITY})
    check_bounded(partial(search, incoming=incoming), sizes=(100, 400), limit=NODES)


def test_search_among_nominated_pods_is_bounded() -> None:
    incoming = pod("new", cpu="3", spec={"priority": 10})
    check_bounded(partial(search, incoming=incoming, nominated=True), sizes=(100, 400), limit=NODES)
