"""Drive the machines' state with what the hub shows, and carry out its instructions.

Informers report nodes, pods, VirtualMachines and migrations, and agents ask for permits. Each becomes an event of
``MachineState``, which is one transaction of the ledger; its instructions become writes (``machine_steps``), which
wait in order for each object (``machine_lanes``). A timer runs for ``next_deadline``; nothing polls.

One object serves one leadership term. It begins with ``MachineState.rebuild`` from the objects alone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.controllers.leadership import Leadership
from fairway.controllers.machines.hypervisors import (
    Hypervisors,
    MachineObject,
    MigrationObject,
    find_record,
    migrators_of,
)
from fairway.controllers.machines.machine_lanes import MIGRATION, Written
from fairway.controllers.machines.machine_objects import NO_MACHINE, MachineObjects, host_of, key_of
from fairway.controllers.machines.machine_oracle import MachineOracle, Preview
from fairway.controllers.machines.machine_reports import MachineReports
from fairway.controllers.machines.machine_steps import MachineSteps
from fairway.controllers.machines.machine_writer import MachineWriter
from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.machines.store_changes import StoreChanges
from fairway.controllers.machines.waiting_agents import WaitingAgents
from fairway.engine.dependencies import Event as QueueEvent
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns, LedgerError
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.column import Key as ColumnKey
from fairway.fleet.direction import Direction
from fairway.fleet.instant import SECOND, Micros, to_micros
from fairway.fleet.journal import Change
from fairway.fleet.resources import grantable
from fairway.fleet.steps import Steps, finish
from fairway.kube import SYSTEM_CLOCK, Clock, Informer, Recorder
from fairway.kube.fence import Lost
from fairway.machines import events, instructions
from fairway.machines.events import Event, Observation, Stage
from fairway.machines.instructions import Instruction
from fairway.machines.kubevirt import INSTANCE_KIND
from fairway.machines.machine import VIRTUAL_MACHINE, Identity
from fairway.machines.neonvm import RECORD
from fairway.machines.permit_protocol import STARTING, UNAVAILABLE, Permit, PermitError, PermitRequest
from fairway.machines.settings import MachineSettings
from fairway.machines.size import charge
from fairway.machines.state import NOMINATION, MachineState
from fairway.nodes import NodeFleet
from fairway.nodes.pod_template import PodInfo
from fairway.plugins.pods.vm_scaling import EarmarkPreemption

log: Final = logging.getLogger(__name__)

EPOCH: Final = 1
"""Of the ledger: each term has its own."""
LEAST_WAIT: Final = 0.001
"""Seconds of the timer, which protects the event loop from a deadline that does not pass."""

OBJECT_DELETED: Final = "the {kind} was deleted"
STRAY: Final = "deleting %s %s/%s: a former leader created it"
REBUILDING: Final = "unexpected error; rebuilding the state of machines from the hub"
ROOM: Final = "room of virtual machines"
MACHINE_OBSERVED: Final = "virtual machine observed"


class VirtualMachines:
    """It is the ``MachineRoom`` of the plugin VirtualMachineAutoscaling."""

    def __init__(
        self,
        *,
        nodes: Informer[Node],
        pods: Informer[Pod],
        hypervisors: Hypervisors,
        writer: MachineWriter,
        settings: MachineSettings,
        fleet: NodeFleet,
        recorder: Recorder,
        metrics: PermitMetrics,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._nodes, self._pods, self._hypervisors = nodes, pods, hypervisors
        self._settings, self._fleet, self._clock = settings, fleet, clock
        neonvm, kubevirt = hypervisors.get(VIRTUAL_MACHINE), hypervisors.get(INSTANCE_KIND)
        self.objects = MachineObjects(
            nodes=nodes.store,
            pods=pods.store,
            machines={} if neonvm is None else neonvm.machines.store,
            migrations={} if neonvm is None else neonvm.migrations.store,
            resources=settings.resources,
            instances=None if kubevirt is None else kubevirt.machines.store,
            instance_migrations=None if kubevirt is None else kubevirt.migrations.store,
        )
        self._steps = MachineSteps(
            writer=writer,
            migrators=migrators_of(hypervisors, self.objects),
            hypervisors=hypervisors,
            state=lambda: self.state,
            send=self.send,
        )
        self._reports = MachineReports(recorder, metrics, self.objects)
        self.agents = WaitingAgents()
        self._oracle = MachineOracle(self.objects, amounts=self._amounts)
        self._wake: Callable[[QueueEvent], None] = lambda _: None
        self._events: deque[Event] = deque()
        self._sending = False
        self._room_changes: list[Change] = []
        self._assumed: dict[WorkloadKey, HostKey] = {}
        self._changed = asyncio.Event()
        self._store_changes = StoreChanges()
        self._loaded = False
        self.state = MachineState(ledger=Ledger(), policy=settings.policy, oracle=self._oracle)

    def load(self) -> Steps[None]:
        """Build the state from what the hub shows now. Changes wait for ``start``."""
        changes = self._store_changes
        changes.hold()
        changes.follow(self._nodes, self._node_changed, self._node_deleted)
        changes.follow(self._pods, self._pod_changed, self._pod_deleted)
        for each in self._hypervisors.values():
            changes.follow(each.machines, self._machine_changed, self._machine_changed)
            changes.follow(each.migrations, self._migration_changed, self._migration_deleted)
        changes.hold()  # the first batches have all objects, which are listed now
        yield from self.objects.index_all()
        self.state = yield from self._rebuild()

    def _rebuild(self) -> Steps[MachineState]:
        state = yield from MachineState.rebuild_in_steps(
            epoch=EPOCH,
            policy=self._settings.policy,
            oracle=self._oracle,
            hosts=(yield from self.objects.capacities()).items(),
            machines=(yield from self.objects.observe_all()),
            records=self.objects.records(),
            now=self._now(),
        )
        state.nominated = self._nominated
        LedgerColumns(state.ledger, self._fleet, on_change=self._room_changes.append)
        return state

    def _nominated(self, host: HostKey) -> dict[WorkloadKey, ResourceList]:
        """Return the pods that preempted others on a node, in the order in which room is kept for them."""
        found = sorted(self._fleet.nominated_to(host.name), key=lambda info: -info.priority)
        return {key_of(each.pod): self._amounts(each.pod) for each in found}

    # The term

    def start(self, *, preview: Preview, wake: Callable[[QueueEvent], None]) -> None:
        """Begin to grant. ``preview`` dry-runs pods, and ``wake`` gets events of the scheduling queue."""
        self._oracle.preview, self._wake = preview, wake
        self._loaded = True
        self._store_changes.release()
        self.send(events.Loaded())

    async def run(self, leadership: Leadership) -> None:
        """Run until cancelled. Raises Lost when the term ends."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_timer())
                group.create_task(self._steps.run(leadership))
        except* Lost as lost:
            raise Lost(str(lost.exceptions[0])) from None
        finally:
            self.close()

    def close(self) -> None:
        """Refuse the requests that wait. The next leader answers."""
        self._store_changes.close()
        self._loaded = False
        self.agents.refuse_all(PermitError(UNAVAILABLE, STARTING))

    async def quiet(self) -> None:
        """Wait until nothing is being written."""
        await self._steps.queue.join()

    async def _run_timer(self) -> None:
        while True:
            self._changed.clear()
            deadline = self.state.next_deadline()
            left = None if deadline is None else max(LEAST_WAIT, (deadline - self._now()) / SECOND)
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                self.send(events.TimePassed())

    # Events

    def send(self, event: Event) -> None:
        """Handle an event, and those that follow from it at once."""
        self._events.append(event)
        if self._sending:
            return
        self._sending = True
        try:
            self._drain()
        except Exception:
            log.exception(REBUILDING)
            self._start_over()
            self._drain()
        finally:
            self._sending = False
            self._oracle.forget()
            self._changed.set()
        self._report_room()

    def _drain(self) -> None:
        while self._events:
            self._handle(self._events.popleft())

    def _handle(self, event: Event) -> None:
        for each in self.state.handle(event, now=self._now()):
            self._perform(each)

    def _start_over(self) -> None:
        """Build the state again: an exception may have left it between two states."""
        self._events.clear()
        self._steps.lanes.clear()
        self.agents.refuse_all(PermitError(UNAVAILABLE, STARTING))
        self.state = finish(self._rebuild())
        for key, host in self._assumed.items():
            if key not in self.state.permits.machines and host in self.state.ledger.hosts():
                pod = self.objects.pods.get((key.namespace, key.name))
                amounts = {} if pod is None else self._amounts(pod)
                with suppress(LedgerError):  # its binding is under way, and will be observed
                    self.state.handle(events.PodAssumed(key, host, amounts), now=self._now())
        if self._loaded:
            self._events.append(events.Loaded())

    def _report_room(self) -> None:
        """Wake the pods that wait for room which has appeared."""
        if not self._room_changes:
            return
        changes, columns, hosts = self._room_changes[:], dict[ColumnKey, Direction](), set[str]()
        self._room_changes.clear()
        for change in changes:
            for key, direction in change.columns.items():
                if direction & Direction.UP:
                    columns[key] = columns.get(key, Direction.NONE) | direction
                    hosts.update(change.hosts)
        if columns:
            self._wake(QueueEvent(label=ROOM, hosts=frozenset(hosts), columns=columns))

    # Observations

    def _node_changed(self, node: Node) -> None:
        name, host = node.metadata.name, host_of(node)
        known = self.objects.hosts.get(name)
        if known is not None and known != host:
            self._lose(known)
            known = None
        self.objects.hosts[name] = host
        capacity = self.objects.capacity(node)
        account = self.state.ledger.account(host)
        if account is None or account.capacity != capacity:
            self.send(events.HostObserved(host, capacity))
        if known is None:
            for pod in self.objects.pods_on(name):
                self._observe_pod(pod)

    def _node_deleted(self, node: Node) -> None:
        if self.objects.hosts.get(node.metadata.name) == host_of(node):
            del self.objects.hosts[node.metadata.name]
        self._lose(host_of(node))

    def _lose(self, host: HostKey) -> None:
        if self.state.ledger.account(host) is not None:
            self.send(events.HostGone(host))

    def _pod_changed(self, pod: Pod) -> None:
        self.objects.index(pod)
        self._observe_pod(pod)
        self._review_nominations(key_of(pod))
        if pod.finished:  # KubeVirt keeps the pods that machines have left
            self._observe_machine(self.objects.machine_name(pod))
        else:
            self._observe_migrations(self.objects.machine_name(pod))

    def _pod_deleted(self, pod: Pod) -> None:
        self._remove(key_of(pod))
        self._review_nominations(key_of(pod))
        vm = self.objects.machine_name(pod)
        self.objects.drop(pod)
        self._observe_machine(vm)

    def _observe_pod(self, pod: Pod) -> None:
        found, key = self.objects.observed(pod), key_of(pod)
        if found is None:
            self._remove(key)
            return
        known = self.state.permits.machines.get(key)
        if known is not None and known.vm and not found.machine.vm:
            return  # the virtual machine was deleted, and its pod still uses the room
        assumed = self._assumed.pop(key, None)
        machine = found.machine
        if known is not None and known.moved is not None:
            # The annotation is written at the end of the migration, after the pod has got another owner.
            machine = replace(machine, moved=max(known.moved, machine.moved or 0))
        # After a migration that another client started, no pod runs the machine until the new one is observed again.
        if known != machine or (machine.vm and machine.identity not in self.state.permits.owners):
            self.send(replace(found, machine=machine))
        if assumed is not None and assumed != machine.host:
            self.send(events.PodForgotten(key, assumed))

    def _review_nominations(self, key: WorkloadKey) -> None:
        """Give back room that was kept for a pod which does not wait for it any more."""
        for host in self.ledger.earmarked_for(key):
            account = self.ledger.account(host)
            name = f"{NOMINATION}/{key.namespace}/{key.name}"
            waits = self._fleet.nominations.get((key.namespace, key.name)) == host.name
            if account is not None and name in account.earmarks and not waits:
                self.send(events.HostObserved(host, account.capacity))

    def _remove(self, key: WorkloadKey) -> None:
        self._reports.forget(key)
        if key in self.state.permits.machines:
            self.send(events.MachineGone(key))

    def _machine_changed(self, vm: MachineObject) -> None:
        self._observe_machine((vm.kind, vm.metadata.namespace, vm.metadata.name))

    def _observe_machine(self, vm: Identity | None) -> None:
        if vm is not None:
            pods = self.objects.pods_of(vm)
            for pod in pods:
                self._observe_pod(pod)
            self._observe_migrations(vm)
            if any(not pod.spec.nodeName for pod in pods):
                columns = {grantable(each): Direction.UP for each in self._settings.resources}
                self._wake(QueueEvent(label=MACHINE_OBSERVED, columns=columns))

    def _observe_migrations(self, vm: Identity | None) -> None:
        for each in list(self.state.migrations.records.values()):
            if each.identity == vm:
                self.send(self._steps.observation(each))

    def _migration_changed(self, migration: MigrationObject) -> None:
        meta, target = migration.metadata, self.objects.target_of(migration)
        if target is not None:
            # The pod may have been reported before its owner.
            self.objects.index(target)
            self._observe_pod(target)
        record = find_record(migration, self.state.migrations.records)
        if record is not None:
            self.send(self._steps.observation(record))
        elif RECORD in meta.annotations and meta.deletionTimestamp is None:
            self._delete_stray(migration)

    def _delete_stray(self, object_: MigrationObject) -> None:
        """Cancel a migration that a former leader created after this term began."""
        meta = object_.metadata
        if self._loaded and not self._steps.lanes.is_waiting((MIGRATION, meta.namespace, meta.name)):
            for record in self.objects.records():
                if (record.source.namespace, record.id) == (meta.namespace, meta.name):
                    log.info(STRAY, object_.kind, meta.namespace, meta.name)
                    self._steps.add(instructions.DeleteRecord(record))

    def _migration_deleted(self, migration: MigrationObject) -> None:
        record = find_record(migration, self.state.migrations.records)
        if record is None:
            return
        if record.cancellable:
            failed = Observation(stage=Stage.FAILED, message=OBJECT_DELETED.format(kind=migration.kind))
            self.send(events.MigrationObserved(record.id, failed))
        else:
            self.send(self._steps.observation(record))

    # Instructions

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case instructions.Reply(namespace, name, answer):
                self.agents.reply((namespace, name), answer)
            case instructions.RoomFreed():
                return  # the columns of the ledger report it
            case instructions.Alert(key=key):
                machine = None if key is None else self.state.permits.machines.get(key)
                self._reports.alert(instruction, machine)
            case instructions.Observe(migration):
                self._events.append(self._steps.observation(migration))
            case _:
                self._note(instruction)
                self._steps.add(instruction)

    def _note(self, instruction: Written) -> None:
        match instruction:
            case instructions.WritePermit(key=key):
                self._reports.note_permit(key, self.state.permits.demands[key], self._now())
            case instructions.WriteRecord(migration):
                self._reports.note_record(migration)
            case instructions.DeleteRecord(migration):
                self._reports.note_end(migration)

    # Agents

    async def ask(self, request: PermitRequest, node: str) -> Permit:
        """Answer the agent on a node. Raises PermitError."""
        if not self._loaded:
            raise PermitError(UNAVAILABLE, STARTING)
        with self.agents.asking(request) as mine:
            with self.agents.handling(request, mine):
                self.send(events.PermitRequested(request, node))
            answer = await mine
        if isinstance(answer, PermitError):
            raise answer
        return answer

    # The room of the plugin

    @property
    def ledger(self) -> Ledger:
        return self.state.ledger

    def amounts_of(self, info: PodInfo, /) -> ResourceList:
        return self._amounts(info.pod)

    def _amounts(self, pod: Pod) -> ResourceList:
        # A workload lacks the owners of its pod.
        pod = self.objects.pods.get((pod.metadata.namespace, pod.metadata.name), pod)
        found = self.objects.machine_in(pod, HostKey("", ""))
        if found is None:
            return self.objects.requests(pod)
        migration = self.state.migrations.of_target(pod.metadata.namespace, pod.metadata.name)
        if migration is not None:
            return migration.amounts
        machine, demand = found.machine, found.demand
        approved = machine.using if demand is None else demand.approved
        size = {name: max(amount, approved.get(name, 0)) for name, amount in machine.using.items()}
        return charge(size, machine.factors)

    def objection(self, info: PodInfo, /) -> str | None:
        meta = info.pod.metadata
        pod = self.objects.pods.get((meta.namespace, meta.name))
        return NO_MACHINE if pod is not None and self.objects.lacks_machine(pod) else None

    def is_target(self, namespace: str, name: str, /) -> bool:
        return self.state.migrations.of_target(namespace, name) is not None

    def target_rejection(self, namespace: str, name: str, host: HostKey, /) -> str | None:
        return self.state.target_rejection(namespace, name, host)

    def preemptible(self, info: PodInfo, host: HostKey, /) -> list[Earmark]:
        return self.state.preemptible(host, by=key_of(info.pod), priority=info.priority)

    def take_room(self, pod: Pod, plan: EarmarkPreemption) -> None:
        """Close earmarks for a pod that is nominated to their node, and try the pod again."""
        host = self.objects.hosts.get(plan.node)
        if host is not None:
            ids = tuple(each.id for each in plan.earmarks)
            priority = pod.spec.priority or 0
            self.send(events.EarmarksPreempted(host=host, earmarks=ids, by=key_of(pod), priority=priority))
            columns = {grantable(each): Direction.UP for each in self._settings.resources}
            self._wake(QueueEvent(label=ROOM, hosts=frozenset({plan.node}), columns=columns))

    def assume(self, key: WorkloadKey, host: HostKey, amounts: ResourceList, /) -> str | None:
        migration = self.state.migrations.of_target(key.namespace, key.name)
        if migration is not None:
            self.send(events.TargetNominated(migration.id, host))
            rejection = self.state.target_rejection(key.namespace, key.name, host)
            if rejection is not None:
                return rejection
        try:
            self._handle(events.PodAssumed(key, host, amounts))
        except LedgerError as refused:
            return str(refused)
        self._assumed[key] = host
        self._changed.set()
        return None

    def forget(self, key: WorkloadKey, /) -> None:
        host = self._assumed.pop(key, None)
        if host is not None:
            self.send(events.PodForgotten(key, host))

    def _now(self) -> Micros:
        return to_micros(self._clock.wall())
