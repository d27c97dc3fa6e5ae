"""Plans of migrations are bounded in their work, and made in turns, however many nodes there are."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from unittest.mock import patch

import pytest

from fairway.controllers.runtime.slicing import in_slices
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import SECOND
from fairway.hosts.steps import finish
from fairway.workloads.machines import relief
from fairway.workloads.machines.events import (
    Event,
    HostObserved,
    Loaded,
    MachineObserved,
    PermitRequested,
    TimePassed,
)
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.moves import Candidate, Targets, Work
from fairway.workloads.machines.permit_protocol import PermitRequest
from fairway.workloads.machines.planner import plan_moves_in_steps
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.state import MachineState
from loop.clocks import SlowClock
from loop.steps import NODES, Longest, check_bounded, longest_call, longest_callback

MOST_STEPS_OF_PLAN = 4_000_000
"""Of all slices together: about half a second."""

MACHINES_OF_NODE = 20
UNIT = {"cpu": 250, "memory": 1_000}

Problem = tuple[ResourceList, list[Candidate], Targets]


def movable(at: int, targets: Sequence[HostKey], **amounts: int) -> Candidate:
    key = WorkloadKey("ns", f"v{at}", f"v{at}")
    return Candidate(key=key, amounts=amounts, bytes=amounts["memory"], targets=targets)


def names(nodes: int) -> list[HostKey]:
    return [HostKey(f"n{number}", f"u{number}") for number in range(nodes)]


def full(nodes: int) -> Problem:
    """One node has room for two of seventeen machines that are alike, and three must move."""
    hosts = names(nodes)
    targets = Targets({host: {"cpu": 0, "memory": 0} for host in hosts}, dict.fromkeys(hosts, 2))
    targets.room[hosts[0]] = {"cpu": 2_000, "memory": 9_000}
    return {"cpu": 3_000}, [movable(at, hosts, cpu=1_000, memory=4_000) for at in range(17)], targets


def tight(nodes: int) -> Problem:
    """All nodes differ, all machines differ, and the sums fit where no assignment does."""
    hosts = names(nodes)
    room = {host: {"cpu": 900 + at % 100, "memory": 3_900 + at % 90} for at, host in enumerate(hosts)}
    machines = [movable(at, hosts, cpu=500 + at * 7, memory=2_100 + at * 11) for at in range(20)]
    return {"cpu": 9_000, "memory": 40_000}, machines, Targets(room, dict.fromkeys(hosts[:9], 2))


def crowded(nodes: int) -> Problem:
    """A hundred machines of a kind of their own, which must all move."""
    hosts = names(nodes)
    room = {host: {"cpu": 8_000 - at % 7, "memory": 40_000} for at, host in enumerate(hosts)}
    machines = [movable(at, list(hosts), cpu=500 + at, memory=2_000) for at in range(100)]
    return {"cpu": 54_000}, machines, Targets(room, dict.fromkeys(hosts, 2))


@pytest.mark.parametrize("problem", [full, tight, crowded])
def test_plan_is_bounded_and_made_in_slices(problem: Callable[[int], Problem]) -> None:
    def longest(nodes: int) -> Longest:
        return longest_callback(in_slices(plan_moves_in_steps(*problem(nodes), Work()), clock=SlowClock()))

    check_bounded(longest, sizes=(100, 400), limit=NODES)
    arguments = problem(NODES)
    whole = longest_call(lambda: finish(plan_moves_in_steps(*arguments, Work())))
    assert whole.steps <= MOST_STEPS_OF_PLAN, f"{whole.steps:,}: {whole.burden}"


class Everywhere:
    def __init__(self, hosts: Sequence[HostKey]) -> None:
        self.hosts = hosts

    def feasible(self, _machine: Machine, _work: Work) -> Sequence[HostKey]:
        return self.hosts


def crowded_fleet(nodes: int, *, paced: bool = True) -> MachineState:
    """Nearly full nodes with machines of a kind of their own, and several that wait on the first nodes."""
    hosts = names(nodes)
    machines = [
        MachineObserved(
            Machine(key=key, host=host, using=size, vm=key.name, migratable=True, created=number),
            Demand(requested=size, approved=size, unit=UNIT),
        )
        for at, host in enumerate(hosts)
        for number in range(MACHINES_OF_NODE)
        for key in [WorkloadKey("ns", f"v{at}-{number}", f"v{at}-{number}")]
        for size in [{"cpu": 1_000 + (at * 7 + number * 13) % 97, "memory": 4_000 + at * 11 % 89}]
    ]
    used = MACHINES_OF_NODE * 1_100, MACHINES_OF_NODE * 4_100
    return MachineState.rebuild(
        policy=MachinePolicy(watermark=1000),
        oracle=Everywhere(hosts),
        hosts=[(host, {"cpu": used[0] + at % 900, "memory": used[1]}) for at, host in enumerate(hosts)],
        machines=machines,
        records=(),
        now=0,
        paced=paced,
    )


def growth(node: int, number: int) -> PermitRequested:
    resources = {"cpu": 4_000 + number * 250, "memory": 16_000}
    request = PermitRequest(
        namespace="ns", name=f"v{node}-{number}", unit=UNIT, resources=resources, last_permit=None
    )
    return PermitRequested(request)


def test_plans_of_many_nodes_are_made_in_turns() -> None:
    def longest(nodes: int) -> Longest:
        state = crowded_fleet(nodes)
        moments = count(step=10 * SECOND)

        def handle(event: Event) -> None:
            state.handle(event, now=next(moments))

        handle(Loaded())
        asked: list[Event] = [growth(node, number) for node in range(5) for number in range(6)]
        more = HostObserved(HostKey("n9", "u9"), {"cpu": 90_000, "memory": 900_000})
        turns: list[Event] = [TimePassed()] * 60
        worst = longest_call(*(partial(handle, event) for event in [*asked, *turns, more, *turns]))
        assert state.table.migrations, "the plans are made in the end"
        return worst

    # A turn with a tenth of its work reaches its bound on small fleets too, and what is left grows with the nodes.
    with patch.object(relief, "TURN_WORK", 2_000):
        check_bounded(longest, sizes=(100, 300), limit=NODES)


def test_turn_that_is_over_loses_nothing() -> None:
    """The plan of a turn of its own is the one that is made at once."""

    def migrations(*, paced: bool) -> set[tuple[str, HostKey]]:
        state = crowded_fleet(30, paced=paced)
        state.handle(Loaded(), now=0)
        more = HostObserved(HostKey("n9", "u9"), {"cpu": 90_000, "memory": 900_000})
        asked: list[Event] = [more, *(growth(node, 1) for node in range(4))]
        for now, event in enumerate(asked, start=1):
            state.handle(event, now=now)
        for now in range(10, 100):
            state.handle(TimePassed(), now=now)
        return {(migration.vm, migration.target_host) for migration in state.table.all_migrations()}

    with patch.object(relief, "TURN_WORK", 400):
        paced = migrations(paced=True)
    assert paced == migrations(paced=False) != set()
