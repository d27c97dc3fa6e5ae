"""The dimensions in which hosting clusters are measured, in milli-units, and how users read amounts of them."""

from collections.abc import Mapping
from typing import Final

from fairway.api.amount_display import display_milli
from fairway.engine.workload import LARGEST_AMOUNT, ResourceList, milli

HOSTED: Final = "hostedclusters"
"""Number of hosted clusters."""
SLOTS: Final = "slots"
"""Room for hosted clusters of size small, as the hosting cluster publishes it."""
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
DIMENSIONS: Final = (HOSTED, SLOTS, CPU, MEMORY, PODS)

UNLIMITED: Final = LARGEST_AMOUNT
"""Capacity in a dimension that does not limit a host."""
IN_WORDS: Final = {HOSTED: "hosted clusters", SLOTS: "slots of size small"}
"""Dimensions that are no resources."""
MILLI: Final = 1000
MOST_OF_ONE: Final = {CPU: 1_000_000 * MILLI, MEMORY: (64 << 40) * MILLI, PODS: 1_000_000 * MILLI}
"""What a reservation counts at most: more than any machine has, and little enough that sums stay below UNLIMITED.
Earlier versions granted any amount."""

_BINARY_SUFFIXES: Final = ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def as_quantity(resource: str, amount: int) -> str:
    """Return milli-units as a quantity that ``milli`` reads back; memory in binary units where it is whole."""
    if amount % MILLI:
        return f"{amount}m"
    whole = amount // MILLI
    if resource == MEMORY and whole:
        for power, suffix in _BINARY_SUFFIXES:
            if not whole & ((1 << power) - 1):
                return f"{whole >> power}{suffix}"
    return str(whole)


def describe_amount(resource: str, amount: int) -> str:
    """Return an amount with its unit, for messages: ``1 hosted cluster``, ``2.5 cpu``, ``17 GiB memory``."""
    if resource == HOSTED and amount == MILLI:
        return "1 hosted cluster"
    return f"{display_milli(resource, amount)} {IN_WORDS.get(resource, resource)}"


def as_quantities(amounts: ResourceList) -> dict[str, str]:
    return {
        resource: as_quantity(resource, amounts[resource]) for resource in DIMENSIONS if amounts.get(resource)
    }


def from_quantities(amounts: Mapping[str, str | int | float]) -> dict[str, int]:
    """Raises QuantityError."""
    return {resource: max(0, milli(text)) for resource, text in amounts.items()}
