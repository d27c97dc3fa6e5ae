"""Random interleavings of requests, migrations, failures and crashes keep the six invariants, and converge.

``tests/workloads/machines/world.py`` checks the invariants after every event. At the end everything is repaired: the
ledger must then equal the objects, no earmark and no half-finished migration may be left, and nothing that fits may
be waiting.
"""

from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import Phase as HypothesisPhase
from hypothesis import given, settings

from engine.interleavings import BIGGEST, INTERLEAVINGS, Move, play_all
from fairway.hosts.instant import SECOND
from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.events import Stage
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.size import charge
from workloads.machines.invariants import could_grow
from workloads.machines.world import N1, N2, N3, World, cu

POLICY = MachinePolicy(
    cooldown=20 * SECOND, copy_timeout=100 * SECOND, per_target=2, per_fleet=3, pressure_delay=2 * SECOND
)
HOSTS = (N1, N2, N3)


class Simulation(World):
    def __init__(self) -> None:
        super().__init__(POLICY, hosts=HOSTS)
        self.binds_targets = False
        self.added = 0
        for name, size, host in (("a", 4, N1), ("b", 3, N1), ("d", 2, N2), ("e", 3, N2)):
            factors = {"cpu": 1500, "memory": 1500} if name == "e" else {}
            self.add(name, size, host, migratable=name != "a", priority=size % 2, factors=factors)
        self.add("x", 3, N1, vm=False)
        self.load()

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            getattr(self, f"do_{name}")(number)
        self.converge()

    # Moves

    def do_ask(self, number: int) -> None:
        vms = sorted(self.running)
        if vms:
            name = vms[number % len(vms)].removeprefix("vm-")
            self.ask(name, 1 + number // 8 % 9, unit=1 + number // 128 % 2)

    def do_step(self, number: int) -> None:
        for _ in range(1 + number % 4):
            if self.queue:
                self.step()

    def do_run(self, _number: int) -> None:
        self.run()

    def do_bind(self, number: int) -> None:
        """Bind a target pod to its planned node, or to any other, as another scheduler might."""
        pending = [id_ for id_, copy in self.migrator.copies.items() if copy.stage is Stage.PENDING]
        pending = [id_ for id_ in pending if id_ in self.records]
        if pending:
            id_ = pending[number % len(pending)]
            planned = self.record(id_).target_host
            self.bind(id_, HOSTS[number // 8 % 3] if number // 32 % 4 == 0 else planned)

    def do_complete(self, number: int) -> None:
        copying = [id_ for id_, copy in self.migrator.copies.items() if copy.stage is Stage.COPYING]
        if copying:
            self.complete(copying[number % len(copying)])

    def do_fail(self, number: int) -> None:
        stages = (Stage.PENDING, Stage.BOUND, Stage.COPYING)
        failing = [id_ for id_, copy in self.migrator.copies.items() if copy.stage in stages]
        if failing:
            id_ = failing[number % len(failing)]
            self.migrator.fail(id_, "failed at random")
            self.watch(id_)

    def do_add(self, number: int) -> None:
        """Another scheduler binds a pod, whether there is room or not."""
        self.added += 1
        self.add(f"p{self.added}", 1 + number % 3, HOSTS[number // 4 % 3], vm=False)

    def do_delete(self, number: int) -> None:
        targets = {copy.target for copy in self.migrator.copies.values()}
        pods = [pod for pod in self.pods if pod not in targets]
        if pods:
            self.delete_pod(pods[number % len(pods)])

    def do_resize(self, number: int) -> None:
        self.resize(HOSTS[number % 3], 7 + number // 4 % 6)

    def do_lose(self, number: int) -> None:
        """A node goes with all its pods, and comes back."""
        host = HOSTS[number % 3]
        gone = [pod for pod, machine in self.pods.items() if machine.host == host]
        vms = [vm for vm, pod in self.running.items() if pod in gone]
        for pod in gone:
            del self.pods[pod]
        self.send(events.HostGone(host))
        for vm in vms:
            self.delete_vm(vm)
        for id_, copy in list(self.migrator.copies.items()):
            if copy.target in gone and copy.stage is not Stage.SWITCHED:
                self.migrator.copies.pop(id_)
                self.watch(id_)
        self.send(events.HostObserved(host, self.hosts[host]))

    def do_rewrite(self, number: int) -> None:
        """Another instance answers a request, while no reply of this one is under way."""
        vms = sorted(self.running)
        if vms and not any(isinstance(instruction, instructions.Reply) for instruction in self.queue):
            vm = vms[number % len(vms)]
            size = cu(max(self.pods[self.running[vm]].using["cpu"], 1 + number // 8 % 9))
            old = self.vms[vm]
            self.vms[vm] = replace(old, requested=size, generation=old.generation + 1)
            approved = {name: min(amount, old.approved[name]) for name, amount in size.items()}
            self.vms[vm] = replace(self.vms[vm], approved=approved)
            self.wanted[vm] = size

    def do_time(self, number: int) -> None:
        self.pass_time(1 + number % 70)

    def do_flaky(self, number: int) -> None:
        """Let the next writes fail, or their results be lost."""
        writes = (instructions.WritePermit, instructions.WriteRecord)
        if number % 2:
            self.failing = set(writes[number // 2 % 3 :])
        else:
            lost = (*writes, instructions.DeleteSource)
            self.losing = set(lost[number // 2 % 4 :])

    def do_crash(self, number: int) -> None:
        self.do_step(number)
        self.failing, self.losing = set(), set()
        self.crash()

    # The end

    def converge(self) -> None:
        self.failing, self.losing = set(), set()
        self.crash()
        for _ in range(40):
            self.run()
            for id_, copy in list(self.migrator.copies.items()):
                if copy.stage is Stage.PENDING and id_ in self.records:
                    self.bind(id_, self.record(id_).target_host)
                elif copy.stage is Stage.COPYING:
                    self.complete(id_)
            if not self.queue:
                self.pass_time(61)
                if not self.queue and not self.migrations:
                    break
        self.check_converged()

    def check_converged(self) -> None:
        assert not self.queue
        assert all(
            migration.phase not in (Phase.CANCELLING, Phase.SWAP_COMMITTED) for migration in self.migrations
        )
        assert sorted(self.state.table.machines) == sorted(self.pods)
        machines = self.state.table.virtual_machines.items()
        owners = {vm: entry.owner for (_, _, vm), entry in machines if entry.owner is not None}
        assert owners == self.running
        known = {*self.pods, *(migration.source for migration in self.migrations)}
        assert self.state.table.sources.keys() <= known, "attempts and failures of machines that are gone"
        handovers = [entry.handover for entry in self.state.table.virtual_machines.values()]
        assert handovers == [None] * len(self.running), "requests of machines that are gone"
        active = {migration.id for migration in self.migrations}
        for host in HOSTS:
            account = self.account(host)
            total: dict[str, int] = {}
            for pod, machine in self.pods.items():
                if machine.host == host:
                    approved = self.vms[machine.vm].approved if machine.vm else {}
                    for name in ("cpu", "memory"):
                        size = max(machine.using.get(name, 0), approved.get(name, 0))
                        counted = charge({name: size}, machine.factors)[name]
                        total[name] = total.get(name, 0) + counted
                        assert account.holding(pod).get(name, 0) == counted, pod
            assert account.used == {name: amount for name, amount in total.items() if amount}
            assert {earmark.rsplit("/", 4)[0].split("/")[0] for earmark in account.earmarks} <= active
            for entry in self.state.table.waiters(host):
                assert not could_grow(self.state, entry, account), (
                    f"{entry.machine.key} waits for room that is there"
                )


MOVES = (
    *(
        "ask",
        "ask",
        "ask",
        "ask",
        "step",
        "step",
        "step",
        "run",
        "run",
        "bind",
        "bind",
        "complete",
        "complete",
    ),
    *("delete", "add", "resize", "time", "fail", "flaky", "crash", "crash", "lose", "rewrite"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=30)


@settings(
    max_examples=30, phases=[phase for phase in HypothesisPhase if phase is not HypothesisPhase.explain]
)
@given(moves=moves)
def test_machines_keep_the_invariants_and_converge_after_any_history(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_machines_keep_the_invariants_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=12, share=3)


def test_simulation_reaches_every_phase_and_outcome() -> None:
    """Guards against a simulation that no longer does anything."""
    seen: set[Phase] = set()

    class Recording(Simulation):
        def send(self, event: events.Event) -> None:
            super().send(event)
            seen.update(migration.phase for migration in self.migrations)

    play_all(lambda moves: Recording().play(moves), MOVES, longest=12, share=max(1, INTERLEAVINGS // 150))
    assert seen == set(Phase)
