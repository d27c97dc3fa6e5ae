"""The simulation repeats exactly, keeps the books, and shows what each policy costs."""

from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.simulation import Trace, simulate

TRACE = Trace(nodes=4, machines=8, minutes=8)


def test_simulation_repeats_exactly() -> None:
    policy = MachinePolicy(for_pressure=False)
    assert simulate(TRACE, policy) == simulate(TRACE, policy)


def test_migrations_shorten_the_time_that_growth_is_denied() -> None:
    none = simulate(TRACE, MachinePolicy(for_demand=False, for_pressure=False))
    some = simulate(TRACE, MachinePolicy(for_pressure=False))
    assert (none.moves, none.requests) == (0, some.requests)
    assert some.moves > 0
    assert some.relieved_units > 0
    assert some.denied_unit_seconds < none.denied_unit_seconds


def test_cheapest_set_needs_fewer_moves_for_each_unit_than_oldest_first() -> None:
    def moves_per_unit(*, oldest_first: bool) -> float:
        figures = simulate(TRACE, MachinePolicy(for_pressure=False, oldest_first=oldest_first))
        return figures.moves_per_relieved_unit() or 0

    assert 0 < moves_per_unit(oldest_first=False) <= moves_per_unit(oldest_first=True)
