"""Unchanged decisions cause no writes, and writes keep the fields of other clients."""

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controllers.conftest import ALONE, Start
from controllers.figures import wakes, writes
from controllers.hub_fleet import HubFleet
from controllers.hubs import DEFINITIONS
from controllers.settling import DEADLINE
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.placement.binding import Attempt
from fairway.testing import builders
from kubewire.client import Client, Resource
from rigs.processes import POLL

LENIENT = "x-kubernetes-preserve-unknown-fields"


async def test_unchanged_placement_is_not_written_again(start: Start, fleet: HubFleet) -> None:
    """Every placement is reconciled from time to time."""
    await fleet.clusters("a", "b")
    policy = builders.policy(builders.addon("cpu"))
    async with start(replace(ALONE, resync=0.01)) as manager:
        await fleet.place("p", PlacementSpec(prioritizerPolicy=policy))
        await fleet.chooses("p", "a", "b")
        await manager.quiet()
        before, looks, written = await fleet.versions(), wakes(manager), writes(manager)
        while wakes(manager) < looks + 20:
            await manager.quiet()
            await asyncio.sleep(POLL)  # nothing tells that nothing was written
        assert writes(manager) == written
        assert await fleet.versions() == before


async def test_restarted_controller_writes_nothing(start: Start, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b", "c")
    await fleet.score("b", {"cpu": 50})
    policy = builders.policy(builders.addon("cpu"))
    async with start():
        await fleet.place("p", PlacementSpec(numberOfClusters=2, prioritizerPolicy=policy))
        await fleet.place("q", PlacementSpec(numberOfClusters=7))
        await fleet.place("wrong", PlacementSpec(numberOfClusters=-1))
        await fleet.chooses("p", "a", "b")
        await fleet.chooses("q", "a", "b", "c")
        await fleet.chooses("wrong")
    before = await fleet.versions()
    for _ in range(3):
        async with start() as manager:
            await fleet.settled(manager)
            assert not writes(manager)
    assert await fleet.versions() == before


def attempts() -> list[Attempt]:
    return [thing for thing in gc.get_objects() if type(thing) is Attempt]


async def test_write_leaves_nothing_to_the_garbage_collector(manager: Manager, fleet: HubFleet) -> None:
    """A plan has the pages of all selected clusters, and a burst has thousands of plans."""
    await fleet.clusters("a", "b")
    gc.disable()
    try:
        # Earlier tests of this process may have left some, which nothing collects until the end.
        others = {id(attempt) for attempt in attempts()}
        await fleet.place()
        await fleet.chooses("p", "a", "b")
        await manager.quiet()
        async with asyncio.timeout(DEADLINE):
            # The last frames that refer to the attempt end without any event.
            while any(id(attempt) not in others for attempt in attempts()):
                await asyncio.sleep(POLL)
    finally:
        gc.enable()


async def test_misconfigured_placement_is_not_retried(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.place()
    await fleet.replace("p", tolerations=[{"value": "without a key"}])
    await fleet.eventually(lambda: bool(fleet.mistake("p")))
    await fleet.settled(manager)
    before = wakes(manager)
    await fleet.after(manager, PLACEMENTS, await fleet.place("q"))
    assert wakes(manager) == before + 1


# Fields of a later version of OCM, say


@pytest.fixture
async def lenient(client: Client) -> AsyncIterator[None]:
    """A hub that keeps unknown fields of placements and decisions."""
    changed: list[tuple[str, str]] = []
    for resource in (PLACEMENTS, PLACEMENT_DECISIONS):
        path = f"{DEFINITIONS}/{resource.plural}.{resource.group}"
        definition = msgspec.json.decode((await client.request("GET", path)).body)
        for at, version in enumerate(definition["spec"]["versions"]):
            for part in version["schema"]["openAPIV3Schema"]["properties"]:
                if part in ("spec", "status"):
                    pointer = f"/spec/versions/{at}/schema/openAPIV3Schema/properties/{part}/{LENIENT}"
                    changed.append((path, pointer))
    for path, pointer in changed:
        await _patch(client, path, [{"op": "add", "path": pointer, "value": True}])
    yield
    for path, pointer in changed:
        await _patch(client, path, [{"op": "remove", "path": pointer}])


async def _patch(client: Client, path: str, operations: list[dict[str, Any]]) -> None:
    body = msgspec.json.encode(operations)
    await client.request("PATCH", path, body=body, content_type="application/json-patch+json")


async def _raw(fleet: HubFleet, resource: Resource[Any], name: str) -> dict[str, Any]:
    path = resource.path(namespace=fleet.namespace, name=name)
    document: dict[str, Any] = msgspec.json.decode((await fleet.client.request("GET", path)).body)
    return document


@pytest.mark.usefixtures("lenient")
async def test_unknown_fields_are_kept(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.place("p", PlacementSpec(numberOfClusters=1))
    await fleet.chooses("p", "a")
    # A hub goes by a changed definition a moment later, and nothing says when: each of the changes may be behind.
    while "future" not in (await _raw(fleet, PLACEMENTS, "p"))["spec"]:
        await fleet.replace("p", future={"kept": True})
        await asyncio.sleep(POLL)
    future = {"status": {"future": {"kept": True}}}
    written: dict[str, Resource[Any]] = {"p": PLACEMENTS, "p-decision-1": PLACEMENT_DECISIONS}
    for name, resource in written.items():
        while "future" not in (await _raw(fleet, resource, name))["status"]:
            await fleet.edit(resource, name, future, namespace=fleet.namespace, status=True)
            await asyncio.sleep(POLL)
    await fleet.replace("p", numberOfClusters=2)
    await fleet.chooses("p", "a", "b")
    await fleet.settled(manager)
    placement = await _raw(fleet, PLACEMENTS, "p")
    decision = await _raw(fleet, PLACEMENT_DECISIONS, "p-decision-1")
    assert placement["spec"]["future"] == placement["status"]["future"] == {"kept": True}
    assert decision["status"]["future"] == {"kept": True}
    assert placement["status"]["numberOfSelectedClusters"] == 2
