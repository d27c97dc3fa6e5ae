"""A synthetic fleet that lives on a hub: clusters that keep their leases, and scores that move.

Whoever wants to see a scheduler at work needs clusters whose load changes. Here they are made up: `create` puts them
on a hub, and within `moving` their agents are played, one task each, at a bounded rate of requests. Agents are played
for every cluster with the label `fairway.dev/synthetic`, whenever it was made; so a fleet goes on after a restart,
ends with its clusters, and one labelled `fairway.dev/agent=stopped` falls silent, as if somebody had pulled the plug.

The same seed makes the same fleet, and from the same scores the same walk for every cluster. What somebody else
writes into a score is where its walk goes on from.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.kinds import encode
from fairway.api.lease import format_micro_time
from fairway.api.meta import TRUE, Condition, find_condition, set_condition
from fairway.api.score import AddOnPlacementScore
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTERS,
    SYSTEM_CLOCK,
    Batch,
    Client,
    Clock,
    Informer,
    NotFound,
    Patch,
    Updated,
)
from fairway.kube.lease import LEASES
from fairway.whatif.simulation import creation
from fairway.whatif.simulation.agent import Agent, Pace, Turnstile, Values
from fairway.whatif.simulation.objects import AVAILABLE_MESSAGE, AVAILABLE_REASON, SCORE, SYNTHETIC
from fairway.whatif.synthetic.scores import HOSTED

LEASE: Final = "managed-cluster-lease"
LEASE_SECONDS: Final = 60
AGENT: Final = "fairway.dev/agent"
STOPPED: Final = "stopped"
MISSED: Final = 5
"""A score is good for so many periods: a provider that misses one or two is no emergency."""
FAREWELL_SECONDS: Final = 2.0
SELECTED: Final = f"{SYNTHETIC}=true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """``period`` is the seconds between two publications of a cluster, ``rate`` the most requests a second."""

    clusters: int = 0
    seed: int = 0
    period: float = 60.0
    rate: float = 200.0

    def validity(self, clusters: int) -> float:
        """Seconds for which a score of a fleet that large is good, also where the rate does not keep up."""
        per_period = 1 + self.period / LEASE_SECONDS
        return MISSED * max(self.period, clusters * per_period / self.rate)


async def create(
    client: Client,
    motion: Motion,
    *,
    clock: Clock = SYSTEM_CLOCK,
    advance: Callable[[float], None] = lambda _: None,
) -> None:
    """The clusters, their sets and scores, as far as they are missing; ``advance(1)`` after every cluster."""
    await creation.create(
        client,
        clusters=motion.clusters,
        seed=motion.seed,
        validity=motion.validity(motion.clusters),
        clock=clock,
        advance=advance,
    )


@asynccontextmanager
async def moving(client: Client, motion: Motion, *, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator["Agents"]:
    """The agents of all synthetic clusters, until the block is left."""
    clusters = Informer(client, MANAGED_CLUSTERS, labels=SELECTED)
    scores = Informer(client, ADD_ON_PLACEMENT_SCORES, labels=SELECTED)
    agents = Agents(client, clusters, scores, motion=motion, clock=clock)
    async with scores, clusters:
        await scores.synced.wait()
        await clusters.synced.wait()
        try:
            agents.start()
            yield agents
        finally:
            await agents.stop()


class Agents:
    """Use ``moving``."""

    def __init__(
        self,
        client: Client,
        clusters: Informer[ManagedCluster],
        scores: Informer[AddOnPlacementScore],
        *,
        motion: Motion,
        clock: Clock,
    ) -> None:
        self._clusters, self._motion, self._clock = clusters, motion, clock
        self._wire = HubWire(client, clusters, scores, motion=motion, clock=clock)
        self._turnstile = Turnstile(rate=motion.rate, clock=clock)
        self._playing: dict[str, Agent] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def names(self) -> frozenset[str]:
        """Clusters whose agents are played at the moment."""
        return frozenset(self._playing)

    def start(self) -> None:
        self._unsubscribe = self._clusters.subscribe(self._see)
        for _, name in self._clusters.store:
            self._look(name)

    async def stop(self) -> None:
        """Requests on their way are given a moment to come back."""
        self._unsubscribe()
        for name in list(self._playing):
            self._end(name)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FAREWELL_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _see(self, batch: Batch[ManagedCluster]) -> None:
        for change in batch.changes:
            seen = change.new if isinstance(change, Updated) else change.object
            self._look(seen.metadata.name)

    def _look(self, name: str) -> None:
        cluster = self._clusters.get(name)
        if cluster is None or _silent(cluster):
            self._end(name)
            return
        lease = cluster.spec.leaseDurationSeconds or LEASE_SECONDS
        pace = Pace(period=self._motion.period, lease=lease)
        playing = self._playing.get(name)
        if playing is None or playing.pace != pace:
            self._end(name)
            self._begin(name, pace)
        elif self._wire.outage(name):
            playing.wake()

    def _begin(self, name: str, pace: Pace) -> None:
        agent = Agent(
            name,
            wire=self._wire,
            pace=pace,
            turnstile=self._turnstile,
            clock=self._clock,
            seed=self._motion.seed,
        )
        self._playing[name] = agent
        task = asyncio.create_task(agent.run(), name=f"agent of {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, name: str) -> None:
        agent = self._playing.pop(name, None)
        if agent is not None:
            agent.stop()


class HubWire:
    """What agents see and do, by two informers and a client."""

    def __init__(
        self,
        client: Client,
        clusters: Informer[ManagedCluster],
        scores: Informer[AddOnPlacementScore],
        *,
        motion: Motion,
        clock: Clock,
    ) -> None:
        self._client, self._clusters, self._scores = client, clusters, scores
        self._motion, self._clock = motion, clock

    def outage(self, cluster: str) -> bool:
        found = self._clusters.get(cluster)
        if found is None:
            return False
        condition = find_condition(found.status.conditions or (), CONDITION_AVAILABLE)
        return condition is None or condition.status != TRUE

    def values(self, cluster: str) -> Values | None:
        found = self._scores.get(SCORE, namespace=cluster)
        if found is None or not found.status.scores:
            return None
        return {each.name: each.value for each in found.status.scores}

    def left(self, cluster: str) -> float:
        found = self._scores.get(SCORE, namespace=cluster)
        if found is None or not found.status.scores:
            return 0.0
        until = found.status.validUntil
        return math.inf if until is None else (until - self._clock.wall()).total_seconds()

    async def renew(self, cluster: str) -> None:
        moment = format_micro_time(self._clock.wall())
        try:
            await self._client.patch(
                LEASES, LEASE, {"spec": {"renewTime": moment}}, kind=Patch.MERGE, namespace=cluster
            )
        except NotFound:
            body = {
                "metadata": {"name": LEASE, "namespace": cluster},
                "spec": {
                    "holderIdentity": LEASE,
                    "leaseDurationSeconds": LEASE_SECONDS,
                    "renewTime": moment,
                },
            }
            await creation.ensure(self._client, LEASES, body, namespace=cluster)

    async def report(self, cluster: str) -> None:
        found = self._clusters.get(cluster)
        if found is None:
            return
        now = self._clock.wall()
        wanted = Condition(
            type=CONDITION_AVAILABLE, status=TRUE, reason=AVAILABLE_REASON, message=AVAILABLE_MESSAGE
        )
        conditions = set_condition(found.status.conditions or (), wanted, now=now)
        # A merge replaces the list, so it must be the one that was read.
        body = {
            "metadata": {"resourceVersion": found.metadata.resourceVersion},
            "status": {"conditions": [encode(each) for each in conditions]},
        }
        await self._client.patch(MANAGED_CLUSTERS, cluster, body, kind=Patch.MERGE, subresource="status")

    async def publish(self, cluster: str, values: Values) -> None:
        await self._publish(cluster, SCORE, values)

    def constant(self, cluster: str) -> tuple[str, ...]:
        return (HOSTED,) if self._scores.get(HOSTED, namespace=cluster) is not None else ()

    async def extend(self, cluster: str, name: str) -> None:
        found = self._scores.get(name, namespace=cluster)
        if found is not None:
            await self._publish(cluster, name, {each.name: each.value for each in found.status.scores})

    async def _publish(self, cluster: str, name: str, values: Values) -> None:
        now = self._clock.wall()
        until = now + timedelta(seconds=self._motion.validity(len(self._clusters.store)))
        status = creation.score_status(values, until=until, now=now)
        known = self._scores.get(name, namespace=cluster)
        if known is not None and known.status.conditions:
            del status["conditions"]
        await creation.publish(self._client, cluster=cluster, name=name, status=status)


def _silent(cluster: ManagedCluster) -> bool:
    return (
        cluster.metadata.deletionTimestamp is not None
        or not cluster.spec.hubAcceptsClient
        or cluster.metadata.labels.get(AGENT) == STOPPED
    )
