"""The agent of one synthetic cluster: renews its lease, says that it is available, and publishes how busy it is.

Agents know the hub only as `Wire`, and the time only by the clock they are given, so whole days can be played in a
test.
"""

import asyncio
import logging
import random
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from fairway.kube import Clock, KubeError, TokenBucket

log: Final = logging.getLogger(__name__)

LEAST: Final = 0
MOST: Final = 100
STEP: Final = 3.0
"""The standard deviation of one step: so small that a decision stands for a while."""
PULL: Final = 0.1
"""The share of the way home that each step takes."""
REACH: Final = 30
"""As far from home as the walk goes."""
RETRY_SECONDS: Final = 5.0
BURST: Final = 20
IDLE: Final = {"cpuAvailable": 50, "memAvailable": 50}
"""Where a walk begins if nothing was published yet."""

FAILED: Final = "agent of %s failed, retrying: %s"
BROKE: Final = "agent of %s: unexpected error; retrying"

Values = Mapping[str, int]


def stepped(values: Values, *, home: Values, rng: random.Random) -> dict[str, int]:
    """One step of a bounded random walk. It is drawn home, so it neither drifts away nor sticks to a bound."""
    found: dict[str, int] = {}
    for name, value in sorted(values.items()):
        start = home.get(name, value)
        wished = round(value + PULL * (start - value) + rng.gauss(0, STEP))
        within = min(max(wished, start - REACH), start + REACH)
        found[name] = min(max(within, LEAST), MOST)
    return found


def share(name: str) -> float:
    """From 0 to 1, evenly over many names and always the same for one: who comes when."""
    return zlib.crc32(name.encode()) / 2**32


class Wire(Protocol):
    """The hub as an agent sees it. Raises KubeErrors."""

    def outage(self, cluster: str) -> bool:
        """Whether the hub takes the cluster for anything but available."""

    def values(self, cluster: str) -> Values | None:
        """What was published last, by whomever; None if nothing was."""

    def left(self, cluster: str) -> float:
        """Seconds until that runs out."""

    async def renew(self, cluster: str) -> None: ...

    async def report(self, cluster: str) -> None:
        """Say that the cluster is available."""

    async def publish(self, cluster: str, values: Values) -> None: ...

    def constant(self, cluster: str) -> tuple[str, ...]:
        """Its other score objects, whose values do not move."""

    async def extend(self, cluster: str, name: str) -> None:
        """Publish one of those for another while."""


class Turnstile:
    """Lets everybody through, at so many a second."""

    def __init__(self, *, rate: float, clock: Clock) -> None:
        self._bucket = TokenBucket(burst=BURST, every=1 / rate)
        self._clock = clock

    async def pass_through(self) -> None:
        wait = self._bucket.reserve(self._clock.monotonic())
        if wait:
            await asyncio.sleep(wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds between publications, and between renewals."""

    period: float
    lease: float


class Agent:
    """Runs as a task, one to a cluster."""

    def __init__(
        self, name: str, *, wire: Wire, pace: Pace, turnstile: Turnstile, clock: Clock, seed: int
    ) -> None:
        self.name, self.pace = name, pace
        self._wire, self._turnstile, self._clock = wire, turnstile, clock
        self._rng = random.Random(f"fairway agent {seed} {name}")
        self._home: dict[str, int] | None = None
        self._woken = asyncio.Event()
        self._over = asyncio.Event()
        self._renew_at = self._publish_at = 0.0

    def wake(self) -> None:
        """Something about its cluster is not as it should be."""
        self._woken.set()

    def stop(self) -> None:
        """Have ``run`` return; what it is asking of the hub is asked to the end."""
        self._over.set()
        self._woken.set()

    async def run(self) -> None:
        now = self._clock.monotonic()
        self._renew_at = now
        # What still holds for a while is replaced at the agent's own place in the round.
        spare = max(0.0, self._wire.left(self.name) - self.pace.period)
        self._publish_at = now + min(spare, share(self.name) * self.pace.period)
        first = True
        while not self._over.is_set():
            self._woken.clear()
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
            await self._rest(retry=retry)

    async def _act(self, *, first: bool) -> None:
        outage = self._wire.outage(self.name)
        if outage or self._clock.monotonic() >= self._renew_at:
            await self._turnstile.pass_through()
            await self._wire.renew(self.name)
            # All begin at once; from then on each has its own place in the round.
            self._renew_at = self._next(
                self._renew_at, self.pace.lease * (share(self.name) if first else 1.0)
            )
        if outage and self._wire.outage(self.name):
            await self._turnstile.pass_through()
            await self._wire.report(self.name)
        if self._clock.monotonic() >= self._publish_at:
            await self._turnstile.pass_through()
            await self._wire.publish(self.name, self._step())
            for name in self._wire.constant(self.name):
                await self._turnstile.pass_through()
                await self._wire.extend(self.name, name)
            self._publish_at = self._next(self._publish_at, self.pace.period)

    def _next(self, before: float, after: float) -> float:
        """What was missed, as by a machine that slept, is not made up for."""
        now = self._clock.monotonic()
        return before + after if before + after > now else now + after

    def _step(self) -> dict[str, int]:
        values = self._wire.values(self.name) or IDLE
        if self._home is None:
            self._home = dict(values)
        return stepped(values, home=self._home, rng=self._rng)

    async def _rest(self, *, retry: bool) -> None:
        now = self._clock.monotonic()
        until = now + RETRY_SECONDS if retry else min(self._renew_at, self._publish_at)
        heard = self._over if retry else self._woken
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - now)):
                await heard.wait()
