"""Laws of the cycle: its outcome depends neither on how it is computed, nor on tracing, nor on the order of objects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs

from fairway.api.cluster import ManagedCluster, cluster_as_json
from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement, PlacementSpec, Toleration
from fairway.api.score import AddOnPlacementScore
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.trace import Trace
from fairway.hosts.clusters import Fleet
from fairway.hosts.hosts import FIRST_CAPACITY
from fairway.hosts.instant import SECOND
from fairway.hosts.journal import Journal
from fairway.testing import builders
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.alike import AlikePlacements
from fairway.workloads.placement.plugins.expressions import Expressions, Scores
from fairway.workloads.placement.plugins.trust import EXPIRED_SCORES, MISSING_SCORE
from kubecel import cluster_environment
from strategies import (
    EXPRESSIONS,
    NAMES,
    NOW_MICROS,
    ODD_AMOUNTS,
    SETS,
    any_value,
    cluster_scores,
    cluster_sets,
    clusters,
    decisions,
    identity,
    placements,
    scores,
    worlds,
)

EXAMPLES = settings(max_examples=20)


def _reasons(outcome: Outcome) -> list[tuple[str, str, int]]:
    return list(outcome.reasons())


def seen(outcome: Outcome) -> dict[str, Any]:
    """Return the whole outcome, by name."""
    details = outcome.details
    names = outcome.snapshot.hosts.names
    rows = details.rows.tolist()
    return {
        "status": outcome.status,
        "eligible": outcome.names(details.eligible),
        "stages": [(stage.plugin, outcome.names(stage.survivors)) for stage in details.stages],
        "totals": outcome.totals_by_name(),
        "derived": outcome.derive(_reasons),
        "scored": [
            (
                scored.plugin,
                scored.weight,
                {
                    names[row]: score
                    for at, (row, score) in enumerate(zip(rows, scored.scores.tolist(), strict=True))
                    if scored.present is None or scored.present[at]
                },
            )
            for scored in details.scored
        ],
        "selected": outcome.selected,
        "reasons": list(outcome.reasons()) if outcome.selected else [],
        "unscheduled": outcome.unscheduled,
        "wake": outcome.wake,
    }


@dataclass(frozen=True)
class Debit:
    placement: str
    cluster: str
    change: int
    namespace: str = "ns1"


debits = st.builds(
    Debit,
    placement=st.sampled_from(["p1", "other"]),
    cluster=st.sampled_from(NAMES),
    change=st.integers(-9, 9) | st.just(-60),
    namespace=st.sampled_from(["ns1", "ns1", "ns2", "ns3"]),
)


def apply_to(world: World, obj: object) -> None:
    if isinstance(obj, Debit):
        deltas = {("default", "cpu"): obj.change, ("default", "mem"): 1}
        world.fleet.debit((obj.namespace, obj.placement), [obj.cluster], deltas)
    else:
        world.put(obj)


@given(objects=worlds(), placement=placements(), debited=st.lists(debits, max_size=3))
@EXAMPLES
def test_whole_fleet_form_agrees_with_per_host_form(
    objects: list[object], placement: Placement, debited: list[Debit]
) -> None:
    workload = PlacementWorkload(placement)
    world = World(objects)
    for debit in debited:
        apply_to(world, debit)
    snapshot = world.fleet.snapshot()
    fast = cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS)
    slow = cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS, whole_fleet=False)
    assert seen(fast) == seen(slow)


@given(objects=worlds(), placement=placements())
@EXAMPLES
def test_trace_agrees_with_the_outcome_and_changes_nothing(
    objects: list[object], placement: Placement
) -> None:
    workload = PlacementWorkload(placement)
    snapshot = World(objects).fleet.snapshot()
    untraced = seen(cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS))
    outcome = cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS)
    traces = list(Trace(outcome))
    assert seen(outcome) == untraced
    assert seen(cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS)) == untraced

    assert sorted(trace.host for trace in traces) == sorted(snapshot.hosts.row_of)
    assert [trace.host for trace in traces if trace.selected] == outcome.selected
    totals = outcome.totals_by_name()
    for trace in traces:
        assert trace == Trace(outcome).host(trace.host)
        if trace.host in totals:
            assert trace.total == totals[trace.host] == sum(part.points for part in trace.contributions)
            assert not trace.rejected_by
            assert trace.selected or trace.reason
        else:
            assert not trace.selected
            assert trace.reason or outcome.status.aborts


@given(objects=worlds(), placement=placements(), data=st.data())
@EXAMPLES
def test_order_of_input_does_not_matter(
    objects: list[object], placement: Placement, data: st.DataObject
) -> None:
    objects = [*objects, placement]
    shuffled = data.draw(st.permutations(objects))
    key = (placement.metadata.namespace, placement.metadata.name)
    first, second = World(objects), World(shuffled)
    assert seen(first.place(key, now=NOW_MICROS).outcome) == seen(second.place(key, now=NOW_MICROS).outcome)
    assert first.decisions("ns1") == second.decisions("ns1")
    assert first.placements == second.placements


@given(objects=worlds(decided=False), placement=placements())
@EXAMPLES
def test_second_cycle_without_change_writes_nothing(objects: list[object], placement: Placement) -> None:
    """Starting from no decisions, and with Steady not turned against itself, which the strategies never do."""
    world = World([*objects, placement])
    key = (placement.metadata.namespace, placement.metadata.name)
    first = world.place(key, now=NOW_MICROS)
    before = dict(world.decisions("ns1")), dict(world.placements)
    second = world.decide(key, now=NOW_MICROS)
    assert second.outcome.selected == first.outcome.selected
    assert world.plan(key, second, now=NOW_MICROS).empty or world.workload(key).idle
    world.place(key, now=NOW_MICROS)
    assert (dict(world.decisions("ns1")), dict(world.placements)) == before


@given(objects=worlds(), placement=placements())
@EXAMPLES
def test_pages_hold_exactly_the_selected_clusters(objects: list[object], placement: Placement) -> None:
    world = World([*objects, placement])
    key = (placement.metadata.namespace, placement.metadata.name)
    verdict = world.place(key, now=NOW_MICROS)
    if verdict.status.aborts:
        return
    written = [name for page in verdict.pages for name in page.clusters]
    assert sorted(written) == sorted(verdict.outcome.selected)
    mine: list[PlacementDecision] = [world.decisions("ns1")[page.name] for page in verdict.pages]
    assert [decision.clusterName for page in mine for decision in page.status.decisions] == written
    assert sum(group.clusterCount for group in verdict.groups) == len(written)


@given(objects=worlds(), text=st.sampled_from(EXPRESSIONS))
@EXAMPLES
def test_expression_depends_only_on_the_fields_it_reads(objects: list[object], text: str) -> None:
    """Expressions get only the fields they read; the outcome equals that for the whole cluster."""
    snapshot = World(objects).fleet.snapshot()
    program = cluster_environment().compile(text)
    for row in snapshot.hosts.row_of.values():
        whole = {"managedCluster": cluster_as_json(snapshot.cluster(row))}
        outcome = program.evaluate(whole, context=Scores(snapshot))
        assert Expressions((text,)).matches(snapshot, row) == (
            outcome.value is True and outcome.error is None
        )


changes = st.one_of(clusters(), scores(), cluster_scores(), decisions())


def identity_or_debit(obj: object) -> object:
    return obj if isinstance(obj, Debit) else identity(obj)


@given(
    objects=worlds(),
    placement=placements(),
    steps=st.lists(
        st.tuples(
            st.lists(st.one_of(changes, debits), max_size=2, unique_by=identity_or_debit),
            st.sampled_from([0, 0, 3, 30]),
        ),
        max_size=6,
    ),
)
@settings(max_examples=50)
def test_remembered_cycles_agree_with_fresh_ones(
    objects: list[object], placement: Placement, steps: list[tuple[list[object], int]]
) -> None:
    """After any changes, and as time passes."""
    world = World(objects)
    workload = PlacementWorkload(placement)
    memory = Memory()
    now = NOW_MICROS
    memory.run(world.fleet.snapshot(), workload, default_profile(), now=now)
    for things, seconds in steps:
        for obj in things:
            apply_to(world, obj)
        now += seconds * SECOND
        remembered = memory.run(world.fleet.snapshot(), workload, default_profile(), now=now)
        fresh = cycle.run(world.fleet.snapshot(), workload, default_profile(), now=now)
        assert seen(remembered) == seen(fresh)


FILLERS = tuple(builders.cluster(f"filler-{at:03d}") for at in range(FIRST_CAPACITY - 4))
"""Members of no set, so that a few clusters more make the fleet grow."""

bindings = st.sampled_from(SETS).map(builders.binding)
things = st.one_of(
    clusters(amounts=ODD_AMOUNTS), scores(any_value), cluster_scores(), decisions(), cluster_sets(), bindings
)


USUAL = (
    builders.placement(
        spec=PlacementSpec(
            numberOfClusters=2,
            prioritizerPolicy=builders.policy(
                builders.addon("cpu"),
                builders.builtin("ResourceAllocatableCPU", 2),
                builders.builtin("ResourceRatioCPU", -1),
            ),
        )
    ),
    builders.placement(
        spec=PlacementSpec(
            numberOfClusters=1,
            predicates=(
                builders.predicate(cel=['managedCluster.scores("default").exists(s, s.value > 0)']),
                builders.predicate(cel=['managedCluster.metadata.labels["env"] == "prod"']),
                builders.predicate(claims=[builders.requirement("zone", "In", "a")]),
            ),
        )
    ),
    builders.placement(
        spec=PlacementSpec(
            numberOfClusters=3,
            tolerations=(
                Toleration(key="gpu", operator="Exists", tolerationSeconds=10),
                Toleration(key="gpu", value="a", tolerationSeconds=700),
            ),
            prioritizerPolicy=builders.policy(
                builders.builtin("TaintPreference"), builders.addon("mem", 5), mode="Exact"
            ),
        )
    ),
    builders.placement(
        spec=PlacementSpec(
            numberOfClusters=2,
            prioritizerPolicy=builders.policy(
                builders.addon("cpu"),
                builders.addon("mem", -2, resource="other"),
                builders.builtin("Latency", 3),
                mode="Exact",
            ),
        ),
        annotations={MISSING_SCORE: "worst"},
    ),
    builders.placement(
        spec=PlacementSpec(
            numberOfClusters=2,
            prioritizerPolicy=builders.policy(
                builders.addon("cpu"), builders.addon("cpu", -1, resource="other"), mode="Exact"
            ),
        ),
        annotations={MISSING_SCORE: "default/cpu=exclude,worst"},
    ),
    builders.placement(
        spec=PlacementSpec(
            numberOfClusters=2,
            predicates=(
                builders.predicate(cel=['managedCluster.scores("default").exists(s, s.value > 0)']),
                builders.predicate(cel=['managedCluster.scores("other").size() > 0 || false']),
            ),
        ),
        annotations={EXPIRED_SCORES: "absent"},
    ),
)
"""Placements that between them read about everything, and whose cycles can be followed."""


class HubMachine(RuleBasedStateMachine):
    """One fleet, several placements with a memory, and kept outcomes."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.fleet._journal = Journal(limit=8)
        self.model: dict[tuple[str, str, str], Any] = {}
        self.memory = Memory(alike=AlikePlacements(default_profile()))
        self.now = NOW_MICROS
        self.workloads: list[PlacementWorkload] = []
        self.kept: list[tuple[Outcome, dict[str, Any]]] = []

    @initialize(objects=worlds(), drawn=placements(), growing=st.booleans(), one_by_one=st.booleans())
    def fill(self, objects: list[Any], drawn: Placement, growing: bool, one_by_one: bool) -> None:
        objects = [*(FILLERS if growing else ()), *objects]
        self.model = {identity(obj): obj for obj in objects}
        self.workloads = [
            PlacementWorkload(structs.replace(obj, metadata=structs.replace(obj.metadata, name=f"p{at}")))
            for at, obj in enumerate((*USUAL, drawn, *USUAL[3:5], drawn))  # some of them are alike
        ]
        if not one_by_one:
            fill(self.fleet, objects)
        else:
            for obj in objects:
                put(self.fleet, obj)

    @rule(changed=st.lists(things, min_size=1, max_size=3))
    def change(self, changed: list[Any]) -> None:
        for obj in changed:
            put(self.fleet, obj)
            self.model[identity(obj)] = obj

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        there = sorted(key for key in self.model if "filler" not in key[2])
        if there:
            delete(self.fleet, self.model.pop(data.draw(st.sampled_from(there))))

    @rule(data=st.data())
    def load_again(self, data: st.DataObject) -> None:
        """All clusters go, and then some come back at once, in another order."""
        there = [cluster for cluster in self.model.values() if isinstance(cluster, ManagedCluster)]
        for cluster in there:
            delete(self.fleet, self.model.pop(identity(cluster)))
        back = data.draw(st.lists(st.sampled_from(there), unique_by=identity)) if there else []
        self.fleet.load(back)
        self.model.update((identity(obj), obj) for obj in back)

    @rule(changed=st.lists(scores(), max_size=3, unique_by=identity))
    def load_scores(self, changed: list[Any]) -> None:
        self.fleet.load_scores(changed)
        self.model.update((identity(score), score) for score in changed)

    @rule(seconds=st.sampled_from([-5, 1, 5, 30]))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule()
    def keep(self) -> None:
        """Keep an outcome of the present fleet to read it later. Parts of it are computed only then."""
        for workload in self.workloads:
            outcome = self.memory.run(self.fleet.snapshot(), workload, default_profile(), now=self.now)
            self.kept = [*self.kept[-3:], (outcome, self.fresh(workload))]

    @rule()
    def ask_the_past(self) -> None:
        """A cycle on a kept snapshot has the same outcome as before, and does not change the memory."""
        for outcome, then in self.kept[:1]:
            workload, now = outcome.context.workload, outcome.context.now
            again = self.memory.run(outcome.snapshot, workload, outcome.profile, now=now)
            assert seen(again) == then

    @rule()
    def release_outcomes(self) -> None:
        for outcome, then in self.kept:
            assert seen(outcome) == then
        self.kept.clear()

    @invariant()
    def remembered_is_as_fresh(self) -> None:
        for workload in self.workloads:
            outcome = self.memory.run(self.fleet.snapshot(), workload, default_profile(), now=self.now)
            assert seen(outcome) == self.fresh(workload)

    def fresh(self, workload: PlacementWorkload) -> dict[str, Any]:
        """Return the outcome of a cycle on a new fleet."""
        fleet = Fleet()
        fill(fleet, list(self.model.values()))
        return seen(cycle.run(fleet.snapshot(), workload, default_profile(), now=self.now))


