"""Drive a scheduler on the event loop: run cycles, and carry out the instructions of its commits.

One loop serves one leadership term. When the term ends, everything that runs is cancelled, and the scheduler gives up
what it began: the next leader rebuilds its queue and ledger from what the hub shows.

``CycleLoop`` drives any scheduler, such as that of placements, and ``SchedulingLoop`` the engine's, whose workloads are
bound once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from fairway.controllers.runtime.leadership import current_leadership
from fairway.controllers.runtime.slicing import SLICE_SECONDS
from fairway.engine.commit.instructions import (
    Bound,
    Cancel,
    Fetch,
    ForCaller,
    Nominate,
    ReadBack,
    Returned,
    RunBind,
    RunPostBind,
    RunPreBind,
)
from fairway.engine.dependencies import Event
from fairway.engine.outcome import Outcome
from fairway.engine.points import CommitContext, LongPreBind
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import Status, failed
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.hosts.snapshot import Snapshot
from kubewire.client import SYSTEM_CLOCK, Backoff, Clock
from kubewire.client.fence import Lost, TermGroup, Unconfirmed

log: Final = logging.getLogger(__name__)

NOT_READ_BACK: Final = "cannot read whether the workload is bound, retrying  workload=%s error=%s"

AT_ONCE: Final = 64
"""Concurrent calls of PreBind, Bind and PostBind plugins."""
READ_BACK_BACKOFF: Final = Backoff(base=0.2, cap=10.0)

RunPlugin = RunPreBind | RunBind | RunPostBind
Step = tuple[WorkloadKey, int]
"""A step of a commit: the tokens of different profiles may be equal."""


class Schedules(Protocol):
    """What a loop drives: a scheduler without I/O, such as ``engine.scheduler``."""

    def advance(self, *, now: Micros) -> list[ForCaller]: ...

    def next_deadline(self) -> Micros | None: ...

    def schedule_one(
        self, snapshot: Any, /, *, now: Micros
    ) -> tuple[Outcome | None, list[ForCaller]] | None: ...

    def finished(self, key: WorkloadKey, token: int, result: object, *, now: Micros) -> list[ForCaller]: ...

    def failed(self, key: WorkloadKey, token: int, error: Exception, *, now: Micros) -> list[ForCaller]: ...

    def read_back(self, key: WorkloadKey, token: int, shown: Any, /, *, now: Micros) -> list[ForCaller]: ...


SchedulerT = TypeVar("SchedulerT", bound=Schedules)


class FencedPlugin:
    """Base of our own plugins that check the leadership themselves before each write, as a ``Writer`` does."""

    def is_long(self, _context: CommitContext, /) -> bool:
        """Return whether a call may wait, so that it must not keep one of the slots."""
        return False


class CycleLoop(Generic[SchedulerT]):
    """``read_back`` reads from the hub how a workload is bound. ``snapshot`` is what cycles read; None if the scheduler
    takes it itself.

    ``on_outcome`` gets the outcome of each cycle, ``on_bound`` each bound workload, ``on_returned`` each workload that
    a commit or a failed cycle gave back, with the reasons, and ``on_nominated`` what a PostFilter plugin plans.
    ``settle`` is called after each step, for plugins that decide about several workloads at once.

    With ``commits_first``, no cycle starts while ``at_once`` plugins run, so that the queue decides who is next.
    Otherwise commits wait for each other in the order of their cycles. No cycle starts while ``most_tasks`` plugins
    run, those that may wait included. With ``sends_first``, a request is sent before the next cycle is computed.
    ``now`` is the time of the scheduler; the wall clock by default. Call ``wake`` whenever the scheduler has something
    ready, or an earlier deadline.
    """

    def __init__(
        self,
        scheduler: SchedulerT,
        *,
        read_back: Callable[[WorkloadKey], Awaitable[Any]],
        snapshot: Callable[[], Snapshot[Any] | None] = lambda: None,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        on_bound: Callable[[WorkloadKey, tuple[HostKey, ...]], None] = lambda _key, _hosts: None,
        on_returned: Callable[[Returned], None] = lambda _: None,
        on_nominated: Callable[[Nominate], None] = lambda _: None,
        settle: Callable[[Micros], list[ForCaller]] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        now: Callable[[], Micros] | None = None,
        at_once: int = AT_ONCE,
        commits_first: bool = False,
        most_tasks: int | None = None,
        sends_first: bool = False,
    ) -> None:
        self._scheduler, self._snapshot, self._read_back = scheduler, snapshot, read_back
        self._on_outcome, self._on_bound = on_outcome, on_bound
        self._on_returned, self._on_nominated = on_returned, on_nominated
        self._settle = settle
        self._clock = clock
        self._now = now or (lambda: to_micros(clock.wall()))
        self._slots = asyncio.Semaphore(at_once)
        self._most_short = at_once if commits_first else None
        self._most_tasks = most_tasks
        self._sends_first = sends_first
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._idle = asyncio.Event()
        self._tasks: dict[Step, asyncio.Task[None]] = {}
        self._steps: dict[asyncio.Task[None], Step] = {}
        """The step of each task, which goes on to the next step of its commit."""
        self._long: set[Step] = set()
        """Those of the tasks that may wait for other programs, or for other writes."""
        self._is_full = False
        """Whether no cycle starts until a plugin ends."""
        self._waiting: list[ForCaller] = []
        """Instructions that the running loop carries out next."""

    @property
    def is_committing(self) -> bool:
        """Return whether plugins of a commit run."""
        return bool(self._tasks)

    def wake(self) -> None:
        """Check what is due: the scheduler's queue or deadlines changed."""
        self._changed([])

    def _changed(self, instructions: list[ForCaller]) -> None:
        self._waiting += instructions
        self._idle.clear()
        self._wake.set()

    # The loop

    async def run(self) -> None:
        """Run in the term of this task until cancelled, or stopped. Raises Lost when the term ends."""
        try:
            async with TermGroup() as group:
                while True:
                    # Before the pass, not after it: what is reported while it runs must start another one.
                    self._wake.clear()
                    await self._schedule(group)
                    if self._tasks.keys() <= self._long:
                        self._idle.set()
                    if not self._tasks and self._stopping:
                        return
                    self._set_timer(self._scheduler.next_deadline())
                    await self._wake.wait()
        finally:
            self._set_timer(None)

    def stop(self) -> None:
        """Start no more cycles, and let ``run`` return when no plugin runs. Those that may wait for other programs are
        cancelled: the next term sees on the hub how far they came."""
        self._stopping = True
        for step in self._long:
            self._tasks[step].cancel()
        self._wake.set()

    async def quiet(self) -> None:
        """Wait until nothing is due and no plugin runs, except those that wait for other programs."""
        await self._idle.wait()

    async def _schedule(self, group: asyncio.TaskGroup) -> None:
        """Schedule everything that is due."""
        began = self._clock.monotonic()
        self._waiting += self._scheduler.advance(now=self._now())
        while True:
            if self._settle is not None:
                self._waiting += self._settle(self._now())
            waiting, self._waiting = self._waiting, []
            for instruction in waiting:
                self._carry_out(instruction, group)
            # A task runs first in the next iteration of the event loop. Without this one, the requests of a burst
            # would be sent only at the end of the slice.
            if waiting and self._sends_first:
                await asyncio.sleep(0)
                began = self._clock.monotonic()
            self._is_full = not self._has_room()
            if self._stopping or self._is_full:
                return
            result = self._scheduler.schedule_one(self._snapshot(), now=self._now())
            if result is None and not self._waiting:
                return
            if result is not None:
                outcome, instructions = result
                self._waiting += instructions
                if outcome is not None:
                    self._on_outcome(outcome)
            if self._clock.monotonic() - began >= SLICE_SECONDS:
                await asyncio.sleep(0)
                began = self._clock.monotonic()

    def _has_room(self) -> bool:
        running = len(self._tasks)
        if self._most_tasks is not None and running >= self._most_tasks:
            return False
        return self._most_short is None or running - len(self._long) < self._most_short

    def _set_timer(self, deadline: Micros | None) -> None:
        """Wake the loop at the deadline. Nothing polls."""
        timer, loop, when = self._timer, asyncio.get_running_loop(), None
        if deadline is not None:
            left = deadline - self._now()
            # What is due, and was not taken, waits for room, which ``_check_room`` reports. A timer would fire at once,
            # again and again.
            if left > 0 or not self._is_full:
                when = loop.time() + max(0, left) / SECOND
        if timer is not None:
            # Each placement of a burst moves the deadline to a later time. A pass too many at the earlier one costs
            # less than a new timer for each.
            if when is not None and timer.when() <= when:
                return
            timer.cancel()
        self._timer = None if when is None else loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._wake.set()

    def _carry_out(self, instruction: ForCaller, group: asyncio.TaskGroup) -> None:
        match instruction:
            case RunPreBind() | RunBind() | RunPostBind():  # first, as there is one for each decision
                long = is_long(instruction)
                # A plugin that waits for minutes would keep ``run`` from returning, and nothing would cancel it:
                # ``stop`` was called.
                if not (self._stopping and long):
                    step = (instruction.key, instruction.token)
                    self._start(step, self._run_plugins(instruction, long=long), group, long=long)
            case Cancel(key, token):
                if (task := self._tasks.get((key, token))) is not None:
                    task.cancel()
            case Bound(key, hosts):
                self._on_bound(key, hosts)
            case Returned():
                self._on_returned(instruction)
            case Nominate():
                self._on_nominated(instruction)
            case ReadBack(key, token):
                self._start((key, token), self._resolve_bind(key, token), group)
            case Fetch(key, token):
                self._start((key, token), self._fetch(instruction), group, long=True)

    def _start(
        self, step: Step, work: Coroutine[Any, Any, None], group: asyncio.TaskGroup, *, long: bool = False
    ) -> None:
        task = group.create_task(work)
        self._enter(step, task, long=long)
        task.add_done_callback(self._ended)

    def _enter(self, step: Step, task: asyncio.Task[None], *, long: bool) -> None:
        self._tasks[step] = task
        self._steps[task] = step
        if long:
            self._long.add(step)

    def _leave(self, task: asyncio.Task[None]) -> None:
        step = self._steps.pop(task)
        del self._tasks[step]
        self._long.discard(step)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._leave(task)
        self._check_room()

    def _check_room(self) -> None:
        # Otherwise nothing is to be done: what a result changes, ``_changed`` or the queue reports. A pass for each
        # plugin that ends would double the cost of a burst.
        if self._is_full or len(self._tasks) == len(self._long):
            self._wake.set()

    async def _run_plugins(self, run: RunPlugin, *, long: bool) -> None:
        """Run a plugin, and those that follow it at once."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        instructions = await self._run_plugin(run, long=long)
        # In the same task: another task and another pass of the loop made a burst of placements a third more expensive.
        # An instruction that comes alone leaves the queue as it is, so that no pass is due.
        while (
            len(instructions) == 1
            and isinstance(following := instructions[0], RunPlugin)
            and not self._stopping
        ):
            long = is_long(following)
            self._leave(task)
            self._enter((following.key, following.token), task, long=long)
            self._check_room()
            instructions = await self._run_plugin(following, long=long)
        self._on_result(instructions)

    def _on_result(self, instructions: list[ForCaller]) -> None:
        # The owner of the queue reports by ``wake`` what is ready, and new deadlines. Without instructions nothing else
        # is due: a pass for each of thousands of settled placements would find nothing.
        if instructions:
            self._changed(instructions)

    async def _run_plugin(self, run: RunPlugin, *, long: bool) -> list[ForCaller]:
        """Return what the scheduler answers to the result."""
        # A plugin that waits for minutes must not keep one of the few slots.
        async with nullcontext() if long else self._slots:
            try:
                result = await call_plugin(run, long=long)
            # Not charged to the plugin, and not reported: the term is over, and the next one decides by what the hub
            # shows.
            except Lost:
                raise
            except Exception as error:
                return self._scheduler.failed(run.key, run.token, error, now=self._now())
        return self._scheduler.finished(run.key, run.token, result, now=self._now())

    async def _fetch(self, instruction: Fetch) -> None:
        self._changed(await instruction.fetch())

    async def _resolve_bind(self, key: WorkloadKey, token: int) -> None:
        failures = 0
        while True:
            try:
                shown = await self._read_back(key)
            except Lost:
                raise
            except Exception as error:  # the loop serves other workloads, too
                log.warning(NOT_READ_BACK, key, error)
                # Without a limit of attempts: only what the hub shows ends the doubt, and until then the place must
                # stay reserved.
                await asyncio.sleep(READ_BACK_BACKOFF.delay(failures))
                failures += 1
            else:
                self._changed(self._scheduler.read_back(key, token, shown, now=self._now()))
                return


class SchedulingLoop(CycleLoop[Scheduler]):
    """``read_back`` returns on which hosts a workload is bound; None if on none."""

    def holds(self, key: WorkloadKey) -> bool:
        """Return whether a workload is being committed, or was bound and is not observed yet."""
        return self._scheduler.holds(key)

    def _on_result(self, instructions: list[ForCaller]) -> None:
        # The result may also have put workloads into the queue, which does not report it.
        self._changed(instructions)

    # Events

    def put(self, workload: Workload[Any]) -> None:
        self._changed(self._scheduler.put(workload, now=self._now()))

    def delete(self, key: WorkloadKey) -> None:
        self._changed(self._scheduler.delete(key, now=self._now()))

    def remove_host(self, host: HostKey) -> None:
        self._changed(self._scheduler.remove_host(host, now=self._now()))

    def on_event(self, event: Event) -> None:
        self._scheduler.on_event(event, now=self._now())
        self._changed([])

    def observed(self, key: WorkloadKey, hosts: tuple[HostKey, ...]) -> None:
        """Report that a watch shows the workload as bound."""
        self._changed(self._scheduler.observed(key, hosts, now=self._now()))

    def preempt(self, key: WorkloadKey, reason: str) -> bool:
        """Give up a commit for another workload. Return whether there is one whose Bind has not begun."""
        instructions = self._scheduler.preempt(key, reason, now=self._now())
        self._changed(instructions)
        return bool(instructions)


def is_long(run: RunPlugin) -> bool:
    """Return whether a call may wait for other programs, or for other writes."""
    if isinstance(run.plugin, FencedPlugin):
        return run.plugin.is_long(run.context)
    return isinstance(run, RunPreBind) and isinstance(run.plugin, LongPreBind)


def call_plugin(run: RunPlugin, *, long: bool) -> Awaitable[Status | None]:
    """Call the plugin while this process leads. If the hub cannot confirm that, nothing was sent."""
    # Not a coroutine: each layer of a write is created, and resumed when the hub responds, for every decision.
    return _call(run) if long or isinstance(run.plugin, FencedPlugin) else _call_fenced(run)


async def _call_fenced(run: RunPlugin) -> Status | None:
    entered = False
    try:
        leadership = current_leadership()
        async with leadership.batch():
            leadership.ensure()
            entered = True
            return await _call(run)
    except Unconfirmed as error:
        # The request may have been sent, so the result is unknown and must be read back. A check that failed before
        # it is an ordinary failure, which leaves no doubt.
        if entered:
            raise
        return failed(str(error))


def _call(run: RunPlugin) -> Awaitable[Status | None]:
    match run:
        case RunPreBind():
            return run.plugin.pre_bind(run.context)
        case RunBind():
            return run.plugin.bind(run.context)
        case RunPostBind():
            return run.plugin.post_bind(run.context)
