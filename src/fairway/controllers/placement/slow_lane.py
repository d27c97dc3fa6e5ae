"""Evaluate expensive CEL expressions in slices, so that they do not delay other placements.

Decisions are computed on the event loop, which all placements, watches and leases share. So a worker may do only a
little work on CEL expressions per placement; a placement that needs more waits here. The lane does one slice for one
placement, rests for as long as the slice took, and continues with the next namespace. So the loop is free half of the
time whatever one namespace needs, and namespaces get equal shares. The worker is free meanwhile.

Half of the loop is too much for a tenant that changes expensive placements all the time: each write of another tenant
would wait for several slices. So each namespace has a budget over time, a token bucket of ``BURST`` placements at their
limit that fills at ``SHARE`` of the loop. Placements of a namespace that used it up wait until some is refilled, or
until nothing else is to be decided, so that a restart of an idle controller does not take longer than necessary.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from fairway.api.placement import Placement
from fairway.controllers.placement.queue import Owner as Key
from fairway.controllers.placement.state import PlacementState
from fairway.engine.outcome import Outcome
from fairway.engine.pending import PendingAnswer
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.workloads.placement.plugins.work_budget import CLUSTER_WORK, FLEET_WORK, Paused
from kubewire.client import Clock

log: Final = logging.getLogger(__name__)

FAILED: Final = "evaluation in slices failed; a worker retries"

SLICE_WORK: Final = 20_000
"""Units of work of one slice, about 5 milliseconds (see ``kubecel.frame``); one evaluation may take more."""
SHORTEST_REST: Final = 0.005
"""Seconds."""
WORK_SECONDS: Final = 0.25e-6
"""Seconds of a unit of work."""
SHARE: Final = 0.05
"""Part of the event loop that the slices of one namespace may take over time."""
BURST: Final = 2
"""Number of placements at their limit that a namespace may decide at once."""
IDLE_REST: Final = 3
"""Rest after a slice of a namespace without budget, as a multiple of the slice: a quarter of the loop."""
IDLE_CHECK: Final = 0.1
"""Seconds until the lane checks again whether the workers are idle, while only namespaces without budget wait."""
OVER_BUDGET: Final = (
    "the CEL expressions of namespace {namespace} used up its share of the controller: they continue in "
    "{seconds:.1f} seconds, or when no other placement is to be decided; write fewer or cheaper expressions, or change "
    "the placements less often"
)
QUICK_WORK: Final = 20_000
"""Units that a namespace may use at once when workers decide its placements."""
QUICK_RATE: Final = 40_000
"""Units that it gets back in a second: a hundredth of a core. A usual expression takes 100 units for a cluster."""
TOTAL_WORK: Final = 40_000
TOTAL_RATE: Final = 400_000
"""The same of all namespaces together: a tenth of a core."""


class Allowance:
    """Work that workers may do at once, by namespace; a token bucket."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._total = _Bucket(TOTAL_WORK, TOTAL_RATE)
        self._spaces: dict[str, _Bucket] = {}

    def left(self, namespace: str) -> int:
        now = self._clock.monotonic()
        space = self._spaces.get(namespace)
        if space is None:
            return min(QUICK_WORK, self._total.left(now))
        left = space.left(now)
        # A full bucket is the same as none, so that namespaces which are no longer used cost no memory.
        if space.is_full:
            del self._spaces[namespace]
        return min(left, self._total.left(now))

    def spend(self, namespace: str, work: int) -> None:
        if work:
            self._total.spend(work)
            self._spaces.setdefault(namespace, _Bucket(QUICK_WORK, QUICK_RATE)).spend(work)


class _Bucket:
    __slots__ = ("_capacity", "_held", "_rate", "_since")

    def __init__(self, capacity: float, rate: float) -> None:
        self._capacity, self._rate = capacity, rate
        self._held = float(capacity)
        self._since: float | None = None

    def left(self, now: float) -> int:
        if self._since is not None:
            self._held = min(self._capacity, self._held + (now - self._since) * self._rate)
        self._since = now
        return max(0, int(self._held))

    @property
    def is_full(self) -> bool:
        return self._held >= self._capacity

    def spend(self, work: float) -> None:
        # A bounded debt: one evaluation may take many times the limit, and its namespace must not wait for hours
        # after it.
        self._held = max(self._held - work, -float(self._capacity))

    def wait(self, now: float) -> float:
        """Return the seconds until some is left; 0 if some is."""
        self.left(now)
        return max(0.0, -self._held / self._rate)


class Budget:
    """Seconds of the event loop that the slices of each namespace may take, over time."""

    def __init__(self, clock: Clock, *, clusters: Callable[[], int] = lambda: 0) -> None:
        """``clusters``: the number of clusters, on which the limit of a placement depends."""
        self._clock, self._clusters = clock, clusters
        self._spaces: dict[str, _Bucket] = {}

    def wait(self, namespace: str) -> float:
        """Return the seconds until a namespace may continue; 0 if it may now."""
        space = self._spaces.get(namespace)
        if space is None:
            return 0.0
        seconds = space.wait(self._clock.monotonic())
        if space.is_full:
            del self._spaces[namespace]
        return seconds

    def exhausted(self) -> list[str]:
        """Return the namespaces that must wait."""
        return [name for name in tuple(self._spaces) if self.wait(name)]

    def spend(self, namespace: str, seconds: float) -> None:
        space = self._spaces.get(namespace)
        if space is None:
            limit = (FLEET_WORK + CLUSTER_WORK * self._clusters()) * WORK_SECONDS
            space = self._spaces[namespace] = _Bucket(BURST * limit, SHARE)
        space.spend(seconds)


