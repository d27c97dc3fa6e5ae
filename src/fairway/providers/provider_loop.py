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
from fairway.api.meta import format_time
from fairway.api.score import AddOnPlacementScore
from fairway.kube import Batch, Clock, Deleted
from fairway.kube.change import Added
from fairway.kube.log_throttle import LogThrottle
from fairway.observe.provider_meters import ProviderMeters
from fairway.providers.assessor import Findings
from fairway.providers.clock_steps import ClockSteps
from fairway.providers.functions import awaited
from fairway.providers.message_format import described, tidy, tidy_reason
from fairway.providers.placement_scores import AddOnPlacementScores, version_of
from fairway.providers.provider import ClusterProvider, FleetProvider, ProviderError
from fairway.providers.publication import JITTER, Publication, Publishing
from fairway.providers.publisher import Publisher, Round
from fairway.providers.reading_check import BAD_RESULT
from fairway.providers.sandbox import sandbox_for
from fairway.providers.sink import ForeignObject, NamespaceMissing, Sink, SinkError, StoredPublication

log: Final = logging.getLogger(__name__)

DEBOUNCE_SECONDS: Final = 1.0
"""Between the beginnings of two readings, however often something wakes the provider."""
RETRY_SECONDS: Final = 2.0
"""After a failed reading; doubled each time, and never more than the interval."""
ELSEWHERE_SECONDS: Final = 60.0
"""Until it is tried again to write for a cluster that has no place on the hub, or an object of somebody else's."""
ELSEWHERE_RATE: Final = 10.0
"""Of such tries in a second, all clusters together: of a large fleet, all may have no place yet."""
RACES: Final = 3
"""Writes in a row that other clients may cross without a warning."""
SOON_SECONDS: Final = 2.0
"""After something happened to such a cluster: a place is made for it a moment after it was accepted."""

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
    """Of one provider. ``clusters`` tells those of the fleet; None for a provider of one ``cluster``.

    ``schedule`` is told when to ``publish`` for a cluster.
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
        """Whether a reading has ended, well or not."""
        self.told = False
        """Whether the hub tells what it has, by ``heard``, and need not be asked."""
        self._cluster, self._clusters = cluster, clusters
        self._schedule, self._meters = schedule, meters
        self._steps, self._reading_steps = ClockSteps(clock), ClockSteps(clock)
        """Where we write, and in the room of the provider."""
        self._sandbox = sandbox_for(provider)
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[str, StoredPublication] = {}
        self._asked: set[str] = set()
        self._elsewhere: set[str] = set()
        self._left: set[str] = set()
        self._failing = ""
        self._unread = ""
        self._unwritten: dict[str, str] = {}
        self._throttle = LogThrottle(log)
        meters.provider(self.name, expiry=lambda: self.publisher.expiry(clock.wall()))

    @property
    def problem(self) -> str:
        """Of the last reading or of writing what it found, in words; empty if there is none."""
        return self._unread or next(iter(self._unwritten.values()), "")

    def _now(self) -> datetime:
        now, back = self._steps.look()
        if back:
            log.warning(SET_BACK, self.name, back.total_seconds())
            self.publisher.set_back(back)
        return now

    def wake(self) -> None:
        """From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing is to be read any more
                self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        try:
            while True:
                began = loop.time()
                well = await self.round()
                failures = 0 if well else failures + 1
                await self._rest(began, failures)
        finally:
            await self.close()

    async def close(self) -> None:
        await self._sandbox.close()

    async def _rest(self, began: float, failures: int) -> None:
        loop = asyncio.get_running_loop()
        delay = self.interval * random.uniform(1 - JITTER, 1 + JITTER)
        if failures:
            delay = min(delay, RETRY_SECONDS * 2.0 ** min(failures - 1, 30))
        try:
            async with asyncio.timeout_at(max(began + delay, loop.time())):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(0.0, began + DEBOUNCE_SECONDS - loop.time()))

    async def round(self) -> bool:
        """One reading. Whether it went well, for all clusters."""
        self._loop = loop = asyncio.get_running_loop()
        self._woken.clear()
        at, began = self._now(), loop.time()
        targets = self._targets()
        try:
            if self._sandbox.closed:
                await self._sandbox.open(self.wake, deadline=self.deadline)
            findings = await self._sandbox.call(lambda: self._read(targets, at), deadline=self.deadline)
        except ProviderError as error:
            found = self._failed(error, targets)
        except Exception as error:  # it is somebody else's code
            log.debug(FAILED, self.name, "", described(error), exc_info=error)
            found = self._failed(ProviderError(described(error)), targets)
        else:
            found = self._succeeded(findings)
        self.read_once = True
        self._meters.reading(self.name, seconds=loop.time() - began)
        now = self._now()
        for cluster, look in found.looks.items():
            self._plan(cluster, look, now)
        return not found.problems

    def _targets(self) -> Mapping[str, ManagedCluster]:
        return {} if self._cluster is not None else dict(self._clusters())

    async def _read(self, clusters: Mapping[str, ManagedCluster], at: datetime) -> Findings:
        """Where the provider's code runs: what it returns is examined there as well."""
        readings: Any
        if isinstance(self.provider, ClusterProvider):
            assert self._cluster is not None
            readings, asked = {self._cluster: await awaited(self.provider.read())}, None
        else:
            readings, asked = await awaited(self.provider.read(clusters)), clusters
            if not isinstance(readings, Mapping):
                kind = type(readings).__name__
                raise ProviderError(NOT_BY_CLUSTER.format(kind=kind), reason=BAD_RESULT)
        now, back = self._reading_steps.look()
        if back:
            self.publisher.assessor.set_back(back)
        return self.publisher.assessor.assess(readings, at=min(at, now), now=now, asked=asked)

    def _failed(self, error: ProviderError, targets: Mapping[str, ManagedCluster]) -> Round:
        known = self._clusters()
        clusters = (
            [self._cluster] if self._cluster is not None else [each for each in targets if each in known]
        )
        reason, words = tidy_reason(error.reason), tidy(error) or type(error).__name__
        self._meters.reading_failed(self.name, reason=reason)
        self._unread = words
        if reason != self._failing:
            log.warning(FAILED, self.name, f" {self._cluster}" if self._cluster else "", words)
        self._failing = reason
        found = self.publisher.failed(error, clusters=clusters, now=self._now())
        return found if clusters else Round(problems=found.problems)

    def _succeeded(self, findings: Findings) -> Round:
        now = self._now()
        if self._failing:
            log.info(RECOVERED, self.name)
        self._failing = self._unread = ""
        if findings.strangers:
            topic = (UNKNOWN_CLUSTERS, self.name)
            self._throttle.log(logging.WARNING, topic, UNKNOWN_CLUSTERS, self.name, min(findings.strangers))
        if self._cluster is None:
            self._leave_out(findings)
        found = self.publisher.take(findings, now=now)
        for problem in found.problems:
            self._meters.reading_failed(self.name, reason=problem.reason)
            self._unread = problem.message
            text = FAILED if problem.whole else PARTLY
            topics = (text, self.name, problem.reason)
            name = f" {problem.cluster}" if problem.whole else problem.cluster
            self._throttle.log(logging.WARNING, topics, text, self.name, name, problem.message)
        bad = {problem.cluster for problem in found.problems if problem.whole}
        for cluster, look in found.looks.items():
            pending = self.publisher.clusters[cluster].pending
            if cluster not in bad and not pending and (look is None or look > now):
                self._meters.avoided(self.name)
        return found

    def _leave_out(self, findings: Findings) -> None:
        """Clusters that went while they were read."""
        known = self._clusters()
        gone = [each for each in (*findings.assessments, *findings.failures) if each not in known]
        for cluster in gone:
            findings.assessments.pop(cluster, None)
            findings.failures.pop(cluster, None)

    def _plan(self, cluster: str, look: datetime | None, now: datetime) -> None:
        if look is not None:
            self._schedule(self.name, cluster, max(0.0, (look - now).total_seconds()))

    async def publish(self, cluster: str, *, ensure: Callable[[], None]) -> None:
        """Look, and write what is worth it. ``ensure`` raises if we may not write any more."""
        publishing = self.publisher.clusters.get(cluster)
        if publishing is None:
            return
        now = self._now()
        try:
            await self._ask(cluster, publishing)
            if self._has_left(cluster, publishing):
                return
            publication = publishing.look(now=now)
            if publication is None:
                self._plan(cluster, publishing.look_at(now), now)
                return
            ensure()
            held = await self.sink.write(cluster, publication, held=self._held.get(cluster))
        except SinkError as error:
            self._not_written(cluster, publishing, error)
        except BaseException as error:
            publishing.not_written(now=self._now())
            if not isinstance(error, Exception):
                raise
            self._meters.write_failed(self.name, reason=type(error).__name__)
            if not self._has_left(cluster, publishing):
                self._unwritten[cluster] = described(error)
            raise
        else:
            self._written(cluster, publishing, publication, held)

    def _has_left(self, cluster: str, publishing: Publishing) -> bool:
        """While we waited for the hub: then nothing of it may be remembered, for nobody would forget it again."""
        return self.publisher.clusters.get(cluster) is not publishing

    async def _ask(self, cluster: str, publishing: Publishing) -> None:
        """What the hub has already, once, unless it tells by itself."""
        if self.told or cluster in self._asked:
            return
        held = await self.sink.find(cluster)
        if self._has_left(cluster, publishing):
            return
        self._asked.add(cluster)
        now = self._now()
        if held is None:
            publishing.seen(None, version=0, now=now, anew=True)
            return
        self._held[cluster] = held
        publishing.seen(held.publication, version=held.version, now=now, anew=True)

    def _written(
        self, cluster: str, publishing: Publishing, publication: Publication, held: StoredPublication
    ) -> None:
        self._meters.write(self.name)
        if self._has_left(cluster, publishing):
            return
        self._held[cluster] = held
        self._elsewhere.discard(cluster)
        self._left.discard(cluster)
        self._unwritten.pop(cluster, None)
        if held.missing:
            self._unwritten[cluster] = held.missing
        now = self._now()
        self._meters.published(self.name, cluster, dict(publication.scores))
        self._plan(cluster, publishing.written(version=held.version, now=now), now)

    def _not_written(self, cluster: str, publishing: Publishing, error: SinkError) -> None:
        self._meters.write_failed(self.name, reason=error.reason)
        if self._has_left(cluster, publishing):
            return
        now, after = self._now(), error.after
        self._unwritten[cluster] = str(error)
        # Whatever was there is not ours, not there, or not what we believe: it is asked for again.
        self._asked.discard(cluster)
        self._held.pop(cluster, None)
        if isinstance(error, NamespaceMissing | ForeignObject):
            if isinstance(error, NamespaceMissing) and publishing.published is not None:
                self._throttle.log(logging.INFO, (LEFT, self.name), LEFT, self.name, cluster, error)
                self._left.add(cluster)
                publishing.seen(None, version=0, now=now, anew=True)
            elif cluster not in self._elsewhere:
                topic = (NOT_WRITTEN, self.name, error.reason)
                self._throttle.log(logging.WARNING, topic, NOT_WRITTEN, self.name, cluster, error)
            self._elsewhere.add(cluster)
            after = max(after or 0.0, ELSEWHERE_SECONDS, len(self._elsewhere) / ELSEWHERE_RATE)
        elif error.race and publishing.failures < RACES:
            log.debug(NOT_WRITTEN, self.name, cluster, error)
        else:
            topic = (NOT_WRITTEN, self.name, error.reason)
            self._throttle.log(logging.WARNING, topic, NOT_WRITTEN, self.name, cluster, error)
        jitter = random.uniform(0.5, 1.5)
        self._plan(cluster, publishing.not_written(now=now, after=after, jitter=jitter), now)

    def heard(self, batch: Batch[AddOnPlacementScore], *, anew: bool) -> None:
        """What the hub has of our name, in the namespaces we publish in."""
        assert isinstance(self.sink, AddOnPlacementScores)
        now = self._now()
        for change in batch.changes:
            if isinstance(change, Deleted):
                cluster, held = change.object.metadata.namespace, None
                version = version_of(batch.resource_version)
            else:
                found = change.object if isinstance(change, Added) else change.new
                cluster, held = found.metadata.namespace, self.sink.held(found)
                version = version_of(found.metadata.resourceVersion)
            if not (
                cluster == self._cluster or cluster in self._clusters() or cluster in self.publisher.clusters
            ):
                continue
            publishing = self.publisher.of(cluster)
            if held is None:
                self._held.pop(cluster, None)
            else:
                self._held[cluster] = held
            look = publishing.seen(
                None if held is None else held.publication, version=version, now=now, anew=anew
            )
            self._plan(cluster, look, now)

    def stirred(self, cluster: str) -> None:
        """Something about the cluster has changed: if it had no place on the hub, it may have one soon."""
        if cluster in self._elsewhere and (publishing := self.publisher.clusters.get(cluster)) is not None:
            now = self._now()
            publishing.hasten(now + timedelta(seconds=SOON_SECONDS))
            self._plan(cluster, publishing.look_at(now), now)

    def forget(self, cluster: str) -> None:
        """It is gone from the fleet."""
        self.publisher.forget(cluster)
        self._held.pop(cluster, None)
        self._unwritten.pop(cluster, None)
        self._asked.discard(cluster)
        self._elsewhere.discard(cluster)
        self._left.discard(cluster)
        self._meters.forget(self.name, cluster)

    def unready(self, now: datetime) -> str:
        """Why it is not ready; empty if it is: something of it is published and has not run out."""
        why = f": {self.problem}" if self.problem else ""
        if self._cluster is None:
            known = self._clusters()
            states = [each for cluster, each in self.publisher.clusters.items() if cluster in known]
            if self.read_once and not known:
                return ""
        else:
            states = list(self.publisher.clusters.values())
            if self._cluster in self._left:
                return ""
        if any(each.valid(now) for each in states):
            return ""
        ends = [
            found.valid_until
            for each in states
            if (found := each.published) is not None and found.scores and found.valid_until is not None
        ]
        if not ends:
            return NOTHING_YET.format(name=self.name, why=why)
        return RAN_OUT.format(name=self.name, time=format_time(max(ends)), why=why)
