"""A pod counts on its node from Reserve on, until it is given back or observed elsewhere."""

from fairway.engine.points import CommitContext
from fairway.engine.status import OK
from fairway.engine.workload import HostKey
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.resources import requested
from fairway.workloads.pods import pod_workload
from fairway.workloads.pods.plugins.assume_pod import AssumePod
from hosts.nodes.builders import node, pod


def prepared() -> tuple[NodeFleet, AssumePod, CommitContext]:
    fleet = NodeFleet()
    fleet.load([node("n1", cpu="4"), node("n2", cpu="4")])
    context = CommitContext(workload=pod_workload(pod("a", cpu="2")), hosts=(HostKey("n1", ""),), started=0)
    return fleet, AssumePod(fleet=fleet), context


def used(fleet: NodeFleet) -> list[int]:
    return [int(amount) for amount in fleet.snapshot().counts(requested("cpu")).values[:2]]


def test_reserved_pod_counts_on_its_node_until_it_is_given_back() -> None:
    fleet, plugin, context = prepared()
    assert plugin.reserve(context) is OK
    assert used(fleet) == [2000, 0]
    for _ in range(2):
        plugin.unreserve(context)
        assert used(fleet) == [0, 0]


def test_unreserve_keeps_a_pod_that_was_observed_on_another_node() -> None:
    fleet, plugin, context = prepared()
    plugin.reserve(context)
    fleet.upsert_pod(pod("a", on="n2", cpu="2"))
    plugin.unreserve(context)
    assert used(fleet) == [0, 2000]


def test_unreserve_after_the_pod_was_observed_changes_nothing() -> None:
    fleet, plugin, context = prepared()
    plugin.reserve(context)
    fleet.upsert_pod(pod("a", on="n1", cpu="2"))
    plugin.unreserve(context)
    assert used(fleet) == [2000, 0]
