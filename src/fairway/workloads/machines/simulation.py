"""Play a trace of growth over a synthetic fleet of nodes, and measure what a policy makes of it.

Everything is derived from a seed and a virtual clock: the same arguments give the same figures. Machines grow and
shrink at random times; the copy of a migration takes as long as its memory at a fixed bandwidth.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.events import Event, Stage
from fairway.workloads.machines.instructions import Instruction
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import Migration, Phase, Reason
from fairway.workloads.machines.migrator import SimulatedMigrator
from fairway.workloads.machines.moves import Work
from fairway.workloads.machines.permit_protocol import Permit, PermitRequest
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.size import ONE, missing
from fairway.workloads.machines.state import MachineState

UNIT: ResourceList = {"cpu": 250, "memory": (1 << 30) * ONE}
BANDWIDTH = 1 << 30
"""Bytes per second of a copy."""
SETUP = 2 * SECOND
"""From the target pod to the start of its copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the machines ask for, and when. The same for every policy."""

    nodes: int = 20
    units: int = 64
    """Compute units of a node."""
    machines: int = 12
    """Machines on each node."""
    minutes: int = 30
    seed: int = 0

    def sizes(self) -> list[tuple[int, int]]:
        """Return node and size of each machine, in compute units; nodes are filled to about four fifths."""
        dice = random.Random(self.seed)
        mean = self.units * 4 // 5 // self.machines
        return [
            (node, dice.randint(1, 2 * mean - 1)) for node in range(self.nodes) for _ in range(self.machines)
        ]

    def requests(self) -> list[tuple[Micros, int, int]]:
        """Return time, machine and size of each request. Each machine changes about every four minutes."""
        dice = random.Random(self.seed + 1)
        requests = []
        for machine, (_, size) in enumerate(self.sizes()):
            at: Micros = 0
            while (at := at + round(dice.expovariate(1 / 240) * SECOND)) < self.minutes * 60 * SECOND:
                requests.append((at, machine, max(1, round(size * dice.lognormvariate(0, 0.5)))))
        return sorted(requests)


@dataclass(slots=True)
class Figures:
    """Measured over one trace."""

    requests: int = 0
    denied: int = 0
    """Requests that were not granted at once."""
    waits: list[float] = field(default_factory=list)
    """Seconds until a denied request was granted or lowered to what was granted."""
    denied_unit_seconds: float = 0.0
    moves: int = 0
    """Migrations past their cutover."""
    wasted: int = 0
    """Moves for denied demand after which no machine grew into the room."""
    cancelled: int = 0
    failed: int = 0
    relieved_units: int = 0
    """Units that were granted after they had been denied, on nodes while machines left them."""
    history: list[tuple[float, int]] = field(default_factory=list)
    """Seconds, and how many units were denied from then on."""

    def moves_per_relieved_unit(self) -> float | None:
        return self.moves / self.relieved_units if self.relieved_units else None

    def wait(self, share: float) -> float:
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Simulation:
    def __init__(self, trace: Trace, policy: MachinePolicy) -> None:
        self.trace = trace
        self.figures = Figures()
        self.now: Micros = 0
        self._hosts = [HostKey(f"node-{at}", f"uid-{at}") for at in range(trace.nodes)]
        capacity = scaled(trace.units)
        self._pods: dict[WorkloadKey, Machine] = {}
        self._recorded: dict[str, Demand] = {}
        self._running: dict[str, WorkloadKey] = {}
        self._migrator = SimulatedMigrator()
        self._timers: list[tuple[Micros, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._denied: dict[str, tuple[Micros, int]] = {}
        """Since when a machine lacks how many units."""
        self._total = 0
        self._began: dict[str, Micros] = {}
        """When its present wait began."""
        self._state = MachineState.rebuild(
            policy=policy,
            oracle=self,
            hosts=[(host, capacity) for host in self._hosts],
            machines=(),
            records=(),
            now=0,
        )

    def feasible(self, machine: Machine, _work: Work) -> Sequence[HostKey]:
        """Return the nodes with the most free room first."""
        ledger = self._state.ledger
        room = {host: ledger.grantable(host, machine.key).get("cpu", 0) for host in self._hosts}
        return sorted(self._hosts, key=lambda host: (-room[host], host))

    def run(self, *, advance: Callable[[float], None] = lambda _: None) -> Figures:
        """Play the trace, and call ``advance`` with the seconds that passed."""
        for at, (node, size) in enumerate(self.trace.sizes()):
            key = WorkloadKey("sim", f"machine-{at}", f"uid-{at}")
            vm = f"vm-{at}"
            demand = Demand(requested=scaled(size), approved=scaled(size), unit=UNIT)
            self._pods[key] = Machine(
                key=key, host=self._hosts[node], using=scaled(size), vm=vm, migratable=True, created=at
            )
            self._running[vm], self._recorded[vm] = key, demand
            self._send(events.MachineObserved(self._pods[key], demand))
        self._send(events.Loaded())
        for when, machine, size in self.trace.requests():
            advance((when - self.now) / SECOND)
            self._advance(when)
            self._ask(f"vm-{machine}", size)
        end = self.trace.minutes * 60 * SECOND
        advance((end - self.now) / SECOND)
        self._advance(end)
        for vm in list(self._denied):
            self._note_denied(vm, 0)
        return self.figures

    def _advance(self, until: Micros) -> None:
        while True:
            due = self._state.next_deadline()
            timer = self._timers[0][0] if self._timers else None
            soonest = min((at for at in (due, timer) if at is not None), default=None)
            if soonest is None or soonest > until:
                self.now = max(self.now, until)
                return
            self.now = max(self.now, soonest)
            if timer is not None and timer <= self.now:
                heapq.heappop(self._timers)[2]()
            else:
                self._send(events.TimePassed())

    def _later(self, delay: Micros, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + delay, next(self._order), action))

    def _ask(self, vm: str, size: int) -> None:
        key = self._running[vm]
        machine, wanted = self._pods[key], scaled(size)
        self.figures.requests += 1
        lower = {name: min(amount, machine.using.get(name, 0)) for name, amount in wanted.items()}
        if lower != machine.using:
            self._pods[key] = replace(machine, using=lower)
            self._send(events.MachineObserved(self._pods[key]))
        self._send(
            events.PermitRequested(
                PermitRequest(namespace=key.namespace, name=key.name, unit=UNIT, resources=wanted)
            )
        )

    def _send(self, event: Event) -> None:
        queue = self._state.handle(event, now=self.now)
        for instruction in queue:
            self._perform(instruction)

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case instructions.WritePermit(key=key, demand=demand):
                vm = self._pods[key].vm
                self._recorded[vm] = demand
                self._send(events.PermitWritten(key))
                self._grow(vm, demand)
            case instructions.Reply(answer=Permit()):
                pass
            case instructions.WriteRecord(migration):
                self._count(migration)
                self._send(events.RecordWritten(migration.id, migration.revision))
            case instructions.Prepare(migration):
                self._migrator.prepare(migration)
                self._observe(migration)
                self._later(SETUP, lambda: self._bind(migration))
            case instructions.Transfer(migration):
                self._migrator.transfer(migration)
                source = self._pods.get(migration.source)
                size = 0 if source is None else source.size_to_copy
                self._later(SECOND * size // BANDWIDTH, lambda: self._complete(migration))
            case instructions.Cutover(migration):
                self._migrator.cutover(migration)
                if migration.id in self._migrator.copies:
                    self._running[migration.vm] = self._migrator.copies[migration.id].target
                self._observe(migration)
            case instructions.DeleteSource(migration):
                self._pods.pop(migration.source, None)
                self._send(events.MachineGone(migration.source))
            case instructions.Abort(migration):
                copy = self._migrator.copies.get(migration.id)
                self._migrator.abort(migration)
                if copy is not None and self._pods.pop(copy.target, None) is not None:
                    self._send(events.MachineGone(copy.target))
                self._observe(migration)
            case instructions.Observe(migration):
                self._observe(migration)
            case instructions.DeleteRecord(migration):
                self._migrator.copies.pop(migration.id, None)
            case _:
                pass

    def _bind(self, migration: Migration) -> None:
        source = self._pods.get(migration.source)
        copy = self._migrator.copies.get(migration.id)
        if copy is None or copy.stage is not Stage.PENDING or source is None:
            return
        self._migrator.bind(migration.id, migration.target_host)
        self._pods[copy.target] = replace(
            source, key=copy.target, host=migration.target_host, created=self.now, moved=self.now
        )
        self._send(events.MachineObserved(self._pods[copy.target], self._recorded[source.vm]))
        self._observe(migration)

    def _complete(self, migration: Migration) -> None:
        copy = self._migrator.copies.get(migration.id)
        if copy is not None and copy.stage is Stage.COPYING:
            self._migrator.complete(migration.id)
            self._observe(migration)

    def _observe(self, migration: Migration) -> None:
        self._send(events.MigrationObserved(migration.id, self._migrator.observe(migration)))

    def _grow(self, vm: str, demand: Demand) -> None:
        key = self._running[vm]
        machine = self._pods[key]
        lacking = units_of(missing(demand.requested, demand.approved))
        self._note_denied(vm, lacking)
        if missing(demand.approved, machine.using) and not self._state.table.is_frozen(key):
            self._pods[key] = replace(machine, using=demand.approved)
            self._send(events.MachineObserved(self._pods[key]))

    def _note_denied(self, vm: str, lacking: int) -> None:
        since, before = self._denied.pop(vm, (self.now, 0))
        if before:
            self.figures.denied_unit_seconds += before * (self.now - since) / SECOND
            if not lacking:
                self.figures.waits.append((self.now - self._began.pop(vm)) / SECOND)
        elif lacking:
            self.figures.denied += 1
            self._began[vm] = self.now
        if lacking:
            self._denied[vm] = (self.now, lacking)
        if lacking != before:
            self._total += lacking - before
            self.figures.history.append((self.now / SECOND, self._total))

    def _count(self, migration: Migration) -> None:
        figures = self.figures
        if migration.phase is Phase.SWAP_COMMITTED:
            figures.moves += 1
            units = sum(units_of(claim.amounts) for claim in migration.claims)
            figures.relieved_units += units
            figures.wasted += migration.reason is Reason.DEMAND and not units
        figures.cancelled += migration.phase is Phase.CANCELLED
        figures.failed += migration.phase is Phase.FAILED


POLICIES = {
    "cheapest set": MachinePolicy(for_pressure=False),
    "oldest first": MachinePolicy(for_pressure=False, oldest_first=True),
    "watermark only": MachinePolicy(for_demand=False, oldest_first=True),
    "no migrations": MachinePolicy(for_demand=False, for_pressure=False),
}
"""Policies to compare.

The first two start migrations for denied demand. ``watermark only`` starts them for nodes above their watermark, as the
reference does.
"""


def scaled(units: int) -> dict[str, int]:
    return {name: units * amount for name, amount in UNIT.items()}


def units_of(size: ResourceList) -> int:
    return -(-size.get("cpu", 0) // UNIT["cpu"])


def simulate(
    trace: Trace, policy: MachinePolicy, *, advance: Callable[[float], None] = lambda _: None
) -> Figures:
    return Simulation(trace, policy).run(advance=advance)
