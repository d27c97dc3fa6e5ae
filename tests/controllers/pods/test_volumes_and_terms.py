"""Volumes and namespaces that decide where pods run, and terms of leadership."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers.pods.pod_hub import NAMESPACE, PodHub, scheduling
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.pods.kinds import CLAIMS, VOLUMES
from kubewire.client.fence import Lost, Unconfirmed

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
ON_N2: dict[str, Any] = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
        ]
    }
}


def add_volume(hub: PodHub) -> None:
    hub.put(VOLUMES, {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": ON_N2}})


def add_claim(hub: PodHub, *, volume: str) -> None:
    claim = {
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume},
        "status": {"phase": "Bound"},
    }
    hub.put(CLAIMS, claim, namespace=NAMESPACE)


@pytest.mark.parametrize("later", [False, True], ids=["before", "after"])
async def test_pod_follows_the_volume_of_its_claim(later: bool) -> None:
    hub = PodHub()
    hub.node("n1", cpu="16")
    hub.node("n2")
    add_volume(hub)
    if not later:
        add_claim(hub, volume="pv")
    async with scheduling(hub):
        hub.pod("db", volumes=DATA)
        if later:
            await hub.until(lambda: hub.condition("db")[0] == "False")
            assert 'persistentvolumeclaim "data" not found' in hub.condition("db")[2]
            add_claim(hub, volume="pv")
        await hub.bound("db")
    assert hub.place("db") == "n2"


async def test_claim_of_one_pod_goes_to_the_next_pod_once_it_is_released() -> None:
    hub = PodHub()
    hub.node("n1")
    hub.node("n2")
    claim = {
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]},
    }
    hub.put(CLAIMS, claim, namespace=NAMESPACE)
    hub.put(VOLUMES, {"metadata": {"name": "pv"}, "spec": {}})
    async with scheduling(hub):
        # Both at once: the second one sees the claim in use before the hub shows the first one on its node.
        hub.pod("db-1", volumes=DATA)
        hub.pod("db-2", volumes=DATA)
        await hub.until(lambda: hub.condition("db-2")[0] == "False" and hub.place("db-1") != "")
        assert "ReadWriteOncePod access mode already in-use by another pod" in hub.condition("db-2")[2]
        hub.end("db-1")
        await hub.bound("db-2")


async def test_anti_affinity_reads_the_labels_of_namespaces() -> None:
    hub = PodHub()
    hub.put(NAMESPACES, {"metadata": {"name": "team-a", "labels": {"team": "a"}}})
    hub.node("n1")
    hub.pod("other", namespace="team-a", node="n1", scheduler="default-scheduler", labels={"app": "db"})
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with scheduling(hub):
        hub.pod("web", affinity=affinity)
        await hub.until(lambda: hub.condition("web")[0] == "False")
        hub.put(NAMESPACES, {"metadata": {"name": "team-a", "labels": {}}})
        await hub.bound("web")


class Term:
    """A leadership that can be in doubt, or end."""

    def __init__(self) -> None:
        self.doubtful = self.over = False

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        if self.doubtful:
            raise Unconfirmed("the hub did not answer")
        self.ensure()
        yield

    def ensure(self) -> None:
        if self.over:
            raise Lost("another process leads")


async def test_nothing_is_bound_while_leadership_is_in_doubt() -> None:
    hub, term = PodHub(), Term()
    hub.node("n1")
    async with scheduling(hub, leadership=term):
        term.doubtful = True
        hub.pod("web")
        await asyncio.sleep(30)
        assert not hub.writes
        term.doubtful = False
        await hub.bound("web")
    assert hub.load() == {"n1": 1}


async def test_pods_bound_by_another_leader_count_in_the_next_term() -> None:
    hub, term = PodHub(), Term()
    hub.node("n1", cpu="2")

    async def lead() -> None:
        async with scheduling(hub, leadership=term):
            hub.pod("a")
            await hub.bound("a")
            term.over = True
            hub.pod("b")
            await asyncio.sleep(1)

    with pytest.raises(Lost, match="another process leads"):
        await lead()
    assert hub.placed() == {"a": "n1"}
    hub.pod("c", node="n1", scheduler="fairway")
    async with scheduling(hub):
        await hub.until(lambda: hub.condition("b")[0] == "False")
    assert hub.load() == {"n1": 2}