class Slice(NamedTuple):
    finished: bool
    work: int
    """Units of work that the slice took."""


class SlowLane:
    """``advance`` computes a slice for a placement; after the last one, ``done`` is called. ``is_idle`` returns whether
    no other placement is to be decided. ``waits`` receives the number of placements that wait for their budget."""

    def __init__(
        self,
        *,
        advance: Callable[[Key, int], Slice],
        done: Callable[[Key], None],
        clock: Clock,
        budget: Budget | None = None,
        is_idle: Callable[[], bool] = lambda: False,
        waits: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._advance, self._done, self._clock = advance, done, clock
        self._budget = budget or Budget(clock)
        self._is_idle, self._waits = is_idle, waits
        self._waiting: OrderedDict[str, deque[Key]] = OrderedDict()
        """By namespace; the first is next."""
        self._keys: set[Key] = set()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key) -> None:
        if key not in self._keys:
            self._keys.add(key)
            self._waiting.setdefault(key[0], deque()).append(key)
            self._idle.clear()
            self._wake.set()

    def discard(self, key: Key) -> bool:
        """Skip a deleted placement. Return whether it waited."""
        waited = key in self._keys
        self._keys.discard(key)
        return waited

    def drain(self) -> list[Key]:
        """Remove all placements, and return them."""
        keys = [key for line in self._waiting.values() for key in line if key in self._keys]
        self._waiting.clear()
        self._keys.clear()
        self._waits(0)
        return keys

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def describe(self, key: Key) -> str:
        """Return why a placement waits here; empty if it does not wait for its budget."""
        seconds = self._budget.wait(key[0]) if key in self._keys else 0.0
        return OVER_BUDGET.format(namespace=key[0], seconds=seconds) if seconds else ""

    async def empty(self) -> None:
        """Wait until no placement is left."""
        await self._idle.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            while self._waiting:
                rest = self._turn()
                if rest is not None:
                    await asyncio.sleep(rest)
                    continue
                self._wake.clear()
                shortest = min(map(self._budget.wait, self._waiting))
                try:
                    async with asyncio.timeout(min(max(shortest, SHORTEST_REST), IDLE_CHECK)):
                        await self._wake.wait()
                except TimeoutError:
                    pass
            self._waits(0)
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    def _turn(self) -> float | None:
        """Do a slice. Return how long to rest; None if all placements wait for their budget."""
        began = self._clock.monotonic()
        try:
            within = self.step()
        except Exception:
            # The worker that gets the placement meets the same error, and retries.
            log.exception(FAILED)
            within = True
        if within is None:
            return None
        took = self._clock.monotonic() - began
        return max(took if within else IDLE_REST * took, SHORTEST_REST)

    def step(self) -> bool | None:
        """Compute one slice for the first placement of the next namespace that has budget, or of any if nothing else is
        to be decided. Return whether it was within its budget; None if all wait."""
        within = next((name for name in self._waiting if not self._budget.wait(name)), None)
        self._waits(sum(len(self._waiting.get(name, ())) for name in self._budget.exhausted()))
        namespace = within
        if namespace is None:
            if not self._waiting or not self._is_idle():
                return None
            namespace = next(iter(self._waiting))
        self._slice(namespace)
        return within is not None

    def _slice(self, namespace: str) -> None:
        keys = self._waiting.pop(namespace)
        key = keys.popleft()
        if key in self._keys:
            finished, work = True, 0
            began = self._clock.monotonic()
            try:
                finished, work = self._advance(key, SLICE_WORK)
            finally:
                # Time counts where it is more: some steps take longer than their units, and the processor may be busy.
                took = self._clock.monotonic() - began
                self._budget.spend(namespace, max(took, work * WORK_SECONDS))
                if finished:
                    self._keys.discard(key)
                    self._done(key)
                else:
                    keys.append(key)
        if keys:
            self._waiting[namespace] = keys


async def inspect(state: PlacementState, placement: Placement, clock: Clock, budget: Budget) -> Outcome:
    """Run a cycle for any placement in slices, from the budget of its namespace."""
    workload, namespace = state.workload(placement), placement.metadata.namespace
    asked: tuple[ClusterSnapshot, datetime] | None = None
    """What plugins in processes of their own are asked about."""
    while True:
        while wait := budget.wait(namespace):
            await asyncio.sleep(max(wait, SHORTEST_REST))
        began, pending = clock.monotonic(), None
        snapshot, now = asked or (state.fleet.snapshot(), clock.wall())
        try:
            return state.inspect(workload, now=now, work=SLICE_WORK, snapshot=snapshot)
        except Paused:
            asked = None
        except PendingAnswer as missing:
            asked, pending = (snapshot, now), missing
        finally:
            took = clock.monotonic() - began
            if work := workload.pace.used:
                budget.spend(namespace, max(took, work * WORK_SECONDS))
        if pending is None:
            await asyncio.sleep(max(took, SHORTEST_REST))
        else:
            await pending.fetch()
