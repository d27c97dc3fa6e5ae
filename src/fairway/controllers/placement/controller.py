"""Decide Placements again when something they depend on changed, or when their time came, and write the decisions.

The loop takes placements from the queue and decides them one after the other. Most of them keep their clusters and are
settled at once. The writes of the others are in flight at the same time: the decisions of all placements first, then
statuses. ``scheduler`` has the steps of one placement.
"""

from typing import Any, ClassVar, Final

from fairway.api.placement import Placement
from fairway.controllers.placement.queue import BACKOFF, NEW_TERM, PlacementQueue
from fairway.controllers.placement.scheduler import PlacementScheduler
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.slow_lane import inspect
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.placement.writer import NAME, DecisionWriter
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.machine_memory import memo_limit
from fairway.controllers.runtime.reconciler import Controller
from fairway.controllers.runtime.scheduling_loop import CycleLoop
from fairway.controllers.runtime.write_limiter import WriteLimiter
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Profile
from fairway.engine.queue import Backoff
from fairway.observe.meters import Meters
from fairway.workloads.placement import default_profile
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Recorder, Resource
from kubewire.client.fence import TermGroup

WORKERS: Final = 32
MOST_IN_FLIGHT: Final = 2000
"""Placements whose writes are in flight, most of them waiting to write a status."""
RESYNC_SECONDS: Final = 600.0
"""OCM's controller reconciles every placement as often, even without changes."""


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
        history: DecisionHistory | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``calculators``: whether the hub serves ManagedClusterScores; ``requests``: HostedClusterRequests.
        ``workers``: the number of placements whose decisions are written concurrently. ``resync`` is in seconds; 0 for
        never. ``limiter`` is shared with the writes of ``recorder``."""
        self.meters, self.clock = meters, clock
        profile = profile or default_profile()
        self.queue = PlacementQueue(clock, profile=profile, backoff=backoff, observer=meters.queue(self.name))
        self.queue.changed_in_flight = lambda owner: self._writer.move_to_front(owner)
        self.state = PlacementState(
            self.queue,
            meters=meters,
            profile=profile,
            shard=shard,
            memo_limit=memo_limit(),
            lost=lambda owner: self.scheduler.forget(owner),
            history=history,
        )
        self._calculators, self._requests = calculators, requests
        self._workers = workers
        self._writer = DecisionWriter(client, recorder=recorder, meters=meters, limiter=limiter)
        self.scheduler = PlacementScheduler(
            client,
            profile=profile,
            state=self.state,
            queue=self.queue,
            writer=self._writer,
            meters=meters,
            resync=resync,
            clock=clock,
        )

    def watch(self, informers: InformerFactory) -> None:
        self.state.follow(informers, calculators=self._calculators, requests=self._requests)

    def watch_late(self, informers: InformerFactory, kind: Resource[Any]) -> None:
        self.state.follow_kind(informers, kind)

    async def work(self) -> None:
        loop = CycleLoop(
            self.scheduler,
            read_back=self.scheduler.read_decisions,
            clock=self.clock,
            now=self.queue.now,
            at_once=self._workers,
            commits_first=True,
            most_tasks=MOST_IN_FLIGHT,
            sends_first=True,
        )
        self.state.rebuild_debits(now=self.clock.wall())
        try:
            self.scheduler.begin()
            self.queue.on_change = loop.wake
            self.queue.wake(self.state.records, trigger=NEW_TERM)
            async with TermGroup() as group:
                group.create_task(self.scheduler.slow.run())
                await loop.run()
        finally:
            self.queue.on_change = lambda: None
            self.scheduler.end()

    # For the debug endpoint

    def find(self, namespace: str, name: str) -> Placement | None:
        return self.state.find(namespace, name)

    async def inspect(self, placement: Placement) -> Outcome:
        return await inspect(self.state, placement, self.clock, self.scheduler.budget)

    def describe_queue(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return why a placement waits, and what would wake it."""
        described = self.queue.describe((namespace, name))
        if described is None:
            return None
        return {**described, **self.scheduler.describe((namespace, name)), "leading": self.scheduler.leads}
