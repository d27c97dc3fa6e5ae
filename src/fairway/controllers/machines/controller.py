"""Schedule the pods that name one of our profiles: watch, decide, bind.

One term serves one leadership: its fleet and its queue begin with what the hub shows. When a hypervisor is installed or
removed, the leader begins a new term, because the profiles and the ledger depend on it.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fairway.api.kubevirt import KubeVirt
from fairway.api.resources import MACHINE_MIGRATIONS
from fairway.controllers.machines.agent_addresses import AgentAddresses, AgentSelector
from fairway.controllers.machines.hypervisors import HYPERVISORS, served_hypervisors, watch_hypervisors
from fairway.controllers.machines.kinds import KUBEVIRTS
from fairway.controllers.machines.objects import owners_of
from fairway.controllers.machines.options import MachineOptions
from fairway.controllers.machines.virtual_machines import VirtualMachines
from fairway.controllers.machines.writer import MachineWriter
from fairway.controllers.pods.hub_access import PodAccess
from fairway.controllers.pods.informers import PodInformers
from fairway.controllers.pods.keys import EvictionKey, PodsKey, StatusKey
from fairway.controllers.pods.kinds import STORAGE
from fairway.controllers.pods.metrics import PodMetrics
from fairway.controllers.pods.scheduling import Extension, PodScheduling, SchedulingHooks
from fairway.controllers.pods.status import PodReporter
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.optional_kinds import OptionalKinds
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.runtime.slicing import in_slices
from fairway.controllers.runtime.write_limiter import WriteLimiter
from fairway.controllers.runtime.writer import Writer
from fairway.engine.queue import SchedulingQueue
from fairway.observe.meters import Meters
from fairway.scheduling import Scheduling
from fairway.workloads.machines.permit_protocol import UNAVAILABLE, Permit, PermitError, PermitRequest
from fairway.workloads.machines.state import MachineState
from kubewire.api.resource import Resource
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Recorder
from kubewire.client.fence import TermGroup

log: Final = logging.getLogger(__name__)

WORKERS: Final = 8
"""Concurrent writes of conditions."""
NOT_LEADING: Final = "another process leads, or none yet; ask again"
NO_MACHINES: Final = "the hub serves no virtual machines"
WITHOUT_MACHINES: Final = "the hub serves neither %s nor %s: only pods are scheduled"
WITHOUT_RECORDS: Final = (
    "the hub does not serve %s: no virtual machine moves. Apply its definition, which `fairway crds` prints"
)


@dataclass(kw_only=True)
class Term:
    """What a leader knows. The next one begins with what the hub shows."""

    pods: PodScheduling
    reporter: PodReporter

    @property
    def machines(self) -> VirtualMachines | None:
        return self.pods.extension if isinstance(self.pods.extension, VirtualMachines) else None


class MachinesController(Reconciler[PodsKey]):
    """``scheduling`` has the profiles, ``recorders`` one recorder for each of them.

    ``groups`` is whether PodGroups are watched; None to follow their definition. Without ``machines`` only pods are
    scheduled, also while the hub serves no virtual machines. ``storage`` are the kinds of ``STORAGE`` that the hub
    serves. ``limiter`` lets bindings go before events.
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
        storage: Collection[Resource[Any]] = STORAGE,
        limiter: WriteLimiter | None = None,
        history: DecisionHistory | None = None,
        workers: int = WORKERS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, workers=workers, clock=clock)
        self._scheduling, self._recorders, self._options = scheduling, recorders, machines
        self._informers: PodInformers
        self._hypervisors: dict[str, OptionalKinds] = {}
        self._records: OptionalKinds | None = None
        self._installations: OptionalKinds | None = None
        """Of KubeVirt."""
        self._hypervisors_changed = asyncio.Event()
        self._groups, self._storage = groups, frozenset(storage)
        self._writer = Writer(
            client, meters=meters, controller=self.name, limiter=limiter, count_subresources=True
        )
        self._history = history
        self._metrics = PodMetrics(meters, profiles=scheduling.specs)
        self._metrics.follow(self._queue)
        self._term: Term | None = None
        self._begun = asyncio.Event()
        """Not set while a term begins."""
        self._begun.set()
        if machines is not None:
            machines.metrics.follow(self._machine_state)

    def _machine_state(self) -> MachineState | None:
        term = self._term
        return None if term is None or term.machines is None else term.machines.state

    def _queue(self) -> SchedulingQueue | None:
        return None if self._term is None else self._term.pods.scheduler.queue

    def watch(self, informers: InformerFactory) -> None:
        self._informers = PodInformers(informers, groups=self._groups, storage=self._storage)
        if self._options is not None:
            self._informers.pods.index(owners_of)  # now, while there are no pods
            kinds, changed = self._options.kinds, self._hypervisors_changed.set
            self._hypervisors = watch_hypervisors(informers, kinds, changed=changed)
            if self._options.records:
                self._records = OptionalKinds(
                    informers, (MACHINE_MIGRATIONS,), changed=changed, fixed=kinds is not None
                )
            if self._options.configuration:
                self._installations = OptionalKinds(
                    informers, (KUBEVIRTS,), changed=self._follow_installations, fixed=kinds is not None
                )
                self._follow_installations()

    def keys(self) -> Iterable[PodsKey]:
        return ()

    async def work(self) -> None:
        while True:
            try:
                await self._run_term()
            finally:
                self._term = None
                self._informers.report_to(None)

    async def _run_term(self) -> None:
        """Run until the served hypervisors change. Bindings that have begun are awaited, so that the next term counts
        them."""
        self._hypervisors_changed.clear()
        term = await self._begin()
        async with TermGroup() as group:
            tasks = [group.create_task(super().work())]
            if term.machines is not None:
                tasks.append(group.create_task(term.machines.run()))
            pods = group.create_task(term.pods.run())
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

    def follow_agents(self, selector: AgentSelector) -> AgentAddresses:
        """Return the addresses of the agents' pods, as the hub shows them from now on."""
        return AgentAddresses(selector, self._informers.pods.index(selector.addresses_of))

    def replied(self, status: int, seconds: float) -> None:
        """Count a reply to an agent."""
        if self._options is not None:
            self._options.metrics.replied(status, seconds)

    async def reconcile(self, key: PodsKey) -> None:
        """Write the status of a pod, or evict it."""
        term = self._term
        if term is None:
            return
        async with self._writer.batch():
            match key:
                case EvictionKey():
                    await term.pods.preemptor.evict(key)
                case StatusKey():
                    await term.reporter.write(key)

    async def _begin(self) -> Term:
        """Start a term. The hub may have very many pods: leases and requests are served meanwhile, and changes wait."""
        term = self._new_term()
        self._begun.clear()
        self._informers.hold()
        try:
            if term.machines is not None:
                await in_slices(term.machines.load(), clock=self.clock)
            await in_slices(self._informers.load(term.pods), clock=self.clock)
            self._term = term
            if term.machines is not None:
                term.machines.begin()
            self._informers.report_to(term.pods)
            if term.machines is not None:
                term.machines.start()
        except BaseException:
            self._informers.report_to(None)
            if term.machines is not None:
                term.machines.close()
            raise
        finally:
            self._begun.set()
        return term

    def _new_term(self) -> Term:
        hub = PodAccess(self.client, self._writer)
        reporter = PodReporter(
            pods=self._informers.pods,
            recorders=self._recorders,
            hub=hub,
            metrics=self._metrics,
            wake=self.queue.add,
            clock=self.clock,
        )
        pods = PodScheduling(
            scheduling=self._scheduling,
            hub=hub,
            pods=self._informers.pods,
            claims=self._informers.claims,
            volumes=self._informers.volumes,
            reporter=reporter,
            recorders=self._recorders,
            metrics=self._metrics,
            wake=self.queue.add,
            clock=self.clock,
            extend=self._extend,
            history=self._history,
        )
        return Term(pods=pods, reporter=reporter)

    def _extend(self, hooks: SchedulingHooks) -> Extension:
        """Return the virtual machines of a term, if the hub serves their kinds."""
        options, hypervisors = self._options, served_hypervisors(self._hypervisors)
        if options is None or not hypervisors:
            log.info(WITHOUT_MACHINES, *(hypervisor.machines for hypervisor in HYPERVISORS.values()))
            return Extension()
        records = () if self._records is None else self._records.informers
        if not records:
            if self._records is not None and self._records.is_served:
                return Extension()  # the next term begins once the records of migrations are listed
            log.warning(WITHOUT_RECORDS, MACHINE_MIGRATIONS)
        return VirtualMachines(
            nodes=self._informers.nodes,
            pods=self._informers.pods,
            hypervisors=hypervisors,
            records=records[0] if records else None,
            writer=MachineWriter(self.client, self._writer),
            settings=options.settings,
            hooks=hooks,
            recorder=options.recorder,
            metrics=options.metrics,
            installations=self._kubevirts,
            history=options.history,
            clock=self.clock,
        )

    # Observations

    def _kubevirts(self) -> Iterable[KubeVirt]:
        informers = () if self._installations is None else self._installations.informers
        return (kubevirt for informer in informers for kubevirt in informer.store.values())

    def _follow_installations(self) -> None:
        """Apply the limits of KubeVirt now, and whenever its configuration changes."""
        if self._installations is None:
            return  # it is being created
        self._review_limits()
        for informer in self._installations.informers:
            informer.subscribe(lambda _: self._review_limits())

    def _review_limits(self) -> None:
        if self._term is not None and self._term.machines is not None:
            self._term.machines.review_limits()
