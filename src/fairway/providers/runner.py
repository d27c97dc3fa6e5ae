"""Run any number of providers in one process, isolated from each other.

Each has a ``provider_loop``. They share the hub client, the write workers and, on a hub, the list of clusters. An error
stays in its loop: it is logged, counted, reported in the scores' condition and in readiness, and retried.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.api.cluster import ManagedCluster
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.observe.provider_meters import ProviderMeters
from fairway.providers.definition import DefinitionError, check, check_interval
from fairway.providers.fan_out import FanOutSink
from fairway.providers.hub_clock import HubClock
from fairway.providers.managed_cluster_score import CalculatorError, ManagedClusterScores
from fairway.providers.placement_scores import AddOnPlacementScores
from fairway.providers.provider import ClusterProvider, FleetProvider, Provider
from fairway.providers.provider_loop import BROKE, ProviderLoop
from fairway.providers.publication import horizon
from fairway.providers.sink import Sink
from kubewire.api.lease import Lease
from kubewire.client import (
    SYSTEM_CLOCK,
    Batch,
    Client,
    Clock,
    Connection,
    Deleted,
    Elector,
    Fence,
    Informer,
    LeaseThread,
    Lost,
    Timing,
    WorkQueue,
)
from kubewire.client.fence import TermGroup

log: Final = logging.getLogger(__name__)

DEADLINE_SECONDS: Final = 30.0
"""Default limit of one reading, or half of the validity if that is shorter."""
WRITERS: Final = 16
"""Concurrent writes to the hub."""
RESTART_SECONDS: Final = 5.0
RELIST_SECONDS: Final = 3600.0

NOTHING_TO_RUN: Final = "no provider to run"
NEEDS_CLUSTER: Final = "provider {name} reads one cluster: give the name of its ManagedCluster"
READS_FLEET: Final = "provider {name} reads the whole fleet: leave out the cluster name"
SAME_NAME: Final = "two providers are called {name}"
SAME_RESOURCE: Final = (
    "providers {one} and {other} both publish as {resource}: they would overwrite each other"
)
BAD_DEADLINE: Final = "the deadline must be a number of seconds greater than 0, not {given!r}"
PROVIDER_BROKE: Final = "unexpected error in provider %s; restarting it"
WAITING: Final = "waiting for the lease %s/%s, held by %s since %s"
NOT_COMPARED: Final = "unexpected error while comparing the hub's clock with ours"
NO_CLUSTERS_YET: Final = "the clusters of the hub are not listed yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times are in seconds; None uses the provider's value or the default."""

    cluster: str | None = None
    """The cluster to score; None on a hub, for all clusters."""
    interval: float | None = None
    valid_for: float | None = None
    deadline: float | None = None
    adopt: bool = False
    """Whether to take over objects that another client created."""
    managed_cluster_scores: bool = False
    """Whether to publish raw values as ManagedClusterScores, too."""
    writers: int = WRITERS
    election: Timing | None = None
    """None: no leader election."""
    identity: str = ""
    lease_namespace: str = "fairway-system"
    lease_name: str = "fairway-provider"


SinkFactory = Callable[[Provider], Sink]


