"""A term of machines begins in slices, however many nodes and machines there are."""

from collections.abc import Iterator

from fairway.controllers.runtime.slicing import in_slices
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.workloads.machines.events import MachineObserved
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.moves import Work
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.state import MachineState
from loop.clocks import SlowClock
from loop.steps import NODES, Longest, check_bounded, longest_callback

SIZE = {"cpu": 1_000, "memory": 4_000}
MACHINES_OF_NODE = 4


class Nowhere:
    def feasible(self, _machine: Machine, _work: Work) -> list[HostKey]:
        return []


def machines(hosts: list[HostKey]) -> Iterator[MachineObserved]:
    for host in hosts:
        for number in range(MACHINES_OF_NODE):
            name = f"{host.name}-{number}"
            machine = Machine(
                key=WorkloadKey("ns", name, name), host=host, using=SIZE, vm=name, migratable=True
            )
            yield MachineObserved(machine, Demand(requested=SIZE, approved=SIZE, unit=SIZE))


def test_state_of_machines_is_rebuilt_in_slices() -> None:
    def longest(nodes: int) -> Longest:
        hosts = [HostKey(f"n{number}", f"u{number}") for number in range(nodes)]
        steps = MachineState.rebuild_in_steps(
            policy=MachinePolicy(),
            oracle=Nowhere(),
            hosts=[(host, {"cpu": 8_000, "memory": 32_000}) for host in hosts],
            machines=list(machines(hosts)),
            records=(),
            now=0,
        )
        return longest_callback(in_slices(steps, clock=SlowClock()))

    check_bounded(longest, sizes=(40, 160), limit=NODES)
