"""Sizes of machines: growth in compute units, and what a size counts on a node with overcommitment."""

from collections.abc import Callable, Mapping

from fairway.api.amount_display import display_amount
from fairway.engine.workload import ResourceList

Factors = Mapping[str, int]
"""Overcommit factors by resource, in thousandths: 1500 counts a size of 3 as 2. Absent means 1000."""

ONE = 1000


def charge(size: ResourceList, factors: Factors) -> dict[str, int]:
    """Return what a size counts on its node."""
    if not factors:
        return dict(size)
    return {resource: amount * ONE // factors.get(resource, ONE) for resource, amount in size.items()}


def approve(
    *,
    approved: ResourceList,
    requested: ResourceList,
    unit: ResourceList,
    held: ResourceList,
    grantable: ResourceList,
    factors: Factors,
    together: bool,
) -> dict[str, int]:
    """Return the size to approve: decreases at once, increases in whole compute units.

    ``held`` is what the machine counts on its node now, ``grantable`` how much more it may count. The last unit ends at
    the request, which need not be a multiple of the unit. Without a unit a machine cannot grow. Each resource grows as
    far as the node has room, or ``together`` only as far as all do.
    """
    if not together and len(requested) > 1:
        size: dict[str, int] = {}
        for resource, amount in requested.items():
            size |= approve(
                approved=approved,
                requested={resource: amount},
                unit=unit,
                held=held,
                grantable=grantable,
                factors=factors,
                together=True,
            )
        return size
    base = {resource: min(approved.get(resource, 0), amount) for resource, amount in requested.items()}
    most = units_between(base, requested, unit)

    def fits(units: int) -> bool:
        size = charge(grown(base, requested, unit, units), factors)
        return all(
            amount <= held.get(resource, 0) + grantable.get(resource, 0)
            for resource, amount in size.items()
            if amount > held.get(resource, 0)
        )

    return grown(base, requested, unit, largest(most, fits))


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that fits, where every smaller one fits, too; 0 always does."""
    if most <= 0 or fits(most):
        return max(0, most)
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def units_between(base: ResourceList, requested: ResourceList, unit: ResourceList) -> int:
    """Return how many compute units lead from a size to a request; 0 if a resource that grows has no unit."""
    most = 0
    for resource, amount in requested.items():
        growth = amount - base.get(resource, 0)
        if growth > 0:
            step = unit.get(resource, 0)
            if not step:
                return 0
            most = max(most, -(-growth // step))
    return most


def grown(base: ResourceList, requested: ResourceList, unit: ResourceList, units: int) -> dict[str, int]:
    return {
        resource: max(
            min(amount, base.get(resource, 0)),
            min(amount, base.get(resource, 0) + units * unit.get(resource, 0)),
        )
        for resource, amount in requested.items()
    }


def exceeds(size: ResourceList, other: ResourceList) -> bool:
    """Return whether a size is larger in any resource."""
    return any(amount > other.get(resource, 0) for resource, amount in size.items())


def bounded(size: ResourceList, most: ResourceList) -> dict[str, int]:
    """Return a size, cut off where ``most`` has a limit."""
    return {resource: min(amount, most.get(resource, amount)) for resource, amount in size.items()}


def missing(wanted: ResourceList, have: ResourceList) -> dict[str, int]:
    """Return how much is missing of each resource, without zeros."""
    return {
        resource: amount - have.get(resource, 0)
        for resource, amount in wanted.items()
        if amount > have.get(resource, 0)
    }


def added(one: ResourceList, other: ResourceList) -> dict[str, int]:
    total = dict(one)
    for resource, amount in other.items():
        total[resource] = total.get(resource, 0) + amount
    return total


def covered(asked: ResourceList, room: ResourceList) -> dict[str, int]:
    """Return the part of ``asked`` that ``room`` has, without zeros."""
    part = {resource: min(amount, room.get(resource, 0)) for resource, amount in asked.items()}
    return {resource: amount for resource, amount in part.items() if amount > 0}


def describe(size: ResourceList) -> str:
    """Format for a message, such as ``1.5 cpu, 2 GiB memory``."""
    return ", ".join(f"{display_amount(name, f'{size[name]}m')} {name}" for name in sorted(size)) or "nothing"
