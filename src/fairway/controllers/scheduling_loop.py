"""Drive a scheduler on the event loop: run cycles, and carry out the instructions of its commits.

One loop serves one leadership term. When the term ends, everything that runs is cancelled and the scheduler must be
discarded: the next leader rebuilds its queue and ledger from what the hub shows.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from fairway.controllers.leadership import Leadership
from fairway.controllers.slicing import SLICE_SECONDS
from fairway.engine.commit.instructions import (
    Bound,
    Cancel,
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
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import Status, failed
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet.instant import SECOND, Micros, to_micros
from fairway.fleet.snapshot import Snapshot
from fairway.kube import SYSTEM_CLOCK, Backoff, Clock
from fairway.kube.fence import Lost, Unconfirmed

log: Final = logging.getLogger(__name__)

NOT_READ_BACK: Final = "cannot read whether the workload is bound, retrying  workload=%s error=%s"

AT_ONCE: Final = 64
"""Concurrent calls of PreBind, Bind and PostBind plugins."""
READ_BACK_BACKOFF: Final = Backoff(base=0.2, cap=10.0)

RunPlugin = RunPreBind | RunBind | RunPostBind
Step = tuple[WorkloadKey, int]
"""A step of a commit: the tokens of different profiles may be equal."""


class SchedulingLoop:
    """``read_back`` reads from the hub on which hosts a workload is bound; None if on none.

    ``on_outcome`` gets the outcome of each cycle, ``on_bound`` each bound workload, ``on_returned`` each workload that
    a commit or a failed cycle gave back, with the reasons, and ``on_nominated`` what a PostFilter plugin plans.
    ``settle`` is called after each step, for plugins that decide about several workloads at once.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        snapshot: Callable[[], Snapshot[Any]],
        read_back: Callable[[WorkloadKey], Awaitable[tuple[HostKey, ...] | None]],
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        on_bound: Callable[[WorkloadKey, tuple[HostKey, ...]], None] = lambda _key, _hosts: None,
        on_returned: Callable[[Returned], None] = lambda _: None,
        on_nominated: Callable[[Nominate], None] = lambda _: None,
        settle: Callable[[Micros], list[ForCaller]] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        at_once: int = AT_ONCE,
    ) -> None:
        self._scheduler, self._snapshot, self._read_back = scheduler, snapshot, read_back
        self._on_outcome, self._on_bound = on_outcome, on_bound
        self._on_returned, self._on_nominated = on_returned, on_nominated
        self._settle = settle
        self._clock = clock
        self._slots = asyncio.Semaphore(at_once)
        self._wake = asyncio.Event()
        self._stopping = False
        self._idle = asyncio.Event()
        self._tasks: dict[Step, asyncio.Task[None]] = {}
        self._waiting: list[ForCaller] = []
        """Instructions that the running loop carries out next."""

    # Events

    def put(self, workload: Workload[Any]) -> None:
        self._changed(self._scheduler.put(workload, now=self._now()))

    def adopt(self, workload: Workload[Any], hosts: tuple[HostKey, ...]) -> None:
        """Add a workload that an earlier leader reserved these hosts for."""
        self._changed(self._scheduler.adopt(workload, hosts, now=self._now()))

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

    def allow(self, key: WorkloadKey, plugin: str) -> None:
        self._changed(self._scheduler.allow(key, plugin, now=self._now()))

    def deny(self, key: WorkloadKey, plugin: str, reason: str) -> None:
        self._changed(self._scheduler.deny(key, plugin, reason, now=self._now()))

    def preempt(self, key: WorkloadKey, reason: str) -> bool:
        """Give up a commit for another workload. Return whether there is one whose Bind has not begun."""
        instructions = self._scheduler.preempt(key, reason, now=self._now())
        self._changed(instructions)
        return bool(instructions)

    def _changed(self, instructions: list[ForCaller]) -> None:
        self._waiting += instructions
        self._idle.clear()
        self._wake.set()

    # The loop

    async def run(self, leadership: Leadership) -> None:
        """Run until cancelled, or stopped. Raises Lost when the term ends."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._wake.clear()
                    await self._schedule(group, leadership)
                    if not self._tasks:
                        self._idle.set()
                        if self._stopping:
                            return
                    await self._sleep()
        except* Lost as lost:
            raise Lost(str(lost.exceptions[0])) from None

    def stop(self) -> None:
        """Start no more cycles, and let ``run`` return when no plugin runs."""
        self._stopping = True
        self._wake.set()

    async def quiet(self) -> None:
        """Wait until nothing is due and no plugin runs."""
        await self._idle.wait()

    async def _schedule(self, group: asyncio.TaskGroup, leadership: Leadership) -> None:
        """Schedule everything that is due."""
        began = self._clock.monotonic()
        self._waiting += self._scheduler.advance(now=self._now())
        while True:
            if self._settle is not None:
                self._waiting += self._settle(self._now())
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                self._carry_out(each, group, leadership)
            if self._stopping:
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

    async def _sleep(self) -> None:
        """Wait for an event or the next deadline. Nothing polls."""
        deadline = self._scheduler.next_deadline()
        if deadline is None:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(max(0, deadline - self._now()) / SECOND):
                await self._wake.wait()
        except TimeoutError:
            return

    def _carry_out(self, instruction: ForCaller, group: asyncio.TaskGroup, leadership: Leadership) -> None:
        match instruction:
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
            case RunPreBind() | RunBind() | RunPostBind():
                step = (instruction.key, instruction.token)
                self._start(step, self._call(instruction, leadership), group)

    def _start(self, step: Step, work: Coroutine[Any, Any, None], group: asyncio.TaskGroup) -> None:
        self._tasks[step] = task = group.create_task(work)
        task.add_done_callback(lambda _: self._ended(step))

    def _ended(self, step: Step) -> None:
        self._tasks.pop(step, None)
        self._wake.set()

    async def _call(self, run: RunPlugin, leadership: Leadership) -> None:
        """Run a plugin and report its result."""
        async with self._slots:
            try:
                result = await call_plugin(run, leadership)
            except Lost:
                raise
            except Exception as error:
                self._changed(self._scheduler.failed(run.key, run.token, error, now=self._now()))
                return
        self._changed(self._scheduler.finished(run.key, run.token, result, now=self._now()))

    async def _resolve_bind(self, key: WorkloadKey, token: int) -> None:
        failures = 0
        while True:
            try:
                hosts = await self._read_back(key)
            except Lost:
                raise
            except Exception as error:  # the loop serves other workloads, too
                log.warning(NOT_READ_BACK, key, error)
                await asyncio.sleep(READ_BACK_BACKOFF.delay(failures))
                failures += 1
            else:
                self._changed(self._scheduler.read_back(key, token, hosts, now=self._now()))
                return

    def _now(self) -> Micros:
        return to_micros(self._clock.wall())


async def call_plugin(run: RunPlugin, leadership: Leadership) -> Status | None:
    """Call the plugin while this process leads. If the hub cannot confirm that, nothing was sent."""
    entered = False
    try:
        async with leadership.batch():
            leadership.ensure()
            entered = True
            match run:
                case RunPreBind():
                    return await run.plugin.pre_bind(run.context)
                case RunBind():
                    return await run.plugin.bind(run.context)
                case RunPostBind():
                    await run.plugin.post_bind(run.context)
                    return None
    except Unconfirmed as error:
        if entered:
            raise
        return failed(str(error))
