"""A small world for the machines' state: nodes, pods, VirtualMachines, migration records, agents and a hypervisor.

It performs instructions one by one, so that a test can fail or crash between any two of them, and checks the six
invariants (``machines.invariants``) after every event.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from fairway.api.machine_migration import MachineMigration
from fairway.engine.ledger import HostAccount
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.events import Event, Stage
from fairway.workloads.machines.instructions import Instruction
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import Migration, Phase
from fairway.workloads.machines.migration_record import migration_in, record_object
from fairway.workloads.machines.migrator import SimulatedMigrator
from fairway.workloads.machines.moves import Work
from fairway.workloads.machines.permit_protocol import Permit, PermitError, PermitRequest
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.size import exceeds
from fairway.workloads.machines.state import MachineState
from workloads.machines.invariants import accounts, check_state, promised

N1, N2, N3 = (HostKey(name, f"uid-{name}") for name in ("n1", "n2", "n3"))


def cu(amount: int) -> ResourceList:
    return {"cpu": amount, "memory": amount}


def key(name: str) -> WorkloadKey:
    return WorkloadKey("ns", name, f"uid-{name}")


@dataclass
class Oracle:
    """Answers that all nodes are feasible, or those that a test lists."""

    hosts: Sequence[HostKey] = (N1, N2, N3)
    only: dict[str, Sequence[HostKey]] = field(default_factory=dict)

    def feasible(self, machine: Machine, _work: Work) -> Sequence[HostKey]:
        return self.only.get(machine.vm, self.hosts)


class World:
    def __init__(self, policy: MachinePolicy | None = None, *, hosts: Sequence[HostKey] = (N1, N2)) -> None:
        self.policy = policy or MachinePolicy()
        self.now: Micros = 1_000 * SECOND
        self.hosts: dict[HostKey, ResourceList] = {host: cu(10) for host in hosts}
        self.pods: dict[WorkloadKey, Machine] = {}
        self.vms: dict[str, Demand] = {}
        """What each VirtualMachine records."""
        self.running: dict[str, WorkloadKey] = {}
        """The pod that each VirtualMachine names."""
        self.records: dict[str, dict[str, Any]] = {}
        self.migrator = SimulatedMigrator()
        self.oracle = Oracle(hosts)
        self.queue: deque[Instruction] = deque()
        self.replies: list[tuple[str, Permit | PermitError]] = []
        self.alerts: list[instructions.Alert] = []
        self.performed: list[Instruction] = []
        self.failing: set[type[Instruction]] = set()
        """Kinds of instructions that fail."""
        self.losing: set[type[Instruction]] = set()
        """Kinds of instructions whose result is never reported."""
        self.wanted: dict[str, ResourceList] = {}
        """What each agent asked for last."""
        self.binds_targets = True
        self.nominated: dict[HostKey, Mapping[WorkloadKey, ResourceList]] = {}
        """Pods that wait on a node for the pods that they preempt."""
        self.state = MachineState.rebuild(
            policy=self.policy,
            oracle=self.oracle,
            hosts=self.hosts.items(),
            machines=(),
            records=(),
            now=self.now,
            nominated=self._nominated_to,
        )

    # What a test does

    def load(self) -> None:
        self.send(events.Loaded())

    def add(
        self,
        name: str,
        amount: int,
        host: HostKey = N1,
        *,
        vm: bool = True,
        migratable: bool = False,
        priority: int = 0,
        created: Micros = 0,
        moved: Micros | None = None,
        factors: Mapping[str, int] | None = None,
    ) -> WorkloadKey:
        pod = key(name)
        machine = Machine(
            key=pod,
            host=host,
            using=cu(amount),
            vm=f"vm-{name}" if vm else "",
            migratable=migratable,
            priority=priority,
            created=created,
            moved=moved,
            factors=factors or {},
        )
        self.pods[pod] = machine
        if vm:
            self.running[machine.vm] = pod
            self.vms[machine.vm] = Demand(requested=cu(amount), approved=cu(amount), unit=cu(1))
        self.send(self.observed(pod))
        return pod

    def observed(self, pod: WorkloadKey) -> events.MachineObserved:
        machine = self.pods[pod]
        return events.MachineObserved(machine, self.vms.get(machine.vm))

    def ask(self, name: str, amount: int, *, unit: int = 1, last: int | None = None) -> None:
        """Let a machine's agent request a size; it lowers the size before it reports that."""
        pod = self.running.get(f"vm-{name}", key(name))
        machine = self.pods.get(pod)
        if machine is not None and exceeds(machine.using, cu(amount)):
            self.pods[pod] = replace(machine, using=cu(amount))
            self.send(self.observed(pod))
        self.wanted[f"vm-{name}"] = cu(amount)
        self.send(
            events.PermitRequested(
                PermitRequest(
                    namespace=pod.namespace,
                    name=pod.name,
                    unit=cu(unit),
                    resources=cu(amount),
                    last_permit=None if last is None else cu(last),
                )
            )
        )

    def delete(self, name: str) -> None:
        self.delete_pod(key(name))

    def delete_pod(self, pod: WorkloadKey) -> None:
        machine = self.pods.pop(pod, None)
        if machine is not None:
            self.send(events.MachineGone(pod))
            if self.running.get(machine.vm) == pod:
                self.delete_vm(machine.vm)

    def delete_vm(self, vm: str) -> None:
        """Delete what belongs to a deleted VirtualMachine."""
        del self.running[vm], self.vms[vm]
        for id_ in list(self.migrator.copies):
            if id_ in self.records and self.record(id_).vm == vm:
                copy = self.migrator.copies.pop(id_)
                self.delete_target(copy.target)
                self.watch(id_)
        for pod in [pod for pod, machine in self.pods.items() if machine.vm == vm]:
            self.delete_target(pod)

    def resize(self, host: HostKey, amount: int) -> None:
        self.hosts[host] = cu(amount)
        self.send(events.HostObserved(host, cu(amount)))

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and let everything that is due happen at its time."""
        end = self.now + int(seconds * SECOND)
        for _ in range(100):
            due = self.state.next_deadline()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.send(events.TimePassed())
            self.run()
        self.now = end
        self.send(events.TimePassed())

    def bind(self, id_: str, host: HostKey) -> None:
        """Bind the target pod of a migration, as a scheduler would."""
        self.migrator.bind(id_, host)
        record = self.record(id_)
        source = self.pods.get(record.source)
        target = self.migrator.copies[id_].target
        if source is not None:
            self.pods[target] = replace(source, key=target, host=host, created=self.now, moved=self.now)
            self.send(self.observed(target))
        self.watch(id_)

    def complete(self, id_: str) -> None:
        self.migrator.complete(id_)
        self.watch(id_)

    def watch(self, id_: str) -> None:
        if id_ in self.records:
            self.send(events.MigrationObserved(id_, self.migrator.observe(self.record(id_))))

    def crash(self, *, load: bool = True) -> None:
        """Lose everything that is not an object, and start again."""
        before = {host: self.account(host) for host in self.hosts}
        self.queue.clear()
        self.state = MachineState.rebuild(
            policy=self.policy,
            oracle=self.oracle,
            hosts=self.hosts.items(),
            machines=[self.observed(pod) for pod in self.pods],
            records=[self.record(id_) for id_ in self.records],
            now=self.now,
            nominated=self._nominated_to,
        )
        check_state(self.state, None, {})
        for host, account in before.items():
            for name, amount in self.account(host).used.items():
                room = max(self.hosts[host].get(name, 0), promised(account, name))
                assert amount <= room, f"I1: after the crash {host} has {amount} {name} of {room}"
        if load:
            self.load()

    def _nominated_to(self, host: HostKey) -> Mapping[WorkloadKey, ResourceList]:
        return self.nominated.get(host, {})

    # What happens

    def send(self, event: Event) -> None:
        before = accounts(self.state)
        out = self.state.handle(event, now=self.now)
        self.queue.extend(out)
        check_state(self.state, event, before)
        assert self.migrator.second_copies == 0, "a copy was started twice"

    def run(self, *, until: type[Instruction] | None = None, most: int = 500) -> None:
        """Perform instructions, all of them or up to but without the first one of a kind."""
        for _ in range(most):
            if not self.queue or (until is not None and isinstance(self.queue[0], until)):
                return
            self.step()
        raise AssertionError("instructions without end")

    def step(self) -> None:
        instruction = self.queue.popleft()
        self.performed.append(instruction)
        failing, lost = type(instruction) in self.failing, type(instruction) in self.losing
        match instruction:
            case instructions.WritePermit(key=pod, demand=demand, after=after):
                self.write_permit(pod, demand, after, failing=failing, lost=lost)
            case instructions.Reply(namespace, name, answer):
                self.replies.append((name, answer))
                if isinstance(answer, Permit):
                    self.use(namespace, name, answer)
            case instructions.WriteRecord(migration):
                if failing:
                    self.send(events.RecordNotWritten(migration.id, migration.revision))
                    return
                self.records[migration.id] = record_object(migration)
                if not lost:
                    self.send(events.RecordWritten(migration.id, migration.revision))
            case instructions.DeleteRecord(migration):
                self.records.pop(migration.id, None)
                self.migrator.copies.pop(migration.id, None)
            case instructions.Alert():
                self.alerts.append(instruction)
            case _:
                self.move(instruction, lost=lost)

    def move(self, instruction: Instruction, *, lost: bool) -> None:
        assert not isinstance(
            instruction,
            instructions.WritePermit
            | instructions.Reply
            | instructions.WriteRecord
            | instructions.DeleteRecord
            | instructions.Alert,
        )
        migration = instruction.migration
        match instruction:
            case instructions.Prepare():
                assert self.record(migration.id).phase is Phase.PLANNED
                self.migrator.prepare(migration)
                if self.binds_targets:
                    self.watch(migration.id)
                    self.run_records()
                    if migration.id in self.migrator.copies:
                        self.bind(migration.id, migration.target_host)
                    return
            case instructions.Transfer():
                assert self.record(migration.id).phase is Phase.COPYING
                self.migrator.transfer(migration)
            case instructions.Cutover():
                assert self.record(migration.id).phase is Phase.CUTOVER
                self.migrator.cutover(migration)
                copy = self.migrator.copies.get(migration.id)
                if copy is not None and copy.stage is Stage.SWITCHED and migration.vm in self.running:
                    self.running[migration.vm] = copy.target
            case instructions.DeleteSource():
                assert self.record(migration.id).phase is Phase.CUTOVER
                self.pods.pop(migration.source, None)
                if not lost:
                    self.send(events.MachineGone(migration.source))
                return
            case instructions.Abort():
                copies = self.migrator.copies.get(migration.id)
                self.migrator.abort(migration)
                if copies is not None and migration.id not in self.migrator.copies:
                    self.delete_target(copies.target)
            case instructions.Observe():
                pass
        self.watch(migration.id)

    def delete_target(self, target: WorkloadKey) -> None:
        if self.pods.pop(target, None) is not None:
            self.send(events.MachineGone(target))

    def run_records(self) -> None:
        while self.queue and isinstance(self.queue[0], instructions.WriteRecord):
            self.step()

    def write_permit(
        self, pod: WorkloadKey, demand: Demand, after: int, *, failing: bool, lost: bool
    ) -> None:
        machine = self.pods.get(pod)
        if machine is None or machine.vm not in self.vms:
            return
        if failing:
            self.send(events.PermitNotWritten(pod))
            return
        recorded = self.vms[machine.vm]
        if recorded.generation != after:
            self.send(events.PermitConflict(pod, recorded))
            return
        self.vms[machine.vm] = demand
        if not lost:
            self.send(events.PermitWritten(pod))

    def use(self, namespace: str, name: str, permit: Permit) -> None:
        """Check a permit, and let the machine grow to it."""
        pod = next((key for key in self.pods if (key.namespace, key.name) == (namespace, name)), None)
        if pod is None:
            return
        machine = self.pods[pod]
        if exceeds(permit.resources, self.wanted[machine.vm]):
            return  # answers an earlier request
        assert not exceeds(machine.using, permit.resources), "I6: the permit is below the use"
        assert not exceeds(permit.resources, self.vms[machine.vm].requested), (
            "I6: the permit exceeds the request"
        )
        assert not exceeds(permit.resources, self.vms[machine.vm].approved), (
            "a permit was given before it was written"
        )
        if not permit.migrate and exceeds(permit.resources, machine.using):
            self.pods[pod] = replace(machine, using=permit.resources)
            self.send(self.observed(pod))

    # What a test reads

    def account(self, host: HostKey) -> HostAccount:
        return self.state.ledger.account(host) or HostAccount(host=host)

    def holding(self, name: str, host: HostKey = N1) -> int:
        return self.account(host).holding(key(name)).get("cpu", 0)

    def used(self, host: HostKey = N1) -> int:
        return self.account(host).used.get("cpu", 0)

    def free(self, host: HostKey = N1) -> int:
        return self.account(host).free()["cpu"]

    def grantable(self, name: str, host: HostKey = N1) -> int:
        return self.account(host).grantable(key(name))["cpu"]

    def record(self, id_: str) -> Migration:
        return migration_in(msgspec.convert(self.records[id_], MachineMigration))

    def permit(self, name: str) -> int:
        return self.state.permit(self.running[f"vm-{name}"]).resources["cpu"]

    @property
    def migrations(self) -> list[Migration]:
        return self.state.table.all_migrations()

    @property
    def migration(self) -> Migration:
        (migration,) = self.migrations
        return migration

    def of(self, kind: type[Instruction]) -> list[Instruction]:
        return [instruction for instruction in self.performed if isinstance(instruction, kind)]


def fixture(policy: MachinePolicy | None = None, *, hosts: Iterable[HostKey] = (N1, N2)) -> World:
    """The story: two nodes of 10; on n1, A has 4, B 3 and may move, X 3 and may not. A asks for 6."""
    world = World(policy, hosts=tuple(hosts))
    world.add("a", 4)
    world.add("b", 3, migratable=True)
    world.add("x", 3, vm=False)
    world.load()
    return world
