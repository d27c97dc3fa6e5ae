"""Nothing is written when nothing is to be changed, and nothing is lost of what others wrote."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controllers.conftest import ALONE, Start
from controllers.figures import wakes, writes
from controllers.hubs import DEFINITIONS
from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import PLACEMENT_DECISIONS, PLACEMENTS, Client, Resource
from fairway.testing import builders
from rigs.processes import POLL

LENIENT = "x-kubernetes-preserve-unknown-fields"


async def test_looking_again_writes_nothing(start: Start, world: World) -> None:
    """As every placement is looked at from time to time, whether or not anything happened."""
    await world.clusters("a", "b")
    policy = builders.policy(builders.addon("cpu"))
    async with start(replace(ALONE, resync=0.01)) as manager:
        await world.place("p", PlacementSpec(prioritizerPolicy=policy))
        await world.chooses("p", "a", "b")
        await manager.quiet()
        before, looks, written = await world.versions(), wakes(manager), writes(manager)
        while wakes(manager) < looks + 20:
            await manager.quiet()
            await asyncio.sleep(POLL)  # nothing tells that nothing was written
        assert writes(manager) == written
        assert await world.versions() == before


async def test_who_starts_anew_writes_nothing(start: Start, world: World) -> None:
    await world.clusters("a", "b", "c")
    await world.score("b", {"cpu": 50})
    policy = builders.policy(builders.addon("cpu"))
    async with start():
        await world.place("p", PlacementSpec(numberOfClusters=2, prioritizerPolicy=policy))
        await world.place("q", PlacementSpec(numberOfClusters=7))
        await world.place("wrong", PlacementSpec(numberOfClusters=-1))
        await world.chooses("p", "a", "b")
        await world.chooses("q", "a", "b", "c")
        await world.chooses("wrong")
    before = await world.versions()
    for _ in range(3):
        async with start() as manager:
            await world.settled(manager)
            assert not writes(manager)
    assert await world.versions() == before


async def test_a_misconfigured_placement_is_not_tried_again_and_again(manager: Manager, world: World) -> None:
    """It takes somebody to mend it, and that is noticed."""
    await world.clusters("a")
    await world.place()
    await world.replace("p", tolerations=[{"value": "without a key"}])
    await world.eventually(lambda: bool(world.mistake("p")))
    await world.settled(manager)
    before = wakes(manager)
    await world.after(manager, PLACEMENTS, await world.place("q"))
    assert wakes(manager) == before + 1


# Fields of a later version of OCM, say


@pytest.fixture
async def lenient(client: Client) -> AsyncIterator[None]:
    """The hub keeps fields of placements and decisions that Fairway has never heard of."""
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


async def _raw(world: World, resource: Resource[Any], name: str) -> dict[str, Any]:
    path = resource.path(namespace=world.namespace, name=name)
    found: dict[str, Any] = msgspec.json.decode((await world.client.request("GET", path)).body)
    return found


@pytest.mark.usefixtures("lenient")
async def test_fields_that_fairway_does_not_know_stay(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.place("p", PlacementSpec(numberOfClusters=1))
    await world.chooses("p", "a")
    # A hub goes by a changed definition a moment later, and nothing says when: each of the changes may be behind.
    while "future" not in (await _raw(world, PLACEMENTS, "p"))["spec"]:
        await world.replace("p", future={"kept": True})
        await asyncio.sleep(POLL)
    future = {"status": {"future": {"kept": True}}}
    written: dict[str, Resource[Any]] = {"p": PLACEMENTS, "p-decision-1": PLACEMENT_DECISIONS}
    for name, resource in written.items():
        while "future" not in (await _raw(world, resource, name))["status"]:
            await world.edit(resource, name, future, namespace=world.namespace, status=True)
            await asyncio.sleep(POLL)
    await world.replace("p", numberOfClusters=2)
    await world.chooses("p", "a", "b")
    await world.settled(manager)
    placement = await _raw(world, PLACEMENTS, "p")
    decision = await _raw(world, PLACEMENT_DECISIONS, "p-decision-1")
    assert placement["spec"]["future"] == placement["status"]["future"] == {"kept": True}
    assert decision["status"]["future"] == {"kept": True}
    assert placement["status"]["numberOfSelectedClusters"] == 2
