"""The work queue: nothing lost, nothing twice at once, nothing early."""

import asyncio
from collections.abc import Callable

import looptime
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubewire.client.clock import Backoff, SystemClock, TokenBucket
from kubewire.client.workqueue import NOT_TAKEN, QueueStats, Unobserved, WorkQueue

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def taken(queue: WorkQueue[str]) -> list[str]:
    """Everything that is queued, each done at once."""
    items = []
    while len(queue):
        async with queue.take() as item:
            items.append(item)
    return items


async def test_queue_is_fifo_without_duplicates() -> None:
    queue = WorkQueue[str]()
    for item in "abcabca":
        queue.add(item)
    assert await taken(queue) == ["a", "b", "c"]


async def test_item_added_while_processed_is_queued_afterwards() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert len(queue) == 1
    assert await queue.get() == "b"
    queue.done("a")
    assert await queue.get() == "a"


async def test_worker_waits_for_an_item() -> None:
    queue = WorkQueue[str]()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(3)
    assert not worker.done()
    queue.add("a")
    assert await worker == "a"
    assert now() == 3


async def test_done_needs_a_taken_item() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    with pytest.raises(ValueError, match=NOT_TAKEN):
        queue.done("a")


async def test_failing_worker_returns_its_item() -> None:
    queue = WorkQueue[str]()
    queue.add("a")

    async def fail() -> None:
        async with queue.take() as item:
            queue.add(item)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await fail()
    assert await taken(queue) == ["a"]


async def test_delay_is_honoured_and_the_earliest_wins() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", delay=10)
    queue.add_after("a", delay=4)
    queue.add_after("a", delay=7)
    assert await queue.get() == "a"
    assert now() == 4
    queue.done("a")
    queue.add_after("a", delay=50)  # the delays given up must not end this one
    assert await queue.get() == "a"
    assert now() == 54
    assert queue.stats().delayed == 0


async def test_immediate_add_keeps_the_delayed_one() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", delay=5)
    queue.add("a")
    assert await taken(queue) == ["a"]
    assert await queue.get() == "a"
    assert now() == 5


@pytest.mark.parametrize("delay", [0.0, -1.0])
async def test_zero_delay_adds_at_once(delay: float) -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", delay=delay)
    assert len(queue) == 1


async def test_retries_back_off_until_forgotten() -> None:
    queue = WorkQueue[str](backoff=Backoff(base=1, cap=5))
    moments = []
    for _ in range(5):
        queue.add_rate_limited("a")
        async with queue.take():
            moments.append(now())
    assert moments == [1, 3, 7, 12, 17]
    assert queue.retries("a") == 5
    queue.forget("a")
    assert queue.retries("a") == 0
    queue.add_rate_limited("a")
    await queue.get()
    assert now() == 18


async def test_retries_of_all_items_together_are_limited() -> None:
    queue = WorkQueue[int](backoff=Backoff(base=0.5, cap=0.5), bucket=TokenBucket(burst=2, every=10))
    for item in range(4):
        queue.add_rate_limited(item)
    moments = {}
    for _ in range(4):
        async with queue.take() as item:
            moments[item] = now()
    assert moments == {0: 0.5, 1: 0.5, 2: 10, 3: 20}


async def test_cancelled_worker_passes_its_item_on() -> None:
    queue = WorkQueue[str]()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first, which is cancelled before it runs
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_worker_cancelled_while_waiting_takes_nothing() -> None:
    queue = WorkQueue[str]()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    worker.cancel()
    queue.add("a")
    await asyncio.wait({worker})
    assert await queue.get() == "a"


async def test_join_waits_until_nothing_is_queued_or_processed() -> None:
    queue = WorkQueue[str]()
    await queue.join()
    queue.add("a")
    queue.add_after("b", delay=100)
    joined = asyncio.create_task(queue.join())
    async with queue.take():
        await asyncio.sleep(2)
        assert not joined.done()
    await joined
    assert now() == 2


class RecordingObserver(Unobserved):
    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def added(self, *, depth: int) -> None:
        self.seen.append(("added", depth))

    def started(self, *, waited: float, depth: int) -> None:
        self.seen.append(("started", waited, depth))

    def finished(self, *, took: float) -> None:
        self.seen.append(("finished", took))

    def retried(self) -> None:
        self.seen.append(("retried",))


async def test_queue_metrics_and_observer() -> None:
    notes = RecordingObserver()
    queue = WorkQueue[str](observer=notes, backoff=Backoff(base=50, cap=50))
    queue.add("a")
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    queue.add_rate_limited("c")
    await asyncio.sleep(4)
    assert queue.stats() == QueueStats(
        depth=0, delayed=1, processing=2, adds=2, retries=1, unfinished_seconds=11, longest_seconds=7
    )
    queue.done("a")
    assert queue.stats().longest_seconds == 4
    assert notes.seen == [
        ("added", 1),
        ("added", 2),
        ("started", 2, 1),
        ("started", 5, 0),
        ("retried",),
        ("finished", 7),
    ]


def test_backoff_never_overflows() -> None:
    backoff = Backoff(base=0.005, cap=1000)
    assert [backoff.delay(n) for n in (0, 1, 2)] == [0.005, 0.01, 0.02]
    assert backoff.delay(10**6) == 1000


def test_token_bucket_grants_only_available_tokens() -> None:
    bucket = TokenBucket(burst=2, every=5)
    assert [bucket.take(t) for t in (0, 0, 0, 4.9, 5, 5, 10, 100, 100, 100)] == [
        True, True, False, False, True, False, True, True, True, False,
    ]  # fmt: skip


