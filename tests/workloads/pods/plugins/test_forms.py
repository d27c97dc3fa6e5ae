"""Laws of the plugins for pods: the form of computation makes no difference."""

from collections import Counter
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from fairway.api.node import Node, NodeTaint
from fairway.api.pod import Pod
from fairway.api.pod_affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from fairway.engine import cycle
from fairway.engine.alike import AlikeMemory
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Enabled, Profile, build_profile, plugins_of
from fairway.hosts import bitmap
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_registry, pod_workload
from fairway.workloads.pods.plugins.nominated_pods import NominatedPods
from fairway.workloads.pods.profile import POD_KIND
from hosts.nodes.builders import node, pod
from kubewire.api.selector import LabelSelector
from workloads.pods.plugins.strategies import HOST, apps, constraints, fleets, nodes, pod_affinities, pods

SHAPE = [{"utilization": 0, "score": 2}, {"utilization": 40, "score": 9}, {"utilization": 100, "score": 1}]
RESOURCES = [{"name": "cpu", "weight": 3}, {"name": "memory"}, {"name": "nvidia.com/gpu", "weight": 2}]
STRATEGIES: tuple[dict[str, Any], ...] = (
    {},
    {"type": "MostAllocated", "resources": RESOURCES},
    {"type": "LeastAllocated", "resources": RESOURCES},
    {
        "type": "RequestedToCapacityRatio",
        "resources": RESOURCES,
        "requestedToCapacityRatio": {"shape": SHAPE},
    },
)
PROFILE = default_profile()
PROFILES = [
    build_profile(
        POD_KIND.spec(
            args={
                "NodeResourcesFit": {"scoring_strategy": strategy},
                "NodeResourcesBalancedAllocation": {"resources": strategy.get("resources")},
            }
        ),
        pod_registry(),
    )
    for strategy in STRATEGIES
]


def fleet_of(objects: tuple[list[Node], list[Pod]]) -> NodeFleet:
    fleet = NodeFleet()
    fleet.load(objects[0])
    fleet.upsert_namespace("ns1", {"team": "a"})
    for object_ in objects[1]:
        fleet.upsert_pod(object_)
    return fleet


def seen(outcome: Outcome) -> dict[str, Any]:
    details = outcome.details
    return {
        "status": outcome.status,
        "eligible": outcome.names(details.eligible),
        "stages": [(stage.plugin, outcome.names(stage.survivors)) for stage in details.stages],
        "rows": details.rows.tolist(),
        "scored": [(score.plugin, score.skipped, score.scores.tolist()) for score in details.scored],
        "selected": outcome.selected,
    }


@given(objects=fleets(), pod=pods(), profile=st.sampled_from(PROFILES))
def test_whole_fleet_form_of_pod_plugins_agrees_with_per_node_form(
    objects: tuple[list[Node], list[Pod]], pod: Pod, profile: Any
) -> None:
    snapshot = fleet_of(objects).snapshot()
    fast = cycle.run(snapshot, pod_workload(pod), profile, now=0)
    slow = cycle.run(snapshot, pod_workload(pod), profile, now=0, whole_fleet=False)
    assert seen(fast) == seen(slow)
    assert all(0 <= score <= 100 for scored in fast.details.scored for score in scored.scores.tolist())


@given(objects=fleets(), pod=pods(), profile=st.sampled_from(PROFILES))
def test_grouped_rejections_of_pod_plugins_agree_with_per_node_form(
    objects: tuple[list[Node], list[Pod]], pod: Pod, profile: Any
) -> None:
    outcome = cycle.run(fleet_of(objects).snapshot(), pod_workload(pod), profile, now=0)
    if outcome.status.rejects or outcome.status.aborts:
        return
    details, plugins = outcome.details, outcome.plugins
    groups = cycle.filter_groups(outcome.context, plugins.filters, details.eligible, details.stages)
    statuses = {row: status for status, rows in groups for row in rows.tolist()}
    assert sum(len(rows) for _, rows in groups) == len(statuses)
    single = {
        row: status
        for row in bitmap.rows_of(details.eligible).tolist()
        if (status := cycle.rejection(outcome.context, plugins, row)) is not None
    }
    assert statuses == single


NOMINATING = POD_KIND.spec().without("DefaultPreemption")


def nominating_profile(fleet: NodeFleet) -> Profile:
    registry = pod_registry()
    registry.register(NominatedPods.name, lambda: NominatedPods(fleet=fleet), kind=NominatedPods)
    enabled = (Enabled(NominatedPods.name),)
    points = {point: (*NOMINATING.points[point], *enabled) for point in ("PreFilter", "Filter")}
    profile = build_profile(replace(NOMINATING, points={**NOMINATING.points, **points}), registry)
    for plugin in plugins_of(profile):
        if isinstance(plugin, NominatedPods):
            plugin.attach(profile)
    return profile


