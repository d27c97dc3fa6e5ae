"""Columns of resources, for hosts of any kind: whole numbers of milli-units, in a ``CountColumn`` each.

1500 of ``cpu`` are one and a half cores. Amounts beyond 64 bits count as the largest one.
"""

from typing import Final

from fairway.hosts.column import Key

ALLOCATABLE: Final = "allocatable-milli"
"""``("allocatable-milli", "cpu")``: what a host has for workloads."""
REQUESTED: Final = "requested-milli"
"""What the workloads that were observed on a host request."""
GRANTABLE: Final = "grantable"
"""What the ledger can still grant to any workload: less than nothing where a host has more workloads than room."""
EARMARKED: Final = "earmarked"
"""Free room that the ledger keeps for single workloads."""
LEDGER: Final = (GRANTABLE, EARMARKED)
"""Kinds of columns that only ``Table.set_amounts`` fills."""

LARGEST: Final = (1 << 63) - 1


def allocatable(resource: str) -> Key:
    return (ALLOCATABLE, resource)


def requested(resource: str) -> Key:
    return (REQUESTED, resource)


def grantable(resource: str) -> Key:
    return (GRANTABLE, resource)


def earmarked(resource: str) -> Key:
    return (EARMARKED, resource)
