"""What is kept event by event is what a full count finds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.health.cluster_state import ClusterState
from fairway.providers.health.objects import NodeHealth, PodHealth
from kubewire.client import Batch
from kubewire.client.change import difference

NOON = datetime(2031, 5, 5, 12, tzinfo=UTC)
NAMESPACES = ("kube-system", "openshift-*")


def node(name: str = "n", **conditions: str) -> NodeHealth:
    listed = [{"type": key, "status": value} for key, value in conditions.items()]
    return msgspec.convert(
        {"metadata": {"name": name, "uid": name}, "status": {"conditions": listed}}, NodeHealth
    )


def pod(
    name: str = "p",
    *,
    namespace: str = "kube-system",
    ready: bool = True,
    restarts: tuple[int, ...] = (0,),
    phase: str = "Running",
    reason: str = "",
    leaving: bool = False,
    ended: datetime | None = None,
    uid: str = "",
) -> PodHealth:
    last = {"terminated": {"finishedAt": ended}} if ended else {}
    status = {
        "phase": phase,
        "reason": reason,
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "containerStatuses": [{"restartCount": restart, "lastState": last} for restart in restarts],
    }
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid or name}
    if leaving:
        meta["deletionTimestamp"] = NOON
    return msgspec.convert({"metadata": meta, "status": status}, PodHealth)


class Cluster:
    def __init__(self) -> None:
        self.chart = ClusterState(namespaces=NAMESPACES, window=600)
        self.now = 0.0
        self.there: dict[tuple[str, str], PodHealth] = {}

    def nodes(self, *nodes: NodeHealth) -> None:
        for node in nodes:
            self.chart.update_nodes(_batch(None, node))

    def put(self, new: PodHealth) -> bool:
        key = (new.metadata.namespace, new.metadata.name)
        old, self.there[key] = self.there.get(key), new
        return self.chart.update_pods(_batch(old, new), now=self.now, wall=self.wall)

    def drop(self, key: tuple[str, str]) -> bool:
        return self.chart.update_pods(_batch(self.there.pop(key), None), now=self.now, wall=self.wall)

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.now)


def _batch(old: Any, new: Any) -> Batch[Any]:
    return Batch(changes=tuple(difference(old, new)), epoch=0, listed=False, resource_version="1")


@pytest.mark.parametrize(
    ("conditions", "worth"),
    [
        ({"Ready": "True"}, 100),
        ({"Ready": "False"}, 0),
        ({"Ready": "Unknown"}, 0),
        ({}, 0),
        ({"Ready": "True", "MemoryPressure": "True"}, 50),
        ({"Ready": "True", "DiskPressure": "True", "PIDPressure": "True"}, 50),
        ({"Ready": "True", "MemoryPressure": "False"}, 100),
        ({"Ready": "True", "NetworkUnavailable": "True"}, 0),
    ],
)
def test_node_readiness_by_conditions(conditions: dict[str, str], worth: float) -> None:
    cluster = Cluster()
    cluster.nodes(node(**conditions))
    assert cluster.chart.nodes_ready() == worth


def test_ready_shares_of_nodes_and_addons() -> None:
    cluster = Cluster()
    assert cluster.chart.nodes_ready() is None
    assert cluster.chart.add_ons_ready() is None
    assert cluster.chart.restarts(now=0) is None
    cluster.nodes(node("a", Ready="True"), node("b", Ready="True"), node("c", Ready="False"))
    assert cluster.chart.nodes_ready() == pytest.approx(200 / 3)
    for number in range(4):
        cluster.put(pod(f"p{number}", ready=number > 0, namespace="openshift-dns"))
    cluster.put(pod("mine", ready=False, namespace="default"))
    cluster.put(pod("done", ready=False, phase="Succeeded"))
    cluster.put(pod("going", ready=False, leaving=True))
    assert cluster.chart.add_ons_ready() == 75


def test_restarts_are_reported_as_rate() -> None:
    cluster = Cluster()
    for number in range(10):
        cluster.put(pod(f"p{number}", namespace="default", restarts=(7, 0)))
    assert cluster.chart.restarts(now=0) == 0  #  their times are unknown
    cluster.now = 30.0
    cluster.put(pod("p0", namespace="default", restarts=(8, 1)))
    assert cluster.chart.restarts(now=30) == pytest.approx(100 * 2 / 20 * 6)
    assert cluster.chart.restarts(now=700) == 0


def test_recent_restart_before_start_counts() -> None:
    cluster = Cluster()
    cluster.put(pod("p", restarts=(3,), ended=NOON - timedelta(seconds=100)))
    cluster.put(pod("q", restarts=(3,), ended=NOON - timedelta(seconds=700)))
    cluster.put(pod("r", restarts=(3,), ended=NOON + timedelta(seconds=100)))
    cluster.put(pod("s", restarts=(0,), ended=NOON))  # it ended, and was not restarted
    assert cluster.chart.restarts(now=0) == pytest.approx(100 * 2 / 4 * 6)


def test_eviction_counts_once_as_restarts() -> None:
    cluster = Cluster()
    cluster.put(pod("p", restarts=(0, 0)))
    cluster.put(pod("q"))
    cluster.put(pod("p", restarts=(0, 0), phase="Failed", reason="Evicted", ready=False))
    cluster.put(pod("p", restarts=(0, 0), phase="Failed", reason="Evicted", ready=False))
    assert cluster.chart.restarts(now=0) == pytest.approx(100 * 2 / 1 * 6)
    assert cluster.chart.add_ons_ready() == 100


def test_only_readiness_changes_wake_health() -> None:
    cluster = Cluster()
    assert cluster.put(pod("p"))
    assert not cluster.put(pod("p", restarts=(1,)))
    assert cluster.put(pod("p", ready=False))
    assert not cluster.put(pod("q", namespace="default"))
    assert cluster.drop(("kube-system", "p"))


pods = st.builds(
    pod,
    name=st.sampled_from(["a", "b", "c"]),
    namespace=st.sampled_from(["kube-system", "openshift-x", "default"]),
    ready=st.booleans(),
    restarts=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    phase=st.sampled_from(["Running", "Pending", "Failed", "Succeeded"]),
    reason=st.sampled_from(["", "Evicted"]),
    leaving=st.booleans(),
    uid=st.sampled_from(["1", "2"]),
)


@given(st.lists(st.one_of(pods, st.none())))
def test_incremental_health_equals_full_count(events: list[PodHealth | None]) -> None:
    cluster = Cluster()
    for event in events:
        if event is not None:
            cluster.put(event)
        elif cluster.there:
            cluster.drop(min(cluster.there))
    fresh = Cluster()
    for document in cluster.there.values():
        fresh.put(document)
    assert fresh.chart.add_ons_ready() == cluster.chart.add_ons_ready()
    assert (fresh.chart.restarts(now=0) is None) == (cluster.chart.restarts(now=0) is None)
    assert fresh.chart._containers == cluster.chart._containers