@given(objects=fleets(), pod=pods(), nominated=st.lists(pods(), max_size=2), data=st.data())
def test_nominated_pods_agree_in_both_forms_and_count_like_pods_on_the_node(
    objects: tuple[list[Node], list[Pod]], pod: Pod, nominated: list[Pod], data: st.DataObject
) -> None:
    fleet, names = fleet_of(objects), [object_.metadata.name for object_ in objects[0]]
    profile = nominating_profile(fleet)
    for at, nominated_pod in enumerate(nominated if names else ()):
        waiting = structs.replace(
            nominated_pod, metadata=structs.replace(nominated_pod.metadata, name=f"nominated-{at}")
        )
        fleet.nominate(waiting, data.draw(st.sampled_from(names)))
    snapshot, workload = fleet.snapshot(), pod_workload(pod)
    fast = cycle.run(snapshot, workload, profile, now=0)
    slow = cycle.run(snapshot, workload, profile, now=0, whole_fleet=False)
    assert seen(fast) == seen(slow)
    alone = cycle.run(snapshot, workload, default_profile(), now=0)
    assert set(fast.details.rows.tolist()) <= set(alone.details.rows.tolist())


@given(objects=fleets(), templates=st.lists(pods(), min_size=1, max_size=2), data=st.data())
@settings(max_examples=15)
def test_pods_that_follow_alike_ones_are_placed_as_by_full_cycles(
    objects: tuple[list[Node], list[Pod]], templates: list[Pod], data: st.DataObject
) -> None:
    fleet, memory = fleet_of(objects), AlikeMemory()
    for at in range(6):
        chosen = templates[data.draw(st.integers(0, len(templates) - 1))]
        pod = structs.replace(chosen, metadata=structs.replace(chosen.metadata, name=f"new-{at}"))
        workload = pod_workload(pod)
        snapshot = fleet.snapshot()
        followed = memory.run(snapshot, workload, PROFILE, now=0)
        full = cycle.run(snapshot, workload, PROFILE, now=0)
        assert (followed.selected, followed.status) == (full.selected, full.status)
        if full.selected:
            spec = structs.replace(pod.spec, nodeName=full.selected[0])
            fleet.upsert_pod(structs.replace(pod, spec=spec))
        if data.draw(st.integers(0, 3)) == 0:
            fleet.upsert_node(data.draw(nodes(data.draw(st.sampled_from(["n0", "n1", "n9"])))))
        if objects[1] and data.draw(st.integers(0, 5)) == 0:
            gone = objects[1][0].metadata
            fleet.delete_pod(gone.namespace, gone.name)


def test_alike_pods_follow_each_other_where_only_the_last_node_changed() -> None:
    fleet, memory = NodeFleet(), AlikeMemory()
    fleet.load([node(f"n{at}", ready="True", cpu="4", memory="8Gi", pods="110") for at in range(4)])
    for at in range(8):
        chosen = memory.run(fleet.snapshot(), pod_workload(pod(f"p{at}", cpu="1")), PROFILE, now=0).selected
        fleet.upsert_pod(pod(f"p{at}", on=chosen[0], cpu="1"))
    assert memory.followed == 6  # all but the first two


def sharing_pods() -> st.SearchStrategy[Pod]:
    """Return pods whose terms and constraints match pods like them, so that each changes the results of the next."""
    required = constraints.filter(lambda constraint: constraint.whenUnsatisfiable == "DoNotSchedule")
    return st.builds(
        lambda app, affinity, anti, spread: pod(
            "new",
            labels={"app": app},
            cpu="100m",
            spec={
                "affinity": Affinity(podAffinity=affinity, podAntiAffinity=anti),
                "topologySpreadConstraints": spread,
            },
        ),
        apps,
        st.none() | pod_affinities,
        st.none() | pod_affinities,
        st.lists(required, max_size=2).map(tuple),
    )


@given(templates=st.lists(sharing_pods(), min_size=1, max_size=3), data=st.data())
@settings(max_examples=25)
def test_pods_that_share_domains_with_alike_ones_are_placed_as_by_full_cycles(
    templates: list[Pod], data: st.DataObject
) -> None:
    fleet, memory = NodeFleet(), AlikeMemory()
    fleet.load(zoned_nodes(6))
    fleet.upsert_namespace("ns1", {"team": "a"})
    placed: list[Pod] = []
    for at in range(16):
        chosen = data.draw(st.sampled_from(templates))
        given_pod = structs.replace(chosen, metadata=structs.replace(chosen.metadata, name=f"new-{at}"))
        workload, snapshot = pod_workload(given_pod), fleet.snapshot()
        followed = memory.run(snapshot, workload, PROFILE, now=0)
        full = cycle.run(snapshot, workload, PROFILE, now=0)
        assert (followed.selected, followed.status) == (full.selected, full.status)
        if full.selected:
            spec = structs.replace(given_pod.spec, nodeName=full.selected[0])
            placed.append(structs.replace(given_pod, spec=spec))
            fleet.upsert_pod(placed[-1])
        if placed and data.draw(st.integers(0, 3)) == 0:
            gone = placed.pop(data.draw(st.integers(0, len(placed) - 1))).metadata
            fleet.delete_pod(gone.namespace, gone.name)
        if data.draw(st.integers(0, 9)) == 0:
            fleet.upsert_node(data.draw(nodes(data.draw(st.sampled_from(["n0", "n1", "n9"])))))


