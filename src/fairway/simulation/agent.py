"""The agent of one synthetic cluster: it renews the lease, reports the cluster as available and publishes scores.

Agents use the hub only through `HubAccess` and time only through a clock, so tests can run days in virtual time.
"""

import asyncio
import logging
import random
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from kubewire.client import Clock, KubeError, TokenBucket

log: Final = logging.getLogger(__name__)

SCORE_MIN: Final = 0
SCORE_MAX: Final = 100
STEP_DEVIATION: Final = 3.0
"""Standard deviation of one step: small, so that decisions do not change at every step."""
RETURN_RATE: Final = 0.1
"""Share of the distance to the center that each step goes back."""
MAX_DISTANCE: Final = 30
"""Maximum distance from the center, in points."""
RETRY_SECONDS: Final = 5.0
BURST: Final = 20
DEFAULT_VALUES: Final = {"cpuAvailable": 50, "memAvailable": 50}
"""Start of the walk of a cluster without a score."""

FAILED: Final = "agent of %s failed, retrying: %s"
BROKE: Final = "agent of %s: unexpected error; retrying"

Values = Mapping[str, int]


def next_values(values: Values, *, center: Values, rng: random.Random) -> dict[str, int]:
    """Return the next values of a bounded random walk that tends to its center."""
    next_by_name: dict[str, int] = {}
    for name, value in sorted(values.items()):
        start = center.get(name, value)
        wanted = round(value + RETURN_RATE * (start - value) + rng.gauss(0, STEP_DEVIATION))
        within = min(max(wanted, start - MAX_DISTANCE), start + MAX_DISTANCE)
        next_by_name[name] = min(max(within, SCORE_MIN), SCORE_MAX)
    return next_by_name


def phase(name: str) -> float:
    """Return the position of a cluster within a period, from 0 to 1, by the hash of its name."""
    return zlib.crc32(name.encode()) / 2**32


class HubAccess(Protocol):
    """The requests of an agent to the hub. They raise KubeErrors."""

    def is_unavailable(self, cluster: str) -> bool:
        """Return whether the Available condition on the hub is not True."""

    def scores(self, cluster: str) -> Values | None:
        """Return the current values on the hub; None without a score."""

    def seconds_to_expiry(self, cluster: str) -> float:
        """Return the seconds until the score expires."""

    async def renew_lease(self, cluster: str) -> None: ...

    async def report_available(self, cluster: str) -> None: ...

    async def publish(self, cluster: str, values: Values) -> None: ...

    def constant_scores(self, cluster: str) -> tuple[str, ...]:
        """Return the names of the other scores of the cluster, whose values do not walk."""

    async def renew_score(self, cluster: str, name: str) -> None:
        """Publish the present values with a later expiry."""


class RateLimiter:
    """Delays callers to ``rate`` calls per second, with bursts of ``BURST``."""

    def __init__(self, *, rate: float, clock: Clock) -> None:
        self._bucket = TokenBucket(burst=BURST, every=1 / rate)
        self._clock = clock

    async def acquire(self) -> None:
        wait = self._bucket.reserve(self._clock.monotonic())
        if wait:
            await asyncio.sleep(wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Seconds between publications, and between renewals of the lease."""

    period: float
    lease: float


class Agent:
    """The agent of one cluster; ``run`` is its task."""

    def __init__(
        self,
        name: str,
        *,
        hub: HubAccess,
        intervals: Intervals,
        limiter: RateLimiter,
        clock: Clock,
        seed: int,
        walks: bool = True,
    ) -> None:
        self.name, self.intervals = name, intervals
        self._walks = walks
        self._hub, self._limiter, self._clock = hub, limiter, clock
        self._rng = random.Random(f"fairway agent {seed} {name}")
        self._center: dict[str, int] | None = None
        self._next_values: Values | None = None
        self._wakeup = asyncio.Event()
        self._stopped = asyncio.Event()
        self._renew_at = self._publish_at = 0.0

    def wake(self) -> None:
        """Check the cluster now instead of at the next interval."""
        self._wakeup.set()

    def publish(self, values: Values) -> None:
        """Publish these values now. A walk continues from them."""
        self._next_values = values
        self._publish_at = self._clock.monotonic()
        self._wakeup.set()

    def stop(self) -> None:
        """End ``run`` after the current request."""
        self._stopped.set()
        self._wakeup.set()

    async def run(self) -> None:
        now = self._clock.monotonic()
        self._renew_at = now
        # A score that is still valid is replaced at the phase of the cluster, to spread the load.
        spare = max(0.0, self._hub.seconds_to_expiry(self.name) - self.intervals.period)
        self._publish_at = now + min(spare, phase(self.name) * self.intervals.period)
        first = True
        while not self._stopped.is_set():
            self._wakeup.clear()
            retry = False
            try:
                await self._act(first=first)
                first = False
            except KubeError as error:
                log.debug(FAILED, self.name, error)
                retry = True
            except Exception:
                log.exception(BROKE, self.name)
                retry = True
            await self._sleep(retry=retry)

    async def _act(self, *, first: bool) -> None:
        unavailable = self._hub.is_unavailable(self.name)
        if unavailable or self._clock.monotonic() >= self._renew_at:
            await self._limiter.acquire()
            await self._hub.renew_lease(self.name)
            # All agents renew when they start, and then at the phases of their clusters.
            self._renew_at = self._next(
                self._renew_at, self.intervals.lease * (phase(self.name) if first else 1.0)
            )
        # Checked again, because the controller may have reacted to the lease while the limiter delayed this agent.
        if unavailable and self._hub.is_unavailable(self.name):
            await self._limiter.acquire()
            await self._hub.report_available(self.name)
        if self._clock.monotonic() >= self._publish_at:
            await self._limiter.acquire()
            given = self._next_values
            await self._hub.publish(self.name, self._step() if given is None else given)
            if self._next_values is not given:
                return  # others arrived meanwhile, and are published at once
            self._next_values = None
            for name in self._hub.constant_scores(self.name):
                await self._limiter.acquire()
                await self._hub.renew_score(self.name, name)
            self._publish_at = self._next(self._publish_at, self.intervals.period)

    def _next(self, before: float, after: float) -> float:
        """Return the next time after ``before``; missed intervals are skipped."""
        now = self._clock.monotonic()
        return before + after if before + after > now else now + after

    def _step(self) -> dict[str, int]:
        values = self._hub.scores(self.name) or DEFAULT_VALUES
        if self._center is None:
            self._center = dict(values)
        if not self._walks:
            return dict(values)
        return next_values(values, center=self._center, rng=self._rng)

    async def _sleep(self, *, retry: bool) -> None:
        now = self._clock.monotonic()
        until = now + RETRY_SECONDS if retry else min(self._renew_at, self._publish_at)
        event = self._stopped if retry else self._wakeup
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - now)):
                await event.wait()
