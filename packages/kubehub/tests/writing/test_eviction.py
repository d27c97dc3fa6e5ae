"""Evictions and disruption budgets."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairway.testing.hub import embedded_hub
from kubehub.hub import Hub
from kubehub.options import Write
from kubehub.resource import Document
from kubehub.serialization import representation
from kubehub.status import Refusal
from kubehub.user import MASTERS, User
from kubehub.write_request import MERGE_PATCH, Patch, WriteRequest
from kubehub.writing import eviction
from kubehub.writing.eviction import Evictions

USER = User(name="test", groups=(MASTERS,))
LABELS = {"deck": "top"}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def request(*, dry_run: bool = False, subresource: str = "") -> WriteRequest:
    return WriteRequest(user=USER, options=Write(manager="test", dry_run=dry_run), subresource=subresource)


class EvictionHarness:
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
async def harness() -> AsyncIterator[EvictionHarness]:
    async with embedded_hub(definitions=(), controllers=frozenset()) as hub:
        yield EvictionHarness(hub)


def causes(refusal: Refusal) -> list[Document]:
    return list((refusal.details or {})["causes"])


async def test_pod_without_a_budget_is_marked_and_deleted(harness: EvictionHarness) -> None:
    await harness.pod()
    await harness.evict()
    pod = harness.find("pods", "bridge")
    assert pod["metadata"]["deletionTimestamp"]
    assert [condition["type"] for condition in pod["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
    assert pod["status"]["conditions"][1]["reason"] == "EvictionByEvictionAPI"


async def test_eviction_with_a_failing_precondition_leaves_the_pod_unmarked(harness: EvictionHarness) -> None:
    await harness.pod()
    before = harness.find("pods", "bridge")
    for condition in ({"uid": "nope"}, {"uid": ""}, {"resourceVersion": "1"}):
        with pytest.raises(Refusal) as refused:
            await harness.evict(condition)
        assert refused.value.code == 409
    assert harness.find("pods", "bridge") == before
    await harness.evict({"resourceVersion": before["metadata"]["resourceVersion"]})
    assert harness.find("pods", "bridge")["metadata"]["deletionTimestamp"]


async def test_eviction_decrements_the_disruption_budget(harness: EvictionHarness) -> None:
    await harness.budget(disruptionsAllowed=2, currentHealthy=3)
    await harness.pod()
    await harness.evict()
    state = harness.find(eviction.BUDGETS, "budget")["status"]
    assert state["disruptionsAllowed"] == 1
    assert list(state["disruptedPods"]) == ["bridge"]


async def test_dry_run_eviction_changes_nothing(harness: EvictionHarness) -> None:
    await harness.budget(disruptionsAllowed=1)
    await harness.pod()
    await harness.evict(dry_run=True)
    assert harness.find(eviction.BUDGETS, "budget")["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in harness.find("pods", "bridge")["metadata"]


FALSE = {"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "told", "retry"),
    [
        ({"observedGeneration": 0}, eviction.NOT_PROCESSED.format(name="budget"), "10"),
        ({}, eviction.TOO_FEW.format(name="budget", desired=1, current=1), None),
        ({"currentHealthy": 2}, eviction.NOT_ALLOWED.format(name="budget"), None),
        (
            {
                "currentHealthy": 2,
                "conditions": [{**FALSE, "reason": "InsufficientPods", "message": "too few"}],
            },
            f"{eviction.NOT_ALLOWED.format(name='budget')} (InsufficientPods): too few",
            None,
        ),
        (
            {"conditions": [{**FALSE, "reason": "SyncFailed", "message": "no scale"}]},
            f"{eviction.NOT_ALLOWED.format(name='budget')} because it failed sync: no scale",
            None,
        ),
    ],
)
async def test_refused_eviction_names_the_reason_of_the_budget(
    harness: EvictionHarness, status: dict[str, Any], told: str, retry: str | None
) -> None:
    await harness.budget(**status)
    await harness.pod()
    refusal = await harness.refused()
    assert (refusal.code, refusal.message) == (429, eviction.REFUSED)
    assert causes(refusal) == [{"reason": "DisruptionBudget", "message": told}]
    assert refusal.headers.get("Retry-After") == retry


@pytest.mark.parametrize(
    ("phase", "policy", "healthy"),
    [("Pending", "", 0), ("Failed", "", 0), ("Running", "", 1), ("Running", "AlwaysAllow", 0)],
)
async def test_pod_that_is_not_ready_is_evicted_without_a_disruption(
    harness: EvictionHarness, phase: str, policy: str, healthy: int
) -> None:
    await harness.budget(policy=policy, currentHealthy=healthy)
    await harness.pod(phase=phase)
    await harness.evict()


async def test_eviction_with_exhausted_or_several_budgets_is_refused(harness: EvictionHarness) -> None:
    await harness.pod()
    await harness.budget(disruptionsAllowed=-1)
    assert (await harness.refused()).message.endswith(eviction.NEGATIVE)
    await harness.budget("other")
    refusal = await harness.refused()
    assert (refusal.code, refusal.message) == (500, eviction.MULTIPLE_BUDGETS)
