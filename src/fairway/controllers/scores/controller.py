"""Detect scores that are not renewed, report them, and optionally replace their values.

OCM's own controller and CEL expressions count an expired score as 0, or use it forever. With the policy ``worst`` they
read the worst value instead, from the object itself; with ``drop`` the object is deleted. A provider that returns just
publishes, and the mark is removed.

A renewal only records a time: the score's timer keeps running, and is set again when it fires.
"""

import asyncio
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final

from fairway.api.amount_display import display_share
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.runtime.writer import Writer
from fairway.controllers.scores import silence_marker
from fairway.controllers.scores.keys import ManagedClusterScoreKey, ScoreKey, ScoresKey, key_of
from fairway.controllers.scores.metrics import ScoreMetrics, state_of
from fairway.controllers.scores.policy import Orphans, Silence, SilencePolicy
from fairway.controllers.scores.silence_marker import BEFORE
from fairway.controllers.scores.staleness import (
    Orphan,
    RecheckAfter,
    Restorable,
    Returned,
    Silent,
    StalenessTracker,
    available_of,
)
from fairway.hosts.clusters.scores import calculator_of, is_silent
from fairway.observe.meters import Meters
from fairway.workloads.placement.plugins.prioritizer_policy import built_in_named_like
from kubewire.api.event import NORMAL, WARNING
from kubewire.client import (
    SYSTEM_CLOCK,
    Added,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    NotFound,
    Recorder,
    Resource,
    Updated,
)

log: Final = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
"""Between checks whether scores and clusters are watched."""
WATCH_GAP_SECONDS: Final = 5.0
METRICS_SECONDS: Final = 15.0
LONGEST_WAIT: Final = 3600.0
"""Other clocks write the times; a timer that runs for years would not notice that they jumped."""
FEWEST: Final = 3
"""With fewer scores, the share is not significant."""
STALE_NEWS: Final = timedelta(hours=1)
"""Hubs delete events after an hour. An older silence was reported by another process, or is too old to report."""

SILENT: Final = "ScoreSilent"
RETURNED: Final = "ScoreReturned"
HELD: Final = "SilenceHeld"
ORPHANED: Final = "ScoreOrphaned"
UNUSED: Final = "BuiltInPrioritizer"
"""Reasons of events."""

SILENT_MESSAGE: Final = "{resource} of cluster {cluster} {why}; {what}"
LEFT: Final = "it is treated as missing by consumers that honour validUntil"
REPLACED: Final = "its values are replaced by the worst value"
DROPPED: Final = "it is deleted"
BACK: Final = "{resource} of cluster {cluster} is published again"
PUT_BACK: Final = "cluster {cluster} is available again before {resource} expired; its values are restored"
TOO_MANY: Final = (
    "{quiet} of {all} scores {resource} are silent at once, more than {share}: probably a hub-side fault; "
    "none is marked until fewer are silent"
)
FEWER: Final = "scores %s: fewer are silent now; those still silent in %g s are marked"
ORPHAN: Final = "{resource} belongs to cluster {cluster}, which was deleted; {what}"
STAYS: Final = "it stays"
NOT_READ: Final = (
    "Placements do not read this score: {builtin} is a built-in prioritizer, which computes its own scores. "
    "Publish the score under the name of another calculator, and name that calculator in the placement."
)


