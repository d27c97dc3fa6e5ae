"""The loop of one provider: read at an interval or when woken, and publish what changed enough.

Reading and writing are independent: an unreachable hub does not stop readings, and a hanging reading does not stop
writes.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.api.cluster import ManagedCluster
from fairway.api.score import AddOnPlacementScore
from fairway.observe.provider_meters import ProviderMeters
from fairway.providers.assessor import Findings
from fairway.providers.clock_steps import ClockSteps
from fairway.providers.functions import resolve
from fairway.providers.message_format import describe, tidy, tidy_reason
from fairway.providers.placement_scores import AddOnPlacementScores, version_of
from fairway.providers.provider import ClusterProvider, FleetProvider, ProviderError
from fairway.providers.publication import JITTER, Publication, PublicationState
from fairway.providers.publisher import Publisher, Round
from fairway.providers.reading_check import BAD_RESULT
from fairway.providers.sandbox import sandbox_for
from fairway.providers.sink import ForeignObject, NamespaceMissing, Sink, SinkError, StoredPublication
from kubewire.api.meta import format_time
from kubewire.client import Batch, Clock, Deleted
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

DEBOUNCE_SECONDS: Final = 1.0
"""Minimum time between the starts of two readings, however often the provider is woken."""
RETRY_SECONDS: Final = 2.0
"""Pause after a failed reading; doubled with each failure, up to the interval."""
ELSEWHERE_SECONDS: Final = 60.0
"""Pause before the next write for a cluster without a namespace on the hub, or with a foreign object."""
ELSEWHERE_RATE: Final = 10.0
"""Such writes per second over all clusters: in a new fleet, no cluster may have a namespace yet."""
RACES: Final = 3
"""Consecutive write conflicts with other clients that are logged at debug level."""
SOON_SECONDS: Final = 2.0
"""Pause after such a cluster changed: its namespace is created shortly after it was accepted."""

NOT_BY_CLUSTER: Final = "the provider returned {kind} instead of readings by cluster"
FAILED: Final = "%s could not read%s: %s"
PARTLY: Final = "%s could read only a part of %s: %s"
RECOVERED: Final = "%s reads again"
UNKNOWN_CLUSTERS: Final = "%s returned readings of clusters that the hub does not have, such as %s"
NOT_WRITTEN: Final = "%s could not publish the scores of %s: %s"
BROKE: Final = "unexpected error while %s published the scores of %s"
LEFT: Final = "%s stopped publishing for %s: %s"

SET_BACK: Final = "%s: the system clock was set back by %.0f s"

NOTHING_YET: Final = "{name}: nothing published yet{why}"
RAN_OUT: Final = "{name}: the published scores expired at {time}{why}"


class ProviderLoop:
    """Loop of one provider. ``cluster`` is that of a cluster provider; ``clusters`` returns those of the hub.

    Calls ``schedule(provider, cluster, delay)`` to have ``publish`` called.
    """

    def __init__(
        self,
        provider: ClusterProvider | FleetProvider,
        *,
        sink: Sink,
        interval: float,
        horizon: float,
        deadline: float,
        cluster: str | None,
        clusters: Callable[[], Mapping[str, ManagedCluster]],
        schedule: Callable[[str, str, float], None],
        meters: ProviderMeters,
        clock: Clock,
    ) -> None:
        self.provider = provider
        self.name: Final = provider.name
        self.publisher = Publisher(provider.scores, horizon=horizon, interval=interval)
        self.sink = sink
        self.interval, self.deadline = interval, deadline
        self.read_once = False
        """Whether a reading has ended, successful or not."""
        self.observes_hub = False
        """Whether ``observe`` reports the hub's objects, so that ``publish`` need not get them."""
        self._cluster, self._clusters = cluster, clusters
        self._schedule, self._meters = schedule, meters
        self._steps, self._reading_steps = ClockSteps(clock), ClockSteps(clock)
        """For the main thread, and for the provider's sandbox."""
        self._sandbox = sandbox_for(provider)
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stored: dict[str, StoredPublication] = {}
        self._looked_up: set[str] = set()
        self._unwritable: set[str] = set()
        self._detached: set[str] = set()
        self._failing = ""
        self._unread = ""
        self._unwritten: dict[str, str] = {}
        self._throttle = LogThrottle(log)
        meters.provider(self.name, expiry=lambda: self.publisher.expiry(clock.wall()))

    @property
    def problem(self) -> str:
        """Error of the last reading or write; empty if there is none."""
        return self._unread or next(iter(self._unwritten.values()), "")

    def _now(self) -> datetime:
        now, back = self._steps.observe()
        if back:
            log.warning(SET_BACK, self.name, back.total_seconds())
            self.publisher.shift_back(back)
        return now

    def wake(self) -> None:
        """Request a reading. Thread-safe."""
        # Providers call it from their own threads; an asyncio.Event is not thread-safe.
        if self._loop is not None:
            with suppress(RuntimeError):  #  the loop is closed
                self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        try:
            while True:
                began = loop.time()
                ok = await self.round()
                failures = 0 if ok else failures + 1
                await self._pause(began, failures)
        finally:
            await self.close()

    async def close(self) -> None:
        await self._sandbox.close()

    async def _pause(self, began: float, failures: int) -> None:
        loop = asyncio.get_running_loop()
        delay = self.interval * random.uniform(1 - JITTER, 1 + JITTER)
        if failures:
            # Never longer than the interval: a provider that recovers should publish in its usual rhythm. The exponent
            # is limited, because a float overflows after 1,024 failures.
            delay = min(delay, RETRY_SECONDS * 2.0 ** min(failures - 1, 30))
        try:
            async with asyncio.timeout_at(max(began + delay, loop.time())):
                await self._woken.wait()
        except TimeoutError:
            return
        # A provider may wake its loop with every event that it sees: a burst of pods must cause one reading, not
        # hundreds.
        await asyncio.sleep(max(0.0, began + DEBOUNCE_SECONDS - loop.time()))

    async def round(self) -> bool:
        """Read once. Return whether the reading succeeded for all clusters."""
        self._loop = loop = asyncio.get_running_loop()
        # Before the reading: a wake during it may concern data that was read already.
        self._woken.clear()
        at, began = self._now(), loop.time()
        targets = self._targets()
        try:
            # After a timeout that could not be cancelled, or an error in the provider's own background task, its
            # context is entered again.
            if self._sandbox.closed:
                await self._sandbox.open(self.wake, deadline=self.deadline)
            findings = await self._sandbox.call(lambda: self._read(targets, at), deadline=self.deadline)
        except ProviderError as error:
            round_ = self._record_failure(error, targets)
        except Exception as error:  #  third-party code
            log.debug(FAILED, self.name, "", describe(error), exc_info=error)
            round_ = self._record_failure(ProviderError(describe(error)), targets)
        else:
            round_ = self._record_success(findings)
        self.read_once = True
        self._meters.reading(self.name, seconds=loop.time() - began)
        now = self._now()
        for cluster, check in round_.next_checks.items():
            self._plan(cluster, check, now)
        return not round_.problems

    def _targets(self) -> Mapping[str, ManagedCluster]:
        return {} if self._cluster is not None else dict(self._clusters())

    async def _read(self, clusters: Mapping[str, ManagedCluster], at: datetime) -> Findings:
        """Read, and examine the result. Runs in the provider's sandbox."""
        readings: Any
        if isinstance(self.provider, ClusterProvider):
            assert self._cluster is not None
            readings, asked = {self._cluster: await resolve(self.provider.read())}, None
        else:
            readings, asked = await resolve(self.provider.read(clusters)), clusters
            if not isinstance(readings, Mapping):
                kind = type(readings).__name__
                raise ProviderError(NOT_BY_CLUSTER.format(kind=kind), reason=BAD_RESULT)
        now, back = self._reading_steps.observe()
        if back:
            self.publisher.assessor.shift_back(back)
        # The time before the reading, because a slow one describes the past; but not after ``now`` if the clock was set
        # back.
        return self.publisher.assessor.assess(readings, at=min(at, now), now=now, asked=asked)

    def _record_failure(self, error: ProviderError, targets: Mapping[str, ManagedCluster]) -> Round:
        known = self._clusters()
        clusters = (
            [self._cluster]
            if self._cluster is not None
            else [cluster for cluster in targets if cluster in known]
        )
        reason, words = tidy_reason(error.reason), tidy(error) or type(error).__name__
        self._meters.reading_failed(self.name, reason=reason)
        self._unread = words
        # Once per reason: a source that is down for a night would otherwise log in every round of every provider.
        if reason != self._failing:
            log.warning(FAILED, self.name, f" {self._cluster}" if self._cluster else "", words)
        self._failing = reason
        round_ = self.publisher.record_failure(error, clusters=clusters, now=self._now())
        return round_ if clusters else Round(problems=round_.problems)

    def _record_success(self, findings: Findings) -> Round:
        now = self._now()
        if self._failing:
            log.info(RECOVERED, self.name)
        self._failing = self._unread = ""
        if findings.unrequested:
            topic = (UNKNOWN_CLUSTERS, self.name)
            self._throttle.log(logging.WARNING, topic, UNKNOWN_CLUSTERS, self.name, min(findings.unrequested))
        if self._cluster is None:
            self._drop_removed_clusters(findings)
        round_ = self.publisher.take(findings, now=now)
        for problem in round_.problems:
            self._meters.reading_failed(self.name, reason=problem.reason)
            self._unread = problem.message
            text = FAILED if problem.whole else PARTLY
            topics = (text, self.name, problem.reason)
            name = f" {problem.cluster}" if problem.whole else problem.cluster
            self._throttle.log(logging.WARNING, topics, text, self.name, name, problem.message)
        bad = {problem.cluster for problem in round_.problems if problem.whole}
        for cluster, check in round_.next_checks.items():
            pending = self.publisher.clusters[cluster].pending
            # Only readings whose write was really saved count as avoided: pending ones are written later.
            if cluster not in bad and not pending and (check is None or check > now):
                self._meters.avoided(self.name)
        return round_

    def _drop_removed_clusters(self, findings: Findings) -> None:
        """Drop clusters that were deleted during the reading."""
        known = self._clusters()
        removed = [cluster for cluster in (*findings.assessments, *findings.failures) if cluster not in known]
        for cluster in removed:
            findings.assessments.pop(cluster, None)
            findings.failures.pop(cluster, None)

    def _plan(self, cluster: str, check: datetime | None, now: datetime) -> None:
        if check is not None:
            self._schedule(self.name, cluster, max(0.0, (check - now).total_seconds()))

    async def publish(self, cluster: str, *, ensure: Callable[[], None]) -> None:
        """Write the scores of a cluster if they are due. ``ensure`` raises if the process may not write any more."""
        # The queue may still have an entry of a cluster that was deleted.
        publishing = self.publisher.clusters.get(cluster)
        if publishing is None:
            return
        now = self._now()
        try:
            await self._look_up(cluster, publishing)
            if self._is_removed(cluster, publishing):
                return
            publication = publishing.take_due(now=now)
            if publication is None:
                self._plan(cluster, publishing.next_check(now), now)
                return
            # As late as possible: the lookup may have taken longer than the lease lasts, and another replica may write
            # by now.
            ensure()
            stored = await self.sink.write(cluster, publication, stored=self._stored.get(cluster))
        except SinkError as error:
            self._record_write_failure(cluster, publishing, error)
        # A cancelled write may have reached the hub or not. The state must not stay "in progress", or this cluster
        # would never be written again.
        except BaseException as error:
            publishing.record_failure(now=self._now())
            if not isinstance(error, Exception):
                raise
            self._meters.write_failed(self.name, reason=type(error).__name__)
            if not self._is_removed(cluster, publishing):
                self._unwritten[cluster] = describe(error)
            raise
        else:
            self._record_write(cluster, publishing, publication, stored)

    def _is_removed(self, cluster: str, publishing: PublicationState) -> bool:
        """Whether the cluster was deleted during a request. Then no state may be stored, as ``forget`` has run."""
        return self.publisher.clusters.get(cluster) is not publishing

    async def _look_up(self, cluster: str, publishing: PublicationState) -> None:
        """Get the stored publication once, unless the loop observes the hub."""
        # A fleet provider watches the scores of all clusters instead: one request, not one per cluster at every start.
        if self.observes_hub or cluster in self._looked_up:
            return
        stored = await self.sink.find(cluster)
        if self._is_removed(cluster, publishing):
            return
        self._looked_up.add(cluster)
        now = self._now()
        if stored is None:
            publishing.observe(None, version=0, now=now, history_reset=True)
            return
        self._stored[cluster] = stored
        publishing.observe(stored.publication, version=stored.version, now=now, history_reset=True)

    def _record_write(
        self, cluster: str, publishing: PublicationState, publication: Publication, stored: StoredPublication
    ) -> None:
        self._meters.write(self.name)
        if self._is_removed(cluster, publishing):
            return
        self._stored[cluster] = stored
        self._unwritable.discard(cluster)
        self._detached.discard(cluster)
        self._unwritten.pop(cluster, None)
        if stored.missing:
            self._unwritten[cluster] = stored.missing
        now = self._now()
        self._meters.published(self.name, cluster, dict(publication.scores))
        self._plan(cluster, publishing.record_write(version=stored.version, now=now), now)

    def _record_write_failure(self, cluster: str, publishing: PublicationState, error: SinkError) -> None:
        self._meters.write_failed(self.name, reason=error.reason)
        if self._is_removed(cluster, publishing):
            return
        now, after = self._now(), error.after
        self._unwritten[cluster] = str(error)
        # The stored object is foreign, deleted, or not as expected: get it again.
        self._looked_up.discard(cluster)
        self._stored.pop(cluster, None)
        if isinstance(error, NamespaceMissing | ForeignObject):
            if isinstance(error, NamespaceMissing) and publishing.published is not None:
                self._throttle.log(logging.INFO, (LEFT, self.name), LEFT, self.name, cluster, error)
                self._detached.add(cluster)
                # A missing namespace means that the cluster is detached. Its object went with it, so what was published
                # counts no more.
                publishing.observe(None, version=0, now=now, history_reset=True)
            elif cluster not in self._unwritable:
                topic = (NOT_WRITTEN, self.name, error.reason)
                self._throttle.log(logging.WARNING, topic, NOT_WRITTEN, self.name, cluster, error)
            self._unwritable.add(cluster)
            # Hundreds of clusters without a namespace, as on a hub that imports a fleet, share one small rate of
            # attempts.
            after = max(after or 0.0, ELSEWHERE_SECONDS, len(self._unwritable) / ELSEWHERE_RATE)
        elif error.race and publishing.failures < RACES:
            log.debug(NOT_WRITTEN, self.name, cluster, error)
        else:
            topic = (NOT_WRITTEN, self.name, error.reason)
            self._throttle.log(logging.WARNING, topic, NOT_WRITTEN, self.name, cluster, error)
        # All clusters fail together when the hub does; without jitter their retries would arrive together, too.
        jitter = random.uniform(0.5, 1.5)
        self._plan(cluster, publishing.record_failure(now=now, after=after, jitter=jitter), now)

    def observe(self, batch: Batch[AddOnPlacementScore], *, history_reset: bool) -> None:
        """Process changes of this provider's objects on the hub."""
        assert isinstance(self.sink, AddOnPlacementScores)
        now = self._now()
        for change in batch.changes:
            if isinstance(change, Deleted):
                cluster, stored = change.object.metadata.namespace, None
                # The deleted object has the version of its last change. The batch's is that of the deletion, which is
                # newer than any write before it.
                version = version_of(batch.resource_version)
            else:
                score = change.object
                cluster, stored = score.metadata.namespace, self.sink.own_publication(score)
                version = version_of(score.metadata.resourceVersion)
            if not (
                # The two watches are not synchronised: an object may arrive before its cluster, or stay after it.
                cluster == self._cluster or cluster in self._clusters() or cluster in self.publisher.clusters
            ):
                continue
            publishing = self.publisher.state_of(cluster)
            if stored is None:
                self._stored.pop(cluster, None)
            else:
                self._stored[cluster] = stored
            check = publishing.observe(
                None if stored is None else stored.publication,
                version=version,
                now=now,
                history_reset=history_reset,
            )
            self._plan(cluster, check, now)

    def retry_soon(self, cluster: str) -> None:
        """Shorten the pause of a cluster without a namespace, after the cluster changed."""
        if cluster in self._unwritable and (publishing := self.publisher.clusters.get(cluster)) is not None:
            now = self._now()
            publishing.retry_by(now + timedelta(seconds=SOON_SECONDS))
            self._plan(cluster, publishing.next_check(now), now)

    def forget(self, cluster: str) -> None:
        """Drop all state of a deleted cluster."""
        self.publisher.forget(cluster)
        self._stored.pop(cluster, None)
        self._unwritten.pop(cluster, None)
        self._looked_up.discard(cluster)
        self._unwritable.discard(cluster)
        self._detached.discard(cluster)
        self._meters.forget(self.name, cluster)

    def unready(self, now: datetime) -> str:
        """Return why the provider is not ready; empty if a published score is valid."""
        why = f": {self.problem}" if self.problem else ""
        if self._cluster is None:
            known = self._clusters()
            states = [state for cluster, state in self.publisher.clusters.items() if cluster in known]
            # A hub without clusters is a ready state; otherwise the Deployment of a new hub would never become
            # available.
            if self.read_once and not known:
                return ""
        else:
            states = list(self.publisher.clusters.values())
            if self._cluster in self._detached:
                return ""
        if any(state.valid(now) for state in states):
            return ""
        ends = [
            publication.valid_until
            for state in states
            if (publication := state.published) is not None
            and publication.scores
            and publication.valid_until is not None
        ]
        if not ends:
            return NOTHING_YET.format(name=self.name, why=why)
        return RAN_OUT.format(name=self.name, time=format_time(max(ends)), why=why)