class Runner:
    """``sink_of`` creates the sink of a provider; AddOnPlacementScores on the hub by default.

    Raises DefinitionError for invalid providers, or for names that collide.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        client: Client | None,
        settings: Settings | None = None,
        sink_of: SinkFactory | None = None,
        meters: ProviderMeters | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings = settings or Settings()
        self.meters = meters or ProviderMeters()
        self._client, self._clock = client, clock
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue()
        self._clusters: dict[str, ManagedCluster] = {}
        self._synced = self.settings.cluster is not None
        self._working = False
        self._elector: Elector | None = None
        self._hub_clock = None if client is None else HubClock(client, clock)
        self._fence: Fence | None = None
        _check(providers, self.settings)
        self.loops: Final = {
            provider.name: self._make_loop(provider, sink_of or self._sink) for provider in providers
        }

    def _sink(self, provider: Provider) -> Sink:
        assert self._client is not None
        name, resource, adopt = provider.name, provider.resource, self.settings.adopt
        if not self.settings.managed_cluster_scores:
            return AddOnPlacementScores(self._client, provider=name, resource=resource, adopt=adopt)
        names = [score.name for score in provider.scores]
        try:
            raw = ManagedClusterScores(self._client, provider=name, names=names, adopt=adopt)
        except CalculatorError as error:
            raise DefinitionError(f"provider {name}: {error}") from None
        return FanOutSink(
            self._client, provider=name, resource=resource, companions=(raw,), meters=self.meters, adopt=adopt
        )

    def _make_loop(self, provider: Provider, sink_of: SinkFactory) -> ProviderLoop:
        assert isinstance(provider, ClusterProvider | FleetProvider)
        interval = self.settings.interval or provider.interval
        valid_for = horizon(interval=interval, valid_for=self.settings.valid_for)
        return ProviderLoop(
            provider,
            sink=sink_of(provider),
            interval=interval,
            horizon=valid_for,
            deadline=self.settings.deadline or min(valid_for / 2, DEADLINE_SECONDS),
            cluster=self.settings.cluster,
            clusters=lambda: self._clusters,
            schedule=self._schedule,
            meters=self.meters,
            clock=self._clock,
        )

    def _schedule(self, name: str, cluster: str, delay: float) -> None:
        self._queue.add_after((name, cluster), delay=delay)

    @property
    def clusters(self) -> Mapping[str, ManagedCluster]:
        """Clusters of the hub; empty for cluster providers."""
        return self._clusters

    def unready(self) -> list[str]:
        """Return why the process is not ready: the providers without a valid published score.

        A standby process is ready.
        """
        if self.settings.election is not None and not self._working:
            return []
        if not self._synced:
            return [NO_CLUSTERS_YET]
        now = self._clock.wall()
        if self._hub_clock is not None:
            # Consumers compare validUntil with the hub's clock, not with ours.
            now += self._hub_clock.ahead
        return [reason for loop in self.loops.values() if (reason := loop.unready(now))]

    async def run(self) -> None:
        election = self.settings.election
        if election is None:
            await self._work()
            return
        assert self._client is not None
        settings = self.settings
        async with LeaseThread(self._client.connection, field_manager=self._client.field_manager) as thread:
            self._elector = Elector(
                thread.lease(namespace=settings.lease_namespace, name=settings.lease_name),
                identity=settings.identity,
                timing=election,
                on_started=self._lead,
                on_waiting=self._wait,
                runner=thread,
                clock=self._clock,
            )
            await self._elector.run()

    def _wait(self, lease: Lease) -> None:
        settings, spec = self.settings, lease.spec
        since = spec.acquireTime or spec.renewTime
        log.info(WAITING, settings.lease_namespace, settings.lease_name, spec.holderIdentity, since)

    async def _lead(self, fence: Fence) -> None:
        self._fence = fence
        try:
            await self._work()
        finally:
            self._fence = None

    def _ensure(self) -> None:
        if self._fence is not None:
            self._fence.ensure()

    async def _work(self) -> None:
        self._working = True
        try:
            async with AsyncExitStack() as stack, TermGroup() as group:
                for _ in range(self.settings.writers):
                    group.create_task(self._write())
                group.create_task(self._compare_clocks())
                await self._watch_fleet(stack)
                await self._watch_own_scores(stack)
                for loop in self.loops.values():
                    group.create_task(self._run_with_restarts(loop))
        finally:
            self._working = False

    async def _compare_clocks(self) -> None:
        while self._hub_clock is not None:
            try:
                pause = await self._hub_clock.compare()
            except Exception:  # publishing does not depend on it
                log.exception(NOT_COMPARED)
                return
            await asyncio.sleep(pause)

    async def once(self) -> None:
        """Read once with every provider, and write what is due. Write errors are logged."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            await self._watch_fleet(stack)
            try:
                await asyncio.gather(*(loop.round() for loop in self.loops.values()))
                writers = [group.create_task(self._write()) for _ in range(self.settings.writers)]
                await self._queue.join()
                for writer in writers:
                    writer.cancel()
            finally:
                await asyncio.gather(*(loop.close() for loop in self.loops.values()))

    async def _watch_fleet(self, stack: AsyncExitStack) -> None:
        """On a hub: watch clusters and score objects. Returns when all are listed."""
        if self.settings.cluster is not None:
            return
        assert self._client is not None
        clusters = Informer(self._client, MANAGED_CLUSTERS, relist_after=RELIST_SECONDS)
        await stack.enter_async_context(clusters)
        scores: dict[str, Informer[Any]] = {}
        for name, loop in self.loops.items():
            if isinstance(loop.sink, AddOnPlacementScores):
                scores[name] = Informer(
                    self._client,
                    ADD_ON_PLACEMENT_SCORES,
                    fields=loop.sink.selector,
                    relist_after=RELIST_SECONDS,
                )
                await stack.enter_async_context(scores[name])
        # All lists before the first reading: with half of the clusters, a scale that ranks them would give
        # wrong scores, and stored scores that are not known yet would be written again.
        await asyncio.gather(
            clusters.synced.wait(), *(informer.synced.wait() for informer in scores.values())
        )
        # From an earlier term as the leader; subscribing calls back with all that is stored now.
        self._clusters.clear()
        stack.callback(clusters.subscribe(self._on_clusters))
        for name, informer in scores.items():
            stack.callback(informer.subscribe(_observer(self.loops[name])))
            self.loops[name].observes_hub = True
        self._synced = True

    async def _watch_own_scores(self, stack: AsyncExitStack) -> None:
        """On a cluster: watch the score objects in its namespace, so that a deleted or changed one is restored at once.

        Does not wait for the lists: a hub may forbid the watch and still allow writes.
        """
        if self.settings.cluster is None:
            return
        for loop in self.loops.values():
            if isinstance(loop.sink, AddOnPlacementScores):
                assert self._client is not None
                informer = Informer(
                    self._client,
                    ADD_ON_PLACEMENT_SCORES,
                    namespace=self.settings.cluster,
                    fields=loop.sink.selector,
                    relist_after=RELIST_SECONDS,
                )
                stack.callback(informer.subscribe(_observer(loop)))
                await stack.enter_async_context(informer)

    def _on_clusters(self, batch: Batch[ManagedCluster]) -> None:
        added = False
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._forget(change.object.metadata.name)
                continue
            cluster = change.object
            name = cluster.metadata.name
            if cluster.metadata.deletionTimestamp is not None:
                self._forget(name)
                continue
            if name in self._clusters:
                for loop in self.loops.values():
                    loop.retry_soon(name)
            else:
                added = True
            self._clusters[name] = cluster
        if added:
            for loop in self.loops.values():
                loop.wake()

    def _forget(self, cluster: str) -> None:
        if self._clusters.pop(cluster, None) is None:
            return
        for name, loop in self.loops.items():
            loop.forget(cluster)
            # A queued write after ``forget`` would create state of the deleted cluster again.
            self._queue.discard((name, cluster))

    async def _run_with_restarts(self, loop: ProviderLoop) -> None:
        while True:
            try:
                await loop.run()
            except Exception:
                # One broken provider must not stop the others of the process, as it would in a task group.
                log.exception(PROVIDER_BROKE, loop.name)
                await asyncio.sleep(RESTART_SECONDS)

    async def _write(self) -> None:
        while True:
            async with self._queue.take() as (name, cluster):
                try:
                    await self.loops[name].publish(cluster, ensure=self._ensure)
                except Lost:
                    raise
                except Exception:
                    log.exception(BROKE, name, cluster)
                    self._schedule(name, cluster, RESTART_SECONDS)


