"""Scores of nodes, computed by hand, beyond the recorded answers."""

from typing import Any

import pytest

from fairway.api.pod import ImageVolume, Pod, Volume
from fairway.api.pod_affinity import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from fairway.engine import cycle
from fairway.engine.errors import PluginArgsError
from fairway.engine.profile import build_profile
from fairway.engine.status import Code
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_registry, pod_workload
from fairway.workloads.pods.plugins.node_affinity import INVALID
from fairway.workloads.pods.profile import POD_KIND
from hosts.nodes.builders import labelled, node, pod
from workloads.pods.plugins.test_filters import fleet_of, usable

MIB = 1 << 20


def scores(fleet: NodeFleet, incoming: Pod, plugin: str, **args: Any) -> dict[str, int] | None:
    """Return the normalised scores of a plugin; None if it skipped the pod."""
    profile = build_profile(POD_KIND.spec(args={plugin: args}), pod_registry())
    outcome = cycle.run(fleet.snapshot(), pod_workload(incoming), profile, now=0)
    (scored,) = (score for score in outcome.details.scored if score.plugin == plugin)
    names = [outcome.snapshot.hosts.names[row] for row in outcome.details.rows.tolist()]
    return None if scored.skipped else dict(zip(names, scored.scores.tolist(), strict=True))


SHAPE = [{"utilization": 0, "score": 10}, {"utilization": 50, "score": 3}, {"utilization": 100, "score": 0}]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, {"n1": 62, "n2": 88}),
        ({"type": "MostAllocated"}, {"n1": 37, "n2": 11}),
        (
            # 50 % of CPU scores 30, 25 % of memory 100 - 70 * 25 / 50 = 65.
            {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}},
            {"n1": 48, "n2": 85},
        ),
        ({"resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]}, {"n1": 56, "n2": 85}),
        ({"resources": [{"name": "cpu"}, {"name": "example.com/gpu", "weight": 9}]}, {"n1": 50, "n2": 83}),
    ],
    ids=["least", "most", "ratio", "weights", "extended resource that the pod does not request"],
)
def test_fit_scores_by_the_strategy(strategy: dict[str, Any], expected: dict[str, int]) -> None:
    fleet = fleet_of(
        usable("n1", **{"memory": "4Gi", "example.com/gpu": "4"}),
        usable("n2", cpu="6"),
        pods=(pod("a", on="n1", cpu="1", memory="512Mi"),),
    )
    new = pod("new", cpu="1", memory="512Mi")
    assert scores(fleet, new, "NodeResourcesFit", scoring_strategy=strategy) == expected


def test_pods_without_requests_count_defaults_when_nodes_are_scored() -> None:
    fleet = fleet_of(usable("n1", cpu="1", memory="1000Mi"), pods=(pod("a", on="n1"),))
    assert scores(fleet, pod("new"), "NodeResourcesFit") == {"n1": (80 + 60) // 2}


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ({"type": "Best"}, "scoringStrategy.type must be one of LeastAllocated, MostAllocated"),
        ({"resources": [{"name": "cpu", "weight": 101}]}, "the weight of cpu must be from 1 to 100; got 101"),
        (
            {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE[::-1]}},
            "shape must have points with increasing utilization",
        ),
    ],
)
def test_invalid_scoring_strategy_is_rejected(strategy: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginArgsError, match=message):
        build_profile(
            POD_KIND.spec(args={"NodeResourcesFit": {"scoring_strategy": strategy}}), pod_registry()
        )


def test_balanced_allocation_skips_pods_without_requests() -> None:
    fleet = fleet_of(usable("n1"))
    assert scores(fleet, pod("new"), "NodeResourcesBalancedAllocation") is None
    assert scores(fleet, pod("new", cpu="1"), "NodeResourcesBalancedAllocation") == {"n1": 68}


