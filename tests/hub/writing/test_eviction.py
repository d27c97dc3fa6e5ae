"""Evictions and disruption budgets."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairway.hub.hub import Hub
from fairway.hub.options import Write
from fairway.hub.resource import Document
from fairway.hub.serialization import representation
from fairway.hub.status import Refusal
from fairway.hub.user import MASTERS, User
from fairway.hub.write_request import MERGE_PATCH, Patch, WriteRequest
from fairway.hub.writing import eviction
from fairway.hub.writing.eviction import Evictions
from fairway.testing.hub import embedded_hub

USER = User(name="test", groups=(MASTERS,))
LABELS = {"deck": "top"}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def request(*, dry_run: bool = False, subresource: str = "") -> WriteRequest:
    return WriteRequest(user=USER, options=Write(manager="test", dry_run=dry_run), subresource=subresource)


class Ship:
    """A hub with one pod."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    async def make(self, key: str, document: Document) -> None:
        resource, told = self.hub.writer.resource(key), document.pop("status", None)
        await self.hub.writer.create(resource, "default", document, request())
        if told is not None:
            patch = Patch(media=MERGE_PATCH, body={"status": told})
            name = document["metadata"]["name"]
            await self.hub.writer.patch(resource, "default", name, patch, request(subresource="status"))

    async def pod(self, **status: Any) -> None:
        spec = {"nodeName": "deck", "containers": [{"name": "main", "image": "registry.example/main:1"}]}
        await self.make(
            "pods",
            {"metadata": {"name": "bridge", "labels": LABELS}, "spec": spec, "status": status or READY},
        )

    async def budget(self, name: str = "budget", *, policy: str = "", **status: Any) -> None:
        spec: Document = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
        if policy:
            spec["unhealthyPodEvictionPolicy"] = policy
        known = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
        document = {
            "metadata": {"name": name},
            "spec": spec,
            "status": {**known, "expectedPods": 1, **status},
        }
        await self.make(eviction.BUDGETS, document)

    async def evict(self, preconditions: Document | None = None, *, dry_run: bool = False) -> None:
        evictions = Evictions(store=self.hub.store, writer=self.hub.writer)
        asked = {"metadata": {"name": "bridge"}, "deleteOptions": {"preconditions": preconditions}}
        await evictions.evict("default", "bridge", asked, request(dry_run=dry_run))

    async def refused(self) -> Refusal:
        with pytest.raises(Refusal) as refused:
            await self.evict()
        return refused.value

    def find(self, key: str, name: str) -> Document:
        item = self.hub.store.get((key, "default", name))
        assert item is not None
        return representation.decode(self.hub.writer.resource(key), item.raw)


@pytest.fixture
async def ship() -> AsyncIterator[Ship]:
    async with embedded_hub(definitions=(), controllers=frozenset()) as hub:
        yield Ship(hub)


def causes(refusal: Refusal) -> list[Document]:
    return list((refusal.details or {})["causes"])


async def test_pod_without_a_budget_is_marked_and_deleted(ship: Ship) -> None:
    await ship.pod()
    await ship.evict()
    pod = ship.find("pods", "bridge")
    assert pod["metadata"]["deletionTimestamp"]
    assert [each["type"] for each in pod["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
    assert pod["status"]["conditions"][1]["reason"] == "EvictionByEvictionAPI"


async def test_eviction_with_a_failing_precondition_leaves_the_pod_unmarked(ship: Ship) -> None:
    await ship.pod()
    before = ship.find("pods", "bridge")
    for condition in ({"uid": "nope"}, {"uid": ""}, {"resourceVersion": "1"}):
        with pytest.raises(Refusal) as refused:
            await ship.evict(condition)
        assert refused.value.code == 409
    assert ship.find("pods", "bridge") == before
    await ship.evict({"resourceVersion": before["metadata"]["resourceVersion"]})
    assert ship.find("pods", "bridge")["metadata"]["deletionTimestamp"]


async def test_eviction_decrements_the_disruption_budget(ship: Ship) -> None:
    await ship.budget(disruptionsAllowed=2, currentHealthy=3)
    await ship.pod()
    await ship.evict()
    state = ship.find(eviction.BUDGETS, "budget")["status"]
    assert state["disruptionsAllowed"] == 1
    assert list(state["disruptedPods"]) == ["bridge"]


async def test_dry_run_eviction_changes_nothing(ship: Ship) -> None:
    await ship.budget(disruptionsAllowed=1)
    await ship.pod()
    await ship.evict(dry_run=True)
    assert ship.find(eviction.BUDGETS, "budget")["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in ship.find("pods", "bridge")["metadata"]


FALSE = {"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "told", "retry"),
    [
        ({"observedGeneration": 0}, eviction.UNSEEN.format(name="budget"), "10"),
        ({}, eviction.TOO_FEW.format(name="budget", desired=1, current=1), None),
        ({"currentHealthy": 2}, eviction.NOT_NOW.format(name="budget"), None),
        (
            {
                "currentHealthy": 2,
                "conditions": [{**FALSE, "reason": "InsufficientPods", "message": "too few"}],
            },
            f"{eviction.NOT_NOW.format(name='budget')} (InsufficientPods): too few",
            None,
        ),
        (
            {"conditions": [{**FALSE, "reason": "SyncFailed", "message": "no scale"}]},
            f"{eviction.NOT_NOW.format(name='budget')} because it failed sync: no scale",
            None,
        ),
    ],
)
async def test_refused_eviction_names_the_reason_of_the_budget(
    ship: Ship, status: dict[str, Any], told: str, retry: str | None
) -> None:
    await ship.budget(**status)
    await ship.pod()
    refusal = await ship.refused()
    assert (refusal.code, refusal.message) == (429, eviction.REFUSED)
    assert causes(refusal) == [{"reason": "DisruptionBudget", "message": told}]
    assert refusal.headers.get("Retry-After") == retry


@pytest.mark.parametrize(
    ("phase", "policy", "healthy"),
    [("Pending", "", 0), ("Failed", "", 0), ("Running", "", 1), ("Running", "AlwaysAllow", 0)],
)
async def test_pod_that_is_not_ready_is_evicted_without_a_disruption(
    ship: Ship, phase: str, policy: str, healthy: int
) -> None:
    await ship.budget(policy=policy, currentHealthy=healthy)
    await ship.pod(phase=phase)
    await ship.evict()


async def test_eviction_with_exhausted_or_several_budgets_is_refused(ship: Ship) -> None:
    await ship.pod()
    await ship.budget(disruptionsAllowed=-1)
    assert (await ship.refused()).message.endswith(eviction.NEGATIVE)
    await ship.budget("other")
    refusal = await ship.refused()
    assert (refusal.code, refusal.message) == (500, eviction.SEVERAL)
