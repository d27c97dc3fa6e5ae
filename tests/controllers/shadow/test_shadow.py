"""A shadow reports lasting differences from the decisions on the hub, and never writes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from controllers.clocks import Stopped
from controllers.conftest import ALONE, Rights, Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import GROUP_NAME_LABEL, PlacementSpec
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.placement.shadow import Shadow
from fairway.controllers.settings import PLACEMENT
from fairway.workloads.placement.conditions import SATISFIED
from kubewire.client import Client
from kubewire.client.transport import Response, Transport

pytestmark = pytest.mark.embedded

SHADOW = replace(ALONE, shadow=True, settle=0.0)
PAGE = "p-decision-1"


class Ticking(Stopped):
    """A clock whose monotonic time is manual, too."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed


@pytest.fixture(autouse=True)
def methods(rights: Rights, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All requests with the controller's rights since the last clear."""
    seen: list[str] = []
    send = Transport.request

    async def request(transport: Transport, method: str, path: str, **options: Any) -> Response:
        if transport.connection is rights.get(frozenset({PLACEMENT})):
            seen.append(f"{method} {path}")
        return await send(transport, method, path, **options)

    monkeypatch.setattr(Transport, "request", request)
    return seen


@pytest.fixture
async def decided(start: Start, fleet: HubFleet, methods: list[str]) -> HubFleet:
    """A placement of two clusters, with decisions as OCM writes them: without scores and reasons."""
    await fleet.clusters("a", "b")
    async with start() as manager:
        await fleet.place()
        await fleet.chooses("p", "a", "b")
        await manager.quiet()
    await fleet.overwrite(PAGE, "a", "b")
    await fleet.edit(
        PLACEMENTS, "p", {"status": {"lastScoreUpdateTime": None}}, namespace=fleet.namespace, status=True
    )
    methods.clear()
    return fleet


@pytest.fixture
async def manager(start: Start, decided: HubFleet, methods: list[str]) -> AsyncIterator[Manager]:
    async with start(SHADOW) as made:
        yield made
    assert methods, "it asked the hub"
    assert not [method for method in methods if not method.startswith("GET ")]


def shadow_of(manager: Manager) -> Shadow:
    assert isinstance(manager.placement, Shadow)
    return manager.placement


async def until_difference(manager: Manager, fleet: HubFleet, *, differs: bool) -> str:
    """Wait until the shadow reports a difference of the placement, or none."""
    shadow, key = shadow_of(manager), (fleet.namespace, "p")
    async with asyncio.timeout(120):
        while (key in shadow.differences) != differs or shadow.queue.busy:
            await asyncio.sleep(0.005)
    return "; ".join(shadow.differences.get(key, ())).replace(f"{fleet.prefix}-", "")


@pytest.mark.both_hubs
async def test_shadow_accepts_decisions_in_ocms_format(manager: Manager, decided: HubFleet) -> None:
    before = await decided.versions()
    written = await decided.touch("p")
    await decided.after(manager, PLACEMENTS, written)
    assert shadow_of(manager).compared
    assert not shadow_of(manager).differences
    after = await decided.versions()
    assert {key for key in before if before[key] != after[key]} == {("Placement", decided.namespace, "p")}


async def _page_gone(fleet: HubFleet) -> None:
    await fleet.delete(PLACEMENT_DECISIONS, PAGE)


async def _other_cluster(fleet: HubFleet) -> None:
    await fleet.overwrite(PAGE, "a", "z")


async def _other_order(fleet: HubFleet) -> None:
    await fleet.overwrite(PAGE, "b", "a")


async def _other_label(fleet: HubFleet) -> None:
    labels = {"metadata": {"labels": {GROUP_NAME_LABEL: "canary"}}}
    await fleet.edit(PLACEMENT_DECISIONS, PAGE, labels, namespace=fleet.namespace)


async def _other_condition(fleet: HubFleet) -> None:
    others = {
        "type": SATISFIED,
        "status": "False",
        "reason": "NoManagedClusterMatched",
        "message": "none",
        "lastTransitionTime": "2031-05-05T12:00:00Z",
    }
    await fleet.edit(
        PLACEMENTS, "p", {"status": {"conditions": [others]}}, namespace=fleet.namespace, status=True
    )


async def _other_number(fleet: HubFleet) -> None:
    await fleet.edit(
        PLACEMENTS, "p", {"status": {"numberOfSelectedClusters": 7}}, namespace=fleet.namespace, status=True
    )


async def _other_group(fleet: HubFleet) -> None:
    groups = [{"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": [PAGE], "clusterCount": 3}]
    await fleet.edit(
        PLACEMENTS, "p", {"status": {"decisionGroups": groups}}, namespace=fleet.namespace, status=True
    )


async def _one_page_more(fleet: HubFleet) -> None:
    await fleet.hold("p-decision-2", "a")
    mine = dict(
        (await fleet.client.get(PLACEMENT_DECISIONS, PAGE, namespace=fleet.namespace)).metadata.labels
    )
    await fleet.edit(
        PLACEMENT_DECISIONS, "p-decision-2", {"metadata": {"labels": mine}}, namespace=fleet.namespace
    )


@pytest.mark.parametrize(
    ("happen", "words"),
    [
        (_page_gone, f"decision {PAGE} is missing; expected a, b"),
        (_one_page_more, "decision p-decision-2 should not exist"),
        (_other_cluster, f"decision {PAGE}: lacks b, should not name z"),
        (_other_order, f"decision {PAGE} names the clusters in another order"),
        (_other_label, f"decision {PAGE} has labels "),
        (_other_condition, f"condition {SATISFIED} is False/NoManagedClusterMatched (none), expected True/"),
        (
            _other_group,
            f"status.decisionGroups is a group without a name (3 on {PAGE}), "
            f"expected a group without a name (2 on {PAGE})",
        ),
        (_other_number, "status.numberOfSelectedClusters is 7, expected 2"),
    ],
    ids=["page missing", "page surplus", "cluster", "order", "label", "condition", "group", "number"],
)
async def test_shadow_reports_each_difference_and_its_end(
    manager: Manager,
    decided: HubFleet,
    start: Start,
    caplog: pytest.LogCaptureFixture,
    methods: list[str],
    happen: Callable[[HubFleet], Awaitable[None]],
    words: str,
) -> None:
    caplog.set_level(logging.INFO, logger="fairway")
    await happen(decided)
    assert words in await until_difference(manager, decided, differs=True)
    assert [record.levelno for record in caplog.records if record.name.endswith("shadow")][
        -1
    ] == logging.WARNING
    assert not [method for method in methods if not method.startswith("GET ")]
    async with start():  # another client repairs it
        assert await until_difference(manager, decided, differs=False) == ""
    assert caplog.messages.count(f"placement {decided.namespace}/p: no difference left") == 1
    methods[:] = [method for method in methods if method.startswith("GET ")]


async def test_shadow_ignores_short_differences(start: Start, decided: HubFleet, client: Client) -> None:
    """Differences that end within the grace period are never reported."""
    clock = Ticking()
    async with start(replace(SHADOW, settle=10.0), clock=clock) as manager:
        shadow, key = shadow_of(manager), (decided.namespace, "p")
        await decided.after(manager, PLACEMENT_DECISIONS, await decided.overwrite(PAGE, "a"))
        clock.passed = 9.0
        await decided.after(manager, PLACEMENTS, await decided.touch("p"))
        assert not shadow.differences
        await decided.after(manager, PLACEMENT_DECISIONS, await decided.overwrite(PAGE, "a", "b"))
        await decided.after(manager, PLACEMENT_DECISIONS, await decided.overwrite(PAGE, "b"))
        clock.passed = 15.0
        await decided.after(manager, PLACEMENTS, await decided.touch("p"))
        assert not shadow.differences, "it was right in between"
        clock.passed = 19.0
        await decided.after(manager, PLACEMENTS, await decided.touch("p"))
        assert list(shadow.differences) == [key]


async def test_shadow_reports_an_undecided_placement(manager: Manager, decided: HubFleet) -> None:
    await decided.place("q", PlacementSpec(numberOfClusters=1))
    shadow, key = shadow_of(manager), (decided.namespace, "q")
    async with asyncio.timeout(120):
        while key not in shadow.differences:
            await asyncio.sleep(0.005)
    missing, *rest = shadow.differences[key]
    assert missing == f"decision q-decision-1 is missing; expected {decided.name('a')}"
    assert "status.decisionGroups is nothing, expected a group without a name" in rest
    await decided.delete(PLACEMENTS, "q")
    async with asyncio.timeout(120):
        while key in shadow.differences:
            await asyncio.sleep(0.005)
