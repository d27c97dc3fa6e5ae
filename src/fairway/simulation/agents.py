"""Simulate the agents of a synthetic fleet on a hub, so that a scheduler can be seen at work.

`running_agents` runs one task per cluster, at a bounded rate of requests. Every cluster with the label
`fairway.dev/synthetic` has an agent, so a fleet continues after a restart; the label `fairway.dev/agent=stopped`
stops the agent, as if the cluster had lost its connection.

The same seed creates the same fleet, and from the same scores the same random walks. A walk continues from the value on
the hub, also if another client wrote it. Without ``walks``, scores change only by ``AgentPool.publish``.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.pod_requests import CPU, MEMORY, PODS
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.providers.hosted.capacity import COUNT
from fairway.simulation.agent import SCORE_MAX, Agent, Intervals, RateLimiter, Values
from fairway.simulation.creation import LEASE_SECONDS, SimulationOptions, ensure, publish, score_status
from fairway.simulation.objects import AVAILABLE_MESSAGE, AVAILABLE_REASON, SCORE, SYNTHETIC
from fairway.simulation.synthetic.scores import HOSTED, Host
from fairway.simulation.works import HostedChange, HostedWorks
from kubewire.api.encoding import encode
from kubewire.api.lease import format_micro_time
from kubewire.api.meta import TRUE, Condition, find_condition, set_condition
from kubewire.api.quantity import quantity_float
from kubewire.client import SYSTEM_CLOCK, Batch, Client, Clock, Informer, NotFound, Patch
from kubewire.client.lease import LEASES

LEASE: Final = "managed-cluster-lease"
AGENT: Final = "fairway.dev/agent"
STOPPED: Final = "stopped"
STOP_SECONDS: Final = 2.0
SELECTED: Final = f"{SYNTHETIC}=true"


@asynccontextmanager
async def running_agents(client: Client, options: SimulationOptions) -> AsyncIterator["AgentPool"]:
    """Run the agents of all synthetic clusters within the block."""
    clusters = Informer(client, MANAGED_CLUSTERS, labels=SELECTED)
    scores = Informer(client, ADD_ON_PLACEMENT_SCORES, labels=SELECTED)
    agents = AgentPool(client, clusters, scores, options=options, clock=SYSTEM_CLOCK)
    async with scores, clusters:
        await scores.synced.wait()
        await clusters.synced.wait()
        try:
            agents.start()
            async with agents.works.running():
                yield agents
        finally:
            await agents.stop()


class AgentPool:
    """The running agents; see ``running_agents``."""

    def __init__(
        self,
        client: Client,
        clusters: Informer[ManagedCluster],
        scores: Informer[AddOnPlacementScore],
        *,
        options: SimulationOptions,
        clock: Clock,
    ) -> None:
        self._clusters, self._options, self._clock = clusters, options, clock
        self.works = HostedWorks(client, clock=clock, has_agent=lambda name: name in self._running)
        self._hub = ClientHubAccess(client, clusters, scores, works=self.works, options=options, clock=clock)
        self._limiter = RateLimiter(rate=options.rate, clock=clock)
        self._running: dict[str, Agent] = {}
        self._paused: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def names(self) -> frozenset[str]:
        """The clusters with a running agent."""
        return frozenset(self._running)

    @property
    def hosting(self) -> bool:
        """Whether one of them is a hosting cluster."""
        return any(self._hub.constant_scores(name) for name in self._running)

    @property
    def validity(self) -> float:
        """Seconds until a score expires after its publication."""
        return self._options.validity(len(self._clusters.store))

    def values(self, cluster: str) -> Values | None:
        """Return the published scores of a cluster; None without any."""
        return self._hub.scores(cluster)

    def publish(self, cluster: str, values: Values) -> None:
        """Let the agent of the cluster publish these scores now, if it runs."""
        if (agent := self._running.get(cluster)) is not None:
            agent.publish(values)

    def pause(self, cluster: str) -> None:
        """Stop the agent of a cluster, as if the cluster had lost its connection. A restart forgets it."""
        self._paused.add(cluster)
        self._sync(cluster)

    def resume(self, cluster: str) -> None:
        self._paused.discard(cluster)
        self._sync(cluster)

    def start(self) -> None:
        self._unsubscribe = self._clusters.subscribe(self._on_change)
        for _, name in self._clusters.store:
            self._sync(name)

    async def stop(self) -> None:
        """Stop all agents; requests in flight have ``STOP_SECONDS`` to finish."""
        self._unsubscribe()
        for name in list(self._running):
            self._stop_agent(name)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_change(self, batch: Batch[ManagedCluster]) -> None:
        for change in batch.changes:
            seen = change.object
            self._sync(seen.metadata.name)

    def _sync(self, name: str) -> None:
        cluster = self._clusters.get(name)
        if cluster is None or name in self._paused or _has_no_agent(cluster):
            self._stop_agent(name)
            return
        lease = cluster.spec.leaseDurationSeconds or LEASE_SECONDS
        intervals = Intervals(period=self._options.period, lease=lease)
        playing = self._running.get(name)
        if playing is None or playing.intervals != intervals:
            self._stop_agent(name)
            self._start_agent(name, intervals)
        elif self._hub.is_unavailable(name):
            playing.wake()

    def _start_agent(self, name: str, intervals: Intervals) -> None:
        agent = Agent(
            name,
            hub=self._hub,
            intervals=intervals,
            limiter=self._limiter,
            clock=self._clock,
            seed=self._options.seed,
            walks=self._options.walks,
        )
        self._running[name] = agent
        task = asyncio.create_task(agent.run(), name=f"agent of {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop_agent(self, name: str) -> None:
        agent = self._running.pop(name, None)
        if agent is not None:
            agent.stop()


class ClientHubAccess:
    """``HubAccess`` by two informers and a client."""

    def __init__(
        self,
        client: Client,
        clusters: Informer[ManagedCluster],
        scores: Informer[AddOnPlacementScore],
        *,
        works: HostedWorks,
        options: SimulationOptions,
        clock: Clock,
    ) -> None:
        self._client, self._clusters, self._scores = client, clusters, scores
        self._works = works
        self._options, self._clock = options, clock

    def is_unavailable(self, cluster: str) -> bool:
        managed = self._clusters.get(cluster)
        if managed is None:
            return False
        condition = find_condition(managed.status.conditions or (), CONDITION_AVAILABLE)
        return condition is None or condition.status != TRUE

    def scores(self, cluster: str) -> Values | None:
        score = self._scores.get(SCORE, namespace=cluster)
        if score is None or not score.status.scores:
            return None
        return {item.name: item.value for item in score.status.scores}

    def seconds_to_expiry(self, cluster: str) -> float:
        score = self._scores.get(SCORE, namespace=cluster)
        if score is None or not score.status.scores:
            return 0.0
        until = score.status.validUntil
        return math.inf if until is None else (until - self._clock.wall()).total_seconds()

    async def renew_lease(self, cluster: str) -> None:
        moment = format_micro_time(self._clock.wall())
        try:
            await self._client.patch(
                LEASES, LEASE, {"spec": {"renewTime": moment}}, kind=Patch.MERGE, namespace=cluster
            )
        except NotFound:
            body = {
                "metadata": {"name": LEASE, "namespace": cluster},
                "spec": {"holderIdentity": LEASE, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment},
            }
            await ensure(self._client, LEASES, body, namespace=cluster)

    async def report_available(self, cluster: str) -> None:
        managed = self._clusters.get(cluster)
        if managed is None:
            return
        now = self._clock.wall()
        wanted = Condition(
            type=CONDITION_AVAILABLE, status=TRUE, reason=AVAILABLE_REASON, message=AVAILABLE_MESSAGE
        )
        conditions = set_condition(managed.status.conditions or (), wanted, now=now)
        # A merge patch replaces the list, so it must be based on the version that was read.
        body = {
            "metadata": {"resourceVersion": managed.metadata.resourceVersion},
            "status": {"conditions": [encode(condition) for condition in conditions]},
        }
        await self._client.patch(MANAGED_CLUSTERS, cluster, body, kind=Patch.MERGE, subresource="status")

    async def publish(self, cluster: str, values: Values) -> None:
        await self._publish(cluster, SCORE, values)

    def constant_scores(self, cluster: str) -> tuple[str, ...]:
        return (HOSTED,) if self._scores.get(HOSTED, namespace=cluster) is not None else ()

    async def renew_score(self, cluster: str, name: str) -> None:
        score = self._scores.get(name, namespace=cluster)
        if score is not None:
            values = {item.name: item.value for item in score.status.scores}
            if name == HOSTED and (change := await self._works.changed_since_published(cluster)) is not None:
                values |= self._hosted(cluster, values.get(COUNT, 0), change)
            await self._publish(cluster, name, values)

    def _hosted(self, cluster: str, count: int, change: HostedChange) -> Values:
        """Return the scores with a change: the count, and with it the room that is left."""
        managed = self._clusters.get(cluster)
        hosted = max(0, count + change.added)
        if managed is None:
            return {COUNT: min(SCORE_MAX, hosted)}
        has = managed.status.capacity
        host = Host(
            cpu=quantity_float(has.get(CPU, 0)),
            memory=quantity_float(has.get(MEMORY, 0)),
            pods=quantity_float(has.get(PODS, 0)),
            hosted=hosted,
            of_requests=min(hosted, change.count),
            used=change.used,
        )
        return host.scores()

    async def _publish(self, cluster: str, name: str, values: Values) -> None:
        now = self._clock.wall()
        until = now + timedelta(seconds=self._options.validity(len(self._clusters.store)))
        status = score_status(values, until=until, now=now)
        known = self._scores.get(name, namespace=cluster)
        if known is not None and known.status.conditions:
            del status["conditions"]
        await publish(self._client, cluster=cluster, name=name, status=status)


def _has_no_agent(cluster: ManagedCluster) -> bool:
    return (
        cluster.metadata.deletionTimestamp is not None
        or not cluster.spec.hubAcceptsClient
        or cluster.metadata.labels.get(AGENT) == STOPPED
    )