def fill(fleet: Fleet, objects: list[Any]) -> None:
    fleet.load(obj for obj in objects if isinstance(obj, ManagedCluster))
    fleet.load_scores(obj for obj in objects if isinstance(obj, AddOnPlacementScore))
    for obj in objects:
        if not isinstance(obj, ManagedCluster | AddOnPlacementScore):
            put(fleet, obj)


def put(fleet: Fleet, obj: Any) -> None:
    UPSERTS[obj.kind](fleet, obj)


def delete(fleet: Fleet, obj: Any) -> None:
    name, namespace = obj.metadata.name, obj.metadata.namespace
    match obj.kind:
        case "ManagedCluster":
            fleet.delete_cluster(name)
        case "ManagedClusterSet":
            fleet.delete_set(name)
        case "ManagedClusterSetBinding":
            fleet.delete_binding(namespace, name)
        case "AddOnPlacementScore":
            fleet.delete_score(namespace, name)
        case "ManagedClusterScore":
            fleet.delete_cluster_score(namespace, name.removeprefix(f"{namespace}-"))
        case "PlacementDecision":
            fleet.delete_decision(namespace, name)


UPSERTS: dict[str, Callable[[Fleet, Any], object]] = {
    "ManagedCluster": Fleet.upsert_cluster,
    "ManagedClusterSet": Fleet.upsert_set,
    "ManagedClusterSetBinding": Fleet.upsert_binding,
    "AddOnPlacementScore": Fleet.upsert_score,
    "ManagedClusterScore": Fleet.upsert_cluster_score,
    "PlacementDecision": Fleet.upsert_decision,
}

HubMachine.TestCase.settings = settings(max_examples=10, stateful_step_count=20)
TestHub = HubMachine.TestCase
