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
from fairway.api.event import NORMAL, WARNING
from fairway.api.meta import FALSE, TRUE, Condition, find_condition
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.fenced_writer import FencedWriter, with_condition
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Key, Reconciler
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
from fairway.controllers.recovery.metrics import RecoveryMetrics
from fairway.controllers.recovery.policy import RecoveryPolicy
from fairway.controllers.recovery.state_machine import RecoveryStateMachine
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
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
from fairway.kube.events import Api
from fairway.kube.log_throttle import LogThrottle
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

REPORTER: Final = "fairway-recovery"
FLEET: Final[Key] = ("", "")
"""Key for work that concerns many clusters; no object has that name."""
LOOK_SECONDS: Final = 1.0
"""Between checks whether scores are watched."""
BLIND_SECONDS: Final = 5.0
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


class RecoveryController(Reconciler):
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
        super().__init__(client, meters=meters, workers=1, clock=clock)
        self.policy = policy or RecoveryPolicy()
        self.machine = RecoveryStateMachine(self.policy)
        self._groups = SetsByCluster()
        self._writer = FencedWriter(client, meters=meters, controller=self.name)
        self._metrics = RecoveryMetrics(meters)
        self._throttle = LogThrottle(log)
        self._recorder: Recorder | None = None
        self._reported: set[str] = set()
        self._suspected = False

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

    def keys(self) -> Iterator[Key]:
        yield from self._clusters.store
        yield FLEET

    async def run(self, leadership: Leadership) -> None:
        await self._catch_up()
        recorder = Recorder(HubEvents(self.client), component=REPORTER, api=Api.EVENTS, clock=self.clock)
        async with recorder:
            self._recorder = recorder
            looking = asyncio.create_task(self._detect_watch_gaps(), name="watch gaps of health")
            try:
                await super().run(leadership)
            finally:
                looking.cancel()
                self._recorder = None

    async def _catch_up(self) -> None:
        """List the clusters: the watch may not have delivered what the previous leader wrote last."""
        listing = await self.client.list(MANAGED_CLUSTERS)
        for each in listing.items:
            self._clusters.observe(each)

    async def _detect_watch_gaps(self) -> None:
        """Periodically check whether scores are watched, and update the metrics."""
        blind = False
        while True:
            if self._published.lag > BLIND_SECONDS:
                blind = True
                self._apply_event(HealthUnobserved())
            elif blind:
                blind = False
                for name in self.machine.low():  # their times have restarted without a timer
                    self.queue.add(("", name))
            self._show()
            await asyncio.sleep(LOOK_SECONDS)

    def _show(self) -> None:
        suspected, census = self.machine.suspicious, self.machine.census()
        held = len(self.machine.due(now=self.clock.monotonic()))
        self._metrics.show(census, held=held, suspected=suspected)
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
            old, new = (change.old, change.new) if isinstance(change, Updated) else (None, change.object)
            if old is None or _about(old) != _about(new):
                self._see(new)
                self.queue.add(("", new.metadata.name))

    def _sets_changed(self, batch: Batch[ManagedClusterSet]) -> None:
        for change in batch.changes:
            new = change.new if isinstance(change, Updated) else change.object
            moved = (
                self._groups.drop_set(new.metadata.name)
                if isinstance(change, Deleted)
                else self._groups.put_set(new)
            )
            for name in moved:
                cluster = self._clusters.get(name)
                if cluster is not None:
                    self._see(cluster)

    def _scores_changed(self, batch: Batch[AddOnPlacementScore] | Batch[ManagedClusterScore]) -> None:
        wall = self.clock.wall()
        for change in batch.changes:
            new = change.new if isinstance(change, Updated) else change.object
            cluster = new.metadata.namespace
            if isinstance(change, Updated):
                before = self._read(change.old)
                if before is not None and before.at(wall) is None:
                    self._apply_event(
                        HealthReported(cluster=cluster, score=None)
                    )  # it had expired, whether or not a timer fired
            sick = self.machine.is_low_or_tainted(cluster)
            self._report_health(cluster, None if isinstance(change, Deleted) else self._read(new))
            if sick or self.machine.is_low_or_tainted(cluster):
                self.queue.add(("", cluster))

    def _see(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        if cluster.metadata.deletionTimestamp is not None or not cluster.spec.hubAcceptsClient:
            self._groups.drop_cluster(name)
            self._apply_event(ClusterDeleted(cluster=name))
            return
        if (override := _override(cluster)) not in ("", ON, OFF):
            self._throttle.log(logging.WARNING, (name, override), STRANGE, name, OVERRIDE, override, OFF)
        self._groups.put_cluster(name, cluster.metadata.labels)
        seen = ClusterObserved(
            cluster=name,
            sets=self._groups.of(name),
            tainted=taints.ours(cluster.spec.taints) is not None,
            exempt=exempt(cluster),
            away=any(map(taints.is_unreachable, cluster.spec.taints)),
        )
        self._apply_event(seen)

    def _read(self, published: AddOnPlacementScore | ManagedClusterScore) -> HealthReading | None:
        return read(published, at=self.policy.health, fresh=self.policy.fresh)

    def _report_health(self, cluster: str, health: HealthReading | None) -> None:
        wall = self.clock.wall()
        score = None if health is None else health.at(wall)
        self._apply_event(HealthReported(cluster=cluster, score=score))
        if score is not None and health is not None and health.expires is not None:
            left = (health.expires - wall).total_seconds()
            self.queue.add_after(("", cluster), delay=left)

    def _apply_event(self, event: Event) -> None:
        if self.machine.handle(event, now=self.clock.monotonic()):
            self.queue.add(FLEET)

    # Decisions

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        if key == FLEET:
            self._requeue_affected()
            return
        name = key[1]
        cluster = self._clusters.get(name)
        if cluster is None:
            return
        self._report_health(name, self._health(name))
        if self.machine.is_taint_uncertain(name):
            try:
                cluster = await self.client.get(MANAGED_CLUSTERS, name)
            except NotFound:
                return  # the watch will deliver the deletion
            self._observe(cluster)
        if cluster.metadata.deletionTimestamp is None:
            await self._reconcile_cluster(cluster, leadership)

    def _health(self, cluster: str) -> HealthReading | None:
        at = self.policy.health
        name = at.resource or managed_cluster_score_name(cluster=cluster, calculator=at.score)
        published = self._published.get(name, namespace=cluster)
        return None if published is None else self._read(published)

    def _requeue_affected(self) -> None:
        """Requeue clusters that may be tainted now, and clusters whose condition may be outdated."""
        now = self.clock.monotonic()
        due = self.machine.due(now=now)
        for name in {*self.machine.admitted(now=now), *due[:MAX_WITHHELD_CONDITIONS], *self._reported}:
            self.queue.add(("", name))

    async def _reconcile_cluster(self, cluster: ManagedCluster, leadership: Leadership) -> None:
        name, now = cluster.metadata.name, self.clock.monotonic()
        decision = self.machine.decide(name, now=now)
        words = ConditionMessages(self.policy, now=now, wall=self.clock.wall())
        said = find_condition(cluster.status.conditions or (), HEALTHY)
        if not isinstance(decision, Withheld):
            self._reported.discard(name)
        match decision:
            case Taint() if self._published.lag > 0:
                # Its health may have recovered during the watch gap.
                self.queue.add_after(("", name), delay=LOOK_SECONDS)
            case Taint():
                cluster = await self._taint(cluster, decision, leadership)
                await self._write_condition(
                    cluster, words.tainted(decision), leadership, event=UNHEALTHY_EVENT
                )
                self.queue.add(FLEET)
            case Untaint():
                cluster = await self._patch(cluster, taints.removed(cluster.spec.taints), leadership)
                condition = words.untainted(decision)
                await self._write_condition(cluster, condition, leadership, event=RECOVERED_EVENT)
                self.queue.add(FLEET)
            case Withheld():
                if name in self._reported or len(self._reported) < MAX_WITHHELD_CONDITIONS:
                    self._reported.add(name)
                    await self._write_condition(cluster, words.held(decision), leadership, event=HELD_EVENT)
            case RecheckAfter():
                if decision.until is not None:
                    self.queue.add_after(("", name), delay=decision.until - now)
                await self._keep(cluster, said, words, leadership)

    async def _keep(
        self,
        cluster: ManagedCluster,
        said: Condition | None,
        words: ConditionMessages,
        leadership: Leadership,
    ) -> None:
        """Nothing changed: update a wrong condition, and a taint with another effect than configured."""
        ours, sick = taints.ours(cluster.spec.taints), self.machine.is_low_or_tainted(cluster.metadata.name)
        if ours is not None:
            made = taints.corrected(cluster.spec.taints, effect=self.policy.effect)
            if made:
                cluster = await self._patch(cluster, made, leadership)
            if said is None or said.status != FALSE or said.reason in HELD:
                await self._write_condition(cluster, words.tainted_before(ours.value), leadership)
        elif said is None:
            return  # it was never unhealthy
        elif exempt(cluster):
            await self._write_condition(cluster, words.exempt(), leadership)
        elif sick and said.reason in REASONS:
            await self._write_condition(cluster, words.released(), leadership)
        elif not sick and said.status != TRUE:
            await self._write_condition(
                cluster, words.relieved(self.machine.score(cluster.metadata.name)), leadership
            )

    async def _taint(
        self, cluster: ManagedCluster, decision: Taint, leadership: Leadership
    ) -> ManagedCluster:
        before, now = cluster.spec.taints, self.clock.wall()

        def made(*, stamped: bool) -> taints.Patch:
            return taints.added(
                before, reason=decision.reason, effect=self.policy.effect, now=now, stamped=stamped
            )

        async with leadership.batch():
            leadership.ensure()
            self.machine.attempt(cluster.metadata.name)
            try:
                try:
                    written = await self._write(cluster, made(stamped=True), leadership)
                except ApiError as error:
                    if WEBHOOK_SETS_TIME_ADDED not in error.message:
                        raise
                    written = await self._write(cluster, made(stamped=False), leadership)
            except (Conflict, ServerError):
                # It may be written: by the first of two attempts, if only the second one got a response.
                raise
            except ApiError:
                self.machine.refused(cluster.metadata.name)
                raise
        return self._observe(written)

    async def _patch(
        self, cluster: ManagedCluster, made: taints.Patch, leadership: Leadership
    ) -> ManagedCluster:
        async with leadership.batch():
            written = await self._write(cluster, made, leadership)
        return self._observe(written)

    def _observe(self, cluster: ManagedCluster) -> ManagedCluster:
        """Take over the hub's response, unless the watch is ahead of it."""
        self._clusters.observe(cluster)
        if (latest := self._clusters.get(cluster.metadata.name)) is not None:
            self._see(latest)
        return cluster

    async def _write(
        self, cluster: ManagedCluster, made: taints.Patch, leadership: Leadership
    ) -> ManagedCluster:
        return await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, made, leadership=leadership)

    async def _write_condition(
        self, cluster: ManagedCluster, condition: Condition, leadership: Leadership, *, event: str = ""
    ) -> None:
        """Write a condition and an event once per change; the score itself shows later values."""
        said = find_condition(cluster.status.conditions or (), HEALTHY)
        if said is not None and (said.status, said.reason) == (condition.status, condition.reason):
            return
        conditions = with_condition(cluster.status.conditions, condition, clock=self.clock)
        async with leadership.batch():
            await self._writer.conditions(
                MANAGED_CLUSTERS, cluster.metadata, conditions, leadership=leadership
            )
        if event and self._recorder is not None:
            type_ = WARNING if condition.status == FALSE else NORMAL
            self._recorder.event(cluster, reason=event, message=condition.message, type_=type_)


def exempt(cluster: ManagedCluster) -> bool:
    return _override(cluster) == OFF


def _override(cluster: ManagedCluster) -> str:
    return cluster.metadata.annotations.get(OVERRIDE, "").strip().lower()


def _about(cluster: ManagedCluster) -> tuple[object, ...]:
    """The fields that recovery reads."""
    meta, spec = cluster.metadata, cluster.spec
    said = find_condition(cluster.status.conditions or (), HEALTHY)
    return spec.taints, spec.hubAcceptsClient, meta.labels, _override(cluster), meta.deletionTimestamp, said
