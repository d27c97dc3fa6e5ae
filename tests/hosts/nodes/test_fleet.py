"""Nodes with their pods as a table: cells, reported changes, and a model that recounts from the objects."""

from typing import Any, cast

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from fairway.api.node import Node, NodeTaint
from fairway.api.pod import ContainerPort, Pod
from fairway.api.pod_affinity import Affinity, PodAffinity, PodAffinityTerm
from fairway.hosts.column import MEMBERSHIP, CountColumn, Key
from fairway.hosts.direction import Direction
from fairway.hosts.journal import NOTHING
from fairway.hosts.nodes import NodeFleet, NodeSnapshot, cells
from fairway.hosts.nodes import fleet as fleet_module
from fairway.hosts.nodes.pod_columns import (
    NAMESPACES,
    POD_TERMS,
    host_port,
    of_lower_priority,
    of_nominated,
    scoring_requested,
)
from fairway.hosts.nodes.pod_selection import PodQuery, TermKind
from fairway.hosts.nodes.pod_template import template_of
from fairway.hosts.resources import allocatable, requested
from fairway.hosts.steps import finish
from hosts.nodes.builders import labelled, node, pod
from kubewire.api.selector import compile_selector

RESOURCES = ("cpu", "memory", "pods")


def test_requests_of_pods_are_summed_in_milli_units() -> None:
    fleet = NodeFleet()
    fleet.load([node("n1", cpu="4", memory="1Ki", pods="110")])
    fleet.upsert_pod(pod("a", on="n1", cpu="500m", memory="10"))
    fleet.upsert_pod(pod("b", on="n1", cpu="1"))
    view = fleet.snapshot()
    assert [int(view.counts(requested(resource)).values[0]) for resource in RESOURCES] == [1500, 10_000, 2000]
    assert [int(view.counts(allocatable(resource)).values[0]) for resource in RESOURCES] == [
        4000,
        1_024_000,
        110_000,
    ]


def test_finished_pod_frees_its_requests_at_once() -> None:
    fleet = NodeFleet()
    fleet.upsert_node(node("n1"))
    fleet.upsert_pod(pod("a", on="n1", cpu="2"))
    fleet.snapshot().counts(requested("cpu"))
    change = fleet.upsert_pod(pod("a", on="n1", phase="Succeeded", cpu="2"))
    assert set(change.columns.values()) == {Direction.DOWN}
    assert {requested("cpu"), requested("pods"), scoring_requested("memory")} <= change.columns.keys()
    assert change.hosts == ("n1",)
    assert int(fleet.snapshot().counts(requested("cpu")).values[0]) == 0


def test_pods_that_are_loaded_count_like_single_ones() -> None:
    term = PodAffinityTerm(topologyKey="zone", labelSelector=labelled(app="web"))
    anti = Affinity(podAntiAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,)))
    pods = [
        pod(f"p{at}", on=("", "n1", "n2", "gone")[at % 4], cpu="1", spec={"priority": at, "affinity": anti})
        for at in range(70)
    ]
    pods.append(pod("finished", on="n1", phase="Failed", cpu="1"))
    one, other = NodeFleet(), NodeFleet()
    for fleet in (one, other):
        fleet.load([node("n1"), node("n2")])
        fleet.snapshot().counts(requested("cpu"))
    finish(one.load_pods(pods))
    for loaded in pods:
        other.upsert_pod(loaded)
    for fleet in (one, other):
        fleet.delete_pod("ns1", "p0")
        fleet.delete_pod("ns1", "p1")
        fleet.upsert_node(node("gone"))
    first, second = one.snapshot(), other.snapshot()
    for resource in RESOURCES:
        assert (
            first.counts(requested(resource)).values.tolist()
            == second.counts(requested(resource)).values.tolist()
        )
    assert first.pods.nodes() == second.pods.nodes()
    assert first.pods.lowest_priority == second.pods.lowest_priority == 2
    kind = TermKind.REQUIRED_ANTI_AFFINITY
    assert first.pods.terms(kind) == second.pods.terms(kind)


