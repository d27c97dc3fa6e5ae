"""How many operations per second do the queue, the ledger and the commit cycle perform?

    make bench-framework                                5,000 hosts, 10,000 workloads
    make bench-framework ARGS='--hosts 1000'            another number of hosts
    make bench-framework ARGS='--json figures.json'     also as JSON

Engine only: no API server, no event loop. Plugins from Permit on return at once. Each figure is the median of several
runs; hosts have three resources.

- commits: the host is taken in turn; pop, Reserve in the ledger, Permit, PreBind, Bind and PostBind
- commit cycles: one after another, a tenth of the workloads: pop, filter and score every host by its room in the
  ledger, Reserve, Permit, Bind, and the confirmation of what is observed; demands are all equal, or all different
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.measure import machine, table, write_json
from fairway.api.node import Node, NodeStatus
from fairway.engine.commit import CommitMachine, CommitPlugins, perform
from fairway.engine.commit.instructions import Bound, ReadBack, RunBind, RunPostBind, RunPreBind
from fairway.engine.dependencies import Event
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns
from fairway.engine.points import CommitContext, Reads, Weighted
from fairway.engine.profile import assemble
from fairway.engine.queue import Rejection, SchedulingQueue
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Status
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.resources import allocatable
from kubewire.api.meta import ObjectMeta
from ledger_plugins import Fit, MostRoom, ReserveDemand

CAPACITY = {"cpu": 64_000, "memory": 256_000, "slots": 1_000_000}
DEMAND = {"cpu": 500, "memory": 2_000, "slots": 1_000}
ROUNDS = 5
CYCLES_SHARE = 10
"""One of so many workloads takes part in whole cycles."""
COLUMNS = 1_000
"""Distinct columns that rejected workloads wait for."""


class Bench:
    def __init__(self, *, hosts: int, workloads: int) -> None:
        self.hosts = [HostKey(f"host-{number}", f"uid-{number}") for number in range(hosts)]
        self.workloads = [
            Workload(key=WorkloadKey("bench", f"w-{n}", f"u-{n}"), spec=n, priority=n % 3, demand=DEMAND)
            for n in range(workloads)
        ]

    def queue(self) -> SchedulingQueue:
        queue = SchedulingQueue()
        for workload in self.workloads:
            queue.put(workload, now=0)
        return queue

    def put_pop_done(self) -> int:
        queue = self.queue()
        while (workload := queue.pop(now=0)) is not None:
            queue.done(workload.key)
        return 3 * len(self.workloads)

    def rejected(self) -> SchedulingQueue:
        queue = self.queue()
        for number in range(len(self.workloads)):
            workload = queue.pop(now=0)
            assert workload is not None
            reads = Reads(cells=frozenset({column(number)}), helps={column(number): Direction.UP})
            queue.reject(workload.key, [Rejection(plugin="Bench", reads=reads)], now=0)
        return queue

    def events(self, direction: Direction) -> tuple[SchedulingQueue, list[Event]]:
        hosts = frozenset({"host-0"})
        queue = self.rejected()
        return queue, [Event(label="e", hosts=hosts, columns={column(n): direction}) for n in range(COLUMNS)]

    def ledger(self) -> Ledger:
        ledger = Ledger()
        with ledger.transaction() as tx:
            for host in self.hosts:
                tx.set_capacity(host, CAPACITY)
        return ledger

    def reserve_and_release(self, ledger: Ledger) -> int:
        for number, workload in enumerate(self.workloads):
            host = self.hosts[number % len(self.hosts)]
            with ledger.transaction() as tx:
                tx.reserve(host, workload.key, DEMAND)
        for number, workload in enumerate(self.workloads):
            host = self.hosts[number % len(self.hosts)]
            with ledger.transaction() as tx:
                tx.release(host, workload.key)
        return 2 * len(self.workloads)

    def transfers(self, ledger: Ledger) -> int:
        """Per host: two reservations, an earmark and its transfer."""
        first, second = self.workloads[0].key, self.workloads[1].key
        for host in self.hosts:
            with ledger.transaction() as tx:
                tx.reserve(host, first, CAPACITY)
                tx.earmark(host, Earmark(id="e", beneficiary=second, source=first, amounts=DEMAND))
            with ledger.transaction() as tx:
                tx.transfer(host, "e", wanted=DEMAND)
        return 2 * len(self.hosts)

    def speculations(self, ledger: Ledger) -> int:
        for workload in self.workloads:
            copy = ledger.speculate()
            copy.reserve(self.hosts[0], workload.key, DEMAND)
        return len(self.workloads)

    def cycles(self, *, alike: bool) -> "Cycles":
        return Cycles(hosts=len(self.hosts), workloads=len(self.workloads) // CYCLES_SHARE, alike=alike)

    def commits(self, ledger: Ledger) -> int:
        queue, reserve, plugin = self.queue(), ReserveDemand(ledger), AtOnce()
        plugins = CommitPlugins(
            reserves=(reserve,), permits=(plugin,), pre_binds=(plugin,), binds=(plugin,), post_binds=(plugin,)
        )
        commits, number = CommitMachine(plugins), 0
        while (workload := queue.pop(now=number)) is not None:
            hosts = (self.hosts[number % len(self.hosts)],)
            context = CommitContext(workload=workload, hosts=hosts, started=number)
            rest = perform(queue, commits.start(context, now=number), now=number)
            while runs := [
                instruction
                for instruction in rest
                if isinstance(instruction, RunPreBind | RunBind | RunPostBind | ReadBack)
            ]:
                run = runs[0]
                assert not isinstance(run, ReadBack)
                result = None if isinstance(run, RunPostBind) else OK
                rest = perform(queue, commits.finished(run.key, run.token, result, now=number), now=number)
            number += 1
        assert number == len(self.workloads)
        return number


class Cycles:
    """Whole cycles: every host is filtered and scored, and each workload is bound and observed before the next."""

    def __init__(self, *, hosts: int, workloads: int, alike: bool) -> None:
        self.ledger, self.fleet = Ledger(), NodeFleet()
        LedgerColumns(self.ledger, self.fleet)
        self.fleet.load(
            Node(metadata=ObjectMeta(name=f"host-{number}", uid=f"uid-{number}"), status=status(number))
            for number in range(hosts)
        )
        view = self.fleet.snapshot()
        with self.ledger.transaction() as tx:
            for row in view.hosts.row_of.values():
                amounts = {
                    resource: int(view.counts(allocatable(resource)).values[row]) for resource in CAPACITY
                }
                tx.set_capacity(host_key(view.host(row)), amounts)
        del view
        once = AtOnce()
        profile = assemble(
            name="bench",
            filters=[Fit(self.ledger)],
            scores=[Weighted(MostRoom(*CAPACITY, unit=10_000), 1)],
            reserves=[ReserveDemand(self.ledger)],
            permits=[once],
            binds=[once],
        )
        self.scheduler = Scheduler(profiles=[profile], profile_name=lambda _: "bench", host_key=host_key)
        for number in range(workloads):
            demand = DEMAND if alike else {resource: amount + number for resource, amount in DEMAND.items()}
            self.scheduler.put(
                Workload(key=WorkloadKey("bench", f"w-{number}", f"u-{number}"), spec=None, demand=demand),
                now=0,
            )

    def run(self) -> int:
        scheduler, bound = self.scheduler, 0
        while (tried := scheduler.schedule_one(self.fleet.snapshot(), now=bound)) is not None:
            _, (run,) = tried
            del tried
            assert isinstance(run, RunBind)
            (result,) = scheduler.finished(run.key, run.token, OK, now=bound)
            assert isinstance(result, Bound)
            with self.ledger.transaction() as tx:
                tx.confirm(result.hosts[0], result.key, run.context.workload.demand)
            scheduler.observed(result.key, result.hosts, now=bound)
            bound += 1
        return bound


def status(number: int) -> NodeStatus:
    """Sizes differ, so that scores do."""
    return NodeStatus(
        allocatable={resource: f"{amount + number % 97}m" for resource, amount in CAPACITY.items()}
    )


def host_key(node: Node) -> HostKey:
    return HostKey(node.metadata.name, node.metadata.uid)


class AtOnce:
    """Permit, PreBind, Bind and PostBind; the benchmark answers for the coroutines."""

    name = "AtOnce"

    def permit(self, _context: CommitContext, /) -> tuple[Status, None]:
        return OK, None

    async def pre_bind(self, _context: CommitContext, /) -> Status:
        return OK

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK

    async def post_bind(self, _context: CommitContext, /) -> None:
        return None


def column(number: int) -> Key:
    return ("grantable", f"resource-{number % COLUMNS}")


def rate(prepare: Callable[[], Any], work: Callable[[Any], int]) -> float:
    """Return operations per second, without the preparation: the median of several runs."""
    rates = []
    for _ in range(ROUNDS):
        prepared = prepare()
        start = time.perf_counter()
        done = work(prepared)
        rates.append(done / (time.perf_counter() - start))
    return median(rates)


def deliver(prepared: tuple[SchedulingQueue, list[Event]]) -> int:
    queue, events = prepared
    for event in events:
        queue.on_event(event, now=0)
    return len(events)


def measure(bench: Bench) -> dict[str, float]:
    waking = len(bench.workloads) // COLUMNS
    return {
        "queue: put, pop and done": rate(lambda: None, lambda _: bench.put_pop_done()),
        f"queue: events that wake {waking} workloads each": rate(lambda: bench.events(Direction.UP), deliver),
        "queue: events that cannot help": rate(lambda: bench.events(Direction.DOWN), deliver),
        "ledger: reserve and release, a transaction each": rate(bench.ledger, bench.reserve_and_release),
        "ledger: earmark and transfer, a transaction each": rate(bench.ledger, bench.transfers),
        "ledger: speculative copy and reserve": rate(bench.ledger, bench.speculations),
        "commits (no filter, no score)": rate(bench.ledger, bench.commits),
        "commit cycles, workloads alike": rate(lambda: bench.cycles(alike=True), Cycles.run),
        "commit cycles, each workload different": rate(lambda: bench.cycles(alike=False), Cycles.run),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=5_000, help="number of hosts")
    parser.add_argument("--workloads", type=int, default=10_000, help="number of workloads")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    figures = measure(Bench(hosts=options.hosts, workloads=options.workloads))
    heading = [f"{options.hosts:,} hosts, {options.workloads:,} workloads", "per second"]
    print(table([heading, *([label, f"{figure:,.0f}"] for label, figure in figures.items())]))
    if options.json:
        document = {"benchmark": "framework", "hosts": options.hosts, "workloads": options.workloads}
        write_json(options.json, {**document, "per_second": figures})


if __name__ == "__main__":
    main()
