"""Virtual machines of one leadership term: they extend the scheduling of pods, grant growth, and migrate.

Informers report nodes, pods, VirtualMachines and migrations (``observations``), and agents ask for permits. Each
becomes an event of ``MachineState``, whose instructions become writes (``driver``). Pods ask for room (``room``). A
term begins with ``MachineState.rebuild`` from the objects alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from fairway.api.kubevirt import KubeVirt
from fairway.api.machine_migration import MachineMigration
from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.controllers.machines.driver import ROOM, MachineDriver
from fairway.controllers.machines.hypervisors import (
    Hypervisors,
    migrators_of,
)
from fairway.controllers.machines.objects import (
    MachineIndexes,
    MachineObjects,
    key_of,
    moved_machine,
    owners_of,
    progress_of,
)
from fairway.controllers.machines.observations import MachineObservations
from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.machines.reports import MachineReports
from fairway.controllers.machines.room import LedgerRoom
from fairway.controllers.machines.steps import MachineSteps
from fairway.controllers.machines.waiting_agents import WaitingAgents
from fairway.controllers.machines.writer import MachineWriter
from fairway.controllers.pods.scheduling import Extension, SchedulingHooks
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.engine.dependencies import Event as QueueEvent
from fairway.engine.profile import ProfileSpec
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.hosts.steps import Steps
from fairway.workloads.machines import events
from fairway.workloads.machines.kubevirt import INSTANCE_KIND
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.permit_protocol import (
    STARTING,
    UNAVAILABLE,
    Permit,
    PermitError,
    PermitRequest,
)
from fairway.workloads.machines.settings import MachineSettings
from fairway.workloads.machines.state import MachineState
from fairway.workloads.pods.plugins.vm_scaling import EarmarkPreemption
from fairway.workloads.pods.profile import profile_beside_machines
from kubewire.client import SYSTEM_CLOCK, Clock, Informer, Recorder


class VirtualMachines(Extension):
    """Without ``records`` no migration starts.

    The constructor only connects parts. ``load`` builds the state, ``begin`` lets nodes and pods change it, which the
    scheduling of pods reports, ``start`` begins to grant, ``run`` writes.
    """

    def __init__(
        self,
        *,
        nodes: Informer[Node],
        pods: Informer[Pod],
        hypervisors: Hypervisors,
        records: Informer[MachineMigration] | None,
        writer: MachineWriter,
        settings: MachineSettings,
        hooks: SchedulingHooks,
        recorder: Recorder,
        metrics: PermitMetrics,
        installations: Callable[[], Iterable[KubeVirt]] = tuple,
        history: DecisionHistory | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``installations`` returns the KubeVirt objects of the hub."""
        settings = settings if records is not None else settings.without_migrations()
        self._resources, self._hooks = settings.resources, hooks
        of_neonvm, of_kubevirt = hypervisors.get(VIRTUAL_MACHINE), hypervisors.get(INSTANCE_KIND)
        self.objects = MachineObjects(
            nodes=nodes.store,
            pods=pods.store,
            machines={} if of_neonvm is None else of_neonvm.machines.store,
            migrations={} if of_neonvm is None else of_neonvm.migrations.store,
            resources=settings.resources,
            instances=None if of_kubevirt is None else of_kubevirt.machines.store,
            instance_migrations=None if of_kubevirt is None else of_kubevirt.migrations.store,
            recorded=None if records is None else records.store,
            indexes=_indexes(pods, hypervisors),
        )
        reports = MachineReports(recorder, metrics, self.objects, history=history)
        self._driver = MachineDriver(
            objects=self.objects,
            hypervisors=hypervisors,
            steps=MachineSteps(
                writer=writer,
                migrators=migrators_of(hypervisors, self.objects),
                hypervisors=hypervisors,
                records=records,
            ),
            reports=reports,
            writer=writer,
            policy=settings.policy,
            hooks=hooks,
            installations=installations,
            clock=clock,
        )
        self._observations = MachineObservations(
            hypervisors=hypervisors,
            records=records,
            objects=self.objects,
            driver=self._driver,
            reports=reports,
            hooks=hooks,
            resources=settings.resources,
        )
        self._room = LedgerRoom(self._driver, self.objects)

    @property
    def state(self) -> MachineState:
        return self._driver.state

    @property
    def agents(self) -> WaitingAgents:
        return self._driver.agents

    # The term

    def load(self) -> Steps[None]:
        """Build the state from what the hub shows now. Changes wait for ``start``."""
        yield from self._observations.load()
        yield from self._driver.load()

    def begin(self) -> None:
        """Begin the term, once the scheduling of pods is loaded."""
        self._driver.begin()

    def start(self) -> None:
        """Begin to grant, once the changes of nodes and pods since ``load`` are reported."""
        # In this order: a permit that is granted before all changes since ``load`` are known could exceed its node.
        self._observations.release()
        self._driver.send(events.Loaded())
        self._observations.review_strays()

    async def run(self) -> None:
        """Run until cancelled. Raises Lost when the term ends."""
        try:
            await self._driver.run()
        finally:
            self.close()

    def close(self) -> None:
        """Refuse the requests that wait. The next leader answers."""
        self._observations.close()
        self._driver.end()

    async def quiet(self) -> None:
        """Wait until nothing is being written."""
        await self._driver.lanes.queue.join()

    def review_limits(self) -> None:
        """Follow a change of KubeVirt's configuration."""
        self._driver.review_limits()

    async def ask(self, request: PermitRequest, node: str) -> Permit:
        """Answer the agent on a node. Raises PermitError."""
        if not self._driver.is_running:
            raise PermitError(UNAVAILABLE, STARTING)
        with self.agents.asking(request) as mine:
            with self.agents.handling(request, mine):
                self._driver.send(events.PermitRequested(request, node))
            answer = await mine
        if isinstance(answer, PermitError):
            raise answer
        return answer

    # The extension of the scheduling of pods

    @property
    def room(self) -> LedgerRoom:
        return self._room

    def profile(self, spec: ProfileSpec, /) -> ProfileSpec:
        return profile_beside_machines(spec)

    def upsert_node(self, node: Node, /) -> None:
        self._observations.upsert_node(node)

    def delete_node(self, node: Node, /) -> None:
        self._observations.delete_node(node)

    def upsert_pod(self, pod: Pod, /) -> None:
        self._observations.upsert_pod(pod)

    def delete_pod(self, pod: Pod, /) -> None:
        self._observations.delete_pod(pod)

    def on_event(self, event: QueueEvent, /) -> None:
        self._driver.on_event(event)

    def take_room(self, pod: Pod, plan: EarmarkPreemption, /) -> None:
        """Close earmarks for a pod that is nominated to their node, and try the pod again."""
        host = self.objects.hosts.get(plan.node)
        if host is not None:
            ids = tuple(earmark.id for earmark in plan.earmarks)
            priority = pod.spec.priority or 0
            self._driver.send(
                events.EarmarksPreempted(host=host, earmarks=ids, by=key_of(pod), priority=priority)
            )
            columns = {grantable(resource): Direction.UP for resource in self._resources}
            self._hooks.wake(QueueEvent(label=ROOM, hosts=frozenset({plan.node}), columns=columns))


def _indexes(pods: Informer[Pod], hypervisors: Hypervisors) -> MachineIndexes:
    of_neonvm, of_kubevirt = hypervisors.get(VIRTUAL_MACHINE), hypervisors.get(INSTANCE_KIND)
    indexes = MachineIndexes(pods=pods.index(owners_of))
    if of_neonvm is not None:
        indexes = replace(indexes, migrations=of_neonvm.migrations.index(moved_machine))
    if of_kubevirt is not None:
        indexes = replace(indexes, instance_migrations=of_kubevirt.migrations.index(progress_of))
    return indexes
