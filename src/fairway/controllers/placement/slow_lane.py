"""Evaluate expensive CEL expressions in slices, so that they do not delay other placements.

Decisions are computed on the event loop, which all placements, watches and leases share. So a worker may do only a
little work on CEL expressions per placement; a placement that needs more waits here. The lane does one slice for one
placement, rests for as long as the slice took, and continues with the next namespace. So the loop is free half of the
time whatever one namespace needs, and namespaces get equal shares. The worker is free meanwhile.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from fairway.api.placement import Placement
from fairway.controllers.placement.queue import Owner as Key
from fairway.controllers.placement.state import PlacementState
from fairway.engine.outcome import Outcome
from fairway.kube import Clock
from fairway.plugins.work_budget import Paused

log: Final = logging.getLogger(__name__)

FAILED: Final = "evaluation in slices failed; a worker retries"

SLICE_WORK: Final = 20_000
"""Units of work of one slice, about 5 milliseconds (see ``fairway.cel.frame``); one evaluation may take more."""
SHORTEST_REST: Final = 0.005
"""Seconds."""
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
        if space.is_full:
            del self._spaces[namespace]
        return min(left, self._total.left(now))

    def spend(self, namespace: str, work: int) -> None:
        if work:
            self._total.spend(work)
            self._spaces.setdefault(namespace, _Bucket(QUICK_WORK, QUICK_RATE)).spend(work)


class _Bucket:
    __slots__ = ("_capacity", "_held", "_rate", "_since")

    def __init__(self, capacity: int, rate: int) -> None:
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

    def spend(self, work: int) -> None:
        self._held = max(self._held - work, -float(self._capacity))


class SlowLane:
    """``advance`` computes a slice for a placement and returns whether it was the last; then ``done`` is called."""

    def __init__(
        self, *, advance: Callable[[Key, int], bool], done: Callable[[Key], None], clock: Clock
    ) -> None:
        self._advance, self._done, self._clock = advance, done, clock
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

    def discard(self, key: Key) -> None:
        """Skip a deleted placement."""
        self._keys.discard(key)

    def drain(self) -> list[Key]:
        """Remove all placements, and return them."""
        keys = [key for line in self._waiting.values() for key in line if key in self._keys]
        self._waiting.clear()
        self._keys.clear()
        return keys

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    async def empty(self) -> None:
        """Wait until no placement is left."""
        await self._idle.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            while self._waiting:
                began = self._clock.monotonic()
                try:
                    self.step()
                except Exception:
                    # The worker that gets the placement meets the same error, and retries.
                    log.exception(FAILED)
                took = self._clock.monotonic() - began
                await asyncio.sleep(max(took, SHORTEST_REST))
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    def step(self) -> None:
        """Compute one slice for the first placement of the next namespace."""
        namespace, keys = self._waiting.popitem(last=False)
        key = keys.popleft()
        if key in self._keys:
            finished = True
            try:
                finished = self._advance(key, SLICE_WORK)
            finally:
                if finished:
                    self._keys.discard(key)
                    self._done(key)
                else:
                    keys.append(key)
        if keys:
            self._waiting[namespace] = keys


async def inspect(state: PlacementState, placement: Placement, clock: Clock) -> Outcome:
    """Run a cycle for any placement in slices."""
    workload = state.workload(placement)
    while True:
        began = clock.monotonic()
        try:
            return state.inspect(workload, now=clock.wall(), work=SLICE_WORK)
        except Paused:
            await asyncio.sleep(max(clock.monotonic() - began, SHORTEST_REST))
