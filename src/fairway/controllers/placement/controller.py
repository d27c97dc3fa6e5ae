"""Reconcile Placements: decide again when something a placement depends on changed, or when its time came.

Decisions are computed one after the other; the writes of many placements are in flight at the same time. A decision
with expensive CEL expressions continues in ``slow_lane``.
"""

import asyncio
import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import ClassVar, Final

from fairway.api.placement import Placement
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.slow_lane import Allowance, SlowLane, inspect
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.placement.writer import NAME, DecisionWriter
from fairway.controllers.reconciler import Key, Reconciler
from fairway.engine.outcome import Outcome
from fairway.engine.points import NEVER_CHANGES
from fairway.fleet.instant import Micros, from_micros
from fairway.kube import SYSTEM_CLOCK, Client, Clock, Recorder
from fairway.observe.meters import Meters
from fairway.observe.traces import span
from fairway.placement.reconcile_plan import ReconcilePlan
from fairway.plugins.work_budget import Paused

WORKERS: Final = 32
RESYNC_SECONDS: Final = 600.0
"""OCM's controller reconciles every placement as often, even without changes."""
_TICK: Final = timedelta(milliseconds=1)
"""Timers use another clock than expiry times; a margin so that none fires too early."""


class PlacementController(Reconciler):
    name: ClassVar[str] = NAME

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        recorder: Recorder,
        shard: Shard | None = None,
        calculators: bool = True,
        workers: int = WORKERS,
        resync: float = RESYNC_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``calculators``: whether the hub serves ManagedClusterScores. ``resync`` is in seconds; 0 for never."""
        super().__init__(client, meters=meters, workers=workers, clock=clock)
        self.state = PlacementState(wake=self._wake, lost=self._lost, meters=meters, shard=shard)
        self._calculators = calculators
        self._resync = resync
        self._leads = False
        self._woken: dict[Key, float] = {}
        """Since when a placement is queued, for those queued in this term."""
        self._writer = DecisionWriter(client, recorder=recorder, meters=meters)
        self._allowance = Allowance(clock)
        self._slow = SlowLane(advance=self._advance, done=self.queue.add, clock=clock)

    def watch(self, informers: InformerFactory) -> None:
        self.state.follow(informers, calculators=self._calculators)

    def keys(self) -> Iterable[Key]:
        return tuple(self.state.records)

    async def run(self, leadership: Leadership) -> None:
        self._leads = True
        slow = asyncio.create_task(self._slow.run())
        try:
            await super().run(leadership)
        finally:
            self._leads = False
            self._woken.clear()
            slow.cancel()
            await asyncio.wait([slow])

    async def quiet(self) -> None:
        await super().quiet()
        while len(self._slow):
            await self._slow.empty()
            await super().quiet()

    def _wake(self, owner: Key) -> None:
        if self._leads:
            # A standby does not react, maybe for days.
            self._woken.setdefault(owner, self.clock.monotonic())
        self.queue.add(owner)

    def _lost(self, owner: Key) -> None:
        self._woken.pop(owner, None)
        self._slow.discard(owner)
        self.queue.discard(owner)

    def _advance(self, key: Key, work: int) -> bool:
        return self.state.advance(key, now=self.clock.wall(), work=work)

    def _look(self, key: Key, *, now: datetime) -> ReconcilePlan | None:
        """Raises Paused."""
        try:
            return self.state.look(key, now=now, work=self._allowance.left(key[0]))
        finally:
            self._allowance.spend(key[0], self.state.work_of(key))

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        woken = self._woken.pop(key, None)
        with span("placement", namespace=key[0], name=key[1]):
            now = self.clock.wall()
            try:
                plan = self._look(key, now=now)
            except Paused:
                if woken is not None:
                    self._woken.setdefault(key, woken)
                self._slow.add(key)
                return
            if plan is None:
                return
            self._look_again(key, plan.until, now=now)
            with self.state.session(plan) as session:
                if not plan.empty:
                    async with leadership.batch():
                        await self._writer.carry_out(session, leadership)
            if woken is not None and plan.steps:
                self.meters.reaction(self.clock.monotonic() - woken)

    def _look_again(self, key: Key, until: Micros | None, *, now: datetime) -> None:
        if until is not None and until != NEVER_CHANGES:
            delay = from_micros(until) - now + _TICK
            self.queue.add_after(key, delay=delay.total_seconds())
        if self._resync:
            # Spread them over time.
            self.queue.add_after(key, delay=self._resync * random.uniform(0.9, 1.1))

    # For the debug endpoint

    def find(self, namespace: str, name: str) -> Placement | None:
        return self.state.find(namespace, name)

    async def inspect(self, placement: Placement) -> Outcome:
        return await inspect(self.state, placement, self.clock)
