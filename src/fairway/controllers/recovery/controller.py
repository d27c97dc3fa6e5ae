"""Taint clusters by their published health, and remove the taint again.

``state_machine`` decides. This module passes events to it, asks it about one cluster after the other, and writes its
decision: first the taint, then a condition and an event.

There is one worker, and the state machine learns of every write before the next decision. So the budgets hold on the
hub: no two taints are decided without knowing of each other. A new leader lists the clusters, because the watch may not
have delivered the last writes of the previous one.

Silence is not illness: while scores cannot be watched, no cluster is tainted, and after a longer gap all dwell times
start again.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import ClassVar, Final

from fairway.api.cluster import WEBHOOK_SETS_TIME_ADDED, ManagedCluster
from fairway.api.clusterset import ManagedClusterSet
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
)
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.recovery import taints
from fairway.controllers.recovery.cluster_sets import SetsByCluster
from fairway.controllers.recovery.conditions import HEALTHY, OFF, ON, OVERRIDE, ConditionMessages
from fairway.controllers.recovery.decision import (
    HELD,
    REASONS,
    ClusterDeleted,
    ClusterObserved,
    Event,
    HealthReported,
    HealthUnobserved,
    RecheckAfter,
    Taint,
    Untaint,
    Withheld,
)
from fairway.controllers.recovery.health_source import HealthReading, read
from fairway.controllers.recovery.keys import ClusterKey, FleetKey, RecoveryKey
from fairway.controllers.recovery.metrics import RecoveryMetrics
from fairway.controllers.recovery.policy import RecoveryPolicy
from fairway.controllers.recovery.state_machine import RecoveryStateMachine
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.runtime.slicing import in_slices
from fairway.controllers.runtime.writer import Writer, with_condition
from fairway.hosts.steps import Steps, strides
from fairway.observe.meters import Meters
from kubewire.api.event import NORMAL, WARNING
from kubewire.api.meta import FALSE, TRUE, Condition, find_condition
from kubewire.client import (
    SYSTEM_CLOCK,
    ApiError,
    Batch,
    Client,
    Clock,
    Conflict,
    Deleted,
    HubEvents,
    Informer,
    NotFound,
    Recorder,
    ServerError,
    Updated,
)
from kubewire.client.events import Api
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

REPORTER: Final = "fairway-recovery"
CHECK_SECONDS: Final = 1.0
"""Between checks whether scores are watched."""
WATCH_GAP_SECONDS: Final = 5.0
"""Watches are reopened regularly; a gap longer than this may have missed scores."""
MAX_WITHHELD_CONDITIONS: Final = 20
"""At most so many clusters at a time get a condition that they are withheld. A failing provider must not cause a write
for every cluster; the metrics count them all."""

UNHEALTHY_EVENT: Final = "ClusterUnhealthy"
HELD_EVENT: Final = "ClusterUnhealthyNotTainted"
RECOVERED_EVENT: Final = "ClusterRecovered"

STRANGE: Final = "cluster %s: annotation %s: %s has no effect; write %s to exempt this cluster from recovery"
SUSPECTED: Final = (
    "%d of %d clusters became unhealthy at once by %s, probably a provider fault: tainting is paused"
)
SUSPECTED_NO_MORE: Final = "provider of %s is no longer suspected: tainting resumes"


class RecoveryController(Reconciler[RecoveryKey]):
    name: ClassVar[str] = "recovery"

    _clusters: Informer[ManagedCluster]
    _sets: Informer[ManagedClusterSet]
    _published: Informer[AddOnPlacementScore] | Informer[ManagedClusterScore]

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        policy: RecoveryPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        # One worker: a decision counts the taints that were written before it, so two at once could exceed a budget.
        super().__init__(client, meters=meters, workers=1, clock=clock)
        self.policy = policy or RecoveryPolicy()
        self.machine = RecoveryStateMachine(self.policy)
        self._groups = SetsByCluster()
        self._writer = Writer(client, meters=meters, controller=self.name)
        self._metrics = RecoveryMetrics(meters)
        self._throttle = LogThrottle(log)
        self._recorder: Recorder | None = None
        self._reported: set[str] = set()
        """Clusters whose condition says that their taint is withheld."""
        self._suspected = False
        self._changed_sets: dict[str, ManagedClusterSet | None] = {}
        """None for a deleted one."""

    def watch(self, informers: InformerFactory) -> None:
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._sets = informers.of(MANAGED_CLUSTER_SETS)
        self._sets.subscribe(self._sets_changed)
        self._clusters.subscribe(self._clusters_changed)
        if self.policy.health.resource:
            named = f"metadata.name={self.policy.health.resource}"
            scores = informers.of(ADD_ON_PLACEMENT_SCORES, fields=named)
            scores.subscribe(self._scores_changed)
            self._published = scores
        else:
            calculated = informers.of(MANAGED_CLUSTER_SCORES)
            calculated.subscribe(self._scores_changed)
            self._published = calculated

    def keys(self) -> Iterator[RecoveryKey]:
        yield from (ClusterKey(name) for _, name in self._clusters.store)
        yield FleetKey()

    async def work(self) -> None:
        await self._catch_up()
        recorder = Recorder(HubEvents(self.client), component=REPORTER, api=Api.EVENTS, clock=self.clock)
        async with recorder:
            self._recorder = recorder
            watch_gaps = asyncio.create_task(self._detect_watch_gaps(), name="watch gaps of health")
            try:
                await super().work()
            finally:
                watch_gaps.cancel()
                self._recorder = None

    async def _catch_up(self) -> None:
        """List the clusters: the watch may not have delivered what the previous leader wrote last.

        Without these taints the budgets would seem to have room, and a change of leaders could taint twice as many.
        """
        listing = await self.client.list(MANAGED_CLUSTERS)
        for cluster in listing.items:
            self._clusters.observe(cluster)
        await in_slices(self._apply_sets(), clock=self.clock)

    async def _detect_watch_gaps(self) -> None:
        """Periodically check whether scores are watched, and update the metrics."""
        is_unobserved = False
        while True:
            if self._published.lag > WATCH_GAP_SECONDS:
                # A cluster may have recovered and fallen again unobserved, so no time counts across the gap.
                is_unobserved = True
                self._apply_event(HealthUnobserved())
            elif is_unobserved:
                is_unobserved = False
                await in_slices(self._requeue_low(), clock=self.clock)
            # In slices before the metrics, which would otherwise file all clusters that became due in one step.
            await in_slices(self.machine.advance(now=self.clock.monotonic()), clock=self.clock)
            self._update_metrics()
            await asyncio.sleep(CHECK_SECONDS)

    def _requeue_low(self) -> Steps[None]:
        """Requeue clusters whose times have restarted without a timer."""
        for names in strides(self.machine.low_clusters()):
            for name in names:
                self.queue.add(ClusterKey(name))
            yield

    def _update_metrics(self) -> None:
        suspected, census = self.machine.suspicious, self.machine.census()
        held = self.machine.count_due(now=self.clock.monotonic())
        self._metrics.update(census, held=held, suspected=suspected)
        if suspected != self._suspected:
            self._suspected = suspected
            if suspected:
                log.warning(SUSPECTED, self.machine.most_low_at_once(), census.known, self.policy.health)
            else:
                log.info(SUSPECTED_NO_MORE, self.policy.health)

    # Events

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._groups.drop_cluster(change.object.metadata.name)
                self._apply_event(ClusterDeleted(cluster=change.object.metadata.name))
                continue
            new = change.object
            if not isinstance(change, Updated) or _about(change.old) != _about(new):
                self._observe_cluster(new)
                self.queue.add(ClusterKey(new.metadata.name))

    def _sets_changed(self, batch: Batch[ManagedClusterSet]) -> None:
        for change in batch.changes:
            new = change.object
            self._changed_sets[new.metadata.name] = None if isinstance(change, Deleted) else new
        # Not here: a set may have 100,000 clusters.
        self.queue.add(FleetKey())

    def _apply_sets(self) -> Steps[None]:
        def moved(name: str) -> None:
            if (cluster := self._clusters.get(name)) is not None:
                self._observe_cluster(cluster)

        while self._changed_sets:
            name = next(iter(self._changed_sets))
            changed = self._changed_sets.pop(name)
            if changed is None:
                yield from self._groups.drop_set(name, moved=moved)
            else:
                yield from self._groups.put_set(changed, moved=moved)
            yield

    def _scores_changed(self, batch: Batch[AddOnPlacementScore] | Batch[ManagedClusterScore]) -> None:
        wall = self.clock.wall()
        for change in batch.changes:
            new = change.object
            cluster = new.metadata.namespace
            if isinstance(change, Updated):
                before = self._read(change.old)
                if before is not None and before.at(wall) is None:
                    # The score had expired before this update, and its timer may not have fired yet. The gap counts:
                    # nothing is known to have lasted across it.
                    self._apply_event(HealthReported(cluster=cluster, score=None))
            is_affected = self.machine.is_low_or_tainted(cluster)
            self._report_health(cluster, None if isinstance(change, Deleted) else self._read(new))
            if is_affected or self.machine.is_low_or_tainted(cluster):
                self.queue.add(ClusterKey(cluster))

    def _observe_cluster(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        if cluster.metadata.deletionTimestamp is not None or not cluster.spec.hubAcceptsClient:
            self._groups.drop_cluster(name)
            self._apply_event(ClusterDeleted(cluster=name))
            return
        if (override := _override(cluster)) not in ("", ON, OFF):
            self._throttle.log(logging.WARNING, (name, override), STRANGE, name, OVERRIDE, override, OFF)
        self._groups.put_cluster(name, cluster.metadata.labels)
        event = ClusterObserved(
            cluster=name,
            sets=self._groups.of(name),
            tainted=taints.ours(cluster.spec.taints) is not None,
            exempt=exempt(cluster),
            unavailable=any(map(taints.is_unreachable, cluster.spec.taints)),
        )
        self._apply_event(event)

    def _read(self, published: AddOnPlacementScore | ManagedClusterScore) -> HealthReading | None:
        return read(published, at=self.policy.health, fresh=self.policy.fresh)

    def _report_health(self, cluster: str, health: HealthReading | None) -> None:
        wall = self.clock.wall()
        score = None if health is None else health.at(wall)
        self._apply_event(HealthReported(cluster=cluster, score=score))
        if score is not None and health is not None and health.expires is not None:
            left = (health.expires - wall).total_seconds()
            self.queue.add_after(ClusterKey(cluster), delay=left)

    def _apply_event(self, event: Event) -> None:
        if self.machine.handle(event, now=self.clock.monotonic()):
            self.queue.add(FleetKey())

    # Decisions

    async def reconcile(self, key: RecoveryKey) -> None:
        # Before any decision: a budget counts the clusters of a set as they are now.
        await in_slices(self._apply_sets(), clock=self.clock)
        match key:
            case FleetKey():
                await in_slices(self.machine.advance(now=self.clock.monotonic()), clock=self.clock)
                self._requeue_affected()
            case ClusterKey(name):
                await self._reconcile_cluster(name)

    async def _reconcile_cluster(self, name: str) -> None:
        cluster = self._clusters.get(name)
        if cluster is None:
            return
        self._report_health(name, self._health(name))
        if self.machine.is_taint_uncertain(name):
            # The watch may be behind our own write. Only the hub knows whether a budget has room again.
            try:
                cluster = await self.client.get(MANAGED_CLUSTERS, name)
            except NotFound:
                return  # the watch will deliver the deletion
            self._observe(cluster)
        await in_slices(self.machine.advance(now=self.clock.monotonic()), clock=self.clock)
        if cluster.metadata.deletionTimestamp is None:
            await self._carry_out(cluster)

    def _health(self, cluster: str) -> HealthReading | None:
        at = self.policy.health
        name = at.resource or managed_cluster_score_name(cluster=cluster, calculator=at.score)
        published = self._published.get(name, namespace=cluster)
        return None if published is None else self._read(published)

    def _requeue_affected(self) -> None:
        """Requeue clusters that may be tainted now, and clusters whose condition may be outdated."""
        now = self.clock.monotonic()
        due = self.machine.due(now=now, limit=MAX_WITHHELD_CONDITIONS)
        for name in {*self.machine.admitted(now=now), *due, *self._reported}:
            self.queue.add(ClusterKey(name))

    async def _carry_out(self, cluster: ManagedCluster) -> None:
        name, now = cluster.metadata.name, self.clock.monotonic()
        decision = self.machine.decide(name, now=now)
        messages = ConditionMessages(self.policy, now=now, wall=self.clock.wall())
        old = find_condition(cluster.status.conditions or (), HEALTHY)
        if not isinstance(decision, Withheld):
            self._reported.discard(name)
        match decision:
            case Taint() if self._published.lag > 0:
                # Its health may have recovered during the watch gap.
                self.queue.add_after(ClusterKey(name), delay=CHECK_SECONDS)
            case Taint():
                cluster = await self._taint(cluster, decision)
                await self._write_condition(cluster, messages.tainted(decision), event=UNHEALTHY_EVENT)
                self.queue.add(FleetKey())
            case Untaint():
                cluster = await self._patch(cluster, taints.removed(cluster.spec.taints))
                condition = messages.untainted(decision)
                await self._write_condition(cluster, condition, event=RECOVERED_EVENT)
                self.queue.add(FleetKey())
            case Withheld():
                if name in self._reported or len(self._reported) < MAX_WITHHELD_CONDITIONS:
                    self._reported.add(name)
                    await self._write_condition(cluster, messages.withheld(decision), event=HELD_EVENT)
            case RecheckAfter():
                if decision.until is not None:
                    self.queue.add_after(ClusterKey(name), delay=decision.until - now)
                await self._keep(cluster, old, messages)

    async def _keep(
        self, cluster: ManagedCluster, old: Condition | None, messages: ConditionMessages
    ) -> None:
        """Correct a wrong condition, and a taint with another effect than configured, while nothing else changes."""
        ours, is_affected = (
            taints.ours(cluster.spec.taints),
            self.machine.is_low_or_tainted(cluster.metadata.name),
        )
        if ours is not None:
            patch = taints.corrected(cluster.spec.taints, effect=self.policy.effect)
            if patch:
                cluster = await self._patch(cluster, patch)
            if old is None or old.status != FALSE or old.reason in HELD:
                await self._write_condition(cluster, messages.tainted_before(ours.value))
        elif old is None:
            return  # it was never unhealthy
        elif exempt(cluster):
            await self._write_condition(cluster, messages.exempt())
        elif is_affected and old.reason in REASONS:
            await self._write_condition(cluster, messages.taint_removed())
        elif not is_affected and old.status != TRUE:
            await self._write_condition(cluster, messages.not_low(self.machine.score(cluster.metadata.name)))

    async def _taint(self, cluster: ManagedCluster, decision: Taint) -> ManagedCluster:
        before, now = cluster.spec.taints, self.clock.wall()

        def patch(*, stamped: bool) -> taints.Patch:
            return taints.added(
                before, reason=decision.reason, effect=self.policy.effect, now=now, stamped=stamped
            )

        async with self._writer.batch():
            # Before the attempt is recorded: without a request, its outcome would stay unknown until the next read.
            self._writer.ensure()
            self.machine.attempt(cluster.metadata.name)
            try:
                try:
                    written = await self._write(cluster, patch(stamped=True))
                except ApiError as error:
                    # OCM's webhook sets timeAdded itself, and refuses taints that have it.
                    if WEBHOOK_SETS_TIME_ADDED not in error.message:
                        raise
                    written = await self._write(cluster, patch(stamped=False))
            except (Conflict, ServerError):
                # It may be written: by the first of two attempts, if only the second one got a response.
                raise
            except ApiError:
                self.machine.refused(cluster.metadata.name)
                self.queue.add(FleetKey())  # the next in order is considered instead
                raise
        return self._observe(written)

    async def _patch(self, cluster: ManagedCluster, patch: taints.Patch) -> ManagedCluster:
        async with self._writer.batch():
            written = await self._write(cluster, patch)
        return self._observe(written)

    def _observe(self, cluster: ManagedCluster) -> ManagedCluster:
        """Take over the hub's response, unless the watch is ahead of it."""
        self._clusters.observe(cluster)
        if (latest := self._clusters.get(cluster.metadata.name)) is not None:
            self._observe_cluster(latest)
        return cluster

    async def _write(self, cluster: ManagedCluster, patch: taints.Patch) -> ManagedCluster:
        return await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, patch)

    async def _write_condition(
        self, cluster: ManagedCluster, condition: Condition, *, event: str = ""
    ) -> None:
        """Write a condition and an event once per change; the score itself shows later values."""
        old = find_condition(cluster.status.conditions or (), HEALTHY)
        if old is not None and (old.status, old.reason) == (condition.status, condition.reason):
            return
        conditions = with_condition(cluster.status.conditions, condition, clock=self.clock)
        async with self._writer.batch():
            await self._writer.conditions(MANAGED_CLUSTERS, cluster.metadata, conditions)
        if event and self._recorder is not None:
            type_ = WARNING if condition.status == FALSE else NORMAL
            self._recorder.event(cluster, reason=event, message=condition.message, type_=type_)


def exempt(cluster: ManagedCluster) -> bool:
    return _override(cluster) == OFF


def _override(cluster: ManagedCluster) -> str:
    return cluster.metadata.annotations.get(OVERRIDE, "").strip().lower()


def _about(cluster: ManagedCluster) -> tuple[object, ...]:
    """Return the fields that recovery reads."""
    meta, spec = cluster.metadata, cluster.spec
    old = find_condition(cluster.status.conditions or (), HEALTHY)
    return spec.taints, spec.hubAcceptsClient, meta.labels, _override(cluster), meta.deletionTimestamp, old
