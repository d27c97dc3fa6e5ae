"""Decide Placements again when something they depend on changed, or when their time came, and write the decisions.

One task takes placements from the queue and decides them one after the other. Most of them keep their clusters and are
settled at once. The writes of the others are in flight at the same time: the decisions of all placements first, then
statuses. A decision with expensive CEL expressions continues in ``slow_lane``.
"""

import asyncio
import logging
import random
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final

from fairway.api.placement import Placement
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.placement.committer import CommitFailed, Committer
from fairway.controllers.placement.queue import BACKOFF, NEW_TERM, Owner, PlacementQueue
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.placement.settled import delay_until
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.slow_lane import Allowance, SlowLane, inspect
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.placement.writer import NAME, DecisionWriter, lane_of
from fairway.controllers.reconciler import BROKE, FAILED, Controller
from fairway.controllers.write_limiter import Lane, Superseded, WriteLimiter
from fairway.engine.dependencies import Dependencies
from fairway.engine.outcome import Outcome
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.profile import Profile
from fairway.engine.queue import Backoff
from fairway.fleet.instant import SECOND, Micros
from fairway.kube import SYSTEM_CLOCK, Client, Clock, KubeError, Recorder
from fairway.kube.fence import Lost, Unconfirmed
from fairway.kube.log_throttle import retry_level
from fairway.kube.queue_metrics import QueueMetrics
from fairway.observe.meters import Meters
from fairway.observe.traces import Span, span
from fairway.placement import default_profile
from fairway.placement.commits import Run, Step, is_committed
from fairway.placement.reconcile_plan import ReconcilePlan
from fairway.plugins.work_budget import Paused

log: Final = logging.getLogger(__name__)

WORKERS: Final = 32
MOST_IN_FLIGHT: Final = 2000
"""Placements whose writes are in flight, most of them waiting to write a status."""
STATUS_SECONDS: Final = 2.0
"""A status that was superseded for so long is written before the placement is decided again."""
SLICE_SECONDS: Final = 0.005
"""Decisions are computed for so long at a time before others get the event loop."""
RESYNC_SECONDS: Final = 600.0
"""OCM's controller reconciles every placement as often, even without changes."""
PLUGIN_FAULTS: Final = "fairway.plugin_faults"
"""Attribute of spans."""


