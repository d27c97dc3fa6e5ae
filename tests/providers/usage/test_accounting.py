"""Cases that have a story. That the sums are right whatever happens is a property, see properties/."""

import pytest

from fairway.providers.usage.accounting import Accounting, Basis
from providers.usage.objects import GIB, as_node, as_pod, node, pod, shape

GPU = "nvidia.com/gpu"


def test_pod_before_its_node_is_counted() -> None:
    accounting = Accounting()
    assert accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "4"})))
    assert accounting.totals().free == {}
    assert accounting.update_node(as_node(node("n1")))
    assert accounting.totals().free == {"cpu": 12_000, "memory": 64 * GIB, "pods": 109}


def test_recreated_node_keeps_bound_pods() -> None:
    accounting = Accounting()
    old, new = as_node(node("n1", uid="1")), as_node(node("n1", {"cpu": "8", "pods": "10"}, uid="2"))
    accounting.update_node(old)
    accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "4"})))
    assert accounting.remove_node(old)
    assert accounting.totals().free == {}
    assert accounting.update_node(new)
    assert not accounting.remove_node(old)
    assert accounting.totals().free == {"cpu": 4000, "pods": 9}


def test_status_change_does_not_change_totals() -> None:
    accounting = Accounting()
    accounting.update_node(as_node(node("n1")))
    accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "4"}, phase="Pending")))
    assert not accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "4"}, phase="Running")))
    assert not accounting.update_node(as_node(node("n1", labels={"heartbeat": "1"})))
    assert accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "4"}, phase="Succeeded")))


def test_overcommitted_node_counts_as_full() -> None:
    for floor, cpu in ((True, 16_000), (False, 12_000)):
        accounting = Accounting(floor=floor)
        accounting.update_node(as_node(node("n1")))
        accounting.update_node(as_node(node("n2")))
        accounting.update_pod(as_pod(pod("p", "n2", {"cpu": "20"})))
        assert accounting.totals().free["cpu"] == cpu
        assert accounting.totals().largest["cpu"] == 16_000


def test_largest_node_is_updated_when_it_fills() -> None:
    accounting = Accounting()
    for name, cpu in (("n1", "4"), ("n2", "16"), ("n3", "8")):
        accounting.update_node(as_node(node(name, {"cpu": cpu, "pods": "9"})))
    assert accounting.totals().largest["cpu"] == 16_000
    accounting.update_pod(as_pod(pod("p", "n2", {"cpu": "10"})))
    assert accounting.totals().largest["cpu"] == 8000
    accounting.remove_node(as_node(node("n3")))
    assert accounting.totals().largest["cpu"] == 6000


def test_tainted_device_node_has_room_for_device_pods() -> None:
    shapes = (shape("web", {"cpu": "1"}), shape("train", {"cpu": "4", GPU: "2"}))
    accounting = Accounting(shapes=shapes)
    accounting.update_node(as_node(node("plain", {"cpu": "8", "pods": "4"})))
    devices = {"cpu": "64", "pods": "110", GPU: "8"}
    accounting.update_node(as_node(node("devices", devices, taints=[(GPU, "present", "NoSchedule")])))
    totals = accounting.totals()
    assert totals.free == {"cpu": 8000, "pods": 4, GPU: 8}
    assert totals.slots == {"web": 4, "train": 4}


@pytest.mark.parametrize(
    ("basis", "cpu", "memory"),
    [("requests", 12_000, 63 * GIB), ("usage", 14_000, 60 * GIB), ("both", 12_000, 60 * GIB)],
)
def test_taken_resources_by_basis(basis: Basis, cpu: int, memory: int) -> None:
    accounting = Accounting(basis=basis)
    accounting.update_node(as_node(node("n1")))
    accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "4", "memory": "1Gi"})))
    accounting.update_usage({"n1": {"cpu": 2000, "memory": 4 * GIB}})
    assert accounting.totals().free == {"cpu": cpu, "memory": memory, "pods": 109}
    accounting.update_usage({})
    assert accounting.totals().free == {"cpu": 12_000, "memory": 63 * GIB, "pods": 109}


def test_pending_pods_take_no_room() -> None:
    accounting = Accounting()
    accounting.update_node(as_node(node("n1")))
    accounting.update_pod(as_pod(pod("a", requests={"cpu": "40"}, phase="Pending")))
    accounting.update_pod(as_pod(pod("b", requests={GPU: "1"}, phase="Pending")))
    totals = accounting.totals()
    assert (totals.waiting, totals.pending) == (2, {"cpu": 40_000, GPU: 1})
    assert totals.free["cpu"] == 16_000
    accounting.update_pod(as_pod(pod("a", "n1", {"cpu": "40"})))
    assert accounting.totals().waiting == 1


def test_unreadable_object_is_named_until_fixed() -> None:
    accounting = Accounting()
    accounting.update_node(as_node(node("n1", {"cpu": "garbage", "pods": "5"})))
    accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "x"}, namespace="shop")))
    assert [problem.partition(": quantity")[0] for problem in accounting.problems] == [
        "Node n1: allocatable cpu",
        "Pod shop/p: cpu",
    ]
    assert accounting.totals().free == {"pods": 4}
    accounting.update_node(as_node(node("n1")))
    accounting.remove_pod(as_pod(pod("p", namespace="shop")))
    assert not accounting.problems
    assert accounting.totals().free == {"cpu": 16_000, "memory": 64 * GIB, "pods": 110}


def test_stale_heap_entries_are_dropped() -> None:
    accounting = Accounting()
    accounting.update_node(as_node(node("n1", {"cpu": "1000", "pods": "1000"})))
    for number in range(500):
        accounting.update_pod(as_pod(pod(f"p{number}", "n1", {"cpu": "1"})))
    for number in range(500):
        accounting.remove_pod(as_pod(pod(f"p{number}")))
        assert accounting.totals().largest["cpu"] == (501 + number) * 1000
    assert len(accounting._ranks["cpu"]) < 100