@pytest.mark.parametrize(
    ("used", "requests", "expected"),
    [
        ({"cpu": "5"}, {"memory": "2560Mi"}, 50 + (50 + 87 - 75) // 2),
        ({}, {"cpu": "10"}, 50 + (50 + 50 - 100) // 2),
    ],
)
def test_balanced_allocation_compares_with_and_without_the_pod(
    used: dict[str, Any], requests: dict[str, Any], expected: int
) -> None:
    fleet = fleet_of(usable("n1", cpu="10", memory="10Gi"), pods=(pod("p", on="n1", **used),))
    assert scores(fleet, pod("new", **requests), "NodeResourcesBalancedAllocation") == {"n1": expected}


def test_images_count_by_size_and_by_the_share_of_nodes_that_have_them() -> None:
    fleet = fleet_of(usable("n1", images={"a:1": 1000 * MIB, "b:latest": 500 * MIB}), usable("n2"))
    assert scores(fleet, pod("new", image="a:1"), "ImageLocality") == {"n1": (500 - 23) * 100 // 977, "n2": 0}
    assert scores(fleet, pod("new", image="b"), "ImageLocality") == {"n1": (250 - 23) * 100 // 977, "n2": 0}
    volume = Volume(name="v", image=ImageVolume(reference="a:1"))
    both = pod("new", image="b", spec={"volumes": (volume,)})
    assert scores(fleet, both, "ImageLocality") == {"n1": (750 - 23) * 100 // 1977, "n2": 0}


def preference(weight: int, key: str, operator: str = "Exists", *values: str) -> PreferredSchedulingTerm:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    return PreferredSchedulingTerm(
        weight=weight, preference=NodeSelectorTerm(matchExpressions=(requirement,))
    )


def preferring(*terms: PreferredSchedulingTerm) -> dict[str, Any]:
    rules = NodeAffinity(preferredDuringSchedulingIgnoredDuringExecution=terms)
    return {"affinity": Affinity(nodeAffinity=rules)}


def test_preferred_node_affinity_scores_by_weight() -> None:
    fleet = fleet_of(usable("n1", labels={"a": "", "b": ""}), usable("n2", labels={"b": ""}), usable("n3"))
    points = scores(
        fleet, pod("new", spec=preferring(preference(20, "a"), preference(10, "b"))), "NodeAffinity"
    )
    assert points == {"n1": 100, "n2": 33, "n3": 0}
    assert scores(fleet, pod("new"), "NodeAffinity") is None


def test_invalid_preference_ends_the_cycle_with_an_error() -> None:
    wrong = pod("new", spec=preferring(preference(1, "a", "Gt", "x")))
    outcome = cycle.run(fleet_of(usable("n1")).snapshot(), pod_workload(wrong), default_profile(), now=0)
    assert (outcome.status.code, outcome.status.message) == (Code.ERROR, INVALID)


def test_invalid_preference_is_no_error_while_no_node_is_feasible() -> None:
    wrong = pod("new", spec=preferring(preference(1, "a", "Gt", "x")), cpu="8")
    outcome = cycle.run(fleet_of(usable("n1")).snapshot(), pod_workload(wrong), default_profile(), now=0)
    assert not outcome.status.aborts
    assert not outcome.totals_by_name()


def affinity(*, weight: int = 0, anti: bool = False) -> dict[str, Any]:
    """Return a required term, or with a weight a preferred one."""
    term = PodAffinityTerm(topologyKey="zone", labelSelector=labelled(app="web"))
    weighted = (WeightedPodAffinityTerm(weight=weight, podAffinityTerm=term),) if weight else ()
    rules = PodAffinity(
        requiredDuringSchedulingIgnoredDuringExecution=() if weight else (term,),
        preferredDuringSchedulingIgnoredDuringExecution=weighted,
    )
    return {"affinity": Affinity(podAntiAffinity=rules) if anti else Affinity(podAffinity=rules)}


def zones(*pods: Pod) -> NodeFleet:
    return fleet_of(*(usable(name, labels={"zone": name}) for name in ("a", "b", "c")), pods=pods)


def test_preferred_affinity_scores_in_both_directions() -> None:
    web = pod("p", on="a", labels={"app": "web"})
    assert scores(zones(web), pod("new", spec=affinity(weight=5)), "InterPodAffinity") == {
        "a": 100,
        "b": 0,
        "c": 0,
    }
    fleet = zones(
        web, pod("q", on="b", spec=affinity(weight=5)), pod("r", on="c", spec=affinity(weight=5, anti=True))
    )
    new = pod("new", labels={"app": "web"})
    assert scores(fleet, new, "InterPodAffinity") == {"a": 50, "b": 100, "c": 0}
    assert scores(fleet, new, "InterPodAffinity", ignore_preferred_terms_of_existing_pods=True) is None
    assert scores(zones(web), new, "InterPodAffinity") is None


def test_required_affinity_of_pods_on_nodes_attracts_by_the_hard_weight() -> None:
    fleet = zones(
        pod("p", on="a", labels={"app": "web"}, spec=affinity()), pod("q", on="b", spec=affinity(weight=2))
    )
    new = pod("new", labels={"app": "web"})
    assert scores(fleet, new, "InterPodAffinity") == {"a": 50, "b": 100, "c": 0}
    assert scores(fleet, new, "InterPodAffinity", hard_pod_affinity_weight=4) == {"a": 100, "b": 50, "c": 0}
    assert scores(fleet, new, "InterPodAffinity", hard_pod_affinity_weight=0) == {"a": 0, "b": 100, "c": 0}
    with pytest.raises(PluginArgsError, match="hardPodAffinityWeight must be from 0 to 100; got 101"):
        scores(fleet, new, "InterPodAffinity", hard_pod_affinity_weight=101)


def test_preferred_spread_scores_domains_with_fewer_pods_higher_and_nodes_without_label_lowest() -> None:
    constraint = TopologySpreadConstraint(
        maxSkew=1, topologyKey="zone", whenUnsatisfiable="ScheduleAnyway", labelSelector=labelled(app="web")
    )
    fleet = zones(*(pod(f"p{at}", on=on, labels={"app": "web"}) for at, on in enumerate("aab")))
    fleet.upsert_node(node("d", ready="True", pods="9"))
    new = pod("new", spec={"topologySpreadConstraints": (constraint,)})
    # The raw scores are 2, 1 and 0 times log(3 + 2), rounded: 3, 2 and 0.
    assert scores(fleet, new, "PodTopologySpread") == {"a": 0, "b": 33, "c": 100, "d": 0}
    assert scores(fleet, pod("new"), "PodTopologySpread") is None