def test_pod_of_unknown_node_counts_once_the_node_arrives() -> None:
    fleet = NodeFleet()
    fleet.upsert_node(node("other"))
    fleet.snapshot().counts(requested("cpu"))
    assert fleet.upsert_pod(pod("a", on="n1", cpu="2")).rows == ()
    assert requested("cpu") in fleet.upsert_node(node("n1")).columns
    view = fleet.snapshot()
    assert int(view.counts(requested("cpu")).values[view.hosts.row_of["n1"]]) == 2000


def test_pod_that_moves_or_grows_reports_both_nodes_and_directions() -> None:
    fleet = NodeFleet()
    fleet.load([node("n1"), node("n2")])
    fleet.upsert_pod(pod("a", on="n1", cpu="2", memory="1"))
    grown = fleet.upsert_pod(pod("a", on="n1", cpu="3"))
    assert grown.columns == {
        requested("cpu"): Direction.UP,
        scoring_requested("cpu"): Direction.UP,
        requested("memory"): Direction.DOWN,
        scoring_requested("memory"): Direction.UP,  # from one byte to the default
    }
    moved = fleet.upsert_pod(pod("a", on="n2", cpu="3"))
    assert (set(moved.hosts), moved.columns[requested("cpu")]) == ({"n1", "n2"}, Direction.ANY)
    assert fleet.upsert_pod(pod("a", on="n2", cpu="3")) is NOTHING
    assert fleet.delete_pod("ns1", "never-was") is NOTHING


def test_node_change_reports_its_columns() -> None:
    fleet = NodeFleet()
    fleet.load([node("n1", cpu="2")])
    fleet.snapshot().counts(allocatable("cpu"))
    taint = NodeTaint(key="k", effect="NoSchedule")
    change = fleet.upsert_node(node("n1", labels={"zone": "a"}, taints=(taint,), unschedulable=True, cpu="1"))
    assert change.columns == {
        allocatable("cpu"): Direction.DOWN,
        cells.label("zone"): Direction.ANY,
        cells.TAINTS: Direction.ANY,
        cells.UNSCHEDULABLE: Direction.ANY,
    }
    view = fleet.snapshot()
    assert view.codes(cells.TAINTS).value(0) == (taint,)
    assert view.codes(cells.UNSCHEDULABLE).value(0) is True
    assert MEMBERSHIP in fleet.delete_node("n1").columns


def test_status_of_a_pod_that_changes_nothing_for_scheduling_is_no_change() -> None:
    fleet = NodeFleet()
    fleet.load([node("n1")])
    fleet.upsert_pod(pod("a", on="n1", phase="Pending", cpu="1"))
    assert fleet.upsert_pod(pod("a", on="n1", phase="Running", cpu="1")) is NOTHING


def test_first_and_last_pod_with_an_affinity_term_report_a_change_of_all_terms() -> None:
    term = PodAffinityTerm(topologyKey="zone", labelSelector=labelled(app="web"))
    anti = Affinity(podAntiAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,)))
    fleet = NodeFleet()
    fleet.load([node("n1")])
    assert POD_TERMS in fleet.upsert_pod(pod("a", on="n1", spec={"affinity": anti})).columns
    assert POD_TERMS not in fleet.upsert_pod(pod("b", on="n1", spec={"affinity": anti})).columns
    (key,) = fleet.snapshot().pods.terms(TermKind.REQUIRED_ANTI_AFFINITY)
    assert int(fleet.snapshot().counts(key).values[0]) == 2
    assert POD_TERMS not in fleet.delete_pod("ns1", "a").columns
    assert POD_TERMS in fleet.delete_pod("ns1", "b").columns


