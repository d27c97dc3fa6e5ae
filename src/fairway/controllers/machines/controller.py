"""Schedule the pods that name one of our profiles: watch, decide, bind.

One term serves one leadership: its fleet and its queue begin with what the hub shows. When a hypervisor is installed or
removed, the leader begins a new term, because the profiles and the ledger depend on it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_group import PodGroup
from fairway.api.pod_owner import PodOwner
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.kinds import NAMESPACES, Namespace
from fairway.controllers.leadership import Leadership
from fairway.controllers.machines.hub_access import PodAccess
from fairway.controllers.machines.hypervisors import HYPERVISORS, served_hypervisors, watch_hypervisors
from fairway.controllers.machines.kinds import BUDGETS, CLAIMS, OWNERS, POD_GROUPS, VOLUMES
from fairway.controllers.machines.machine_options import EXTENDED_POINTS, MachineOptions
from fairway.controllers.machines.machine_writer import MachineWriter
from fairway.controllers.machines.pod_metrics import PodMetrics
from fairway.controllers.machines.pod_scheduling import Extension, PodScheduling
from fairway.controllers.machines.pod_status import PodReporter
from fairway.controllers.machines.preemption import PREFIX
from fairway.controllers.machines.store_changes import StoreChanges
from fairway.controllers.machines.virtual_machines import VirtualMachines
from fairway.controllers.optional_kinds import OptionalKinds
from fairway.controllers.reconciler import Key, Reconciler
from fairway.controllers.slicing import in_slices
from fairway.controllers.write_limiter import WriteLimiter
from fairway.engine.queue import SchedulingQueue
from fairway.fleet.steps import Steps, strides
from fairway.kube import SYSTEM_CLOCK, Added, Batch, Client, Clock, Deleted, Informer, Recorder, Updated
from fairway.kube.fence import Lost
from fairway.kube.resource import NODES, PODS, T
from fairway.machines.permit_protocol import UNAVAILABLE, Permit, PermitError, PermitRequest
from fairway.machines.state import MachineState
from fairway.nodes import NodeFleet
from fairway.observe.meters import Meters
from fairway.scheduling import Scheduling

log: Final = logging.getLogger(__name__)

WORKERS: Final = 8
"""Concurrent writes of conditions."""
NOT_LEADING: Final = "another process leads, or none yet; ask again"
NO_MACHINES: Final = "the hub serves no virtual machines"
WITHOUT_MACHINES: Final = "the hub serves neither %s nor %s: only pods are scheduled"
WITHOUT_GROUPS: Final = "the hub does not serve %s: pods that name a pod group are not scheduled"


@dataclass(kw_only=True)
class Term:
    """What a leader knows. The next one begins with what the hub shows."""

    pods: PodScheduling
    reporter: PodReporter
    machines: VirtualMachines | None = None


class MachinesController(Reconciler):
    """``scheduling`` has the profiles, ``recorders`` one recorder for each of them.

    ``groups`` is whether PodGroups are watched; None to follow their definition. Without ``machines`` only pods are
    scheduled, also while the hub serves no virtual machines. ``limiter`` lets bindings go before events.
    """

    name: ClassVar[str] = "machines"

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        scheduling: Scheduling,
        recorders: Mapping[str, Recorder],
        machines: MachineOptions | None = None,
        groups: bool | None = False,
        limiter: WriteLimiter | None = None,
        workers: int = WORKERS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, workers=workers, clock=clock)
        self._scheduling, self._recorders, self._options = scheduling, recorders, machines
        self._nodes: Informer[Node]
        self._pods: Informer[Pod]
        self._namespaces: Informer[Namespace]
        self._claims: Informer[PersistentVolumeClaim]
        self._volumes: Informer[PersistentVolume]
        self._budgets: Informer[PodDisruptionBudget]
        self._owners: tuple[Informer[PodOwner], ...] = ()
        self._hypervisors: dict[str, OptionalKinds] = {}
        self._hypervisors_changed = asyncio.Event()
        self._groups: OptionalKinds | None = None
        self._with_groups = groups
        self._limiter = limiter or WriteLimiter()
        self._metrics = PodMetrics(meters, profiles=scheduling.specs)
        self._metrics.follow(self._queue)
        self._term: Term | None = None
        self._begun = asyncio.Event()
        """Not set while a term begins."""
        self._begun.set()
        self._store_changes = StoreChanges()
        if machines is not None:
            machines.metrics.follow(self._machine_state)

    def _machine_state(self) -> MachineState | None:
        term = self._term
        return None if term is None or term.machines is None else term.machines.state

    def _queue(self) -> SchedulingQueue | None:
        return None if self._term is None else self._term.pods.scheduler.queue

    def watch(self, informers: InformerFactory) -> None:
        self._nodes = informers.of(NODES)
        self._pods = informers.of(PODS)
        self._namespaces = informers.of(NAMESPACES)
        self._claims = informers.of(CLAIMS)
        self._volumes = informers.of(VOLUMES)
        self._budgets = informers.of(BUDGETS)
        self._owners = tuple(informers.of(each) for each in OWNERS)
        if self._options is not None:
            self._hypervisors = watch_hypervisors(
                informers, self._options.kinds, changed=self._hypervisors_changed.set
            )
        if self._with_groups is not False:
            self._groups = OptionalKinds(
                informers, (POD_GROUPS,), changed=self._follow_groups, fixed=self._with_groups is True
            )
            self._follow_groups()
        self._follow(self._nodes, PodScheduling.upsert_node, PodScheduling.delete_node)
        self._pods.subscribe(lambda batch: self._store_changes.report(lambda: self._pods_changed(batch)))
        self._follow(self._namespaces, PodScheduling.upsert_namespace, PodScheduling.delete_namespace)
        self._follow(self._claims, PodScheduling.upsert_claim, PodScheduling.delete_claim)
        self._follow(self._volumes, PodScheduling.upsert_volume, PodScheduling.delete_volume)
        self._follow(self._budgets, PodScheduling.upsert_budget, PodScheduling.delete_budget)
        for owners in self._owners:
            self._follow(owners, PodScheduling.upsert_owner, PodScheduling.delete_owner)

    def keys(self) -> Iterable[Key]:
        return ()

    async def run(self, leadership: Leadership) -> None:
        while True:
            try:
                await self._run_term(leadership)
            except* Lost as lost:
                raise Lost(str(lost.exceptions[0])) from None
            finally:
                self._term = None

    async def _run_term(self, leadership: Leadership) -> None:
        """Run until the served hypervisors change. Bindings that have begun are awaited, so that the next term counts
        them."""
        self._hypervisors_changed.clear()
        term = await self._begin(leadership)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(super().run(leadership))]
            if term.machines is not None:
                tasks.append(group.create_task(term.machines.run(leadership)))
            pods = group.create_task(term.pods.run(leadership))
            await self._hypervisors_changed.wait()
            term.pods.loop.stop()
            await pods
            for task in tasks:
                task.cancel()

    async def quiet(self) -> None:
        while True:
            await self._begun.wait()
            await self.queue.join()
            if self._term is None:
                return
            await self._term.pods.loop.quiet()
            if self._term.machines is not None:
                await self._term.machines.quiet()
            if not self.queue.busy:
                return

    async def ask(self, request: PermitRequest, node: str) -> Permit:
        """Answer the agent of a virtual machine on a node. Raises PermitError."""
        term = self._term
        if term is None or term.machines is None:
            raise PermitError(UNAVAILABLE, NOT_LEADING if term is None else NO_MACHINES)
        return await term.machines.ask(request, node)

    def replied(self, status: int, seconds: float) -> None:
        """Count a reply to an agent."""
        if self._options is not None:
            self._options.metrics.replied(status, seconds)

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        """Write the status of a pod, or evict it."""
        term = self._term
        if term is None:
            return
        async with leadership.batch():
            if key[0].startswith(PREFIX):
                await term.pods.preemptor.evict(key)
            else:
                await term.reporter.write(key)

    async def _begin(self, leadership: Leadership) -> Term:
        """Start a term. The hub may have very many pods: leases and requests are served meanwhile, and changes wait."""
        term = self._new_term(leadership)
        self._begun.clear()
        try:
            if term.machines is not None:
                await in_slices(term.machines.load(), clock=self.clock)
            await in_slices(self._load(term.pods), clock=self.clock)
            self._term = term
            self._store_changes.release()
            if term.machines is not None:
                term.machines.start(preview=term.pods.preview, wake=term.pods.loop.on_event)
        except BaseException:
            self._store_changes.release()
            if term.machines is not None:
                term.machines.close()
            raise
        finally:
            self._begun.set()
        return term

    def _load(self, pods: PodScheduling) -> Steps[None]:
        self._store_changes.hold()
        pods.fleet.load_others(
            namespaces={each.metadata.name: each.metadata.labels for each in self._namespaces.store.values()},
            claims=self._claims.store.values(),
            volumes=self._volumes.store.values(),
            budgets=self._budgets.store.values(),
        )
        for owners in self._owners:
            for some in strides(owners.store.values()):
                yield
                for owner in some:
                    pods.owners.upsert(owner)
        for group in self._pod_groups():
            pods.upsert_group(group)
        yield from pods.load(self._nodes.store.values(), self._pods.store.values())

    def _new_term(self, leadership: Leadership) -> Term:
        hub = PodAccess(self.client, leadership=leadership, meters=self.meters, limiter=self._limiter)
        reporter = PodReporter(
            pods=self._pods,
            recorders=self._recorders,
            hub=hub,
            metrics=self._metrics,
            wake=self.queue.add,
            clock=self.clock,
        )
        fleet = NodeFleet()
        machines = self._virtual_machines(fleet, leadership)
        pods = PodScheduling(
            scheduling=self._scheduling,
            hub=hub,
            pods=self._pods,
            reporter=reporter,
            recorders=self._recorders,
            metrics=self._metrics,
            wake=self.queue.add,
            clock=self.clock,
            fleet=fleet,
            extension=None
            if machines is None
            else Extension(room=machines, points=EXTENDED_POINTS, take_room=machines.take_room),
        )
        return Term(pods=pods, reporter=reporter, machines=machines)

    def _virtual_machines(self, fleet: NodeFleet, leadership: Leadership) -> VirtualMachines | None:
        options, hypervisors = self._options, served_hypervisors(self._hypervisors)
        if options is None or not hypervisors:
            log.info(WITHOUT_MACHINES, *(each.machines for each in HYPERVISORS.values()))
            return None
        return VirtualMachines(
            nodes=self._nodes,
            pods=self._pods,
            hypervisors=hypervisors,
            writer=MachineWriter(self.client, leadership=leadership, meters=self.meters),
            settings=options.settings,
            fleet=fleet,
            recorder=options.recorder,
            metrics=options.metrics,
            clock=self.clock,
        )

    def _pod_groups(self) -> Iterable[PodGroup]:
        if self._groups is not None and not self._groups.informers:
            log.warning(WITHOUT_GROUPS, POD_GROUPS)
        informers = () if self._groups is None else self._groups.informers
        return [group for each in informers for group in each.store.values()]

    # Observations

    def _follow_groups(self) -> None:
        for informer in () if self._groups is None else self._groups.informers:
            self._follow(informer, PodScheduling.upsert_group, PodScheduling.delete_group)

    def _follow(
        self,
        informer: Informer[T],
        upsert: Callable[[PodScheduling, T], None],
        delete: Callable[[PodScheduling, T], None],
    ) -> None:
        """Report changed objects to the scheduling of the term."""

        def changed(object_: T) -> None:
            if self._term is not None:
                upsert(self._term.pods, object_)

        def deleted(object_: T) -> None:
            if self._term is not None:
                delete(self._term.pods, object_)

        self._store_changes.follow(informer, changed, deleted)

    def _pods_changed(self, batch: Batch[Pod]) -> None:
        if self._term is None:
            return
        pods = self._term.pods
        for change in batch.changes:
            match change:
                case Updated(old, new) if old.spec.nodeName and not new.spec.nodeName:
                    pods.reset_pod(new)
                case Updated(old, new):
                    pods.upsert_pod(new, old)
                case Added(new):
                    pods.upsert_pod(new)
                case Deleted(old):
                    pods.delete_pod(old)
