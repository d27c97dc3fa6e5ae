"""The reported status of a cluster."""

from fairway.api.claim import ClusterClaim, ClusterClaimSpec
from fairway.api.cluster import ClusterClaim as Told
from fairway.api.cluster import ClusterVersion, ManagedClusterStatus
from fairway.api.node import Node, NodeSpec, NodeStatus
from fairway.klusterlet.report import SPOKE_ONLY, ClusterReport, claims, totals
from kubewire.api.meta import ObjectMeta


def node(name: str, *, unschedulable: bool = False, **amounts: str) -> Node:
    capacity: dict[str, str | int | float] = dict(amounts)
    return Node(
        metadata=ObjectMeta(name=name),
        spec=NodeSpec(unschedulable=unschedulable),
        status=NodeStatus(capacity=capacity, allocatable=capacity),
    )


def claim(name: str, value: str = "v", **labels: str) -> ClusterClaim:
    return ClusterClaim(metadata=ObjectMeta(name=name, labels=labels), spec=ClusterClaimSpec(value=value))


def test_cordoned_node_adds_capacity_only() -> None:
    nodes = [
        node("a", cpu="3500m", memory="16Gi"),
        node("b", cpu="500m", memory="16Gi", gpu="2"),
        node("c", unschedulable=True, cpu="8", gpu="1"),
    ]
    assert totals(nodes) == (
        {"cpu": "12", "gpu": "3", "memory": "32Gi"},
        {"cpu": "4", "gpu": "2", "memory": "32Gi"},
    )


def test_cordoned_cluster_has_zero_allocatable() -> None:
    nodes = [node("a", unschedulable=True, cpu="4", gpu="1"), node("b", unschedulable=True, cpu="4")]
    assert totals(nodes) == ({"cpu": "8", "gpu": "1"}, {"cpu": "0", "gpu": "0"})


def test_report_without_amounts_applies_no_empty_maps() -> None:
    report = ClusterReport(version="v1.36.3", capacity={}, allocatable={}, claims=())
    assert report.document() == {"version": {"kubernetes": "v1.36.3"}, "clusterClaims": []}


def test_invalid_amount_is_skipped() -> None:
    assert totals([node("a", cpu="many", memory="1Gi"), node("b", cpu="2")])[0] == {
        "cpu": "2",
        "memory": "1Gi",
    }


def test_extreme_amounts_are_summed() -> None:
    [(_, total)] = totals([node("a", cpu="1e99999"), node("b", cpu="1e2147483647")])[0].items()
    assert total.endswith("e2147479551")
    assert len(total) < 4200


def test_cluster_without_nodes_has_no_resources() -> None:
    assert totals([]) == ({}, {})


def test_reserved_claims_come_first_and_are_unlimited() -> None:
    own = [claim(f"claim{number:02}") for number in range(25)]
    reported, left_out = claims([*own, claim("platform.open-cluster-management.io"), claim("id.k8s.io")])
    names = [name for name, _ in reported]
    assert names[:2] == ["id.k8s.io", "platform.open-cluster-management.io"]
    assert names[2:] == [f"claim{number:02}" for number in range(20)]
    assert left_out == 5


def test_spoke_only_claims_are_not_reported() -> None:
    reported, left_out = claims([claim("a"), claim("b", **{SPOKE_ONLY: ""})])
    assert (reported, left_out) == ((("a", "v"),), 0)


def test_report_recognises_current_status() -> None:
    report = ClusterReport(
        version="v1.36.3", capacity={"cpu": "4"}, allocatable={"cpu": "3500m"}, claims=(("a", "1"),)
    )
    known = ManagedClusterStatus(
        version=ClusterVersion(kubernetes="v1.36.3"),
        capacity={"cpu": "4000m", "somebody.dev/else": "1"},
        allocatable={"cpu": 3.5},
        clusterClaims=(Told(name="a", value="1"),),
    )
    assert report.is_in(known)
    assert not report.is_in(ManagedClusterStatus())
    assert ClusterReport(version="v1.36.3", capacity={}, allocatable={}, claims=(("a", "1"),)).is_in(known)
    assert not ClusterReport(
        version="v1.36.3", capacity={"gpu": "0"}, allocatable={}, claims=(("a", "1"),)
    ).is_in(known)
    assert not ClusterReport(version="v1.36.3", capacity={}, allocatable={}, claims=(("a", "2"),)).is_in(
        known
    )
    assert not ClusterReport(version="v1.37.0", capacity={}, allocatable={}, claims=(("a", "1"),)).is_in(
        known
    )
