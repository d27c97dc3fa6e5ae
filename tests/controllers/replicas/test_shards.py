"""Placements in shards with two replicas each are written by their own shard only."""

import re

import pytest

from controllers.crash import scratch
from controllers.hub_fleet import HubFleet
from controllers.replicas.conftest import Replicas
from fairway.controllers.placement.shard import Shard
from kubewire.client import Client

pytestmark = pytest.mark.embedded

SHARDS = [Shard(index=index, count=2) for index in range(2)]


async def test_placement_is_written_by_its_shard_only(
    replicas: Replicas, fleet: HubFleet, client: Client
) -> None:
    rooms: dict[Shard, list[str]] = {shard: [] for shard in SHARDS}
    number = 0
    while min(map(len, rooms.values())) < 3:
        room = await fleet.create_namespace(f"room{number}")
        await fleet.bind("s", namespace=room)
        (owner,) = (shard for shard in SHARDS if shard.has(room))
        rooms[owner].append(room)
        number += 1
    everywhere = [room for of_replica in rooms.values() for room in of_replica]
    for name, shard in zip(("ann", "ben"), SHARDS, strict=True):
        await replicas.start(name, "--shard", str(shard))
        await replicas.led(by=name, lease=shard.lease)
    await replicas.start("cleo", "--shard", str(SHARDS[1]))

    await fleet.clusters("a", "b")
    for room in everywhere:
        await fleet.place("p", namespace=room)
    for room in everywhere:
        await fleet.chooses("p", "a", "b", namespace=room)

    # Its own deputy takes over, not the leader of the other half.
    replicas.all["ben"].child.kill()
    await fleet.cluster("c")
    for room in everywhere:
        await fleet.chooses("p", "a", "b", "c", namespace=room)

    assert await scratch.written(client, everywhere) == await scratch.computed(client, everywhere)
    for replica in replicas.all.values():
        await replica.all_received()
    written = {
        name: {_namespace(write.path) for write in replica.writes} for name, replica in replicas.all.items()
    }
    assert written == {
        "ann": set(rooms[SHARDS[0]]),
        "ben": set(rooms[SHARDS[1]]),
        "cleo": set(rooms[SHARDS[1]]),
    }
    assert set(replicas.leases) == {shard.lease for shard in SHARDS}
    (last,) = {held.holder for held in replicas.leases[SHARDS[0].lease]}
    assert last == "ann"


def _namespace(path: str) -> str:
    match = re.search(r"/namespaces/([^/]+)/", path)
    assert match is not None
    return match[1]
