"""The framework as a whole: queue, commit and ledger against a hub that loses replies and is observed late.

Whatever happens in whatever order: no workload is bound twice or forgotten, hosts are not overcommitted, not even by
requests that take effect after their replies were lost, Unreserve mirrors Reserve, and once everything is quiet the
ledger holds exactly what the hub shows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from engine.commit_plugins import Approval, Binder
from engine.interleavings import BIGGEST, Move, play_all
from fairway.engine.commit import CommitMachine, CommitPlugins, Instruction, perform
from fairway.engine.commit import Phase as CommitPhase
from fairway.engine.commit.instructions import (
    Cancel,
    ReadBack,
    RunBind,
    RunPostBind,
    RunPreBind,
)
from fairway.engine.dependencies import Event
from fairway.engine.ledger import Ledger
from fairway.engine.points import CommitContext
from fairway.engine.queue import Rejection, SchedulingQueue, State
from fairway.engine.status import OK, Status, failed
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import SECOND
from ledger_plugins import ReserveDemand, columns_of

HOSTS = (HostKey("n1", "u1"), HostKey("n2", "u2"))
CAPACITY = 4
NEVER = 1 << 60
LATE = 2 * SECOND
"""How long a request may take effect after its reply was lost."""


@dataclass
class Log:
    """A Reserve plugin that only logs."""

    name: str
    calls: dict[WorkloadKey, list[str]]

    def reserve(self, context: CommitContext, /) -> Status:
        self.calls[context.workload.key].append(f"+{self.name}")
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        self.calls[context.workload.key].append(f"-{self.name}")

    def releases(self, context: CommitContext, /) -> dict[Key, Direction]:
        return {}


class Simulation:
    def __init__(self) -> None:
        self.now = 0
        self.ledger = Ledger()
        with self.ledger.transaction() as tx:
            for host in HOSTS:
                tx.set_capacity(host, {"cpu": CAPACITY})
        self.calls: dict[WorkloadKey, list[str]] = {}
        self.capacity = ReserveDemand(self.ledger)
        binder = Binder()
        plugins = CommitPlugins(
            reserves=(Log("A", self.calls), self.capacity, Log("B", self.calls)),
            permits=(Approval(),),
            pre_binds=(binder,),
            binds=(binder,),
            post_binds=(binder,),
        )
        self.commits = CommitMachine(plugins, late_bind=LATE)
        self.queue = SchedulingQueue(flush_after=NEVER)
        self.known: dict[str, Workload[Any]] = {}
        self.bound: dict[WorkloadKey, HostKey] = {}
        """On the hub."""
        self.running: list[RunPreBind | RunBind | RunPostBind | ReadBack] = []
        self.late: list[tuple[WorkloadKey, HostKey, int]] = []
        """Requests that may still take effect after the client gave up on them, and until when."""
        self.informs: list[tuple[WorkloadKey, HostKey]] = []
        self.born = 0

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            getattr(self, name)(number)
            self.check()
        self.settle()

    def perform(self, instructions: list[Instruction]) -> None:
        for instruction in perform(self.queue, instructions, now=self.now):
            if isinstance(instruction, Cancel):
                self.running = [run for run in self.running if run.token != instruction.token]
            elif isinstance(instruction, RunPreBind | RunBind | RunPostBind | ReadBack):
                self.running.append(instruction)

    def add(self, number: int) -> None:
        name = f"w{number % 4}"
        if name not in self.known:
            self.born += 1
            key = WorkloadKey("ns", name, str(self.born))
            self.known[name] = Workload(key=key, spec=None, demand={"cpu": 1 + number // 4 % 4})
            self.queue.put(self.known[name], now=self.now)

    def delete(self, number: int) -> None:
        workload = self.known.pop(f"w{number % 4}", None)
        if workload is None:
            return
        key = workload.key
        self.queue.delete(key)
        self.perform(self.commits.delete(key))
        self.informs = [inform for inform in self.informs if inform[0] != key]
        host = self.bound.pop(key, None)
        if host is not None:
            with self.ledger.transaction() as tx:
                tx.observe(host, key, None)
                tx.release(host, key)
            columns = columns_of(workload.demand)
            event = Event(label="deleted", hosts=frozenset({host.name}), columns=columns)
            self.queue.on_event(event, now=self.now)

    def schedule(self, _number: int) -> None:
        """A scheduling cycle: serial, so the ledger does not change within it."""
        workload = self.queue.pop(now=self.now)
        if workload is None:
            return
        key, demand = workload.key, workload.demand
        context = CommitContext(workload=workload, hosts=(), started=self.now)
        fitting = [host for host in HOSTS if self.ledger.grantable(host, key)["cpu"] >= demand["cpu"]]
        if not fitting:
            rejection = Rejection(plugin="Fit", reads=self.capacity.commit_reads(context))
            self.queue.reject(key, [rejection], now=self.now)
            return
        assert self.calls.get(key, []) in ([], ["+A", "+B", "-B", "-A"]), "Unreserve did not mirror Reserve"
        self.calls[key] = []
        context = CommitContext(workload=workload, hosts=(fitting[0],), started=self.now)
        self.perform(self.commits.start(context, now=self.now))

    def permit(self, number: int) -> None:
        workload = self.known.get(f"w{number % 4}")
        if workload is not None:
            if number // 4 % 4:
                self.perform(self.commits.allow(workload.key, "Approval", now=self.now))
            else:
                self.perform(self.commits.deny(workload.key, "Approval", "denied"))

    def preempt(self, number: int) -> None:
        workload = self.known.get(f"w{number % 4}")
        if workload is not None:
            self.perform(self.commits.preempt(workload.key, "preempted"))

    def wait(self, number: int) -> None:
        self.now += number % (2 * SECOND)
        self.perform(self.commits.advance(now=self.now))

    def resolve(self, number: int) -> None:
        if not self.running:
            return
        run, number = self.running.pop(number % len(self.running)), number // 8
        if isinstance(run, ReadBack):
            host = self.bound.get(run.key)
            shown = None if host is None else (host,)
            self.perform(self.commits.read_back(run.key, run.token, shown, now=self.now))
        elif isinstance(run, RunBind):
            self.reply(run, number % 8)
        elif number % 8 == 0:
            self.perform(self.commits.failed(run.key, run.token, RuntimeError("broken")))
        else:
            result = None if isinstance(run, RunPostBind) else OK
            self.perform(self.commits.finished(run.key, run.token, result, now=self.now))

    def reply(self, run: RunBind, mode: int) -> None:
        (host,) = run.context.hosts
        if mode == 0:
            self.late.append((run.key, host, self.now + LATE))
            self.perform(self.commits.failed(run.key, run.token, TimeoutError("request lost, or late")))
        elif mode == 1:
            self.perform(self.commits.finished(run.key, run.token, failed("refused"), now=self.now))
        elif not self.bind(run.key, host):
            self.perform(self.commits.finished(run.key, run.token, failed("already bound"), now=self.now))
        elif mode == 2:
            self.perform(self.commits.failed(run.key, run.token, TimeoutError("reply lost")))
        else:
            self.perform(self.commits.finished(run.key, run.token, OK, now=self.now))

    def bind(self, key: WorkloadKey, host: HostKey) -> bool:
        """As the hub does it: an object is bound once."""
        if key in self.bound or all(workload.key != key for workload in self.known.values()):
            return False
        self.bound[key] = host
        self.informs.append((key, host))
        return True

    def take_effect(self, number: int) -> None:
        self.late = [write for write in self.late if self.now < write[2]]
        if self.late:
            key, host, _ = self.late.pop(number % len(self.late))
            self.bind(key, host)

    def inform(self, _number: int) -> None:
        if self.informs:
            key, host = self.informs.pop(0)
            workload = self.known[key.name]
            with self.ledger.transaction() as tx:
                tx.confirm(host, key, workload.demand)
            self.perform(self.commits.observed(key, (host,), now=self.now))

    def check(self) -> None:
        demand = {workload.key: workload.demand["cpu"] for workload in self.known.values()}
        used = Counter[HostKey]()
        for key, host in self.bound.items():
            used[host] += demand[key]
        assert all(amount <= CAPACITY for amount in used.values()), "overcommitted"

    def settle(self) -> None:
        """Complete all runs, deliver all notices and pass the time that is waited for, until only events could change
        anything."""
        self.late.clear()
        for _ in range(300):
            while self.running or self.informs:
                self.resolve(8 * 7)
                self.inform(0)
            self.schedule(0)
            if self.running:
                continue
            deadlines = [
                deadline
                for deadline in (self.queue.next_deadline(), self.commits.next_deadline())
                if deadline
            ]
            if min(deadlines, default=NEVER) >= NEVER:
                if not self.queue.counts()[State.ACTIVE]:
                    break
                continue
            waiting = [
                workload.key for workload in self.known.values() if self.waits_for_permit(workload.key)
            ]
            for key in waiting:
                self.perform(self.commits.allow(key, "Approval", now=self.now))
            if not waiting:
                assert min(deadlines) > self.now, "a deadline in the past would be polling"
                self.now = min(deadlines)
                self.perform(self.commits.advance(now=self.now))
        else:
            raise AssertionError("does not come to rest")
        self.check_rest()

    def waits_for_permit(self, key: WorkloadKey) -> bool:
        commit = self.commits.find(key)
        return commit is not None and commit.phase is CommitPhase.PERMIT

    def check_rest(self) -> None:
        assert len(self.commits) == 0
        unbound = [workload for workload in self.known.values() if workload.key not in self.bound]
        assert len(self.queue) == len(unbound), "forgotten, or queued although bound"
        for workload in unbound:
            explanation = self.queue.explain(workload.key)
            assert explanation is not None
            assert explanation.state is State.UNSCHEDULABLE
            if explanation.reasons[0].startswith("Approval"):
                continue  # denied or timed out: waits for a change of a host
            room = [self.ledger.grantable(host, workload.key)["cpu"] for host in HOSTS]
            assert max(room) < workload.demand["cpu"], "could be placed"
        demand = {workload.key: workload.demand for workload in self.known.values()}
        for host in HOSTS:
            account = self.ledger.account(host)
            assert account is not None
            assert account.reservations == {}, "promised, but neither observed nor released"
            assert account.observed == {key: demand[key] for key, at in self.bound.items() if at == host}
        for key, calls in self.calls.items():
            assert calls in (["+A", "+B"], ["+A", "+B", "-B", "-A"])
            if key in self.bound:
                assert calls == ["+A", "+B"]


MOVES = (
    *("add", "add", "schedule", "schedule", "resolve", "resolve", "resolve", "resolve", "permit", "permit"),
    *("inform", "inform", "delete", "preempt", "wait", "take_effect"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=50)


@settings(max_examples=50, phases=[phase for phase in Phase if phase is not Phase.explain])
@given(moves=moves)
def test_no_workload_is_bound_twice_or_forgotten_and_unreserve_mirrors_reserve(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_no_workload_is_bound_twice_or_forgotten_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=50)
