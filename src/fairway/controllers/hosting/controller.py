"""The hosting controller: informers in, decisions and ManifestWorks out."""

import logging
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fairway.api.cluster import ManagedCluster
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import DEFAULT_POLICY, REQUEST_UID_LABEL, HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.score import AddOnPlacementScore
from fairway.api.work import ManifestWork
from fairway.controllers.hosting.binding import ReserveInStatus, SecretsExist, host_of
from fairway.controllers.hosting.hub_access import FINALIZER, HubAccess
from fairway.controllers.hosting.keys import (
    HostingKey,
    OffersKey,
    PolicyKey,
    RequestKey,
    TimersKey,
    WorkKey,
)
from fairway.controllers.hosting.metrics import HostingMetrics
from fairway.controllers.hosting.offers import offer_again
from fairway.controllers.hosting.refusal_writer import RefusalWriter
from fairway.controllers.hosting.residence import Residence
from fairway.controllers.hosting.stray_works import delete_stray
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Key, Reconciler
from fairway.controllers.runtime.scheduling_loop import SchedulingLoop
from fairway.controllers.runtime.slicing import in_slices
from fairway.controllers.runtime.writer import Writer
from fairway.engine.dependencies import Event
from fairway.engine.outcome import Outcome
from fairway.engine.scheduler import Scheduler
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.clusters.debits import NO_RULES, DebitRules
from fairway.hosts.direction import ANY
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.observe.meters import Meters
from fairway.scheduling import Scheduling
from fairway.workloads.hosting import HostingState, decision_of, host_key, hosting_registry
from fairway.workloads.hosting.fleet.columns import QUIET_HOURS
from fairway.workloads.hosting.fleet.outages import outage_of
from fairway.workloads.hosting.fleet.tenant_usage import Claimant
from fairway.workloads.hosting.profile import NAME as PROFILE
from fairway.workloads.hosting.profile import is_built_in
from fairway.workloads.hosting.requests.refusal_groups import ALIKE
from fairway.workloads.hosting.requests.request_status import patch_of, policy_status, retried
from fairway.workloads.hosting.requests.work import is_created_by_fairway, request_name, work_name
from fairway.workloads.hosting.rules.refusals import next_retry
from fairway.workloads.hosting.workload import key_of
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
    Updated,
)
from kubewire.client.fence import TermGroup

log: Final = logging.getLogger(__name__)

POLICY_SECONDS: Final = 2.0
"""Between updates of a policy's status, which many requests change."""
SHOW_SECONDS: Final = 15.0
"""Between updates of metrics."""
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
    refusals: RefusalWriter
    counted: set[WorkloadKey] = field(default_factory=set)
    """Requests that a published load includes. The status of each has that as the condition Counted, once it is
    reconciled: a score may come while another write of the status is under way."""
    quiet: dict[str, Micros] = field(default_factory=dict)
    """End of the quiet hours of policies that are in them."""


