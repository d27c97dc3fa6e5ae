"""Two replicas: decisions are correct and have one writer, whatever happens to the leader."""

import signal
from itertools import pairwise

import pytest

from chaos.leadership import problems
from controllers.crash import scratch
from controllers.crash.consumer import Consumer, faults
from controllers.hub_fleet import HubFleet
from controllers.replicas.conftest import LEASE, Replica, Replicas
from fairway.api.resources import MANAGED_CLUSTERS
from kubewire.client import Client

pytestmark = pytest.mark.embedded

NO_LONGER = "stopped leading"


async def pair(replicas: Replicas) -> tuple[Replica, Replica]:
    """The leader, and the one that waits."""
    await replicas.start("ann")
    leader = await replicas.led()
    return leader, await replicas.start("ben")


async def pair_with_decision(replicas: Replicas, fleet: HubFleet, *clusters: str) -> tuple[Replica, Replica]:
    """The leader, which has decided the placement ``p``, and the one that waits."""
    leader, waiting = await pair(replicas)
    await fleet.clusters(*clusters)
    await fleet.place()
    await fleet.chooses("p", *clusters)
    return leader, waiting


async def settled(replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer) -> None:
    """What holds in the end, and held all the time."""
    rooms = [fleet.namespace]
    assert await scratch.written(client, rooms) == await scratch.computed(client, rooms)
    await consumer.caught_up(client)
    assert not list(faults(consumer.states(fleet.namespace)))
    for replica in replicas.all.values():
        await replica.all_received()
    assert not problems(replicas.leases[LEASE], [], [])
    errors = [
        (replica.name, line["log"])
        for replica in replicas.all.values()
        for line in replica.program.messages
        if line.get("level") in ("ERROR", "CRITICAL")
    ]
    assert not errors


async def test_only_the_leader_of_two_replicas_writes(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    leader, waiting = await pair(replicas)
    await waiting.logs("placement on hub")
    for number, cluster in enumerate("abcd", start=1):
        await fleet.cluster(cluster)
        if number == 1:
            await fleet.place()
        await fleet.chooses("p", *"abcd"[:number])
    await settled(replicas, fleet, client, consumer)
    assert leader.writes
    assert not waiting.tries()
    assert not replicas.intruders()


async def test_standby_takes_over_after_the_leader_is_killed(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    leader, waiting = await pair_with_decision(replicas, fleet, "a")
    leader.child.kill()
    await fleet.cluster("b")
    await replicas.led(by=waiting.name)
    await fleet.chooses("p", "a", "b")
    await settled(replicas, fleet, client, consumer)
    assert not replicas.given_back()
    assert not replicas.intruders()


@pytest.mark.both_hubs
async def test_leader_hands_over_on_sigterm(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """The leader releases the lease, so that the standby need not wait for its expiry."""
    leader, waiting = await pair_with_decision(replicas, fleet, "a")
    leader.child.signal(signal.SIGTERM)
    assert await leader.child.end() == 0, leader.child.tail()
    await fleet.cluster("b")
    await replicas.led(by=waiting.name)
    await fleet.chooses("p", "a", "b")
    holders = [held.holder for held in replicas.leases[LEASE]]
    changes = [holders[0], *(after for before, after in pairwise(holders) if before != after)]
    assert changes == [leader.name, "", waiting.name]
    await settled(replicas, fleet, client, consumer)
    assert not replicas.intruders()


async def test_thawed_leader_does_not_write_from_its_old_view(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """Its view is of long ago when it wakes up. It must not write from it, and may lead again later."""
    leader, waiting = await pair_with_decision(replicas, fleet, "a", "b")
    await consumer.caught_up(client)
    consumer.begin()
    await leader.freeze()
    await fleet.cluster("c")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await replicas.led(by=waiting.name)
    await fleet.chooses("p", "b", "c")
    before = len(leader.program.messages)
    leader.thaw()
    await leader.logs(NO_LONGER, after=before)
    await settled(replicas, fleet, client, consumer)
    assert not leader.tries(after=before)
    assert not replicas.intruders()

    consumer.begin()
    waiting.child.kill()
    await replicas.led(by=leader.name)
    await fleet.cluster("d")
    await fleet.chooses("p", "b", "c", "d")
    await settled(replicas, fleet, client, consumer)
    assert not replicas.intruders()


@pytest.mark.both_hubs
async def test_late_write_of_a_frozen_leader_is_rejected_as_stale(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """The hub refuses it: the page is not of that version any more."""
    leader, waiting = await pair_with_decision(replicas, fleet, "a", "b")
    await consumer.caught_up(client)
    consumer.begin()
    await leader.stops_within()
    await fleet.cluster("c")
    await leader.program.wait_for(lambda line: "inside" in line)
    await leader.frozen()
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await replicas.led(by=waiting.name)
    await fleet.chooses("p", "b", "c")
    before = len(leader.program.messages)
    leader.thaw()
    late = await leader.program.wait_for(lambda line: "refused" in line or "wrote" in line, after=before)
    assert late["refused"] == "Conflict"
    await leader.logs(NO_LONGER, after=before)
    await settled(replicas, fleet, client, consumer)
    assert not leader.tries(after=before)
    assert not replicas.intruders()


async def test_outdated_write_of_a_frozen_leader_is_corrected(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """The cluster to add was deleted meanwhile without another write, so the hub accepts the late write, and the new
    leader corrects it.
    """
    leader, waiting = await pair_with_decision(replicas, fleet, "a")
    await consumer.caught_up(client)
    consumer.begin()
    await leader.stops_within()
    await fleet.cluster("b")
    await leader.program.wait_for(lambda line: "inside" in line)
    await leader.frozen()
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("b"))
    await replicas.led(by=waiting.name)
    before = len(leader.program.messages)
    leader.thaw()
    late = await leader.program.wait_for(lambda line: "refused" in line or "wrote" in line, after=before)
    assert "wrote" in late
    repaired = await waiting.program.wait_for(lambda line: "wrote" in line)
    assert repaired["path"] == late["path"]
    await fleet.chooses("p", "a")
    await consumer.caught_up(client)
    unions = [sorted(map(fleet.short, state)) for state in consumer.states(fleet.namespace)]
    assert unions == [["a"], ["a", "b"], ["a"]]
    rooms = [fleet.namespace]
    assert await scratch.written(client, rooms) == await scratch.computed(client, rooms)
    for replica in (leader, waiting):
        await replica.all_received()
    assert [write.version for write in replicas.intruders()] == [late["wrote"]]
    assert not leader.tries(after=before)


async def test_leader_without_connection_is_replaced_and_stops_writing(
    replicas: Replicas, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """The disconnected leader must stop by itself, and its pending writes must do no harm."""
    leader, waiting = await pair_with_decision(replicas, fleet, "a", "b")
    await consumer.caught_up(client)
    consumer.begin()
    leader.relay.cut()
    await fleet.cluster("c")
    before = len(leader.program.messages)
    await leader.logs(NO_LONGER, after=before)
    await replicas.led(by=waiting.name)
    await fleet.chooses("p", "a", "b", "c")
    leader.relay.mend()
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.chooses("p", "b", "c")
    # It is not dead, only out of office: it can lead again.
    waiting.child.signal(signal.SIGTERM)
    assert await waiting.child.end() == 0, waiting.child.tail()
    await replicas.led(by=leader.name)
    await fleet.cluster("d")
    await fleet.chooses("p", "b", "c", "d")
    await settled(replicas, fleet, client, consumer)
    assert not replicas.intruders()
