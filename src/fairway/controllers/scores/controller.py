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

from fairway.api.cluster import ManagedCluster
from fairway.api.event import NORMAL, WARNING
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.clusters.scores import calculator_of, is_silent
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Key, Reconciler
from fairway.controllers.scores import silence_marker
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
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTERS,
    SYSTEM_CLOCK,
    Added,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    NotFound,
    Recorder,
    Updated,
)
from fairway.observe.meters import Meters
from fairway.plugins.prioritizer_policy import built_in_named_like

log: Final = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Between checks whether scores and clusters are watched."""
BLIND_SECONDS: Final = 5.0
SHOW_SECONDS: Final = 15.0
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
    "{quiet} of {all} scores {resource} are silent at once, more than {share:.0%}: probably a hub-side fault; "
    "none is marked until fewer are silent"
)
FEWER: Final = "scores %s: fewer are silent now; those still silent in %g s are marked"
ORPHAN: Final = "{resource} belongs to cluster {cluster}, which was deleted; {what}"
STAYS: Final = "it stays"
NOT_READ: Final = (
    "Placements do not read this score: {builtin} is a built-in prioritizer, which computes its own scores. "
    "Publish the score under the name of another calculator, and name that calculator in the placement."
)


class ScoreController(Reconciler):
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
        self._writer = FencedWriter(client, meters=meters, controller=self.name)
        self._by_resource: defaultdict[str, set[str]] = defaultdict(set)
        """Clusters by the name of their scores."""
        self._by_cluster: defaultdict[str, set[str]] = defaultdict(set)
        self._held: set[str] = set()
        """Resources with too many silent scores at once."""
        self._looked: dict[str, float] = {}
        """When they were last counted."""
        self._calculators = calculators
        self._reported_unused: set[Key] = set()
        """ManagedClusterScores that placements do not read, after an event reported it."""

    def watch(self, informers: InformerFactory) -> None:
        self._scores = informers.of(ADD_ON_PLACEMENT_SCORES)
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._clusters.subscribe(self._clusters_changed)
        self._scores.subscribe(self._scores_changed)
        if self._calculators:
            self._calculated = informers.of(MANAGED_CLUSTER_SCORES)
            self._calculated.subscribe(self._calculated_changed)

    def keys(self) -> Iterator[Key]:
        yield from self._scores.store
        if self._calculated is not None:
            found = self._calculated.store.items()
            yield from [key for key, each in found if built_in_named_like(calculator_of(each))]

    async def run(self, leadership: Leadership) -> None:
        self._staleness.record_watch_gap(self.clock.monotonic())
        tasks = [
            asyncio.create_task(self._detect_watch_gaps(), name="watch gaps of scores"),
            asyncio.create_task(self._update_metrics(), name="metrics of scores"),
        ]
        try:
            await super().run(leadership)
        finally:
            for task in tasks:
                task.cancel()

    async def _detect_watch_gaps(self) -> None:
        while True:
            if max(self._scores.lag, self._clusters.lag) > BLIND_SECONDS:
                self._staleness.record_watch_gap(self.clock.monotonic())
            await asyncio.sleep(LOOK_SECONDS)

    async def _update_metrics(self) -> None:
        while True:
            wall, counts = self.clock.wall(), defaultdict[str, Counter[str]](Counter)
            for (cluster, resource), each in self._scores.store.items():
                there = self._clusters.get(cluster) is not None
                counts[resource][state_of(each, clustered=there, wall=wall)] += 1
            for resource in tuple(self._held):
                self._count(resource)
            self._metrics.show(counts, held=self._held)
            await asyncio.sleep(SHOW_SECONDS)

    # Observations

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        now, wall = self.clock.monotonic(), self.clock.wall()
        for change in batch.changes:
            match change:
                case Added(new):
                    self._staleness.seen(new, now=now, wall=wall)
                    self._wake(new.metadata.name)
                case Updated(old, new) if available_of(old) != available_of(new):
                    self._staleness.seen(new, now=now, wall=wall)
                    self._wake(new.metadata.name)
                case Deleted(old):
                    self._staleness.left(old.metadata.name)
                    self._wake(old.metadata.name)

    def _wake(self, cluster: str) -> None:
        for resource in self._by_cluster.get(cluster, ()):
            self.queue.add((cluster, resource))

    def _scores_changed(self, batch: Batch[AddOnPlacementScore]) -> None:
        now, wall = self.clock.monotonic(), self.clock.wall()
        for change in batch.changes:
            match change:
                case Added(new):
                    key = (new.metadata.namespace, new.metadata.name)
                    self._by_resource[key[1]].add(key[0])
                    self._by_cluster[key[0]].add(key[1])
                    self.queue.add(key)
                case Updated(old, new):
                    key = (new.metadata.namespace, new.metadata.name)
                    recheck = False
                    if old.status != new.status:
                        until = old.status.validUntil
                        in_time = until is not None and until >= wall
                        recheck = self._staleness.observe(key, new, now=now, in_time=in_time)
                    if recheck or not _renewed(old, new):
                        self.queue.add(key)
                case Deleted(old):
                    key = (old.metadata.namespace, old.metadata.name)
                    self._staleness.forget(key)
                    self._by_resource[key[1]].discard(key[0])
                    self._by_cluster[key[0]].discard(key[1])

    def _calculated_changed(self, batch: Batch[ManagedClusterScore]) -> None:
        for change in batch.changes:
            match change:
                case Added(new) if built_in_named_like(calculator_of(new)):
                    self.queue.add((new.metadata.namespace, new.metadata.name))
                case Deleted(old):
                    self._reported_unused.discard((old.metadata.namespace, old.metadata.name))

    # Reconciliation

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        """``key`` is that of an AddOnPlacementScore, of a ManagedClusterScore, or of both."""
        self._report_unused(key)
        score = self._scores.get(key[1], namespace=key[0])
        if score is None or score.metadata.deletionTimestamp is not None:
            return
        cluster = self._clusters.get(key[0])
        now, wall = self.clock.monotonic(), self.clock.wall()
        found = self._staleness.judge(score, cluster, now=now, wall=wall)
        match found:
            case RecheckAfter(seconds):
                self.queue.add_after(key, delay=min(seconds, LONGEST_WAIT))
            case Silent():
                await self._silent(score, found, leadership)
            case Returned():
                await self._returned(score, leadership)
            case Restorable():
                await self._restore(score, found, leadership)
            case Orphan():
                await self._orphan(score, leadership)
        if not is_silent(score) and BEFORE in score.metadata.annotations and not isinstance(found, Silent):
            await self._forget_before(score, leadership)

    def _report_unused(self, key: Key) -> None:
        """Report by an event, not by a condition: publishers replace the conditions of a ManagedClusterScore at every
        update."""
        if self._calculated is None or key in self._reported_unused:
            return
        score = self._calculated.get(key[1], namespace=key[0])
        builtin = None if score is None else built_in_named_like(calculator_of(score))
        if score is None or builtin is None:
            return
        self._recorder.event(score, reason=UNUSED, message=NOT_READ.format(builtin=builtin), type_=WARNING)
        self._reported_unused.add(key)

    async def _silent(self, score: AddOnPlacementScore, found: Silent, leadership: Leadership) -> None:
        key = (score.metadata.namespace, score.metadata.name)
        if self._staleness.is_reported(key):
            return
        if max(self._scores.lag, self._clusters.lag) > 0:
            self.queue.add_after(key, delay=LOOK_SECONDS)  # it may have been renewed during the watch gap
            return
        if self._too_many(score):
            self.queue.add_after(key, delay=max(LOOK_SECONDS, self._policy.grace / 2))
            return
        why = silence_marker.why(score, reason=found.reason, since=found.since)
        match self._policy.of(key[1]):
            case Silence.LEAVE:
                self._staleness.record_report(key, score)
                self._staleness.count_marked(key[1], now=self.clock.monotonic())
                if self.clock.wall() - found.since < STALE_NEWS:
                    self._record_event(score, SILENT, SILENT_MESSAGE, why=why, what=LEFT)
            case Silence.WORST:
                await self._silence(score, found, leadership)
                self._staleness.count_marked(key[1], now=self.clock.monotonic())
                self._record_event(score, SILENT, SILENT_MESSAGE, why=why, what=REPLACED)
            case Silence.DROP:
                async with leadership.batch():
                    await self._delete(score, leadership)
                self._staleness.count_marked(key[1], now=self.clock.monotonic())
                self._record_event(score, SILENT, SILENT_MESSAGE, why=why, what=DROPPED)

    async def _silence(self, score: AddOnPlacementScore, found: Silent, leadership: Leadership) -> None:
        """Write the annotation first, then the replacement values; a concurrent write makes either a conflict."""
        async with leadership.batch():
            note = {
                "metadata": {"annotations": {BEFORE: silence_marker.remembered(score, self._policy) or None}}
            }
            noted = await self._writer.patch(
                ADD_ON_PLACEMENT_SCORES, score.metadata, note, leadership=leadership
            )
            status = silence_marker.silenced(
                score, self._policy, reason=found.reason, since=found.since, clock=self.clock
            )
            await self._write_status(noted, status, leadership)

    async def _returned(self, score: AddOnPlacementScore, leadership: Leadership) -> None:
        key = (score.metadata.namespace, score.metadata.name)
        original = silence_marker.before(score)
        wall = self.clock.wall()
        since = wall if original is None or original.valid_until is None else original.valid_until
        async with leadership.batch():
            written = await self._write_status(
                score, {"conditions": silence_marker.without_mark(score)}, leadership
            )
            if BEFORE in written.metadata.annotations:
                await self._forget_before(written, leadership)
        silent_for = max(0.0, (wall - since).total_seconds())
        self._staleness.record_return(key, now=self.clock.monotonic(), silent_for=silent_for)
        self._record_event(score, RETURNED, BACK, type_=NORMAL)
        self.queue.add(key)

    async def _restore(self, score: AddOnPlacementScore, found: Restorable, leadership: Leadership) -> None:
        async with leadership.batch():
            written = await self._write_status(
                score, silence_marker.restored(score, found.original), leadership
            )
            await self._forget_before(written, leadership)
        self._record_event(score, RETURNED, PUT_BACK, type_=NORMAL)

    async def _orphan(self, score: AddOnPlacementScore, leadership: Leadership) -> None:
        key = (score.metadata.namespace, score.metadata.name)
        if self._staleness.is_reported(key):
            return
        if max(self._scores.lag, self._clusters.lag) > 0 or self._too_many_orphans():
            self.queue.add_after(key, delay=max(LOOK_SECONDS, self._policy.grace / 2))
            return
        if self._policy.orphans is Orphans.DROP:
            async with leadership.batch():
                await self._delete(score, leadership)
            self._record_event(score, ORPHANED, ORPHAN, what=DROPPED)
        else:
            self._staleness.record_report(key, score)
            self._record_event(score, ORPHANED, ORPHAN, what=STAYS)

    def _too_many(self, score: AddOnPlacementScore) -> bool:
        """Count at most once a second."""
        resource, now = score.metadata.name, self.clock.monotonic()
        before = resource in self._held
        if now - self._looked.get(resource, -math.inf) < LOOK_SECONDS:
            return before
        words = self._count(resource)
        if words and not before:
            self._recorder.event(score, reason=HELD, message=words, type_=WARNING)
        return before or bool(
            words
        )  # when they are fewer again, all are decided again after the grace period

    def _count(self, resource: str) -> str:
        """Report whether too many are silent at once."""
        now = self._looked[resource] = self.clock.monotonic()
        there = (self._scores.get(resource, namespace=each) for each in self._by_resource[resource])
        known = (each for each in there if each is not None)
        census = self._staleness.census(resource, known, now=now, wall=self.clock.wall())
        words = ""
        if census.too_many(self._policy.share, least=FEWEST):
            self._staleness.record_too_many(resource, now)
            words = TOO_MANY.format(
                quiet=census.quiet, all=census.all, resource=resource, share=self._policy.share
            )
            if resource not in self._held:
                self._held.add(resource)
                log.warning("%s", words)
        elif resource in self._held:
            self._held.discard(resource)
            self._staleness.record_too_many(resource, now)
            log.warning(FEWER, resource, self._policy.grace)
        return words

    def _too_many_orphans(self) -> bool:
        """If hundreds of clusters disappear at once, the list of clusters is probably wrong."""
        clusters = [name for name, resources in self._by_cluster.items() if resources]
        gone = sum(self._clusters.get(name) is None for name in clusters)
        return gone >= FEWEST and gone > self._policy.share * len(clusters)

    async def _write_status(
        self, seen: AddOnPlacementScore, status: Mapping[str, Any], leadership: Leadership
    ) -> AddOnPlacementScore:
        return await self._writer.patch(
            ADD_ON_PLACEMENT_SCORES,
            seen.metadata,
            {"status": status},
            leadership=leadership,
            subresource="status",
        )

    async def _forget_before(self, seen: AddOnPlacementScore, leadership: Leadership) -> None:
        body = {"metadata": {"annotations": {BEFORE: None}}}
        await self._writer.patch(ADD_ON_PLACEMENT_SCORES, seen.metadata, body, leadership=leadership)

    async def _delete(self, seen: AddOnPlacementScore, leadership: Leadership) -> None:
        try:
            await self._writer.delete(ADD_ON_PLACEMENT_SCORES, seen.metadata, leadership=leadership)
        except NotFound:
            return  # another client was faster

    def _record_event(
        self, score: AddOnPlacementScore, reason: str, words: str, *, type_: str = WARNING, **parts: str
    ) -> None:
        message = words.format(resource=score.metadata.name, cluster=score.metadata.namespace, **parts)
        self._recorder.event(score, reason=reason, message=message, type_=type_)


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
