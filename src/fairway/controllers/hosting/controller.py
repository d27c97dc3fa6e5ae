"""The hosting controller: informers in, decisions and ManifestWorks out."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fairway.api.decision import PlacementDecision
from fairway.api.event import WARNING
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.score import AddOnPlacementScore
from fairway.api.work import ManifestWork
from fairway.clusters.debits import NO_DEBITS, Deltas
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.hosting.binding import ReserveInStatus, SecretsExist, host_of
from fairway.controllers.hosting.hub_access import FINALIZER, HubAccess
from fairway.controllers.hosting.metrics import HostingMetrics
from fairway.controllers.hosting.residence import Residence
from fairway.controllers.hosting.stray_works import PREFIX, delete_stray, is_ours, request_name
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Key, Reconciler
from fairway.controllers.scheduling_loop import SchedulingLoop
from fairway.engine.dependencies import Event
from fairway.engine.outcome import Outcome
from fairway.engine.scheduler import Scheduler
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet.direction import ANY
from fairway.fleet.instant import SECOND, Micros, to_micros
from fairway.hosting import (
    Decision,
    HostingState,
    changes_that_fit,
    decision_of,
    host_key,
    hosting_profile,
)
from fairway.hosting.profile import NAME as PROFILE
from fairway.hosting.state import QUIET_HOURS
from fairway.hosting.status import patch_of, policy_status, unscheduled
from fairway.hosting.work import work_name
from fairway.hosting.workload import key_of
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
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
from fairway.kube.fence import Lost
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

TIMERS: Final[Key] = ("", "@timers")
"""Key of what happens by time alone: telemetry that expires, and quiet hours that end."""
POLICY_SECONDS: Final = 2.0
"""Between updates of a policy's status, which many requests change."""
SHOW_SECONDS: Final = 15.0
"""Between updates of metrics."""
FAILED_SCHEDULING: Final = "FailedScheduling"
"""Reason of the event."""
_PLAIN: Final = (
    MANAGED_CLUSTERS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    HOSTING_POLICIES,
    PLACEMENTS,
    PLACEMENT_DECISIONS,
)
"""Kinds that only decisions read."""


@dataclass(kw_only=True)
class Term:
    """What a leader knows. The next one begins with what the hub shows."""

    state: HostingState
    loop: SchedulingLoop
    hub: HubAccess
    decisions: dict[WorkloadKey, Decision] = field(default_factory=dict)
    """The last decision about each request."""
    refused: dict[Key, tuple[Workload[Any], Decision]] = field(default_factory=dict)
    """Refusals to be written."""
    counted: set[WorkloadKey] = field(default_factory=set)
    """Requests that a published load is known to include, until that is recorded."""
    quiet: dict[str, Micros] = field(default_factory=dict)
    """End of the quiet hours of policies that are in them."""


