"""Replay arrivals on a fleet of hosting clusters, and measure where they went."""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Final

from fairway.engine.workload import ResourceList
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.whatif.hosting.arrivals import Arrival
from fairway.whatif.hosting.contenders import Contender
from fairway.workloads.hosting.requests.demand import SIZES, SMALL
from fairway.workloads.hosting.resources import CPU, MEMORY

RESOURCES: Final = (CPU, MEMORY)
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class SimulatedHost:
    """A hosting cluster with its real load. What it publishes lags behind."""

    name: str
    capacity: ResourceList
    hosted: dict[str, str] = field(default_factory=dict)
    """Size by name of the hosted cluster."""

    @property
    def count(self) -> int:
        return len(self.hosted)

    @property
    def used(self) -> dict[str, int]:
        return {
            resource: sum(SIZES[size][resource] for size in self.hosted.values()) for resource in RESOURCES
        }

    @property
    def free(self) -> dict[str, int]:
        used = self.used
        return {resource: self.capacity[resource] - used[resource] for resource in RESOURCES}

    @property
    def full(self) -> bool:
        return any(self.free[resource] < SIZES[SMALL][resource] for resource in RESOURCES)

    @property
    def utilization(self) -> float:
        """Used share of the fullest dimension; above 1 if the host is overcommitted."""
        used = self.used
        return max(used[resource] / self.capacity[resource] for resource in RESOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a policy did with a trace."""

    policy: str
    placed: int
    refused: int
    overcommitted: int
    """Hosts that were ever beyond their capacity."""
    peak: float
    """Highest utilization of a host, ever."""
    imbalance: float
    """How much the fullest host exceeds the average utilization at the end, as a share of the average."""
    herd: float | None
    """How one-sided the arrivals between two publications were: 0 if each interval's were as even as possible, 1 if one
    host got all of each interval. None if no interval had two arrivals, or if there is one host."""
    moves: int
    """Hosted clusters that would have to move at the end, so that no host is beyond its capacity."""
    utilization: dict[str, float]
    """By host, at the end."""


def synthetic_hosts(*, count: int, slots: int, seed: int = 0, spread: float = 0.0) -> list[SimulatedHost]:
    """Return hosts with room for about that many small hosted clusters. ``spread`` varies their size."""
    rng = random.Random(seed)
    width = len(str(count))
    hosts = []
    for number in range(1, count + 1):
        size = max(1, round(slots * rng.uniform(1 - spread, 1 + spread)))
        capacity = {resource: size * SIZES[SMALL][resource] for resource in RESOURCES}
        hosts.append(SimulatedHost(name=f"host-{number:0{width}d}", capacity=capacity))
    return hosts


def simulate(
    policy: str,
    contender: Contender,
    *,
    hosts: Sequence[SimulatedHost],
    arrivals: Iterable[Arrival],
    interval: Micros = 60 * SECOND,
    advance: Callable[[int], None] = lambda _: None,
) -> Result:
    """Replay a trace. Hosts publish at the start, and then at every interval. ``hosts`` are changed."""
    by_name = {host.name: host for host in hosts}
    start = to_micros(_EPOCH)
    for host in hosts:
        contender.publish(host, now=start)
    leaving: list[tuple[Micros, int, Arrival, str]] = []
    order = count()
    published = 0
    refused = placed = 0
    overcommitted: set[str] = set()
    peak = 0.0
    batch: Counter[str] = Counter()
    herd = _Herd(len(hosts))
    for arrival in arrivals:
        while leaving and leaving[0][0] <= arrival.at:
            at, _, departure, name = heapq.heappop(leaving)
            by_name[name].hosted.pop(departure.name, None)
            contender.remove(departure, now=start + at)
        if arrival.at // interval > published:
            published = arrival.at // interval
            herd.add(batch)
            batch.clear()
            for host in hosts:
                contender.publish(host, now=start + published * interval)
        chosen = contender.place(arrival, now=start + arrival.at)
        advance(1)
        if chosen is None:
            refused += 1
            continue
        placed += 1
        batch[chosen] += 1
        target = by_name[chosen]
        target.hosted[arrival.name] = arrival.size
        peak = max(peak, target.utilization)
        if target.utilization > 1:
            overcommitted.add(chosen)
        if arrival.lifetime is not None:
            heapq.heappush(leaving, (arrival.at + arrival.lifetime, next(order), arrival, chosen))
    herd.add(batch)
    utilization = {host.name: host.utilization for host in hosts}
    mean = sum(utilization.values()) / max(1, len(utilization))
    return Result(
        policy=policy,
        placed=placed,
        refused=refused,
        overcommitted=len(overcommitted),
        peak=peak,
        imbalance=max(utilization.values(), default=0.0) / mean - 1 if mean else 0.0,
        herd=herd.share,
        moves=sum(map(_excess, hosts)),
        utilization=utilization,
    )


class _Herd:
    """Arrivals beyond an even share that the fullest host of each interval got, of those that it could get."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._beyond = self._most = 0

    def add(self, batch: Counter[str]) -> None:
        total = batch.total()
        even = -(-total // max(1, self._hosts))
        self._beyond += max(batch.values(), default=0) - even
        self._most += total - even

    @property
    def share(self) -> float | None:
        return self._beyond / self._most if self._most else None


def _excess(host: SimulatedHost) -> int:
    """Return how many hosted clusters must leave, the largest first, until the rest fits."""
    free = host.free
    moves = 0
    for size in sorted(host.hosted.values(), key=lambda name: -SIZES[name][CPU]):
        if all(free[resource] >= 0 for resource in RESOURCES):
            break
        free = {resource: free[resource] + SIZES[size][resource] for resource in RESOURCES}
        moves += 1
    return moves