class HostingController(Reconciler[HostingKey]):
    name: ClassVar[str] = "hosting"

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        recorder: Recorder,
        scheduling: Scheduling,
        debits: DebitRules = NO_RULES,
        history: DecisionHistory | None = None,
        workers: int = 8,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``debits`` are the rules of the profile of Placements."""
        super().__init__(client, meters=meters, workers=workers, clock=clock)
        self._recorder, self._debits, self._scheduling = recorder, debits, scheduling
        self._history = history
        self._metrics = HostingMetrics(meters)
        self._writer = Writer(client, meters=meters, controller=self.name)
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

    def keys(self) -> Iterator[HostingKey]:
        yield from (RequestKey(*name) for name in self._requests.store)
        yield from (PolicyKey(name) for _, name in self._policies.store)
        for work in self._works.store.values():
            if is_created_by_fairway(work):
                yield WorkKey(work.metadata.namespace, work.metadata.name)
        yield TimersKey()

    async def work(self) -> None:
        term = self._term = self._begin()
        try:
            async with TermGroup() as group:
                group.create_task(term.loop.run())
                group.create_task(super().work())
                group.create_task(term.refusals.run(controller=self.name))
        finally:
            self._term = None

    @property
    def busy(self) -> bool:
        return self.queue.busy or (self._term is not None and self._term.refusals.queue.busy)

    async def quiet(self) -> None:
        while True:
            await self.queue.join()
            if self._term is None:
                return
            await self._term.loop.quiet()
            await self._term.refusals.queue.join()
            if not self.busy:
                return

    def _begin(self) -> Term:
        state = HostingState(tracks_age=True, debits=self._debits, profile=self._scheduling.profile)
        hub = HubAccess(
            client=self.client,
            writer=self._writer,
            recorder=self._recorder,
            requests=self._requests,
            works=self._works,
            policies=state.policies,
            clock=self.clock,
            history=self._history,
        )
        registry = hosting_registry(state)
        registry.register(SecretsExist.name, lambda: SecretsExist(hub), kind=SecretsExist)
        registry.register(
            ReserveInStatus.name, lambda: ReserveInStatus(hub, state=state), kind=ReserveInStatus
        )
        (profile,) = self._scheduling.build(registry)
        scheduler = Scheduler(
            profiles=[profile],
            profile_name=lambda _: PROFILE,
            host_key=host_key,
            owner_of=_tenant_of,
            alike=ALIKE if is_built_in(profile) else None,
            decision_of=decision_of,
        )
        loop = SchedulingLoop(
            scheduler,
            snapshot=state.snapshot,
            read_back=self._read_back,
            on_outcome=self._decided,
            clock=self.clock,
            commits_first=True,
        )
        refusals = RefusalWriter(
            hub,
            state,
            tenant_of=self._tenant_of_request,
            is_busy=lambda: self.queue.busy or loop.is_committing,
        )
        term = Term(state=state, loop=loop, hub=hub, refusals=refusals)
        everything = [thing for informer in self._plain for thing in informer.store.values()]
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
            # What a request asks for may follow from any other kind, such as its policy. Scores and decisions change
            # all the time, and their events wake the requests that they help.
            again = again or not isinstance(change.object, AddOnPlacementScore | PlacementDecision)
        if again:
            self.queue.add(OffersKey())
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
                    term.counted.discard(key)
                    term.refusals.discard((key.namespace, key.name))
                    if (host := host_of(old)) is not None:
                        self.queue.add(WorkKey(host.name, work_name(old)))
            self.queue.add(_key(change.object))
        self._count_again(term)
        self._arm(term)

    def _works_changed(self, batch: Batch[ManifestWork]) -> None:
        if self._term is None:
            return
        for change in batch.changes:
            work = change.object
            if REQUEST_UID_LABEL in work.metadata.labels:
                self.queue.add(RequestKey(*request_name(work)))
            if is_created_by_fairway(work):
                self.queue.add(WorkKey(work.metadata.namespace, work.metadata.name))

    def _offer(self, term: Term, request: HostedClusterRequest) -> None:
        """Add or update a request in the queue."""
        key, host = key_of(request), host_of(request)
        if host is not None:
            term.loop.observed(key, (host,))
        elif request.metadata.deletionTimestamp is not None:
            term.loop.delete(key)
        else:
            term.loop.put(term.state.workload_of(request))

    def _check_hosts(self, batch: Batch[Any]) -> None:
        """Requeue the residents of hosts that were deleted or recreated, or whose availability changed."""
        term = self._term
        if term is None:
            return
        for change in batch.changes:
            match change:
                case Deleted(ManagedCluster() as old):
                    term.loop.remove_host(host_key(old))
                    self._requeue_residents(term, host_key(old))
                case Updated(ManagedCluster() as old, ManagedCluster() as new):
                    if host_key(old) != host_key(new) or outage_of(old) != outage_of(new):
                        self._requeue_residents(term, host_key(old))
                case Added(HostingPolicy() as new) | Updated(_, HostingPolicy() as new):
                    for host in term.state.residents.hosts():
                        if term.state.outage(host) is not None:
                            self._requeue_residents(term, host)

    def _requeue_residents(self, term: Term, host: HostKey) -> None:
        for resident in term.state.on(host):
            self.queue.add(RequestKey(resident.key.namespace, resident.key.name))

    def _count(self, term: Term, cluster: str, now: Micros) -> None:
        for resident in term.state.countable(cluster, now=now):
            term.counted.add(resident.key)
            self.queue.add(RequestKey(resident.key.namespace, resident.key.name))

    def _react(self, term: Term, events: list[Event]) -> None:
        for event in events:
            term.loop.on_event(event)
        if events:
            self._count_again(term)

    def _count_again(self, term: Term) -> None:
        """Requeue the policies, whose status has the load of their hosts."""
        for name in term.state.policies:
            self.queue.add_after(PolicyKey(name), delay=POLICY_SECONDS)

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
            self.queue.add_after(TimersKey(), delay=max(0.0, (min(moments) - now) / SECOND))

    # Decisions

    def _decided(self, outcome: Outcome) -> None:
        term = self._term
        workload: Any = outcome.context.workload
        if term is None:
            return
        decision = decision_of(outcome, workload.key)
        if decision.host is None:
            term.refusals.put(workload, decision)
        else:
            term.refusals.discard((workload.namespace, workload.name))

    async def _read_back(self, key: WorkloadKey) -> tuple[HostKey, ...] | None:
        try:
            request = await self.client.get(HOSTED_CLUSTER_REQUESTS, key.name, namespace=key.namespace)
        except NotFound:
            return None
        # Rules must see the place as soon as the commit ends, and a watch may be late.
        self._requests.observe(request)
        host = host_of(request) if key_of(request) == key else None
        return None if host is None else (host,)

    # Reconciliation

    def owner_of(self, key: HostingKey) -> Hashable:
        """Return the tenant of a request or of its ManifestWork; tenants take turns."""
        match key:
            case RequestKey(namespace, name):
                return self._tenant_of_request((namespace, name))
            case WorkKey(namespace, name):
                work = self._works.get(name, namespace=namespace)
                return None if work is None else self._tenant_of_request(request_name(work))
            case _:
                return None

    def _tenant_of_request(self, key: Key) -> Hashable:
        namespace, name = key
        term = self._term
        if term is None or not namespace:
            return None
        request = self._requests.get(name, namespace=namespace)
        if request is None:
            return term.state.table.tenant_of(Claimant(DEFAULT_POLICY, namespace, ""))
        return term.state.tenant_of_request(request)

    async def reconcile(self, key: HostingKey) -> None:
        term = self._term
        if term is None:
            return
        match key:
            case TimersKey():
                self._advance(term)
            case OffersKey():
                steps = offer_again(self._requests.store, term.state, term.loop.put)
                await in_slices(steps, clock=self.clock)
            case PolicyKey(name):
                await self._reconcile_policy(term, name)
            case WorkKey(namespace, name):
                work = self._works.get(name, namespace=namespace)
                if work is not None:
                    async with self._writer.batch():
                        await delete_stray(work, term.hub)
            case RequestKey(namespace, name):
                request = self._requests.get(name, namespace=namespace)
                if request is not None:
                    async with self._writer.batch():
                        await self._reconcile_request(term, request)

    async def _reconcile_request(self, term: Term, request: HostedClusterRequest) -> None:
        key, host = _key(request), host_of(request)
        if host is not None:
            outage = term.state.outage(host)
            counted = key_of(request) in term.counted
            residence = Residence(term.hub, residents=term.state.residents, metrics=self._metrics)
            delay = await residence.reconcile(request, outage=outage, counted=counted)
            if counted:
                term.counted.discard(key_of(request))  # the status says so now, also to the next leader
            if delay is not None:
                self.queue.add_after(key, delay=delay)
        elif request.metadata.deletionTimestamp is not None:
            if FINALIZER in request.metadata.finalizers:
                await term.hub.set_finalizer(request, present=False)
        elif (retry := next_retry(request.status.refusals)) is not None and retry <= self.clock.wall():
            # The status is what decisions read, so that its watch event offers the request again.
            status = retried(request, now=self.clock.wall())
            await term.hub.write_status(request, status)
        elif retry is not None:
            self.queue.add_after(key, delay=(retry - self.clock.wall()).total_seconds())

    async def _reconcile_policy(self, term: Term, name: str) -> None:
        policy = self._policies.get(name)
        if policy is None:
            return
        steps = policy_status(policy, term.state, now=self.clock.wall())
        status = await in_slices(steps, clock=self.clock)
        if status != policy.status:
            async with self._writer.batch():
                await self._writer.patch(
                    HOSTING_POLICIES,
                    policy.metadata,
                    patch_of(status),
                    subresource="status",
                )

    def _advance(self, term: Term) -> None:
        now = self._now()
        self._metrics.show(self._requests.store.values(), term.state, now=now)
        self.queue.add_after(TimersKey(), delay=SHOW_SECONDS)
        self._react(term, term.state.advance(now=now))
        for key in term.state.residents.reserved():
            # Another writer removed the place before this process saw it: no observation ends the reservation.
            if not term.loop.holds(key):
                self._react(term, term.state.expire(key, now=now))
        for name, end in tuple(term.quiet.items()):
            if end <= now:
                del term.quiet[name]
                term.loop.on_event(
                    Event(label=f"quiet hours of {name} ended", columns={(QUIET_HOURS, name): ANY})
                )
        self._arm(term)

    def _now(self) -> Micros:
        return to_micros(self.clock.wall())


def _tenant_of(workload: Workload[Any]) -> Hashable:
    tenant: str = workload.spec.tenant
    return tenant


def _key(request: HostedClusterRequest) -> RequestKey:
    return RequestKey(request.metadata.namespace, request.metadata.name)