def zoned_nodes(count: int) -> list[Node]:
    return [
        node(
            f"n{at}",
            labels={HOST: f"n{at}", "zone": f"z{at % 3}"},
            ready="True",
            cpu="4",
            memory="8Gi",
            pods="110",
        )
        for at in range(count)
    ]


SELECTOR = LabelSelector(matchLabels={"app": "web"})
BY_ZONE = PodAffinity(
    requiredDuringSchedulingIgnoredDuringExecution=(
        PodAffinityTerm(topologyKey="zone", labelSelector=SELECTOR),
    )
)
BY_HOST = PodAffinity(
    requiredDuringSchedulingIgnoredDuringExecution=(
        PodAffinityTerm(topologyKey=HOST, labelSelector=SELECTOR),
    )
)
PREFERRED_BY_HOST = PodAffinity(
    preferredDuringSchedulingIgnoredDuringExecution=(
        WeightedPodAffinityTerm(
            weight=1, podAffinityTerm=PodAffinityTerm(topologyKey=HOST, labelSelector=SELECTOR)
        ),
    )
)
SPREAD = TopologySpreadConstraint(
    maxSkew=1, topologyKey="zone", whenUnsatisfiable="DoNotSchedule", labelSelector=SELECTOR
)


@pytest.mark.parametrize(
    ("spec", "zones", "most"),
    [
        ({"topologySpreadConstraints": (SPREAD,)}, 3, 1),
        ({"affinity": Affinity(podAntiAffinity=BY_HOST)}, 3, 1),
        ({"affinity": Affinity(podAntiAffinity=PREFERRED_BY_HOST)}, 3, 1),
        ({"affinity": Affinity(podAffinity=BY_ZONE)}, 1, 3),
    ],
    ids=["spread", "anti-affinity", "preferred-anti-affinity", "affinity"],
)
def test_alike_pods_that_share_domains_follow_each_other(spec: dict[str, Any], zones: int, most: int) -> None:
    fleet, memory = NodeFleet(), AlikeMemory()
    fleet.load(zoned_nodes(12))
    labels = {"app": "web"}
    for at in range(12):
        given_pod = pod(f"p{at}", labels=labels, spec=spec)
        (chosen,) = memory.run(fleet.snapshot(), pod_workload(given_pod), PROFILE, now=0).selected
        fleet.upsert_pod(pod(f"p{at}", on=chosen, labels=labels, spec=spec))
    on = [name for name, on_node in fleet.snapshot().pods.nodes().items() for _ in on_node.pods]
    assert len({int(name[1:]) % 3 for name in on}) == zones
    assert max(Counter(on).values()) == most
    assert memory.followed >= 8


class AlikePods:
    """Pods of an app that are alike, on nodes in three zones."""

    def __init__(self, *, nodes: int, **spec: Any) -> None:
        self.fleet, self.memory, self.spec = NodeFleet(), AlikeMemory(), spec
        self.fleet.load(zoned_nodes(nodes))

    def select(self, name: str) -> list[str]:
        asking = pod(name, labels={"app": "web"}, spec=self.spec)
        return self.memory.run(self.fleet.snapshot(), pod_workload(asking), PROFILE, now=0).selected


def test_spread_that_honors_taints_counts_again_when_a_node_is_tainted() -> None:
    honors = structs.replace(SPREAD, nodeTaintsPolicy="Honor")
    alike = AlikePods(nodes=4, topologySpreadConstraints=(honors,))
    for at, cpu in enumerate(("2", "1", "2")):
        alike.fleet.upsert_pod(pod(f"present{at}", on=f"n{at}", labels={"app": "web"}, cpu=cpu))
    alike.fleet.upsert_pod(pod("other", on="n3", cpu="2"))
    assert [alike.select(name) for name in "abc"] == [["n1"]] * 3
    tainted = zoned_nodes(1)[0]
    taints = (NodeTaint(key="k", effect="NoSchedule"),)
    alike.fleet.upsert_node(structs.replace(tainted, spec=structs.replace(tainted.spec, taints=taints)))
    assert alike.select("d") == ["n3"], "the pod on the tainted node does not count in its zone"


def test_first_pod_of_an_affinity_decides_the_zone_of_those_that_follow() -> None:
    alike = AlikePods(nodes=2, affinity=Affinity(podAffinity=BY_ZONE))
    assert [alike.select(name) for name in "abc"] == [["n0"]] * 3
    alike.fleet.upsert_pod(pod("first", on="n1", labels={"app": "web"}, cpu="2"))
    assert alike.select("d") == ["n1"]


def test_alike_pods_with_preferred_spread_do_not_follow() -> None:
    constraint = TopologySpreadConstraint(maxSkew=1, topologyKey="zone", whenUnsatisfiable="ScheduleAnyway")
    fleet, memory = NodeFleet(), AlikeMemory()
    fleet.load([node("n1", ready="True", pods="110")])
    for at in range(4):
        given = pod(f"p{at}", spec={"topologySpreadConstraints": (constraint,)})
        assert memory.run(fleet.snapshot(), pod_workload(given), PROFILE, now=0).selected == ["n1"]
    assert memory.followed == 0
