"""Placements that are split between several processes."""

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from controllers.conftest import ALONE, Start
from controllers.figures import writes
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENT_DECISIONS
from fairway.controllers.placement.shard import Shard

pytestmark = pytest.mark.embedded

COUNT = 2
SHARDS = [Shard(index=index, count=COUNT) for index in range(COUNT)]


@pytest.fixture
async def rooms(fleet: HubFleet) -> list[str]:
    """Return a namespace of each shard, with the set bound to it."""
    namespaces: list[str] = []
    for shard in SHARDS:
        word = next(word for number in range(1000) if shard.has(fleet.name(word := f"room{number}")))
        room = await fleet.create_namespace(word)
        await fleet.bind("s", namespace=room)
        namespaces.append(room)
    return namespaces


async def test_shard_writes_its_own_placements_and_counts_all(
    start: Start, fleet: HubFleet, rooms: list[str]
) -> None:
    await fleet.clusters(*"abcd")
    async with AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(start(replace(ALONE, shard=shard))) for shard in SHARDS]
        chosen: list[str] = []
        for number in range(4):
            room, name = rooms[number % COUNT], f"p{number}"
            await fleet.place(name, PlacementSpec(numberOfClusters=1), namespace=room)
            chosen += await _decided(fleet, name, room)
            for manager in managers:  # a shard counts what another has decided once it has heard of it
                await fleet.after(manager, PLACEMENT_DECISIONS, fleet.decisions(name, namespace=room)[0])
        assert chosen == list("abcd"), "Balance counts the decisions of all shards"
        for manager in managers:
            assert writes(manager) == {
                "create placementdecisions": 2,
                "patch placementdecisions": 2,
                "patch placements": 2,
            }


async def test_shards_react_to_the_same_change(start: Start, fleet: HubFleet, rooms: list[str]) -> None:
    await fleet.clusters("a")
    async with start(replace(ALONE, shard=SHARDS[0])), start(replace(ALONE, shard=SHARDS[1])):
        for room in rooms:
            await fleet.place("p", namespace=room)
            await fleet.chooses("p", "a", namespace=room)
        await fleet.clusters("b")
        for room in rooms:
            await fleet.chooses("p", "a", "b", namespace=room)


async def test_placements_of_a_stopped_shard_wait(start: Start, fleet: HubFleet, rooms: list[str]) -> None:
    async with start(replace(ALONE, shard=SHARDS[0])) as first:
        await fleet.after(first, MANAGED_CLUSTERS, await fleet.cluster("a"))
        for room in rooms:
            await fleet.place("p", namespace=room)
        await fleet.chooses("p", "a", namespace=rooms[0])
        await first.quiet()
        assert fleet.decisions("p", namespace=rooms[1]) == []
        async with start(replace(ALONE, shard=SHARDS[1])):
            await fleet.chooses("p", "a", namespace=rooms[1])


async def test_process_that_takes_over_all_shards_writes_nothing(
    start: Start, fleet: HubFleet, rooms: list[str]
) -> None:
    await fleet.clusters("a", "b")
    async with AsyncExitStack() as stack:
        for shard in SHARDS:
            await stack.enter_async_context(start(replace(ALONE, shard=shard)))
        for room in rooms:
            await fleet.place("p", namespace=room)
            await fleet.chooses("p", "a", "b", namespace=room)
    before = await fleet.versions()
    async with start() as manager:
        await fleet.settled(manager)
        assert not writes(manager)
    assert await fleet.versions() == before


def test_each_namespace_is_in_exactly_one_shard() -> None:
    shards = [Shard(index=index, count=5) for index in range(5)]
    for number in range(1000):
        assert sum(shard.has(f"namespace-{number}") for shard in shards) == 1


async def _decided(fleet: HubFleet, name: str, room: str) -> list[str]:
    await fleet.eventually(lambda: bool(fleet.reason(name, namespace=room)))
    await fleet.eventually(lambda: bool(fleet.chosen(name, namespace=room)))
    return fleet.chosen(name, namespace=room)
