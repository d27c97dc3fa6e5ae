"""Preemption plans the eviction of the least important pods without which a pod fits, and changes nothing."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from msgspec import structs

from fairway.api.node import NodeTaint
from fairway.api.persistent_volume import (
    BIND_COMPLETED,
    READ_WRITE_ONCE_POD,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
)
from fairway.api.pod import ContainerPort, Pod, PodCondition, Volume
from fairway.api.pod_affinity import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from fairway.api.pod_disruption_budget import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Enabled, Profile, build_profile, plugins_of
from fairway.engine.status import Code
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_registry, pod_workload
from fairway.workloads.pods.plugins.default_preemption import (
    NEVER_PREEMPTS,
    NO_VICTIMS,
    NOT_HELPFUL,
    VICTIMS_TERMINATE,
    Preemption,
)
from fairway.workloads.pods.plugins.nominated_pods import NominatedPods
from fairway.workloads.pods.profile import POD_KIND
from hosts.nodes.builders import labelled, node, pod
from kubewire.api.meta import ObjectMeta

PROFILE = default_profile()


def test_claim_of_one_pod_is_taken_from_a_pod_of_lower_priority_wherever_it_runs() -> None:
    """Only one of many nodes helps: it is found although nodes are not examined one by one."""
    volumes = msgspec.convert(
        [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}], tuple[Volume, ...]
    )
    fleet = fleet_of(nodes=300)
    for at in range(300):
        fleet.upsert_pod(running(f"low-{at}", f"n{at}", cpu="1"))
    metadata = ObjectMeta(namespace="ns1", name="c", annotations={BIND_COMPLETED: "yes"})
    spec = PersistentVolumeClaimSpec(accessModes=(READ_WRITE_ONCE_POD,), volumeName="v")
    fleet.upsert_claim(PersistentVolumeClaim(metadata=metadata, spec=spec))
    fleet.upsert_volume(PersistentVolume(metadata=ObjectMeta(name="v")))
    fleet.upsert_pod(running("holder", "n217", spec={"volumes": volumes}))
    new = pod("new", spec={"priority": 10, "volumes": volumes})
    plan = Preemption.of(cycle.run(fleet.snapshot(), pod_workload(new), PROFILE, now=0))
    assert plan is not None
    assert (plan.node, [victim.metadata.name for victim in plan.victims]) == ("n217", ["holder"])
    fleet.upsert_pod(running("holder", "n217", priority=20, spec={"volumes": volumes}))
    assert Preemption.of(cycle.run(fleet.snapshot(), pod_workload(new), PROFILE, now=0)) is None


def running(name: str, on: str, *, priority: int = 0, hour: int = 0, spec: Any = None, **more: Any) -> Pod:
    given = pod(name, on=on, spec={"priority": priority, **(spec or {})}, **more)
    started = datetime(2026, 1, 1, hour, tzinfo=UTC)
    return structs.replace(given, status=structs.replace(given.status, startTime=started))


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(namespace="ns1", name=name),
        spec=PodDisruptionBudgetSpec(selector=labelled(**labels)),
        status=PodDisruptionBudgetStatus(disruptionsAllowed=allowed),
    )


def fleet_of(*pods: Pod, nodes: int = 2, cpu: str = "4") -> NodeFleet:
    fleet = NodeFleet()
    fleet.load(
        [node(f"n{at}", labels={"zone": f"z{at}"}, ready="True", cpu=cpu, pods="110") for at in range(nodes)]
    )
    for other in pods:
        fleet.upsert_pod(other)
    return fleet


def preempt(fleet: NodeFleet, incoming: Pod) -> tuple[Outcome, str, list[str]]:
    """Return the outcome, the node and the victims."""
    outcome = cycle.run(fleet.snapshot(), pod_workload(incoming), PROFILE, now=0)
    assert outcome.selected == []
    plan = Preemption.of(outcome)
    if plan is None:
        return outcome, "", []
    assert outcome.relief is not None
    assert outcome.relief.code is Code.SUCCESS
    return outcome, plan.node, [victim.metadata.name for victim in plan.victims]


def incoming(priority: int = 10, **more: Any) -> Pod:
    spec = {"priority": priority, **more.pop("spec", {})}
    return pod("new", spec=spec, **more)


def nominating_profile(fleet: NodeFleet) -> Profile:
    """Return the default profile, in which nominated pods count."""
    registry, spec = pod_registry(), POD_KIND.spec()
    registry.register(NominatedPods.name, lambda: NominatedPods(fleet=fleet), kind=NominatedPods)
    enabled = (Enabled(NominatedPods.name),)
    points = {point: (*spec.points[point], *enabled) for point in ("PreFilter", "Filter")}
    profile = build_profile(replace(spec, points={**spec.points, **points}), registry)
    for plugin in plugins_of(profile):
        if isinstance(plugin, NominatedPods):
            plugin.attach(profile)
    return profile


def test_fewest_and_least_important_pods_are_evicted() -> None:
    fleet = fleet_of(
        running("a", "n0", priority=1, cpu="1"),
        running("b", "n0", priority=3, cpu="1"),
        running("c", "n0", priority=2, cpu="2"),
        nodes=1,
    )
    assert preempt(fleet, incoming(cpu="1"))[1:] == ("n0", ["a"])
    assert preempt(fleet, incoming(cpu="3"))[1:] == ("n0", ["c", "a"])
    assert preempt(fleet, incoming(priority=3, cpu="3"))[1:] == ("n0", ["c", "a"])


def test_pod_of_equal_priority_is_no_victim() -> None:
    fleet = fleet_of(running("a", "n0", priority=10, cpu="4"), nodes=1)
    outcome, node_name, _ = preempt(fleet, incoming(cpu="1"))
    assert node_name == ""
    assert outcome.relief is not None
    assert outcome.relief.reasons == (f"preemption: 0/1 nodes are available: 1 {NO_VICTIMS}.",)


def test_younger_pods_are_evicted_first() -> None:
    fleet = fleet_of(running("old", "n0", cpu="2", hour=1), running("young", "n0", cpu="2", hour=2), nodes=1)
    assert preempt(fleet, incoming(cpu="2"))[2] == ["young"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 2}, {"priority": 1}),
        ({"hour": 1}, {"hour": 2}),
    ],
    ids=["lower top priority", "later start"],
)
def test_node_whose_victim_matters_less_is_chosen(first: dict[str, Any], second: dict[str, Any]) -> None:
    for one, other in (("n0", "n1"), ("n1", "n0")):
        fleet = fleet_of(running("first", one, cpu="4", **first), running("second", other, cpu="4", **second))
        assert preempt(fleet, incoming(cpu="1"))[1:] == (other, ["second"])


@pytest.mark.parametrize(("one", "other"), [("n0", "n1"), ("n1", "n0")])
def test_node_where_a_younger_pod_is_enough_is_chosen(one: str, other: str) -> None:
    fleet = fleet_of(
        running("a", one, cpu="4", hour=5),
        running("old", other, cpu="2", hour=1),
        running("young", other, cpu="2", hour=9),
    )
    assert preempt(fleet, incoming(cpu="2"))[1:] == (other, ["young"])


def test_node_with_fewer_victims_is_chosen() -> None:
    fleet = fleet_of(
        running("a", "n0", cpu="2"),
        running("b", "n0", cpu="2"),
        running("c", "n1", priority=-(2**31) + 1, cpu="4"),
    )
    # The sum of priorities decides before the number of victims, and counts each victim.
    assert preempt(fleet, incoming(cpu="4"))[1:] == ("n1", ["c"])


def test_node_without_violation_of_a_disruption_budget_is_chosen() -> None:
    fleet = fleet_of(
        running("guarded", "n0", priority=1, labels={"app": "db"}, cpu="4"),
        running("free", "n1", priority=5, cpu="4"),
    )
    fleet.upsert_budget(budget("db", 0, app="db"))
    assert preempt(fleet, incoming(cpu="1"))[1:] == ("n1", ["free"])
    fleet.upsert_budget(budget("db", 1, app="db"))
    assert preempt(fleet, incoming(cpu="1"))[1:] == ("n0", ["guarded"])
    fleet.upsert_budget(budget("db", 0, app="db"))
    fleet.delete_budget("ns1", "db")
    assert preempt(fleet, incoming(cpu="1"))[1:] == ("n0", ["guarded"])


@pytest.mark.parametrize(("guarded", "free"), [("n0", "n1"), ("n1", "n0")])
def test_more_candidates_are_searched_while_all_violate_a_budget(guarded: str, free: str) -> None:
    one = {"min_candidate_nodes_percentage": 0, "min_candidate_nodes_absolute": 1}
    profile = build_profile(POD_KIND.spec(args={"DefaultPreemption": one}), pod_registry())
    fleet = fleet_of(
        running("a", guarded, labels={"app": "db"}, cpu="4"), running("b", free, priority=5, cpu="4")
    )
    fleet.upsert_budget(budget("db", 0, app="db"))
    outcome = cycle.run(fleet.snapshot(), pod_workload(incoming(cpu="1")), profile, now=0)
    plan = Preemption.of(outcome)
    assert plan is not None
    assert plan.node == free


def test_pods_with_a_budget_are_reprieved_first_though_less_important() -> None:
    fleet = fleet_of(
        running("guarded", "n0", priority=1, labels={"app": "db"}, cpu="2"),
        running("free", "n0", priority=5, cpu="2"),
        nodes=1,
    )
    fleet.upsert_budget(budget("db", 0, app="db"))
    assert preempt(fleet, incoming(cpu="2"))[2] == ["free"]
    outcome, _, victims = preempt(fleet, incoming(cpu="4"))
    assert victims == ["free", "guarded"]
    plan = Preemption.of(outcome)
    assert plan is not None
    assert plan.violations == 1


def test_budget_is_shared_by_all_its_pods() -> None:
    pods = [running(f"p{at}", "n0", labels={"app": "db"}, cpu="2") for at in range(2)]
    fleet = fleet_of(*pods, nodes=1)
    fleet.upsert_budget(budget("db", 1, app="db"))
    plan = Preemption.of(preempt(fleet, incoming(cpu="4"))[0])
    assert plan is not None
    assert (len(plan.victims), plan.violations) == (2, 1)


def test_eviction_that_would_not_help_is_not_planned() -> None:
    fleet = fleet_of(running("a", "n1", cpu="4"))
    fleet.upsert_node(
        node("n0", ready="True", taints=(NodeTaint(key="k", effect="NoSchedule"),), cpu="4", pods="110")
    )
    outcome, node_name, _ = preempt(fleet, incoming(cpu="5"))
    assert node_name == ""
    assert outcome.relief is not None
    assert outcome.relief.reasons == (f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}.",)


def test_reasons_count_the_nodes_that_lack_room_even_without_pods_of_lower_priority() -> None:
    fleet = fleet_of(
        *(running(f"low{at}", f"n{at}", cpu="1") for at in range(3)),
        *(running(f"high{at}", f"n{at}", priority=20, cpu="3") for at in range(2)),
        nodes=3,
    )
    fleet.upsert_pod(running("more", "n2", priority=20, cpu="3", ports=(ContainerPort(hostPort=80),)))
    outcome, _, _ = preempt(fleet, incoming(cpu="2", ports=(ContainerPort(hostPort=80),)))
    assert outcome.relief is not None
    reasons = "1 node(s) didn't have free ports for the requested pod ports, 2 Insufficient cpu"
    assert outcome.relief.reasons == (f"preemption: 0/3 nodes are available: {reasons}.",)


def test_victims_make_room_for_ports_spread_and_anti_affinity() -> None:
    port = ContainerPort(hostPort=80)
    fleet = fleet_of(running("a", "n0", ports=(port,)), nodes=1)
    assert preempt(fleet, incoming(ports=(port,)))[2] == ["a"]

    term = PodAffinityTerm(topologyKey="zone", labelSelector=labelled(app="web"))
    anti = Affinity(podAntiAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,)))
    fleet = fleet_of(running("b", "n0", labels={"app": "web"}), nodes=1)
    assert preempt(fleet, incoming(spec={"affinity": anti}))[2] == ["b"]
    fleet = fleet_of(running("c", "n0", spec={"affinity": anti}), nodes=1)
    assert preempt(fleet, incoming(labels={"app": "web"}))[2] == ["c"]

    constraint = TopologySpreadConstraint(
        maxSkew=1, topologyKey="zone", whenUnsatisfiable="DoNotSchedule", labelSelector=labelled(app="web")
    )
    fleet = fleet_of(running("d", "n0", labels={"app": "web"}), running("e", "n1", cpu="4", priority=20))
    spread = incoming(labels={"app": "web"}, spec={"topologySpreadConstraints": (constraint,)}, cpu="1")
    assert preempt(fleet, spread)[1:] == ("n0", ["d"])


def test_pod_with_preemption_policy_never_waits() -> None:
    fleet = fleet_of(running("a", "n0", cpu="4"), nodes=1)
    outcome, _, victims = preempt(fleet, incoming(spec={"preemptionPolicy": "Never"}, cpu="1"))
    assert victims == []
    assert outcome.relief is not None
    assert outcome.relief.reasons == (NEVER_PREEMPTS,)


def test_pod_waits_for_the_victims_on_its_nominated_node() -> None:
    condition = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    victim = running("a", "n0", terminating=True, cpu="4")
    victim = structs.replace(victim, status=structs.replace(victim.status, conditions=(condition,)))
    nominated = incoming(cpu="1")
    nominated = structs.replace(nominated, status=structs.replace(nominated.status, nominatedNodeName="n0"))
    outcome, _, victims = preempt(fleet_of(victim, nodes=1), nominated)
    assert victims == []
    assert outcome.relief is not None
    assert outcome.relief.reasons == (VICTIMS_TERMINATE,)
    fleet = fleet_of(victim, running("b", "n1", cpu="4"))
    fleet.upsert_node(
        node("n0", ready="True", taints=(NodeTaint(key="k", effect="NoSchedule"),), cpu="4", pods="110")
    )
    assert preempt(fleet, nominated)[1:] == ("n1", ["b"]), "its nominated node cannot take it any more"


def test_node_to_which_another_pod_is_nominated_may_be_chosen() -> None:
    fleet = fleet_of(running("a", "n0", cpu="4"), nodes=1)
    fleet.nominate(pod("other", cpu="1"), "n0")
    assert preempt(fleet, incoming(cpu="1"))[1:] == ("n0", ["a"])


def test_preemption_leaves_the_fleet_unchanged() -> None:
    fleet = fleet_of(running("a", "n0", cpu="4"), nodes=1)
    before = fleet.generation
    preempt(fleet, incoming(cpu="1"))
    assert fleet.generation == before
    assert preempt(fleet, incoming(cpu="1"))[2] == ["a"]


def test_wrong_number_of_candidates_is_rejected() -> None:
    spec = POD_KIND.spec(args={"DefaultPreemption": {"min_candidate_nodes_percentage": 101}})
    with pytest.raises(Exception, match="minCandidateNodesPercentage must be from 0 to 100; got 101"):
        build_profile(spec, pod_registry())


@given(
    pods=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from(["500m", "1", "2"]), st.booleans()),
        max_size=9,
    ),
    cpu=st.sampled_from(["1", "2", "3"]),
    priority=st.integers(0, 4),
)
@settings(max_examples=40)
def test_pod_fits_after_its_victims_are_gone_and_not_with_any_of_them(
    pods: list[tuple[int, int, str, bool]], cpu: str, priority: int
) -> None:
    fleet = fleet_of(
        *(
            running(f"p{at}", f"n{on}", priority=rank, labels={"app": "db"} if guarded else None, cpu=asked)
            for at, (on, rank, asked, guarded) in enumerate(pods)
        ),
        nodes=3,
        cpu="3",
    )
    fleet.upsert_budget(budget("db", 1, app="db"))
    workload = pod_workload(incoming(priority=priority, cpu=cpu))
    plan = Preemption.of(cycle.run(fleet.snapshot(), workload, PROFILE, now=0))
    if plan is None:
        return
    assert all((other.spec.priority or 0) < priority for other in plan.victims)
    for victim in plan.victims:
        fleet.delete_pod("ns1", victim.metadata.name)
    assert plan.node in cycle.run(fleet.snapshot(), workload, PROFILE, now=0).totals_by_name()
    for victim in plan.victims:
        fleet.upsert_pod(victim)
        assert plan.node not in cycle.run(fleet.snapshot(), workload, PROFILE, now=0).totals_by_name()
        fleet.delete_pod("ns1", victim.metadata.name)


ANTI_AFFINITY = Affinity(
    podAntiAffinity=PodAffinity(
        requiredDuringSchedulingIgnoredDuringExecution=(
            PodAffinityTerm(topologyKey="zone", labelSelector=labelled(app="web")),
        )
    )
)
SPREAD = TopologySpreadConstraint(
    maxSkew=1, topologyKey="zone", whenUnsatisfiable="DoNotSchedule", labelSelector=labelled(app="web")
)


def rank_of(plan: Preemption) -> tuple[float, ...]:
    """Return what decides between nodes, but not the order in which they are examined."""
    ranks = [victim.spec.priority or 0 for victim in plan.victims]
    started = [
        victim.status.startTime.timestamp()
        for victim in plan.victims
        if (victim.spec.priority or 0) == max(ranks) and victim.status.startTime is not None
    ]
    return plan.violations, max(ranks), sum(ranks) + len(ranks) * 2**31, len(ranks), -min(started)


@given(
    pods=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 2),
            st.sampled_from(["500m", "1", "2"]),
            st.sampled_from(["db", "web"]),
            st.integers(0, 3),
            st.sampled_from([None, {"affinity": ANTI_AFFINITY}]),
        ),
        max_size=14,
    ),
    cpu=st.sampled_from(["1", "2", "3"]),
    spec=st.sampled_from(
        [{}, {}, {"affinity": ANTI_AFFINITY}, {"topologySpreadConstraints": (SPREAD,)}],
    ),
    allowed=st.integers(0, 2),
    nominated=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(2, 4),
            st.sampled_from(["500m", "1", "2"]),
            st.sampled_from([{}, {}, {"affinity": ANTI_AFFINITY}]),
        ),
        max_size=3,
    ),
)
@settings(max_examples=60)
def test_chosen_node_is_the_best_of_the_plans_for_each_node(
    pods: list[tuple[int, int, str, str, int, Any]],
    cpu: str,
    spec: dict[str, Any],
    allowed: int,
    nominated: list[tuple[int, int, str, dict[str, Any]]],
) -> None:
    fleet = fleet_of(
        *(
            running(f"p{at}", f"n{on}", priority=rank, labels={"app": app}, cpu=asked, hour=hour, spec=fields)
            for at, (on, rank, asked, app, hour, fields) in enumerate(pods)
        ),
        nodes=4,
        cpu="3",
    )
    fleet.upsert_budget(budget("db", allowed, app="db"))
    profile = nominating_profile(fleet)
    for at, (on, rank, asked, fields) in enumerate(nominated):
        fleet.nominate(
            pod(f"nominated{at}", labels={"app": "web"}, cpu=asked, spec={"priority": rank, **fields}),
            f"n{on}",
        )

    def run(**more: str) -> Outcome:
        given_pod = incoming(priority=3, cpu=cpu, labels={"app": "web"}, spec=spec, **more)
        return cycle.run(fleet.snapshot(), pod_workload(given_pod), profile, now=0)

    outcome = run()
    if outcome.selected:
        return
    alone = [plan for at in range(4) if (plan := Preemption.of(run(on=f"n{at}"))) is not None]
    chosen = Preemption.of(outcome)
    assert (None if chosen is None else rank_of(chosen)) == min(map(rank_of, alone), default=None)