class PlacementController(Controller):
    name: ClassVar[str] = NAME
    queue: PlacementQueue

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        recorder: Recorder,
        profile: Profile | None = None,
        backoff: Backoff = BACKOFF,
        shard: Shard | None = None,
        calculators: bool = True,
        requests: bool = False,
        workers: int = WORKERS,
        resync: float = RESYNC_SECONDS,
        limiter: WriteLimiter | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``calculators``: whether the hub serves ManagedClusterScores; ``requests``: HostedClusterRequests.
        ``workers``: the number of placements whose decisions are written concurrently. ``resync`` is in seconds; 0 for
        never. ``limiter`` is shared with the writes of ``recorder``."""
        self.meters, self.clock = meters, clock
        profile = profile or default_profile()
        self.queue = PlacementQueue(
            clock, profile=profile, backoff=backoff, observer=QueueMetrics(meters.queue(self.name))
        )
        self.queue.changed_in_flight = self._hurry
        self.state = PlacementState(self.queue, meters=meters, profile=profile, shard=shard, lost=self._lost)
        self._calculators, self._requests = calculators, requests
        self._workers, self._resync = workers, resync
        self._term: Micros | None = None
        """Start of this process's term."""
        self._writer = DecisionWriter(client, recorder=recorder, meters=meters, limiter=limiter)
        self._committer: Committer | None = None
        if is_committed(profile):
            self._committer = Committer(
                client,
                profile=profile,
                state=self.state,
                queue=self.queue,
                writer=self._writer,
                carry_out=self._carry_out,
                meters=meters,
                clock=clock,
            )
        self._allowance = Allowance(clock)
        self._slow = SlowLane(advance=self._advance, done=self.queue.release, clock=clock)
        self._room = asyncio.Event()
        self._deciding = 0
        """Attempts with decisions that are not written yet."""
        self._in_flight = 0

    def watch(self, informers: InformerFactory) -> None:
        self.state.follow(informers, calculators=self._calculators, requests=self._requests)

    async def run(self, leadership: Leadership) -> None:
        self._term = self.queue.now()
        self.state.rebuild_debits(now=self.clock.wall())
        if self._committer is not None:
            self._committer.begin()
        self.queue.wake(self.state.records, trigger=NEW_TERM)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._slow.run())
                await self._dispatch(leadership, group)
        except* Lost as lost:
            raise Lost(str(lost.exceptions[0])) from None
        finally:
            self._term = None
            if self._committer is not None:
                self._committer.end()
            for owner in self._slow.drain():
                self.queue.release(owner)

    async def _dispatch(self, leadership: Leadership, group: asyncio.TaskGroup) -> None:
        began = self.clock.monotonic()
        while True:
            while self._deciding >= self._workers or self._in_flight >= MOST_IN_FLIGHT:
                self._room.clear()
                await self._room.wait()
            if self.clock.monotonic() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = self.clock.monotonic()
            owner = await self.queue.get()
            session = self.decide(owner)
            if session is not None:
                task = group.create_task(self.write(session, leadership))
                # A task that is cancelled before it started does not run its ``finally``.
                task.add_done_callback(partial(self._abandon, session))
                # The first request is sent while the next placement is decided.
                await asyncio.sleep(0)
                began = self.clock.monotonic()

    def _abandon(self, session: WriteSession, _task: object) -> None:
        if session.close():
            self.queue.release(session.owner)

    def _hurry(self, owner: Owner) -> None:
        self._writer.hurry(owner)

    def _lost(self, owner: Owner) -> None:
        if self._committer is not None:
            self._committer.forget(owner)
        if owner in self._slow:
            self._slow.discard(owner)
            self.queue.release(owner)

    def _advance(self, key: Owner, work: int) -> bool:
        return self.state.advance(key, now=self.clock.wall(), work=work)

    def _look(self, key: Owner, *, now: datetime) -> ReconcilePlan | None:
        """Raises Paused."""
        try:
            return self.state.look(key, now=now, work=self._allowance.left(key[0]))
        finally:
            self._allowance.spend(key[0], self.state.work_of(key))

    def decide(self, owner: Owner) -> WriteSession | None:
        """Decide a placement that was taken from the queue. Return the session to ``write``; None if nothing is to be
        written now, and the placement is back in the queue or in the slow lane."""
        now = self.clock.wall()
        try:
            with span("placement", namespace=owner[0], name=owner[1]) as trace:
                plan = self._look(owner, now=now)
                if plan is None:
                    if self._committer is not None:
                        self._committer.suspend(owner)
                    self.queue.settle(owner, Dependencies(), after=None)
                    return None
                step: Step | None = None
                if self._committer is not None:
                    plan, step = self._committer.review(plan, now=now)
                if plan.faults:
                    self._report_faults(plan, trace)
                session = self.state.session(plan)
                session.commit = step
        except Paused:
            self._slow.add(owner)
            return None
        except Exception as error:
            log.exception(BROKE, self.name, "/".join(owner))
            self.queue.fail(owner, str(error) or type(error).__name__)
            return None
        if plan.empty and not isinstance(step, Run):
            with session:
                session.wrote_pages()
            self._settle(session, now)
            return None
        self.queue.bind(owner, session.dependencies)
        return session

    async def write(self, session: WriteSession, leadership: Leadership) -> None:
        """Write what was decided, and return the placement to the queue. Raises Lost."""
        owner, plan = session.owner, session.plan
        woken = self.queue.woken(owner)
        self._in_flight += 1
        try:
            with session, span("placement write", namespace=owner[0], name=owner[1]) as trace:
                if self._committer is None or session.commit is None:
                    await self._carry_out(session, leadership)
                elif faults := await self._committer.run(session, leadership):
                    self._report_faults(replace(plan, faults=faults), trace)
                if woken is not None and self._term is not None and woken >= self._term and plan.steps:
                    self.meters.reaction((self.queue.now() - woken) / SECOND)
                await self._report(session, leadership)
        except Superseded:
            self.queue.settle(owner, session.dependencies, after=0.0)
        except (KubeError, Unconfirmed) as error:
            log.log(
                retry_level(error, retries=self.queue.errors(owner)),
                FAILED,
                self.name,
                "/".join(owner),
                error,
            )
            self.queue.fail(owner, str(error))
        except CommitFailed as error:
            if self._committer is not None:
                await self._committer.report_failure(session, error, leadership)
        except Exception as error:
            if isinstance(error, Lost):
                self.queue.release(owner)
                raise
            log.exception(BROKE, self.name, "/".join(owner))
            self.queue.fail(owner, str(error) or type(error).__name__)
        except BaseException:
            self.queue.release(owner)
            raise
        else:
            self._settle(session, self.clock.wall())
        finally:
            self._in_flight -= 1
            self._room.set()

    def _settle(self, session: WriteSession, now: datetime) -> None:
        """Return a placement to the queue, as its commit ended."""
        after = self._delay(session.plan, now)
        if self._committer is None:
            self.queue.settle(session.owner, session.dependencies, after=after)
        else:
            self._committer.settle(session, after=after)

    def _report_faults(self, plan: ReconcilePlan, trace: Span) -> None:
        trace.set_attribute(PLUGIN_FAULTS, [str(fault) for fault in plan.faults])
        self._writer.report_faults(plan)

    async def _carry_out(self, session: WriteSession, leadership: Leadership) -> None:
        steps = session.plan.steps
        urgent = any(lane_of(step) is Lane.DECISION for step in steps)
        self._deciding += urgent
        try:
            if steps:
                async with leadership.batch():
                    await self._writer.carry_out(session, leadership)
            else:
                session.wrote_pages()
        finally:
            self._deciding -= urgent
            self._room.set()

    async def _report(self, session: WriteSession, leadership: Leadership) -> None:
        """Write the status unless the placement is to be decided again: then the next plan has it."""
        now = self.clock.monotonic()
        droppable = session.status_waits(now) < STATUS_SECONDS
        if droppable and session.plan.status is not None and self.queue.is_changed(session.owner):
            raise Superseded
        await self._writer.report(session, leadership, droppable=droppable)

    def _delay(self, plan: ReconcilePlan, now: datetime) -> float | None:
        """Return in how many seconds to decide again, even if nothing changes."""
        delays = []
        if plan.until is not None and plan.until != NEVER_CHANGES:
            delays.append(delay_until(plan.until, now))
        if self._resync:
            # Spread them over time.
            delays.append(self._resync * random.uniform(0.9, 1.1))
        return min(delays, default=None)

    # For the debug endpoint

    def find(self, namespace: str, name: str) -> Placement | None:
        return self.state.find(namespace, name)

    async def inspect(self, placement: Placement) -> Outcome:
        return await inspect(self.state, placement, self.clock)

    def describe_queue(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return why a placement waits, and what would wake it."""
        found = self.queue.describe((namespace, name))
        if found is None:
            return None
        waits = {} if self._committer is None else self._committer.describe((namespace, name))
        return {**found, **waits, "leading": self._term is not None}
