"""Nodes with their pods as a table: cells, reported changes, and a model that recounts from the objects."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairway.api.node import Node, NodeTaint
from fairway.api.pod import Pod
from fairway.fleet.column import MEMBERSHIP, Key
from fairway.fleet.direction import Direction
from fairway.fleet.journal import NOTHING
from fairway.fleet.resources import allocatable, requested
from fairway.nodes import NodeFleet, NodeSnapshot, cells
from nodes.builders import node, pod

RESOURCES = ("cpu", "memory", "pods")


def test_requests_of_pods_are_summed_in_milli_units() -> None:
    fleet = NodeFleet()
    fleet.load([node("n1", cpu="4", memory="1Ki", pods="110")])
    fleet.upsert_pod(pod("a", on="n1", cpu="500m", memory="10"))
    fleet.upsert_pod(pod("b", on="n1", cpu="1"))
    view = fleet.snapshot()
    assert [int(view.counts(requested(each)).values[0]) for each in RESOURCES] == [1500, 10_000, 2000]
    assert [int(view.counts(allocatable(each)).values[0]) for each in RESOURCES] == [4000, 1_024_000, 110_000]


def test_finished_pod_frees_its_requests_at_once() -> None:
    fleet = NodeFleet()
    fleet.upsert_node(node("n1"))
    fleet.upsert_pod(pod("a", on="n1", cpu="2"))
    fleet.snapshot().counts(requested("cpu"))
    change = fleet.upsert_pod(pod("a", on="n1", phase="Succeeded", cpu="2"))
    assert change.columns == {requested("cpu"): Direction.DOWN, requested("pods"): Direction.DOWN}
    assert change.hosts == ("n1",)
    assert int(fleet.snapshot().counts(requested("cpu")).values[0]) == 0


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
    assert grown.columns == {requested("cpu"): Direction.UP, requested("memory"): Direction.DOWN}
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
    assert view.codes(cells.TAINTS).value(0) == (("k", "", "NoSchedule"),)
    assert view.codes(cells.UNSCHEDULABLE).value(0) is True
    assert MEMBERSHIP in fleet.delete_node("n1").columns


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
pods = st.builds(
    lambda name, on, phase, given: pod(name, on=on, phase=phase, **given),
    st.sampled_from(["p1", "p2", "p3"]),
    st.one_of(st.just(""), names),
    st.sampled_from(["Running", "Running", "Succeeded", "Failed"]),
    resources,
)
KEYS: tuple[Key, ...] = (
    *(requested(each) for each in RESOURCES),
    *(allocatable(each) for each in ("cpu", "memory")),
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

    @rule(each=nodes)
    def upsert_node(self, each: Node) -> None:
        self.fleet.upsert_node(each)
        self.nodes[each.metadata.name] = each

    @rule(name=names)
    def delete_node(self, name: str) -> None:
        self.fleet.delete_node(name)
        self.nodes.pop(name, None)

    @rule(each=pods)
    def upsert_pod(self, each: Pod) -> None:
        self.fleet.upsert_pod(each)
        self.pods[each.metadata.name] = each

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
        return {name: self.recounted_node(each) for name, each in self.nodes.items()}

    def recounted_node(self, each: Node) -> dict[Key, Any]:
        running = [
            one
            for one in self.pods.values()
            if one.spec.nodeName == each.metadata.name and one.status.phase == "Running"
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
        for resource in ("cpu", "memory"):
            cells_of[allocatable(resource)] = milli(each.status.allocatable, resource)
        cells_of[cells.label("zone")] = each.metadata.labels.get("zone")
        cells_of[cells.UNSCHEDULABLE] = each.spec.unschedulable or None
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