def _observer(loop: ProviderLoop) -> Callable[[Batch[Any]], None]:
    epoch = 0

    def observe(batch: Batch[Any]) -> None:
        nonlocal epoch
        loop.observe(batch, history_reset=batch.epoch != epoch)
        epoch = batch.epoch

    return observe


def _check(providers: Sequence[Provider], settings: Settings) -> None:
    if not providers:
        raise DefinitionError(NOTHING_TO_RUN)
    if settings.interval is not None:
        check_interval(settings.interval, subject="settings")
    if settings.deadline is not None and not settings.deadline > 0:
        raise DefinitionError(BAD_DEADLINE.format(given=settings.deadline))
    names: set[str] = set()
    resources: dict[str, str] = {}
    for provider in providers:
        check(provider)
        if isinstance(provider, ClusterProvider) and settings.cluster is None:
            raise DefinitionError(NEEDS_CLUSTER.format(name=provider.name))
        if isinstance(provider, FleetProvider) and settings.cluster is not None:
            raise DefinitionError(READS_FLEET.format(name=provider.name))
        if provider.name in names:
            raise DefinitionError(SAME_NAME.format(name=provider.name))
        names.add(provider.name)
        one = resources.setdefault(provider.resource, provider.name)
        if one != provider.name:
            raise DefinitionError(
                SAME_RESOURCE.format(one=one, other=provider.name, resource=provider.resource)
            )
        try:
            horizon(interval=settings.interval or provider.interval, valid_for=settings.valid_for)
        except ValueError as error:
            raise DefinitionError(f"provider {provider.name}: {error}") from None


@asynccontextmanager
async def running(
    providers: Sequence[Provider],
    *,
    hub: Client | Connection,
    cluster: str | None = None,
    settings: Settings | None = None,
    sink_of: SinkFactory | None = None,
    meters: ProviderMeters | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Runner]:
    """Run providers while the block runs. ``cluster`` overrides that of the settings."""
    given = settings or Settings()
    if cluster is not None:
        given = replace(given, cluster=cluster)
    async with AsyncExitStack() as stack:
        client = hub if isinstance(hub, Client) else await stack.enter_async_context(Client(hub))
        runner = Runner(providers, client=client, settings=given, sink_of=sink_of, meters=meters, clock=clock)
        await stack.enter_async_context(_in_background(runner.run()))
        yield runner


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
