"""A real scheduler with a real filter and ledger, against a hub whose leader may crash at any point.

Whatever happens in whatever order: Reserve refuses no host that the filter passed, no workload is bound twice or
forgotten, hosts are not overcommitted, a new leader's ledger equals what was promised, a what-if changes nothing, and
once everything is quiet, whatever could be placed is placed and the ledger holds exactly what the hub shows.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import Phase, given, settings

from engine.commit_plugins import Approval, Binder
from engine.interleavings import BIGGEST, Move, play_all
from fairway.api.node import Node
from fairway.engine.commit import Phase as CommitPhase
from fairway.engine.commit.instructions import (
    Bound,
    Cancel,
    ForCaller,
    ReadBack,
    Returned,
    RunBind,
    RunPreBind,
)
from fairway.engine.dependencies import event_of
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns, LedgerError
from fairway.engine.ledger.ledger import Speculation
from fairway.engine.points import Weighted
from fairway.engine.profile import assemble
from fairway.engine.queue import State
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, failed
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.instant import SECOND
from fairway.hosts.journal import Change, joined
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.steps import finish
from hosts.nodes.builders import node
from ledger_plugins import RESERVE, Fit, MostRoom, ReserveDemand

NEVER = 1 << 60
LATE = 2 * SECOND
"""How long a request may take effect after its reply was lost."""
UNIT = 1000


def cpu_of(workload: Workload[Any]) -> int:
    return workload.demand["cpu"] // UNIT


def host_key(host: Node) -> HostKey:
    return HostKey(host.metadata.name, host.metadata.uid)


def node_of(host: HostKey, cpu: int) -> Node:
    made = node(host.name, cpu=str(cpu))
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=host.uid))


class Leader:
    """What a process has in memory."""

    def __init__(self, ledger: Ledger, hosts: dict[str, tuple[HostKey, int]]) -> None:
        self.ledger, self.fleet = ledger, NodeFleet()
        self.changes: list[Change] = []
        """Of the table of hosts, that nothing reported yet."""
        LedgerColumns(ledger, self.fleet)
        self.fleet.load(node_of(host, cpu) for host, cpu in hosts.values())
        self.fleet.follow(self.changes.append)
        binder = Binder()
        profile = assemble(
            name="p",
            filters=[Fit(ledger)],
            scores=[Weighted(MostRoom("cpu", unit=UNIT), 1)],
            reserves=[ReserveDemand(ledger)],
            permits=[Approval(unit=UNIT)],
            pre_binds=[binder],
            binds=[binder],
        )
        self.scheduler = Scheduler(
            profiles=[profile],
            profile_name=lambda _: "p",
            host_key=host_key,
            flush_after=NEVER,
            late_bind=LATE,
            changes=self.take_changes,
        )
        self.running: list[RunPreBind | RunBind | ReadBack] = []

    def take_changes(self) -> Change:
        change = joined(self.changes)
        self.changes.clear()
        return change


class Simulation:
    def __init__(self) -> None:
        self.now = 0
        self.born = 0
        self.known: dict[str, Workload[None]] = {}
        self.hosts: dict[str, tuple[HostKey, int]] = {}
        self.bound: dict[WorkloadKey, HostKey] = {}
        self.late: list[tuple[WorkloadKey, HostKey, int]] = []
        """Requests that may still take effect after the client gave up on them, and until when."""
        self.informs: list[tuple[WorkloadKey, HostKey]] = []
        self.shrunk: set[HostKey] = set()
        self.leader = self.elect()
        for number in (2, 3):
            self.change_host(number)

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            getattr(self, name)(number)
            self.check()
        self.settle()

    # The hub

    def bind(self, key: WorkloadKey, host: HostKey) -> bool:
        """An object is bound once, and to a host that exists."""
        alive = self.hosts.get(host.name, (None, 0))[0] == host
        if not alive or key in self.bound or all(workload.key != key for workload in self.known.values()):
            return False
        self.bound[key] = host
        self.informs.append((key, host))
        return True

    # A process leads

    def elect(self) -> Leader:
        """Rebuild everything from the hub."""
        demand = {workload.key: workload.demand for workload in self.known.values()}
        ledger = finish(
            Ledger.rebuild_in_steps(
                capacities=[(host, {"cpu": cpu * UNIT}) for host, cpu in self.hosts.values()],
                observed=[(host, key, demand[key]) for key, host in self.bound.items()],
            )
        )
        leader = Leader(ledger, self.hosts)
        self.informs = []
        for workload in self.known.values():
            if workload.key not in self.bound:
                leader.scheduler.put(workload, now=self.now)
        return leader

    def crash(self, number: int) -> None:
        """Requests on their way take effect before the new leader lists, or not at all; the rest is forgotten."""
        for run in self.leader.running:
            if isinstance(run, RunBind) and number % 2:
                self.bind(run.key, run.context.hosts[0])
        for key, host, until in self.late:
            if self.now < until and number // 2 % 2:
                self.bind(key, host)
        self.late = []
        self.leader = self.elect()

    def perform(self, instructions: list[ForCaller], leader: Leader | None = None) -> None:
        leader = leader or self.leader
        for instruction in instructions:
            if isinstance(instruction, Cancel):
                leader.running = [run for run in leader.running if run.token != instruction.token]
            elif isinstance(instruction, RunPreBind | RunBind | ReadBack):
                leader.running.append(instruction)
            else:
                assert isinstance(instruction, Bound | Returned)

    def report(self, label: str) -> None:
        """Wake the workloads that the changes of the table concern, those of the ledger included."""
        event = event_of(self.leader.take_changes(), label=label)
        self.leader.scheduler.on_event(event, now=self.now)

    # Moves

    def add(self, number: int) -> None:
        name = f"w{number % 4}"
        if name not in self.known:
            self.born += 1
            key = WorkloadKey("ns", name, str(self.born))
            demand = {"cpu": (1 + number // 4 % 3) * UNIT}
            self.known[name] = Workload(key=key, spec=None, demand=demand, priority=number // 16 % 2)
            self.perform(self.leader.scheduler.put(self.known[name], now=self.now))

    def update(self, number: int) -> None:
        """Also of a workload that is bound, as long as the watch does not show that."""
        workload = self.known.get(f"w{number % 4}")
        if workload is None:
            return
        key = workload.key
        if key not in self.bound and not self.may_be_bound(key):
            demand = {"cpu": (1 + number // 4 % 3) * UNIT}
            workload = self.known[workload.name] = Workload(key=key, spec=None, demand=demand)
        if key not in self.bound or any(inform[0] == key for inform in self.informs):
            self.perform(self.leader.scheduler.put(workload, now=self.now))

    def may_be_bound(self, key: WorkloadKey) -> bool:
        """Whether a request with the present demand may take effect: a change of demand would come too late."""
        return any(late[0] == key for late in self.late) or any(
            isinstance(run, RunBind) and run.key == key for run in self.leader.running
        )

    def delete(self, number: int) -> None:
        workload = self.known.pop(f"w{number % 4}", None)
        if workload is None:
            return
        key = workload.key
        host = self.bound.pop(key, None)
        self.informs = [inform for inform in self.informs if inform[0] != key]
        self.perform(self.leader.scheduler.delete(key, now=self.now))
        if host is not None:
            self.leave(host, key)

    def leave(self, host: HostKey, key: WorkloadKey) -> None:
        with self.leader.ledger.transaction() as tx:
            tx.observe(host, key, None)
            tx.release(host, key)
        self.report(f"{key} left")

    def change_host(self, number: int) -> None:
        """Add or resize a host, in the table and in the ledger."""
        name, cpu = f"n{number % 2}", 2 + number // 4 % 3
        if name not in self.hosts:
            self.born += 1
            self.hosts[name] = (HostKey(name, f"u{self.born}"), cpu)
        host, old = self.hosts[name]
        self.hosts[name] = (host, cpu)
        if cpu < old:
            self.shrunk.add(host)
        with self.leader.ledger.transaction() as tx:
            tx.set_capacity(host, {"cpu": cpu * UNIT})
        self.leader.fleet.upsert_node(node_of(host, cpu))
        self.report(f"{name} changed")

    def remove_host(self, number: int) -> None:
        """Its workloads lose their place; half of the time the host is recreated at once."""
        name = f"n{number % 2}"
        if name not in self.hosts:
            return
        host, _ = self.hosts.pop(name)
        lost = [key for key, at in self.bound.items() if at == host]
        for key in lost:
            del self.bound[key]
        self.informs = [inform for inform in self.informs if inform[1] != host]
        with self.leader.ledger.transaction() as tx:
            tx.remove_host(host)
        self.leader.fleet.delete_node(name)
        if number // 2 % 2:
            self.change_host(number)
        self.perform(self.leader.scheduler.remove_host(host, now=self.now))
        for workload in self.known.values():
            if workload.key in lost:
                self.perform(self.leader.scheduler.put(workload, now=self.now))

    def schedule(self, _number: int) -> None:
        result = self.leader.scheduler.schedule_one(self.leader.fleet.snapshot(), now=self.now)
        if result is not None:
            self.perform(result[1])

    def permit(self, number: int) -> None:
        workload, scheduler = self.known.get(f"w{number % 4}"), self.leader.scheduler
        if workload is not None and number // 4 % 4:
            self.perform(scheduler.allow(workload.key, "Approval", now=self.now))
        elif workload is not None:
            self.perform(scheduler.deny(workload.key, "Approval", "denied", now=self.now))

    def preempt(self, number: int) -> None:
        workload = self.known.get(f"w{number % 4}")
        if workload is not None:
            self.perform(self.leader.scheduler.preempt(workload.key, "preempted", now=self.now))

    def wait(self, number: int) -> None:
        self.now += number % (2 * SECOND)
        self.perform(self.leader.scheduler.advance(now=self.now))

    def resolve(self, number: int) -> None:
        running, scheduler = self.leader.running, self.leader.scheduler
        if not running:
            return
        run, number = running.pop(number % len(running)), number // 8
        if isinstance(run, ReadBack):
            host = self.bound.get(run.key)
            shown = None if host is None else (host,)
            self.perform(scheduler.read_back(run.key, run.token, shown, now=self.now))
        elif isinstance(run, RunBind):
            self.reply(run, number % 8)
        elif number % 8 == 0:
            self.perform(scheduler.failed(run.key, run.token, RuntimeError("broken"), now=self.now))
        else:
            self.perform(scheduler.finished(run.key, run.token, OK, now=self.now))

    def reply(self, run: RunBind, mode: int) -> None:
        (host,), scheduler = run.context.hosts, self.leader.scheduler
        if mode in (0, 3):
            self.late.append((run.key, host, self.now + LATE))
            self.perform(scheduler.failed(run.key, run.token, TimeoutError("lost, or late"), now=self.now))
        elif mode == 1 or not self.bind(run.key, host):
            self.perform(scheduler.finished(run.key, run.token, failed("refused"), now=self.now))
        elif mode == 2:
            self.perform(scheduler.failed(run.key, run.token, TimeoutError("reply lost"), now=self.now))
        else:
            self.perform(scheduler.finished(run.key, run.token, OK, now=self.now))

    def take_effect(self, number: int) -> None:
        self.late = [write for write in self.late if self.now < write[2]]
        if self.late:
            key, host, _ = self.late.pop(number % len(self.late))
            self.bind(key, host)

    def inform(self, _number: int) -> None:
        if self.informs:
            key, host = self.informs.pop(0)
            with self.leader.ledger.transaction() as tx:
                tx.confirm(host, key, self.known[key.name].demand)
            self.perform(self.leader.scheduler.observed(key, (host,), now=self.now))

    def what_if(self, number: int) -> None:
        before = self.fingerprint()
        view = self.leader.fleet.snapshot()
        for workload in self.known.values():
            asking = Workload(key=workload.key, spec=None, demand={"cpu": number % 5 * UNIT})
            self.leader.scheduler.preview(asking, view, now=self.now)
            self.speculate(self.leader.ledger.speculate(), asking)
        del view
        assert self.fingerprint() == before, "a what-if left a trace"

    def speculate(self, copy: Speculation, asking: Workload[None]) -> None:
        for host, _ in self.hosts.values():
            try:
                copy.reserve(host, asking.key, asking.demand)
                copy.earmark(host, Earmark(id="e", beneficiary=asking.key, amounts=asking.demand))
                copy.observe(host, asking.key, None)
            except LedgerError:
                copy.remove_host(host)

    def fingerprint(self) -> tuple[object, ...]:
        """All state of queue, commits, ledger and fleet, as text and bytes."""
        scheduler, ledger, fleet = self.leader.scheduler, self.leader.ledger, self.leader.fleet
        queue = scheduler.queue
        return (
            repr([vars(heap) for heap in (*queue._heaps.values(), queue._deadlines, scheduler._stale_until)]),
            repr((queue._entries, queue._parked, vars(queue._in_flight), vars(queue._index), queue._now)),
            repr((scheduler._unobserved, [machine._commits for machine in scheduler._machines.values()])),
            repr((ledger._accounts, ledger.generation, ledger._earmarked, ledger._current)),
            repr((fleet.generation, fleet._hosts.names, fleet._hosts.objects, fleet._amounts)),
            {key: fleet.snapshot().counts(key).values.tobytes() for key in fleet._amounts},
        )

    # Laws

    def check(self) -> None:
        demand = {workload.key: cpu_of(workload) for workload in self.known.values()}
        used = Counter[HostKey]()
        for key, host in self.bound.items():
            used[host] += demand[key]
        for host, cpu in self.hosts.values():
            assert used[host] <= cpu or host in self.shrunk, "overcommitted"
        for workload in self.known.values():
            explanation = self.leader.scheduler.queue.explain(workload.key)
            reasons = () if explanation is None else explanation.reasons
            assert not any(reason.startswith(RESERVE) for reason in reasons), "stricter than the filter"
        machines = self.leader.scheduler._machines.values()
        faults = [fault for machine in machines for fault in machine.take_faults()]
        assert {fault.plugin for fault in faults} <= {Binder.name}, faults

    def settle(self) -> None:
        """Answer everything, report everything, pass time as asked for, until only events could change anything."""
        self.late.clear()
        for _ in range(400):
            while self.leader.running or self.informs:
                self.resolve(8 * 7)
                self.inform(0)
            self.schedule(0)
            self.check()
            scheduler = self.leader.scheduler
            if self.leader.running or scheduler.queue.counts()[State.ACTIVE]:
                continue
            deadline = scheduler.next_deadline()
            if deadline is None or deadline >= NEVER:
                break
            waiting = [
                workload.key for workload in self.known.values() if self.waits_for_permit(workload.key)
            ]
            for key in waiting:
                self.perform(scheduler.allow(key, "Approval", now=self.now))
            if not waiting:
                assert deadline > self.now, "a deadline in the past would be polling"
                self.now = deadline
                self.perform(scheduler.advance(now=self.now))
        else:
            raise AssertionError("does not come to rest")
        self.check_rest()

    def waits_for_permit(self, key: WorkloadKey) -> bool:
        machine = self.leader.scheduler._committing.get(key)
        commit = None if machine is None else machine.find(key)
        return commit is not None and commit.phase is CommitPhase.PERMIT

    def check_rest(self) -> None:
        scheduler, ledger = self.leader.scheduler, self.leader.ledger
        assert len(scheduler) == 0
        unbound = [workload for workload in self.known.values() if workload.key not in self.bound]
        assert len(scheduler.queue) == len(unbound), "forgotten, or queued although bound"
        for workload in unbound:
            explanation = scheduler.queue.explain(workload.key)
            assert explanation is not None
            assert explanation.state is State.UNSCHEDULABLE
            if explanation.reasons[0].startswith("Approval"):
                continue  # denied or timed out: waits for a change
            room = [ledger.grantable(host, workload.key)["cpu"] for host, _ in self.hosts.values()]
            assert max(room, default=0) < workload.demand["cpu"], "could be placed"
        demand = {workload.key: workload.demand for workload in self.known.values()}
        assert set(ledger.hosts()) == {host for host, _ in self.hosts.values()}
        for host, _ in self.hosts.values():
            account = ledger.account(host)
            assert account is not None
            assert account.reservations == {}, "promised, but neither observed nor released"
            assert account.observed == {key: demand[key] for key, at in self.bound.items() if at == host}


MOVES = (
    *("add", "add", "add", "schedule", "schedule", "schedule", "schedule", "take_effect", "take_effect"),
    *("resolve", "resolve", "resolve", "resolve", "resolve", "resolve", "resolve", "resolve", "resolve"),
    *("permit", "permit", "permit", "inform", "inform", "delete", "update", "preempt", "wait"),
    *("change_host", "remove_host", "crash", "what_if"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=40)


@settings(max_examples=50, phases=[phase for phase in Phase if phase is not Phase.explain])
@given(moves=moves)
def test_scheduler_overcommits_loses_and_forgets_nothing_whatever_crashes(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_scheduler_overcommits_loses_and_forgets_nothing_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=40, share=7)