class ScoreController(Reconciler[ScoresKey]):
    name: ClassVar[str] = "scores"

    _scores: Informer[AddOnPlacementScore]
    _clusters: Informer[ManagedCluster]
    _calculated: Informer[ManagedClusterScore] | None = None

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        recorder: Recorder,
        policy: SilencePolicy | None = None,
        calculators: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``calculators``: whether the hub serves ManagedClusterScores."""
        super().__init__(client, meters=meters, clock=clock)
        self._policy = policy or SilencePolicy()
        self._recorder = recorder
        self._staleness = StalenessTracker(self._policy)
        self._metrics = ScoreMetrics(meters)
        self._writer = Writer(client, meters=meters, controller=self.name)
        self._by_resource: defaultdict[str, set[str]] = defaultdict(set)
        """Clusters by the name of their scores."""
        self._by_cluster: defaultdict[str, set[str]] = defaultdict(set)
        self._held: set[str] = set()
        """Resources with too many silent scores at once."""
        self._counted_at: dict[str, float] = {}
        """When they were last counted."""
        self._calculators = calculators
        self._reported_unused: set[ManagedClusterScoreKey] = set()
        """ManagedClusterScores that placements do not read, after an event reported it."""

    def watch(self, informers: InformerFactory) -> None:
        self._scores = informers.of(ADD_ON_PLACEMENT_SCORES)
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._clusters.subscribe(self._clusters_changed)
        self._scores.subscribe(self._scores_changed)
        if self._calculators:
            self.watch_late(informers, MANAGED_CLUSTER_SCORES)

    def watch_late(self, informers: InformerFactory, kind: Resource[Any]) -> None:
        self._calculated = informers.of(kind)
        self._calculated.subscribe(self._calculated_changed)

    def keys(self) -> Iterator[ScoresKey]:
        yield from (ScoreKey(cluster, name) for cluster, name in self._scores.store)
        if self._calculated is not None:
            for (cluster, name), score in self._calculated.store.items():
                if built_in_named_like(calculator_of(score)):
                    yield ManagedClusterScoreKey(cluster, name)

    async def work(self) -> None:
        # A standby process does not check for watch gaps, so it cannot know whether one has just ended.
        self._staleness.record_watch_gap(self.clock.monotonic())
        tasks = [
            asyncio.create_task(self._detect_watch_gaps(), name="watch gaps of scores"),
            asyncio.create_task(self._update_metrics(), name="metrics of scores"),
        ]
        try:
            await super().work()
        finally:
            for task in tasks:
                task.cancel()

    async def _detect_watch_gaps(self) -> None:
        while True:
            if max(self._scores.lag, self._clusters.lag) > WATCH_GAP_SECONDS:
                self._staleness.record_watch_gap(self.clock.monotonic())
            await asyncio.sleep(CHECK_SECONDS)

    async def _update_metrics(self) -> None:
        while True:
            wall, counts = self.clock.wall(), defaultdict[str, Counter[str]](Counter)
            for (cluster, resource), score in self._scores.store.items():
                exists = self._clusters.get(cluster) is not None
                counts[resource][state_of(score, clustered=exists, wall=wall)] += 1
            for resource in tuple(self._held):
                self._count(resource)
            self._metrics.update(counts, held=self._held)
            await asyncio.sleep(METRICS_SECONDS)

    # Observations

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        now, wall = self.clock.monotonic(), self.clock.wall()
        for change in batch.changes:
            match change:
                case Added(new):
                    self._staleness.observe_cluster(new, now=now, wall=wall)
                    self._requeue(new.metadata.name)
                case Updated(old, new) if available_of(old) != available_of(new):
                    self._staleness.observe_cluster(new, now=now, wall=wall)
                    self._requeue(new.metadata.name)
                case Deleted(old):
                    self._staleness.forget_cluster(old.metadata.name)
                    self._requeue(old.metadata.name)

    def _requeue(self, cluster: str) -> None:
        for resource in self._by_cluster.get(cluster, ()):
            self.queue.add(ScoreKey(cluster, resource))

    def _scores_changed(self, batch: Batch[AddOnPlacementScore]) -> None:
        now, wall = self.clock.monotonic(), self.clock.wall()
        for change in batch.changes:
            match change:
                case Added(new):
                    key = key_of(new)
                    self._by_resource[key.resource].add(key.cluster)
                    self._by_cluster[key.cluster].add(key.resource)
                    self.queue.add(key)
                case Updated(old, new):
                    key = key_of(new)
                    recheck = False
                    if old.status != new.status:
                        until = old.status.validUntil
                        in_time = until is not None and until >= wall
                        recheck = self._staleness.observe(key, new, now=now, in_time=in_time)
                    # 100,000 scores are renewed every few minutes, and each renewal would cost a reconcile.
                    if recheck or not _renewed(old, new):
                        self.queue.add(key)
                case Deleted(old):
                    key = key_of(old)
                    self._staleness.forget(key)
                    self._by_resource[key.resource].discard(key.cluster)
                    self._by_cluster[key.cluster].discard(key.resource)

    def _calculated_changed(self, batch: Batch[ManagedClusterScore]) -> None:
        for change in batch.changes:
            match change:
                case Added(new) if built_in_named_like(calculator_of(new)):
                    self.queue.add(_managed_key(new))
                case Deleted(old):
                    self._reported_unused.discard(_managed_key(old))

    # Reconciliation

    async def reconcile(self, key: ScoresKey) -> None:
        match key:
            case ScoreKey():
                await self._reconcile_score(key)
            case ManagedClusterScoreKey():
                self._report_unused(key)

    async def _reconcile_score(self, key: ScoreKey) -> None:
        score = self._scores.get(key.resource, namespace=key.cluster)
        if score is None or score.metadata.deletionTimestamp is not None:
            return
        cluster = self._clusters.get(key.cluster)
        now, wall = self.clock.monotonic(), self.clock.wall()
        verdict = self._staleness.judge(score, cluster, now=now, wall=wall)
        match verdict:
            case RecheckAfter(seconds):
                self.queue.add_after(key, delay=min(seconds, LONGEST_WAIT))
            case Silent():
                await self._silent(score, verdict)
            case Returned():
                await self._returned(score)
            case Restorable():
                await self._restore(score, verdict)
            case Orphan():
                await self._orphan(score)
        if not is_silent(score) and BEFORE in score.metadata.annotations and not isinstance(verdict, Silent):
            await self._remove_original_values(score)

    def _report_unused(self, key: ManagedClusterScoreKey) -> None:
        """Report by an event, not by a condition: publishers replace the conditions of a ManagedClusterScore at every
        update."""
        if self._calculated is None or key in self._reported_unused:
            return
        score = self._calculated.get(key.name, namespace=key.cluster)
        builtin = None if score is None else built_in_named_like(calculator_of(score))
        if score is None or builtin is None:
            return
        self._recorder.event(score, reason=UNUSED, message=NOT_READ.format(builtin=builtin), type_=WARNING)
        self._reported_unused.add(key)

    async def _silent(self, score: AddOnPlacementScore, silent: Silent) -> None:
        key = key_of(score)
        if self._staleness.is_reported(key):
            return
        if max(self._scores.lag, self._clusters.lag) > 0:
            # It may have been renewed during the watch gap: a mark must never hide values that are valid on the hub.
            self.queue.add_after(key, delay=CHECK_SECONDS)
            return
        if self._too_many(score):
            self.queue.add_after(key, delay=max(CHECK_SECONDS, self._policy.grace / 2))
            return
        why = silence_marker.reason_text(score, reason=silent.reason, since=silent.since)
        match self._policy.of(key.resource):
            case Silence.LEAVE:
                self._staleness.record_report(key, score)
                self._staleness.count_marked(key.resource, now=self.clock.monotonic())
                if self.clock.wall() - silent.since < STALE_NEWS:
                    self._record_event(score, SILENT, SILENT_MESSAGE, why=why, what=LEFT)
            case Silence.WORST:
                await self._silence(score, silent)
                self._staleness.count_marked(key.resource, now=self.clock.monotonic())
                self._record_event(score, SILENT, SILENT_MESSAGE, why=why, what=REPLACED)
            case Silence.DROP:
                async with self._writer.batch():
                    await self._delete(score)
                self._staleness.count_marked(key.resource, now=self.clock.monotonic())
                self._record_event(score, SILENT, SILENT_MESSAGE, why=why, what=DROPPED)

    async def _silence(self, score: AddOnPlacementScore, silent: Silent) -> None:
        """Write the annotation first, then the replacement values; a concurrent write makes either a conflict.

        In the other order, a process that ends between the two would lose the original values.
        """
        async with self._writer.batch():
            note = {
                "metadata": {
                    "annotations": {BEFORE: silence_marker.annotation_of(score, self._policy) or None}
                }
            }
            noted = await self._writer.patch(ADD_ON_PLACEMENT_SCORES, score.metadata, note)
            status = silence_marker.silent_status(
                score, self._policy, reason=silent.reason, since=silent.since, clock=self.clock
            )
            await self._write_status(noted, status)

    async def _returned(self, score: AddOnPlacementScore) -> None:
        key = key_of(score)
        original = silence_marker.original_values(score)
        wall = self.clock.wall()
        since = wall if original is None or original.valid_until is None else original.valid_until
        async with self._writer.batch():
            written = await self._write_status(score, {"conditions": silence_marker.other_conditions(score)})
            if BEFORE in written.metadata.annotations:
                await self._remove_original_values(written)
        silent_for = max(0.0, (wall - since).total_seconds())
        # The provider was slow, not dead: the next silence is declared later.
        self._staleness.record_return(key, now=self.clock.monotonic(), silent_for=silent_for)
        self._record_event(score, RETURNED, BACK, type_=NORMAL)
        self.queue.add(key)

    async def _restore(self, score: AddOnPlacementScore, restorable: Restorable) -> None:
        async with self._writer.batch():
            written = await self._write_status(
                score, silence_marker.restored_status(score, restorable.original)
            )
            await self._remove_original_values(written)
        self._record_event(score, RETURNED, PUT_BACK, type_=NORMAL)

    async def _orphan(self, score: AddOnPlacementScore) -> None:
        key = key_of(score)
        if self._staleness.is_reported(key):
            return
        if max(self._scores.lag, self._clusters.lag) > 0 or self._too_many_orphans():
            self.queue.add_after(key, delay=max(CHECK_SECONDS, self._policy.grace / 2))
            return
        if self._policy.orphans is Orphans.DROP:
            async with self._writer.batch():
                await self._delete(score)
            self._record_event(score, ORPHANED, ORPHAN, what=DROPPED)
        else:
            self._staleness.record_report(key, score)
            self._record_event(score, ORPHANED, ORPHAN, what=STAYS)

    def _too_many(self, score: AddOnPlacementScore) -> bool:
        """Count at most once a second."""
        resource, now = score.metadata.name, self.clock.monotonic()
        before = resource in self._held
        if now - self._counted_at.get(resource, -math.inf) < CHECK_SECONDS:
            return before
        message = self._count(resource)
        if message and not before:
            self._recorder.event(score, reason=HELD, message=message, type_=WARNING)
        # Once there are fewer, this score waits, too: the grace periods of all have just started again.
        return before or bool(message)

    def _count(self, resource: str) -> str:
        """Report whether too many are silent at once."""
        now = self._counted_at[resource] = self.clock.monotonic()
        stored = (self._scores.get(resource, namespace=cluster) for cluster in self._by_resource[resource])
        scores = (score for score in stored if score is not None)
        census = self._staleness.census(resource, scores, now=now, wall=self.clock.wall())
        message = ""
        if census.too_many(self._policy.share, least=FEWEST):
            self._staleness.record_too_many(resource, now)
            message = TOO_MANY.format(
                quiet=census.quiet, all=census.all, resource=resource, share=display_share(self._policy.share)
            )
            if resource not in self._held:
                self._held.add(resource)
                log.warning("%s", message)
        elif resource in self._held:
            self._held.discard(resource)
            self._staleness.record_too_many(resource, now)
            log.warning(FEWER, resource, self._policy.grace)
        return message

    def _too_many_orphans(self) -> bool:
        """If hundreds of clusters disappear at once, the list of clusters is probably wrong."""
        clusters = [name for name, resources in self._by_cluster.items() if resources]
        deleted = sum(self._clusters.get(name) is None for name in clusters)
        return deleted >= FEWEST and deleted > self._policy.share * len(clusters)

    async def _write_status(
        self, seen: AddOnPlacementScore, status: Mapping[str, Any]
    ) -> AddOnPlacementScore:
        return await self._writer.patch(
            ADD_ON_PLACEMENT_SCORES,
            seen.metadata,
            {"status": status},
            subresource="status",
        )

    async def _remove_original_values(self, seen: AddOnPlacementScore) -> None:
        body = {"metadata": {"annotations": {BEFORE: None}}}
        await self._writer.patch(ADD_ON_PLACEMENT_SCORES, seen.metadata, body)

    async def _delete(self, seen: AddOnPlacementScore) -> None:
        try:
            await self._writer.delete(ADD_ON_PLACEMENT_SCORES, seen.metadata)
        except NotFound:
            return  # another client was faster

    def _record_event(
        self, score: AddOnPlacementScore, reason: str, template: str, *, type_: str = WARNING, **parts: str
    ) -> None:
        message = template.format(resource=score.metadata.name, cluster=score.metadata.namespace, **parts)
        self._recorder.event(score, reason=reason, message=message, type_=type_)


def _managed_key(score: ManagedClusterScore) -> ManagedClusterScoreKey:
    return ManagedClusterScoreKey(score.metadata.namespace, score.metadata.name)


def _renewed(old: AddOnPlacementScore, new: AddOnPlacementScore) -> bool:
    """Whether the only change is a later validUntil: the running timer notices that when it fires."""
    before, after = old.status.validUntil, new.status.validUntil
    return (
        before is not None
        and after is not None
        and before <= after
        and not (is_silent(old) or is_silent(new))
        and BEFORE not in new.metadata.annotations
        and new.metadata.deletionTimestamp is None
    )
