"""Approved sizes: the reference's vectors, whole compute units, and laws that hold for every size."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairway.workloads.machines.size import approve, charge, describe, units_between

TOTAL = 10_000


@pytest.mark.parametrize(
    ("others", "approved", "requested", "unit", "factor", "granted", "used"),
    [
        (6000, 3000, 5000, 1000, 1000, 4000, 10_000),
        (5000, 3000, 5000, 1000, 1000, 5000, 10_000),
        (7500, 2000, 4000, 250, 1000, 2500, 10_000),
        (8000, 1000, 3000, 2000, 1000, 1000, 9000),
        (4000, 3000, 9000, 1000, 1500, 9000, 10_000),
        (9500, 1000, 2000, 250, 1000, 1000, 10_500),
    ],
)
def test_one_resource_is_approved_as_the_reference_approves_it(
    others: int, approved: int, requested: int, unit: int, factor: int, granted: int, used: int
) -> None:
    factors = {"cpu": factor}
    held = charge({"cpu": approved}, factors)
    size = approve(
        approved={"cpu": approved},
        requested={"cpu": requested},
        unit={"cpu": unit},
        held=held,
        grantable={"cpu": max(0, TOTAL - others - held["cpu"])},
        factors=factors,
        together=False,
    )
    assert (size["cpu"], others + charge(size, factors)["cpu"]) == (granted, used)


@pytest.mark.parametrize(("together", "granted"), [(False, (4, 2)), (True, (2, 2))])
def test_cpu_and_memory_grow_apart_as_the_reference_grants_them_or_together(
    together: bool, granted: tuple[int, int]
) -> None:
    """Room for three units of CPU and one of memory."""
    size = approve(
        approved={"cpu": 1, "memory": 1},
        requested={"cpu": 4, "memory": 4},
        unit={"cpu": 1, "memory": 1},
        held={"cpu": 1, "memory": 1},
        grantable={"cpu": 3, "memory": 1},
        factors={},
        together=together,
    )
    assert (size["cpu"], size["memory"]) == granted


def test_last_unit_ends_at_the_request() -> None:
    """The reference grants nothing here: it rounds the room down to a whole unit before it looks at the request."""
    size = approve(
        approved={"cpu": 2},
        requested={"cpu": 3},
        unit={"cpu": 2},
        held={"cpu": 2},
        grantable={"cpu": 1},
        factors={},
        together=True,
    )
    assert size == {"cpu": 3}


def test_decrease_of_one_resource_is_not_held_up_by_another_that_cannot_grow() -> None:
    size = approve(
        approved={"cpu": 4, "memory": 4},
        requested={"cpu": 2, "memory": 6},
        unit={"cpu": 1, "memory": 1},
        held={"cpu": 4, "memory": 4},
        grantable={},
        factors={},
        together=True,
    )
    assert size == {"cpu": 2, "memory": 4}


def test_machine_without_a_unit_does_not_grow() -> None:
    assert units_between({"cpu": 1}, {"cpu": 9}, {}) == 0


def test_sizes_are_described_with_their_units() -> None:
    assert describe({"cpu": 1500, "memory": (1 << 31) * 1000}) == "1.5 cpu, 2 GiB memory"
    assert describe({}) == "nothing"


amounts = st.fixed_dictionaries({"cpu": st.integers(0, 40), "memory": st.integers(0, 40)})
units = st.fixed_dictionaries({"cpu": st.integers(1, 9), "memory": st.integers(1, 9)})
factors = st.fixed_dictionaries(
    {}, optional={"cpu": st.integers(500, 3000), "memory": st.integers(1000, 2000)}
)


@given(
    approved=amounts,
    requested=amounts,
    unit=units,
    grantable=amounts,
    factors=factors,
    together=st.booleans(),
)
def test_approval_never_exceeds_request_or_room_and_is_the_largest_whole_number_of_units(
    approved: dict[str, int],
    requested: dict[str, int],
    unit: dict[str, int],
    grantable: dict[str, int],
    factors: dict[str, int],
    together: bool,
) -> None:
    held = charge(approved, factors)
    size = approve(
        approved=approved,
        requested=requested,
        unit=unit,
        held=held,
        grantable=grantable,
        factors=factors,
        together=together,
    )
    after = charge(size, factors)
    base = {name: min(approved[name], requested[name]) for name in requested}
    for name in requested:
        assert base[name] <= size[name] <= requested[name]
        assert after[name] <= max(held[name], held[name] + grantable[name])
    for names in [tuple(requested)] if together else [(name,) for name in requested]:
        counts = {
            -(-(size[name] - base[name]) // unit[name]) for name in names if size[name] < requested[name]
        }
        assert len(counts) <= 1
        if counts:
            more = {name: min(requested[name], base[name] + (max(counts) + 1) * unit[name]) for name in names}
            bigger = charge(more, factors)
            assert any(bigger[name] > held[name] + grantable[name] for name in names)