def test_token_bucket_loses_no_token_to_rounding() -> None:
    bucket = TokenBucket(burst=100, every=0.1)
    assert [bucket.reserve(0.3) for _ in range(100)] == [0.0] * 100
    assert bucket.reserve(0.3) == pytest.approx(0.1)


def test_system_clock_is_monotonic() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)
    assert clock.wall().tzinfo is not None


ITEMS = st.sampled_from("abcd")
DELAYS = st.integers(min_value=1, max_value=6)


class Model(RuleBasedStateMachine):
    """The queue against the plainest description of it: lists, and one moment per delayed item.

    Delays are whole seconds, and every action that has to do with time takes a millisecond besides. So no two things
    happen at the same moment, where their order is undefined.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(start=0)
        self.queue = WorkQueue[str](
            backoff=Backoff(base=2, cap=8), bucket=TokenBucket(burst=10**6, every=1e-6)
        )
        self.time = 0
        self.taken = False
        self.waiting: list[str] = []
        self.dirty: set[str] = set()
        self.held: list[str] = []
        self.due: dict[str, int] = {}
        self.failures: dict[str, int] = {}

    def teardown(self) -> None:
        for item in self.due:
            self.queue.discard(item)
        self.loop.close()

    def do(self, action: Callable[[], None]) -> None:
        async def inside() -> None:
            await asyncio.sleep(0.001)
            action()

        self.loop.run_until_complete(inside())
        self.pass_time(1)

    def expect(self, item: str) -> None:
        if item not in self.dirty:
            self.dirty.add(item)
            if item not in self.held:
                self.waiting.append(item)

    def delay(self, item: str, seconds: int) -> None:
        moment = self.time + 1000 * seconds
        self.due[item] = min(self.due.get(item, moment), moment)

    @rule(item=ITEMS)
    def add(self, item: str) -> None:
        self.do(lambda: self.queue.add(item))
        self.expect(item)

    @rule(item=ITEMS, delay=DELAYS)
    def add_after(self, item: str, delay: int) -> None:
        self.do(lambda: self.queue.add_after(item, delay=delay))
        self.delay(item, delay)

    @rule(item=ITEMS)
    def add_rate_limited(self, item: str) -> None:
        self.do(lambda: self.queue.add_rate_limited(item))
        failures = self.failures.get(item, 0)
        self.delay(item, min(8, 2 << failures))
        self.failures[item] = failures + 1

    @rule(item=ITEMS)
    def forget(self, item: str) -> None:
        self.queue.forget(item)
        self.failures.pop(item, None)

    @precondition(lambda self: self.waiting)
    @rule()
    def take(self) -> None:
        item = self.loop.run_until_complete(self.queue.get())
        assert item == self.waiting.pop(0)
        assert item not in self.held
        self.held.append(item)
        self.dirty.discard(item)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.held))
        self.do(lambda: self.queue.done(item))
        self.held.remove(item)
        if item in self.dirty:
            self.waiting.append(item)

    @precondition(lambda self: not self.waiting)
    @rule(patience=DELAYS)
    def give_up_waiting(self, patience: int) -> None:
        """A worker that comes, waits, and is cancelled; it gets what falls due first meanwhile."""

        async def wait() -> str | None:
            worker = asyncio.create_task(self.queue.get())
            await asyncio.sleep(patience + 0.001)
            worker.cancel()
            await asyncio.wait({worker})
            return None if worker.cancelled() else worker.result()

        got = self.loop.run_until_complete(wait())
        self.pass_time(1000 * patience + 1, taker=True)
        assert got == (self.held[-1] if self.taken else None)

    @rule(seconds=DELAYS)
    def sleep(self, seconds: int) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds + 0.001))
        self.pass_time(1000 * seconds + 1)

    def pass_time(self, milliseconds: int, *, taker: bool = False) -> None:
        self.time += milliseconds
        self.taken = False
        for item in sorted(self.due, key=lambda item: self.due[item]):
            if self.due[item] <= self.time:
                del self.due[item]
                self.expect(item)
                if taker and not self.taken and self.waiting:
                    self.waiting.remove(item)
                    self.dirty.remove(item)
                    self.held.append(item)
                    self.taken = True

    @invariant()
    def stats_match_the_model(self) -> None:
        async def stats() -> QueueStats:
            return self.queue.stats()

        measured = self.loop.run_until_complete(stats())
        assert (measured.depth, measured.delayed, measured.processing) == (
            len(self.waiting),
            len(self.due),
            len(self.held),
        )
        assert all(self.queue.retries(item) == self.failures.get(item, 0) for item in "abcd")


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=40)


async def test_discarded_item_is_not_taken() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for item in ("gone", "stays", "late"):
        queue.add(item)
    queue.add_after("later", delay=60)
    queue.add_rate_limited("failed")
    for item in ("gone", "later", "failed", "never seen"):
        queue.discard(item)
    stats = queue.stats()
    assert (stats.depth, stats.delayed, queue.retries("failed")) == (2, 0, 0)
    assert [await queue.get(), await queue.get()] == ["stays", "late"]
    assert not queue.stats().depth


async def test_discarded_item_in_progress_is_not_queued_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("held")
    async with queue.take():
        queue.add("held")
        queue.discard("held")
    assert not queue.busy
    queue.add("held")
    assert await queue.get() == "held"


async def test_item_waits_for_at_most_one_item_of_each_other_owner() -> None:
    queue: WorkQueue[str] = WorkQueue(owner_of=lambda item: item[0])
    for item in ("a1", "a2", "a3", "a4", "b1", "b2"):
        queue.add(item)
    assert [await queue.get(), await queue.get()] == ["a1", "b1"]
    queue.add("c1")
    queue.discard("a3")
    queue.done("a1")
    assert await taken(queue) == ["a2", "b2", "c1", "a4"]
