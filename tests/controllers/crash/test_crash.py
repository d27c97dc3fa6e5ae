"""After a controller is killed between any two of its writes, the next one loses, repeats and empties nothing.

Every change is stopped at each of its writes: before the write is sent, and after the hub did it. The unsent write
is sent at the end, as by a slow network.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from controllers.conftest import ALONE, Rights, Start
from controllers.crash import scratch
from controllers.crash.changes import CHANGES, PAGE_SIZE, Change, chooses, sides, word
from controllers.crash.consumer import Consumer, State, faults
from controllers.crash.crashing_controller import CrashMoment, CrashPoint, Plan, Stopped, Written, read
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from fairway.controllers.settings import PLACEMENT
from fairway.workloads.placement import pages
from forked import Child
from kubewire.client import ApiError, Client
from rigs.processes import POLL
from rigs.restricted import restricted, write_kubeconfig

KILLED = -9
DONE = "done"
PATIENT = replace(ALONE, workers=64)
PROGRAM = "controllers.crash.crashing_controller"

Life = Callable[[Plan], Awaitable[list[Stopped | Written]]]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", PAGE_SIZE)


@pytest.fixture
async def live(hub: HubUnderTest, rights: Rights, tmp_path: Path) -> Life:
    """Run a controller until it kills itself at the given write."""
    controllers = frozenset({PLACEMENT})
    if controllers not in rights:
        rights[controllers] = await restricted(hub.administrator, controllers=controllers)
    kubeconfig = await write_kubeconfig(rights[controllers], tmp_path / "kubeconfig")
    lives = 0

    async def lived(plan: Plan) -> list[Stopped | Written]:
        nonlocal lives
        lives += 1
        report = tmp_path / f"report-{lives}"
        child = Child(
            PROGRAM,
            str(kubeconfig),
            json.dumps(msgspec.to_builtins(plan)),
            str(report),
            log=tmp_path / f"life-{lives}.log",
        )
        assert await child.end() == KILLED, child.tail()
        return read(report)

    return lived


@pytest.fixture
async def consumer(client: Client) -> AsyncIterator[Consumer]:
    made = Consumer()
    async with made.following(client):
        yield made


async def rooms_of(fleet: HubFleet, count: int) -> list[str]:
    rooms: list[str] = []
    for number in range(count):
        room = await fleet.create_namespace(f"room{number:02}")
        await fleet.bind("s", namespace=room)
        rooms.append(room)
    return rooms


async def right(fleet: HubFleet, rooms: list[str], count: int) -> None:
    """Wait until all placements have this number of clusters in decision and status."""

    def done() -> bool:
        return all(
            len(fleet.chosen("p", namespace=room)) == count
            and (status := fleet.status("p", namespace=room)).numberOfSelectedClusters == count
            and bool(status.conditions)
            for room in rooms
        )

    await fleet.eventually(done)


async def checked(client: Client, consumer: Consumer, rooms: list[str]) -> None:
    assert await scratch.written(client, rooms) == await scratch.computed(client, rooms)
    await consumer.caught_up(client)
    faults_by_room = {room: list(faults(consumer.states(room))) for room in rooms}
    assert not any(faults_by_room.values()), {
        room: texts[:3] for room, texts in faults_by_room.items() if texts
    }


async def sent_late(client: Client, late: Stopped) -> str:
    """The response of the hub."""
    try:
        await client.request(
            late.method,
            late.path,
            query=late.query,
            body=late.body.encode() or None,
            content_type=late.content_type,
        )
    except ApiError as error:
        return error.reason
    return DONE


async def next_second() -> None:
    """Score times have seconds, so wait for the next one to get a write."""
    now = int(time.time())
    while int(time.time()) == now:
        await asyncio.sleep(POLL)


ON_BOTH_HUBS = "two groups swap their clusters"
"""The change that is also made on a real hub, which rejects late writes as the embedded one does."""


def _marks(change: Change) -> list[pytest.MarkDecorator]:
    """tests/controllers/steps tries all orders of writes in memory, so some changes suffice with processes."""
    usual = [] if change.usual else [pytest.mark.soak]
    return [*usual, *([] if change.name == ON_BOTH_HUBS else [pytest.mark.embedded])]


@pytest.mark.parametrize(
    "change", [pytest.param(change, marks=_marks(change)) for change in CHANGES], ids=str
)
async def test_decisions_converge_after_a_kill_between_any_two_writes(
    change: Change, start: Start, live: Life, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    await change.people(fleet)
    rooms = await rooms_of(fleet, 1 + 2 * change.most)
    plan: Plan = {rooms[0]: CrashPoint(write=0)}
    for when in CrashMoment:
        for write in range(1, change.most + 1):
            plan[rooms[len(plan)]] = CrashPoint(write=write, when=when)
    if change.spec is not None:
        async with start(PATIENT) as manager:
            for room in rooms:
                await fleet.place("p", change.spec, namespace=room)
            await right(fleet, rooms, change.before)
            await fleet.settled(manager)
    await next_second()
    await change.happen(fleet, rooms)
    await consumer.caught_up(client)
    consumer.begin()

    lines = await live(plan)

    (writes,) = (line.writes for line in lines if isinstance(line, Written) and line.namespace == rooms[0])
    assert 1 < writes < change.most, "every write has a placement that dies at it"
    stopped = {line.namespace: line for line in lines if isinstance(line, Stopped)}
    assert sorted(line.write for line in stopped.values()) == sorted([*range(1, writes + 1)] * 2)

    async with start(PATIENT) as manager:
        await fleet.settled(manager)
        await right(fleet, rooms, change.after)
        await checked(client, consumer, rooms)
        late = {line.path: await sent_late(client, line) for line in stopped.values()}
        # A late write of the score time is still valid.
        done = [path for path, answer in late.items() if answer == DONE]
        assert not [path for path in done if "/placementdecisions" in path]
        await fleet.settled(manager)
        await checked(client, consumer, rooms)


@pytest.mark.embedded
async def test_decisions_converge_when_each_process_writes_once(
    start: Start, live: Life, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """Each process does one write and dies, and the next one continues."""
    await CHANGES[0].people(fleet)
    rooms = await rooms_of(fleet, 4)
    before = {
        rooms[0]: chooses(),
        rooms[1]: chooses(15),
        rooms[2]: sides("left", "right"),
        rooms[3]: chooses(20),
    }
    after = {rooms[1]: chooses(19), rooms[2]: sides("right", "left"), rooms[3]: chooses(3)}
    async with start(PATIENT) as manager:
        for room, spec in before.items():
            await fleet.place("p", spec, namespace=room)
        for room, count in zip(rooms, (20, 15, 20, 20), strict=True):
            await right(fleet, [room], count)
        await fleet.settled(manager)
    await fleet.cluster("a000", labels={"side": "left"})
    for room, spec in after.items():
        await fleet.edit(PLACEMENTS, "p", {"spec": msgspec.to_builtins(spec)}, namespace=room)
    await consumer.caught_up(client)
    consumer.begin()

    plan: Plan = {room: CrashPoint(write=2) for room in rooms}
    lives = 1
    while any(isinstance(line, Stopped) for line in await live(plan)):
        lives += 1
        assert lives < 20, "it does not get there"

    assert lives > 3
    await checked(client, consumer, rooms)
    assert {room: len(consumer.states(room)[-1]) for room in rooms} == dict(
        zip(rooms, (21, 19, 21, 3), strict=True)
    )


async def test_outdated_late_write_of_a_killed_process_is_corrected(
    start: Start, live: Life, fleet: HubFleet, client: Client, consumer: Consumer
) -> None:
    """A cluster is added, the controller dies before it writes that, and the cluster is deleted. The hub accepts the
    late write, because nothing was written since; the next controller reverts it."""
    words = [word(number) for number in range(3)]
    await fleet.clusters(*words)
    (room,) = await rooms_of(fleet, 1)
    async with start() as manager:
        await fleet.place("p", namespace=room)
        await right(fleet, [room], 3)
        await fleet.settled(manager)
    await fleet.cluster("a000")
    (stopped,) = await live({room: CrashPoint(write=1)})
    assert isinstance(stopped, Stopped)
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a000"))
    await consumer.caught_up(client)
    consumer.begin()

    async with start() as manager:
        await fleet.settled(manager)
        assert await sent_late(client, stopped) == DONE
        await fleet.settled(manager)
        await right(fleet, [room], 3)
        await consumer.caught_up(client)

    unions = [sorted(map(fleet.short, state)) for state in consumer.states(room)]
    assert unions == [words, ["a000", *words], words]
    assert await scratch.written(client, [room]) == await scratch.computed(client, [room])


@pytest.mark.parametrize(
    ("states", "fault"),
    [
        (["ab", "a", "ab"], "state 1: ['b'] are missing, and chosen before and after"),
        (["a", "", "b"], "state 1: nothing is chosen"),
        (["a", "ac", "ab"], "state 1: ['c'] were not chosen before and are not after"),
        (["a", "ab", "a", "ab"], "state 2: ['b'] are gone again"),
        (["ab", "a", "ab", "a"], "state 2: ['b'] are back again"),
        (["a", "abb"], "in the end: ['b'] are there twice"),
    ],
)
def test_consumer_reports_inconsistent_decisions(states: list[str], fault: str) -> None:
    assert fault in list(faults([State(state) for state in states]))


@pytest.mark.parametrize("states", [["", "a", "ab"], ["ab", "aab", "ac", "c"], ["ab", "a", ""], ["a"]])
def test_consumer_accepts_consistent_decisions(states: list[str]) -> None:
    assert not list(faults([State(state) for state in states]))