def test_change_of_namespace_labels_is_reported_once() -> None:
    fleet = NodeFleet()
    assert fleet.upsert_namespace("ns1", {"team": "a"}).columns == {NAMESPACES: Direction.ANY}
    assert fleet.upsert_namespace("ns1", {"team": "a"}) is NOTHING
    held = fleet.snapshot()
    assert fleet.delete_namespace("ns1").columns == {NAMESPACES: Direction.ANY}
    assert fleet.delete_namespace("ns1") is NOTHING
    assert held.namespaces == {"ns1": {"team": "a"}}


def test_number_of_matching_columns_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "MATCHING_LIMIT", 4)
    fleet = NodeFleet()
    fleet.load([node("n1")])
    for at in range(9):
        fleet.upsert_pod(pod(f"p{at}", on="n1", labels={"app": f"a{at}"}))
        key = matching(app=f"a{at}").key()
        assert int(fleet.snapshot().counts(key).values[0]) == 1
    first = matching(app="a0").key()
    fleet.upsert_pod(pod("more", on="n1", labels={"app": "a0"}))
    assert int(fleet.snapshot().counts(first).values[0]) == 2


def test_pods_that_differ_in_names_only_share_a_template() -> None:
    one, other = pod("a", labels={"app": "x"}, cpu="1"), pod("b", labels={"app": "x"}, cpu="1")
    assert template_of(one) is template_of(other)
    assert template_of(one) is not template_of(pod("a", labels={"app": "x"}, cpu="2"))
    assert template_of(one) is not template_of(pod("a", labels={"app": "x"}, terminating=True, cpu="1"))


def matching(*, terminating: bool = False, **labels: str) -> PodQuery:
    return PodQuery(((frozenset({"ns1"}), compile_selector(labelled(**labels))),), terminating=terminating)


names = st.sampled_from(["n1", "n2", "n3"])
amounts = st.sampled_from(["0", "1", "500m", "2500m", "1Gi", "7E", "odd"])
resources = st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts)
nodes = st.builds(
    lambda name, labels, unschedulable, given: node(
        name, labels=labels, unschedulable=unschedulable, **given
    ),
    names,
    st.dictionaries(st.just("zone"), st.sampled_from("ab")),
    st.booleans(),
    resources,
)
PORT = ContainerPort(hostPort=80)
pods = st.builds(
    lambda name, on, phase, app, terminating, ports, given: pod(
        name, on=on, phase=phase, labels={"app": app}, terminating=terminating, ports=ports, **given
    ),
    st.sampled_from(["p1", "p2", "p3"]),
    st.one_of(st.just(""), names),
    st.sampled_from(["Running", "Running", "Succeeded", "Failed"]),
    st.sampled_from(["web", "db"]),
    st.booleans(),
    st.sampled_from([(), (PORT,)]),
    resources,
)
WEB, WEB_OR_TERMINATING = matching(app="web").key(), matching(app="web", terminating=True).key()
KEYS: tuple[Key, ...] = (
    WEB,
    WEB_OR_TERMINATING,
    host_port("TCP", 80),
    *(requested(name) for name in RESOURCES),
    *(allocatable(name) for name in ("cpu", "memory")),
    cells.label("zone"),
    cells.UNSCHEDULABLE,
)


def contents(view: NodeSnapshot, keys: tuple[Key, ...] = KEYS) -> dict[str, dict[Key, Any]]:
    return {
        name: {
            key: view.codes(key).value(row)
            if key[0] == cells.LABEL or key == cells.UNSCHEDULABLE
            else int(view.counts(key).values[row])
            for key in keys
        }
        for name, row in view.hosts.row_of.items()
    }


class NodeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fleet = NodeFleet()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.held: list[tuple[NodeSnapshot, dict[str, dict[Key, Any]]]] = []

    @rule(object_=nodes)
    def upsert_node(self, object_: Node) -> None:
        self.fleet.upsert_node(object_)
        self.nodes[object_.metadata.name] = object_

    @rule(name=names)
    def delete_node(self, name: str) -> None:
        self.fleet.delete_node(name)
        self.nodes.pop(name, None)

    @rule(object_=pods)
    def upsert_pod(self, object_: Pod) -> None:
        self.fleet.upsert_pod(object_)
        self.pods[object_.metadata.name] = object_

    @rule(name=st.sampled_from(["p1", "p2", "p3"]))
    def delete_pod(self, name: str) -> None:
        self.fleet.delete_pod("ns1", name)
        self.pods.pop(name, None)

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=3))
    def hold(self, keys: list[Key]) -> None:
        """Read only some columns now; the others must be as of now when read later."""
        view = self.fleet.snapshot()
        contents(view, tuple(keys))
        self.held = [*self.held[-1:], (view, self.recounted())]

    @invariant()
    def columns_equal_a_recount_from_the_objects(self) -> None:
        assert contents(self.fleet.snapshot()) == self.recounted()

    @invariant()
    def held_snapshots_are_as_they_were(self) -> None:
        for view, then in self.held:
            assert contents(view) == then

    def recounted(self) -> dict[str, dict[Key, Any]]:
        return {name: self.recounted_node(counted) for name, counted in self.nodes.items()}

    def recounted_node(self, object_: Node) -> dict[Key, Any]:
        running = [
            one
            for one in self.pods.values()
            if one.spec.nodeName == object_.metadata.name and one.status.phase == "Running"
        ]
        limit = (1 << 63) - 1
        cells_of: dict[Key, Any] = {
            requested(resource): min(
                limit,
                sum(milli(one.spec.containers[0].resources.requests or {}, resource) for one in running),
            )
            for resource in ("cpu", "memory")
        }
        cells_of[requested("pods")] = 1000 * len(running)
        cells_of[host_port("TCP", 80)] = sum(bool(one.spec.containers[0].ports) for one in running)
        web = [one for one in running if one.metadata.labels["app"] == "web"]
        cells_of[WEB_OR_TERMINATING] = len(web)
        cells_of[WEB] = sum(not one.terminating for one in web)
        for resource in ("cpu", "memory"):
            cells_of[allocatable(resource)] = milli(object_.status.allocatable, resource)
        cells_of[cells.label("zone")] = object_.metadata.labels.get("zone")
        cells_of[cells.UNSCHEDULABLE] = object_.spec.unschedulable or None
        return cells_of


def milli(given: Any, resource: str) -> int:
    thousandths = {
        "0": 0,
        "1": 1000,
        "500m": 500,
        "2500m": 2500,
        "odd": 0,
        "1Gi": 1000 << 30,
        "7E": 7 * 10**21,
    }[given.get(resource, "0")]
    whole = thousandths if resource == "cpu" else -(-thousandths // 1000) * 1000
    return min(whole, (1 << 63) - 1)


NodeMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestNodes = NodeMachine.TestCase


@given(
    moves=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from(["n0", "n1", "n2", ""]),
            st.integers(0, 2),
            st.sampled_from(["1", "2"]),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_parts_of_columns_follow_pods_and_nominations(moves: list[tuple[int, str, int, str, bool]]) -> None:
    fleet, cpu = NodeFleet(), requested("cpu")
    fleet.load([node("n0", cpu="4"), node("n1", cpu="4")])
    keys = [part(priority, cpu) for part in (of_lower_priority, of_nominated) for priority in (1, 2)]
    views = []
    for number, on, priority, asked, nominates in [(0, "", 0, "1", False), *moves]:
        made = pod(f"p{number}", cpu=asked, spec={"priority": priority})
        if nominates:
            fleet.nominate(made, on)
        elif on == "n2" and number % 2:
            fleet.delete_node("n1")
            fleet.upsert_node(node("n1", cpu="4"))
        else:
            fleet.upsert_pod(structs.replace(made, spec=structs.replace(made.spec, nodeName=on)))
        view = fleet.snapshot()
        views.append((view, [view.counts(key).values.tolist() for key in keys]))
        for key in keys:
            created = cast("CountColumn", view.materialise(key))
            assert view.counts(key).values.tolist() == created.values.tolist()
    for view, shown in views:
        assert [view.counts(key).values.tolist() for key in keys] == shown, "a snapshot does not change"
