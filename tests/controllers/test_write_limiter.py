"""Order and number of concurrent writes."""

import asyncio

from fairway.controllers.runtime.write_limiter import LONG_BURST, MOST_AHEAD, EventLane, Lane, WriteLimiter
from kubewire.api.event import CoreEvent, Event


class Writes:
    """Named writes that last until they are released; ``begun`` lists the started ones in order."""

    def __init__(self, limiter: WriteLimiter) -> None:
        self._limiter = limiter
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, *, urgent: bool) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._write(name, urgent=urgent))
        await _quiet()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await _quiet()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name] for name in names])
        await _quiet()

    async def _write(self, name: str, *, urgent: bool) -> None:
        async with self._limiter.turn(Lane.DECISION if urgent else Lane.REFRESH):
            self.begun.append(name)
            await self._ends[name].wait()


async def _quiet() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_writes_beyond_the_limit_wait_in_order() -> None:
    writes = Writes(WriteLimiter(at_once=2))
    for name in "abcd":
        await writes.begin(name, urgent=True)
    assert writes.begun == ["a", "b"]

    await writes.end("b")
    assert writes.begun == ["a", "b", "c"]
    await writes.end("a")
    assert writes.begun == ["a", "b", "c", "d"]


async def test_long_burst_has_more_slots_until_only_events_wait() -> None:
    limiter = WriteLimiter(at_once=2, in_long_burst=4)
    writes, sink = Writes(limiter), _Sink()
    names = [f"p{number}" for number in range(LONG_BURST + 2)]
    for name in names[:-1]:
        await writes.begin(name, urgent=True)
    assert writes.begun == names[:2]
    await writes.begin(names[-1], urgent=True)
    assert writes.begun == names[:4]

    event = asyncio.create_task(EventLane(sink, limiter).create(CoreEvent()))
    for name in names[:-2]:
        await writes.end(name)
    assert writes.begun == names
    assert not event.done()
    await writes.begin("next", urgent=True)
    await writes.end(names[-1])
    assert writes.begun[-1] == "next"
    await writes.end("next")
    await event


async def test_urgent_write_overtakes_earlier_deferrable_ones() -> None:
    writes = Writes(WriteLimiter(at_once=1))
    await writes.begin("first", urgent=True)
    await writes.begin("status", urgent=False)
    await writes.begin("decision", urgent=True)

    await writes.end("first")
    assert writes.begun == ["first", "decision"]
    await writes.end("decision")
    assert writes.begun == ["first", "decision", "status"]


async def test_deferrable_write_starts_when_a_slot_is_free() -> None:
    writes = Writes(WriteLimiter(at_once=2))
    await writes.begin("decision", urgent=True)
    await writes.begin("status", urgent=False)

    assert writes.begun == ["decision", "status"]


async def test_cancelled_waiter_blocks_no_other_write() -> None:
    writes = Writes(WriteLimiter(at_once=1))
    for name in ("first", "impatient", "next"):
        await writes.begin(name, urgent=True)

    await writes.cancel("impatient")
    await writes.end("first")

    assert writes.begun == ["first", "next"]


async def test_slot_granted_to_a_cancelled_waiter_is_passed_on() -> None:
    writes = Writes(WriteLimiter(at_once=1))
    for name in ("first", "impatient", "next"):
        await writes.begin(name, urgent=True)

    await writes.cancel(
        "first", "impatient"
    )  # the first one's end is the turn of the second, which ends, too

    assert writes.begun == ["first", "next"]


async def test_failed_write_frees_its_slot() -> None:
    limiter = WriteLimiter(at_once=1)
    for _ in range(3):
        try:
            async with limiter.turn(Lane.DECISION):
                raise ValueError
        except ValueError:
            continue
    writes = Writes(limiter)
    await writes.begin("next", urgent=False)

    assert writes.begun == ["next"]


async def test_waiter_cancelled_after_it_got_the_turn_passes_it_on() -> None:
    limiter = WriteLimiter(at_once=1)
    writes = Writes(limiter)
    async with limiter.turn(Lane.DECISION):
        for name in ("cancelled", "next"):
            await writes.begin(name, urgent=True)

    await writes.cancel("cancelled")  # its turn has come, but its task has not run since

    assert writes.begun == ["next"]


async def test_event_waits_for_decisions_and_statuses() -> None:
    limiter = WriteLimiter(at_once=1)
    writes = Writes(limiter)

    class Sink:
        async def create(self, event: CoreEvent | Event) -> None:
            writes.begun.append(f"created {event.reason}")

        async def patch(self, event: CoreEvent | Event) -> None:
            writes.begun.append(f"updated {event.reason}")

    events = EventLane(Sink(), limiter)
    await writes.begin("first", urgent=True)
    created = asyncio.create_task(events.create(CoreEvent(reason="R")))
    await _quiet()
    await writes.begin("status", urgent=False)
    await writes.begin("decision", urgent=True)
    for name in ("first", "decision", "status"):
        await writes.end(name)
    await created
    await events.patch(CoreEvent(reason="R"))

    assert writes.begun == ["first", "decision", "status", "created R", "updated R"]


class _Sink:
    def __init__(self) -> None:
        self.written = asyncio.Event()

    async def create(self, _event: CoreEvent | Event) -> None:
        self.written.set()

    async def patch(self, _event: CoreEvent | Event) -> None:
        self.written.set()


async def test_event_waits_for_decisions_although_slots_are_free() -> None:
    limiter, sink = WriteLimiter(at_once=8, events_after=3600), _Sink()
    writes, lane = Writes(limiter), EventLane(sink, limiter)
    await writes.begin("one", urgent=True)
    recording = asyncio.create_task(lane.create(CoreEvent()))
    await writes.begin("two", urgent=True)
    await writes.end("one")
    assert not sink.written.is_set()
    await writes.end("two")
    await recording


async def test_event_waits_for_no_status() -> None:
    limiter, sink = WriteLimiter(at_once=8, events_after=3600), _Sink()
    await Writes(limiter).begin("status", urgent=False)
    await EventLane(sink, limiter).create(CoreEvent())


async def test_event_is_written_when_no_decision_was_begun_for_long() -> None:
    limiter, sink = WriteLimiter(at_once=8, events_after=0.001), _Sink()
    await Writes(limiter).begin("stuck", urgent=True)
    await EventLane(sink, limiter).create(CoreEvent())


async def test_event_is_written_among_many_decisions() -> None:
    limiter, sink = WriteLimiter(at_once=8, events_after=3600), _Sink()
    writes = Writes(limiter)
    await writes.begin("first", urgent=True)
    recording = asyncio.create_task(EventLane(sink, limiter).create(CoreEvent()))
    for number in range(MOST_AHEAD + 1):
        await writes.begin(f"next {number}", urgent=True)
        await writes.end(f"next {number}")
    await recording
