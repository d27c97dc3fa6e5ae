"""Drive the machines' state: handle events one after the other, and carry out the instructions that follow.

Each event is one transaction of the ledger. Instructions that write wait in order for each object (``lanes``), and
their results come back as events. A timer runs for ``next_deadline``; nothing polls.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from fairway.api.kubevirt import KubeVirt
from fairway.api.pod import Pod
from fairway.controllers.machines.hypervisors import (
    Hypervisors,
    find_record,
)
from fairway.controllers.machines.lanes import MachineLanes, Written
from fairway.controllers.machines.objects import (
    MachineObjects,
    key_of,
)
from fairway.controllers.machines.oracle import MachineOracle
from fairway.controllers.machines.reports import MachineReports
from fairway.controllers.machines.steps import MachineSteps
from fairway.controllers.machines.waiting_agents import WaitingAgents
from fairway.controllers.machines.writer import MachineWriter
from fairway.controllers.pods.scheduling import SchedulingHooks
from fairway.controllers.runtime.reconciler import RETRIES_BURST, RETRIES_EVERY
from fairway.engine.dependencies import Event as QueueEvent
from fairway.engine.ledger import Ledger, LedgerColumns, LedgerError
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.hosts.resources import LEDGER
from fairway.hosts.steps import Steps, finish
from fairway.workloads.machines import events, instructions, kubevirt
from fairway.workloads.machines.events import Event
from fairway.workloads.machines.instructions import Instruction
from fairway.workloads.machines.kubevirt import INSTANCE_KIND
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.migration_limits import MigrationLimits
from fairway.workloads.machines.permit_protocol import (
    STARTING,
    UNAVAILABLE,
    PermitError,
)
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.state import MachineState
from kubewire.client import Backoff, Clock, TokenBucket, WorkQueue
from kubewire.client.fence import TermGroup

log: Final = logging.getLogger(__name__)

WORKERS: Final = 8
"""Concurrent writes."""
BACKOFF: Final = Backoff(base=0.05, cap=30.0)
LEAST_WAIT: Final = 0.001
"""Seconds of the timer, which protects the event loop from a deadline that does not pass."""

REBUILDING: Final = "unexpected error; rebuilding the state of machines from the hub"
ROOM: Final = "room of virtual machines"


class MachineDriver:
    """It has the state of a term, which ``load`` and an unexpected error replace."""

    def __init__(
        self,
        *,
        objects: MachineObjects,
        hypervisors: Hypervisors,
        steps: MachineSteps,
        reports: MachineReports,
        writer: MachineWriter,
        policy: MachinePolicy,
        hooks: SchedulingHooks,
        installations: Callable[[], Iterable[KubeVirt]],
        clock: Clock,
    ) -> None:
        """``installations`` returns the KubeVirt objects of the hub."""
        self._objects, self._hypervisors, self._installations = objects, hypervisors, installations
        self._steps, self._reports, self._writer = steps, reports, writer
        self._policy, self._hooks, self._clock = policy, hooks, clock
        self._oracle = MachineOracle(objects, hooks.preview)
        self.lanes = MachineLanes(
            WorkQueue(backoff=BACKOFF, bucket=TokenBucket(burst=RETRIES_BURST, every=RETRIES_EVERY))
        )
        self.agents = WaitingAgents()
        self.is_running = False
        """Whether the term has begun, and not ended."""
        self._events: deque[Event] = deque()
        """Events that follow from the one that is handled. They wait: a transaction cannot begin within another one."""
        self._sending = False
        self._changed = asyncio.Event()
        """Set when ``next_deadline`` may have changed."""
        self.state = MachineState(ledger=Ledger(), policy=policy, oracle=self._oracle)

    # The state

    def load(self) -> Steps[None]:
        """Build the state from what the hub shows now."""
        self.state = yield from self._rebuild()

    def _rebuild(self) -> Steps[MachineState]:
        records = {
            migration.id: migration
            for migration in self._objects.records()
            if migration.kind in self._hypervisors
        }
        state = yield from MachineState.rebuild_in_steps(
            policy=self._policy,
            oracle=self._oracle,
            hosts=(yield from self._objects.capacities()).items(),
            machines=(yield from self._objects.observe_all()),
            records=records.values(),
            now=self._now(),
            nominated=self._nominated,
            paced=True,
            limits={INSTANCE_KIND: self._limits(records.get)} if INSTANCE_KIND in self._hypervisors else {},
        )
        LedgerColumns(state.ledger, self._hooks.fleet)
        return state

    def _nominated(self, host: HostKey) -> dict[WorkloadKey, ResourceList]:
        """Return the pods that preempted others on a node, in the order in which room is kept for them."""
        nominated = sorted(self._hooks.fleet.nominated_to(host.name), key=lambda info: -info.priority)
        return {key_of(info.pod): self.amounts(info.pod) for info in nominated}

    def amounts(self, pod: Pod) -> ResourceList:
        """Return what a pod counts on its node, or would count."""
        # A workload lacks the owners of its pod.
        pod = self._objects.pods.get((pod.metadata.namespace, pod.metadata.name), pod)
        migration = self.state.table.migration_to(pod.metadata.namespace, pod.metadata.name)
        if migration is not None and self._objects.machine_in(pod, HostKey("", "")) is not None:
            return migration.amounts
        return self._objects.amounts(pod)

    def _limits(self, find: Callable[[str], Migration | None]) -> MigrationLimits:
        """Return how many migrations KubeVirt carries out at once, and how many of other clients there are. ``find``
        returns our own migration with an id."""
        others, elsewhere = Counter[HostKey](), 0
        for migration in self._objects.unfinished():
            if find_record(migration, find) is not None:
                continue
            instance = self._objects.instances.get((migration.metadata.namespace, migration.spec.vmiName))
            host = None if instance is None else self._objects.hosts.get(instance.status.nodeName)
            if host is None:
                elsewhere += 1
            else:
                others[host] += 1
        return kubevirt.limits_of(self._installations(), others=others, elsewhere=elsewhere)

    def review_limits(self) -> None:
        """Report limits of KubeVirt that have changed."""
        if INSTANCE_KIND in self._hypervisors:
            limits = self._limits(self.state.table.migration)
            if limits != self.state.relief.limits.get(INSTANCE_KIND):
                self.send(events.LimitsChanged(INSTANCE_KIND, limits))

    # The term

    def begin(self) -> None:
        self.is_running = True

    def end(self) -> None:
        """Refuse the requests that wait. The next leader answers."""
        self.is_running = False
        self.agents.refuse_all(PermitError(UNAVAILABLE, STARTING))

    async def run(self) -> None:
        """Run until cancelled. Raises Lost when the term ends."""
        async with TermGroup() as group:
            group.create_task(self._run_timer())
            for _ in range(WORKERS):
                group.create_task(self.lanes.work(self._carry_out, batch=self._writer.batch))

    async def _carry_out(self, instruction: Written) -> None:
        if not isinstance(instruction, instructions.WritePermit):
            for event in await self._steps.carry_out(instruction):
                self.send(event)
            return
        machine = self.state.table.machine(instruction.key)
        if machine is not None:  # otherwise it was deleted, and its demand with it
            self.send(await self._steps.write_permit(instruction, machine))

    async def _run_timer(self) -> None:
        while True:
            self._changed.clear()
            deadline = self.state.next_deadline()
            left = None if deadline is None else max(LEAST_WAIT, (deadline - self._now()) / SECOND)
            if left == LEAST_WAIT:
                # Events that arrive meanwhile must not postpone it again and again.
                await asyncio.sleep(left)
                self.send(events.TimePassed())
                continue
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                self.send(events.TimePassed())

    # Events

    def send(self, event: Event) -> None:
        """Handle an event, and those that follow from it at once, and wake the pods that wait for room."""
        self.handle_all(event)
        if not self._sending:
            self._hooks.report(ROOM)

    def handle_all(self, event: Event) -> None:
        """Handle an event, and those that follow from it, without waking pods."""
        self._events.append(event)
        if self._sending:
            return  # performing an instruction sent it: the loop below takes it next
        self._sending = True
        try:
            self._drain()
        except Exception:
            log.exception(REBUILDING)
            self._start_over()
            self._drain()
        finally:
            self._sending = False
            if not self.state.relief.is_paused:
                # A plan that continues in the next turn must see the same answers, or it would start again.
                self._oracle.forget()
            self._changed.set()

    def _drain(self) -> None:
        while self._events:
            self.handle(self._events.popleft())

    def handle(self, event: Event) -> None:
        """Handle one event, without those that follow from it. Raises what the state raises."""
        for instruction in self.state.handle(event, now=self._now()):
            self._perform(instruction)
        self._changed.set()

    def _start_over(self) -> None:
        """Build the state again: an exception may have left it between two states."""
        self._events.clear()
        # They follow from the state that is dropped. What the hub lacks of them, the new one asks for again.
        self.lanes.clear()
        self.agents.refuse_all(PermitError(UNAVAILABLE, STARTING))
        assumed = self.state.table.assumed
        # At once and not in slices: an event between two slices would find no state that it could apply to.
        self.state = finish(self._rebuild())
        for key, host in assumed.items():
            if key not in self.state.table.machines and host in self.state.ledger.hosts():
                pod = self._objects.pods.get((key.namespace, key.name))
                amounts = {} if pod is None else self.amounts(pod)
                with suppress(LedgerError):  # its binding is under way, and will be observed
                    self.state.handle(events.PodAssumed(key, host, amounts), now=self._now())
        if self.is_running:
            self._events.append(events.Loaded())

    def on_event(self, event: QueueEvent, /) -> None:
        """Plan again for the nodes whose machines may have more targets. Room is not among these events: the state
        notes that itself."""
        columns = {key: direction for key, direction in event.columns.items() if key[0] not in LEDGER}
        if columns or event.added or event.wildcard:
            hosts = self._oracle.concerned(replace(event, columns=columns))
            if hosts:
                self.send(events.TargetsChanged(hosts))

    def observe_migration(self, migration: Migration) -> None:
        """Report how far a migration is."""
        self.send(self._steps.observation(migration))

    # Instructions

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case instructions.Reply(namespace, name, answer):
                self.agents.reply((namespace, name), answer)
            case instructions.Alert(key=key):
                machine = None if key is None else self.state.table.machine(key)
                self._reports.alert(instruction, machine)
            case instructions.Observe(migration):
                self._events.append(self._steps.observation(migration))
            case _:
                self._note(instruction)
                self.lanes.add(instruction)

    def _note(self, instruction: Written) -> None:
        match instruction:
            case instructions.WritePermit(key=key):
                self._reports.note_permit(key, self.state.table.demand(key), self._now())
            case instructions.WriteRecord(migration):
                self._reports.note_record(migration)
            case instructions.DeleteRecord(migration):
                self._reports.note_end(migration)

    def _now(self) -> Micros:
        return to_micros(self._clock.wall())