class HostingController(Reconciler):
    name: ClassVar[str] = "hosting"

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        recorder: Recorder,
        debits: Deltas = NO_DEBITS,
        workers: int = 8,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``debits`` are the score debits of the profile of Placements."""
        super().__init__(client, meters=meters, workers=workers, clock=clock)
        self._recorder, self._debits = recorder, debits
        self._metrics = HostingMetrics(meters)
        self._writer = FencedWriter(client, meters=meters, controller=self.name)
        self._requests: Informer[HostedClusterRequest]
        self._works: Informer[ManifestWork]
        self._policies: Informer[HostingPolicy]
        self._plain: list[Informer[Any]] = []
        self._term: Term | None = None

    def watch(self, informers: InformerFactory) -> None:
        for resource in _PLAIN:
            informer: Informer[Any] = informers.of(resource)
            informer.subscribe(self._plain_changed)
            self._plain.append(informer)
        self._policies = informers.of(HOSTING_POLICIES)
        self._requests = informers.of(HOSTED_CLUSTER_REQUESTS)
        self._requests.subscribe(self._requests_changed)
        self._works = informers.of(MANIFEST_WORKS)
        self._works.subscribe(self._works_changed)

    def keys(self) -> Iterator[Key]:
        yield from self._requests.store
        yield from self._policies.store
        for work in self._works.store.values():
            if is_ours(work):
                yield f"{PREFIX}{work.metadata.namespace}", work.metadata.name
        yield TIMERS

    async def run(self, leadership: Leadership) -> None:
        term = self._term = self._begin(leadership)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(term.loop.run(leadership))
                group.create_task(super().run(leadership))
        except* Lost as lost:
            raise Lost(str(lost.exceptions[0])) from None
        finally:
            self._term = None

    async def quiet(self) -> None:
        while True:
            await self.queue.join()
            if self._term is None:
                return
            await self._term.loop.quiet()
            if not self.queue.busy:
                return

    def _begin(self, leadership: Leadership) -> Term:
        state = HostingState(tracks_age=True, debits=self._debits)
        hub = HubAccess(
            client=self.client,
            writer=self._writer,
            recorder=self._recorder,
            requests=self._requests,
            works=self._works,
            clock=self.clock,
        )
        decisions: dict[WorkloadKey, Decision] = {}
        bind = ReserveInStatus(hub, state=state, decisions=decisions, leadership=leadership)
        profile = hosting_profile(state, pre_binds=(SecretsExist(hub, leadership=leadership),), binds=(bind,))
        scheduler = Scheduler(profiles=[profile], profile_name=lambda _: PROFILE, host_key=host_key)
        loop = SchedulingLoop(
            scheduler,
            snapshot=state.snapshot,
            read_back=self._read_back,
            on_outcome=self._decided,
            clock=self.clock,
        )
        term = Term(state=state, loop=loop, hub=hub, decisions=decisions)
        everything = [each for informer in self._plain for each in informer.store.values()]
        state.load([*everything, *self._requests.store.values()], now=self._now())
        for request in self._requests.store.values():
            self._offer(term, request)
        return term

    # Observations

    def _plain_changed(self, batch: Batch[Any]) -> None:
        term = self._term
        if term is None:
            return
        now = self._now()
        again = False
        for change in batch.changes:
            match change:
                case Added(new) | Updated(_, new):
                    self._react(term, term.state.upsert(new, now=now))
                    if isinstance(new, AddOnPlacementScore):
                        self._count(term, new.metadata.namespace, now)
                case Deleted(old):
                    self._react(term, term.state.delete(old, now=now))
            again = again or not isinstance(_object(change), AddOnPlacementScore | PlacementDecision)
        if again:
            self._offer_again(term)
            self._check_hosts(batch)
        self._arm(term)

    def _requests_changed(self, batch: Batch[HostedClusterRequest]) -> None:
        term = self._term
        if term is None:
            return
        for change in batch.changes:
            match change:
                case Added(new) | Updated(_, new):
                    self._react(term, term.state.upsert(new, now=self._now()))
                    self._offer(term, new)
                case Deleted(old):
                    key = key_of(old)
                    term.loop.delete(key)
                    self._react(term, term.state.delete(old, now=self._now()))
                    term.decisions.pop(key, None)
                    term.counted.discard(key)
                    term.refused.pop((key.namespace, key.name), None)
                    if (host := host_of(old)) is not None:
                        self.queue.add((f"{PREFIX}{host.name}", work_name(old)))
            self.queue.add(_key(_object(change)))
        self._arm(term)

    def _works_changed(self, batch: Batch[ManifestWork]) -> None:
        if self._term is None:
            return
        for change in batch.changes:
            work = _object(change)
            if is_ours(work):
                self.queue.add(request_name(work))
                self.queue.add((f"{PREFIX}{work.metadata.namespace}", work.metadata.name))

    def _offer(self, term: Term, request: HostedClusterRequest) -> None:
        """Add or update a request in the queue."""
        key, host = key_of(request), host_of(request)
        if host is not None:
            term.loop.observed(key, (host,))
        elif request.metadata.deletionTimestamp is not None:
            term.loop.delete(key)
        else:
            term.loop.put(term.state.workload_of(request))

    def _offer_again(self, term: Term) -> None:
        """Policies, Placements and conflicts are parts of requests without a place; equal ones are ignored."""
        for request in self._requests.store.values():
            if host_of(request) is None and request.metadata.deletionTimestamp is None:
                term.loop.put(term.state.workload_of(request))

    def _check_hosts(self, batch: Batch[Any]) -> None:
        """Requeue the residents of hosts that were deleted or recreated."""
        term = self._term
        for change in batch.changes:
            if (
                isinstance(change, Deleted)
                and change.object.kind == MANAGED_CLUSTERS.kind
                and term is not None
            ):
                gone = host_key(change.object)
                term.loop.remove_host(gone)
                for resident in term.state.on(gone):
                    self.queue.add((resident.key.namespace, resident.key.name))

    def _count(self, term: Term, cluster: str, now: Micros) -> None:
        for resident in term.state.countable(cluster, now=now):
            term.counted.add(resident.key)
            self.queue.add((resident.key.namespace, resident.key.name))

    def _react(self, term: Term, events: list[Event]) -> None:
        for event in events:
            term.loop.on_event(event)
        if events:
            for name in term.state.policies:
                self.queue.add_after(("", name), delay=POLICY_SECONDS)

    def _arm(self, term: Term) -> None:
        """Set the timer of what happens by time alone."""
        now = self._now()
        for name, policy in term.state.policies.items():
            end = policy.quiet_until(now)
            if end is not None:
                term.quiet[name] = end
        moments = [*term.quiet.values()]
        if (deadline := term.state.next_deadline()) is not None:
            moments.append(deadline)
        if moments:
            self.queue.add_after(TIMERS, delay=max(0.0, (min(moments) - now) / SECOND))

    # Decisions

    def _decided(self, outcome: Outcome) -> None:
        term = self._term
        workload: Any = outcome.context.workload
        if term is None:
            return
        decision = decision_of(outcome, workload.key)
        term.decisions[workload.key] = decision
        key = (workload.namespace, workload.name)
        if decision.host is None:
            term.refused[key] = (workload, decision)
            self.queue.add(key)
        else:
            term.refused.pop(key, None)

    async def _read_back(self, key: WorkloadKey) -> tuple[HostKey, ...] | None:
        try:
            found = await self.client.get(HOSTED_CLUSTER_REQUESTS, key.name, namespace=key.namespace)
        except NotFound:
            return None
        host = host_of(found) if key_of(found) == key else None
        return None if host is None else (host,)

    # Reconciliation

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        term = self._term
        if term is None:
            return
        if key == TIMERS:
            self._advance(term)
        elif not key[0]:
            await self._reconcile_policy(term, key[1], leadership)
        elif key[0].startswith(PREFIX):
            work = self._works.get(key[1], namespace=key[0].removeprefix(PREFIX))
            if work is not None:
                async with leadership.batch():
                    await delete_stray(work, term.hub, leadership=leadership)
        elif (request := self._requests.get(key[1], namespace=key[0])) is not None:
            async with leadership.batch():
                await self._reconcile_request(term, request, leadership)

    async def _reconcile_request(
        self, term: Term, request: HostedClusterRequest, leadership: Leadership
    ) -> None:
        key, host = _key(request), host_of(request)
        if host is not None:
            row = term.state.snapshot().hosts.row_of.get(host.name)
            exists = row is not None and host_key(term.state.snapshot().cluster(row)) == host
            counted = key_of(request) in term.counted
            residence = Residence(term.hub, metrics=self._metrics)
            delay = await residence.reconcile(request, exists=exists, counted=counted, leadership=leadership)
            if counted:
                term.counted.discard(key_of(request))
            if delay is not None:
                self.queue.add_after(key, delay=delay)
        elif request.metadata.deletionTimestamp is not None:
            if FINALIZER in request.metadata.finalizers:
                await term.hub.set_finalizer(request, present=False, leadership=leadership)
        elif (found := term.refused.get(key)) is not None:
            await self._refuse(term, request, *found, leadership)

    async def _refuse(
        self,
        term: Term,
        request: HostedClusterRequest,
        workload: Workload[Any],
        decision: Decision,
        leadership: Leadership,
    ) -> None:
        old = request.status
        would_fit = old.wouldFit
        if decision.rejections != old.rejections or not old.conditions:
            would_fit = changes_that_fit(term.state, workload, now=self._now())
        status = unscheduled(request, decision, would_fit=would_fit, now=self.clock.wall())
        if status != old:
            written = await term.hub.write_status(request, status, leadership)
            self._recorder.event(
                written, reason=FAILED_SCHEDULING, message=decision.message[:1000], type_=WARNING
            )
        term.refused.pop(_key(request), None)

    async def _reconcile_policy(self, term: Term, name: str, leadership: Leadership) -> None:
        policy = self._policies.get(name)
        if policy is None:
            return
        status = policy_status(policy, term.state, now=self.clock.wall())
        if status != policy.status:
            async with leadership.batch():
                await self._writer.patch(
                    HOSTING_POLICIES,
                    policy.metadata,
                    patch_of(status),
                    leadership=leadership,
                    subresource="status",
                )

    def _advance(self, term: Term) -> None:
        now = self._now()
        self._metrics.show(self._requests.store.values(), term.state)
        self.queue.add_after(TIMERS, delay=SHOW_SECONDS)
        self._react(term, term.state.advance(now=now))
        for name, end in tuple(term.quiet.items()):
            if end <= now:
                del term.quiet[name]
                term.loop.on_event(
                    Event(label=f"quiet hours of {name} ended", columns={(QUIET_HOURS, name): ANY})
                )
        self._arm(term)

    def _now(self) -> Micros:
        return to_micros(self.clock.wall())


def _object(change: Any) -> Any:
    return change.new if isinstance(change, Updated) else change.object


def _key(obj: Any) -> Key:
    return (obj.metadata.namespace, obj.metadata.name)
