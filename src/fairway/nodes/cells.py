"""Convert a Node to cells: names of the columns, and the columns in which two versions differ."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fairway.api.node import Node
from fairway.api.pod_requests import CPU, amount_of
from fairway.api.quantity import QuantityError
from fairway.fleet.column import MEMBERSHIP, CodeColumn, Column, CountColumn, Key
from fairway.fleet.resources import ALLOCATABLE, LARGEST, REQUESTED

LABEL = "label"
TAINTS: Key = ("taints",)
"""The taints, as (key, value, effect) each."""
UNSCHEDULABLE: Key = ("unschedulable",)
"""True for a cordoned node."""

_AMOUNTS = (ALLOCATABLE, REQUESTED)


def label(key: str) -> Key:
    return (LABEL, key)


def in_milli_units(resource: str, amount: int) -> int:
    """Convert an amount of ``fairway.api.pod_requests``, where only CPU is in milli-units."""
    return amount if resource == CPU else min(amount * 1000, LARGEST)


@lru_cache(maxsize=1 << 14)
def _allocatable(resource: str, text: str | float) -> int:
    try:
        return in_milli_units(resource, amount_of(resource, text))
    except QuantityError:
        return 0


def new_column(key: Key, *, capacity: int, stamp: int) -> Column:
    if key[0] in _AMOUNTS:
        return CountColumn(capacity=capacity, stamp=stamp)
    return CodeColumn(capacity=capacity, stamp=stamp)


def cell_reader(key: Key) -> Callable[[Node], Any]:
    """Return the function that reads this column's cell from a node. Columns of requests have none."""
    kind = key[0]
    if kind == LABEL:
        return lambda node: node.metadata.labels.get(key[1])
    if kind == ALLOCATABLE:
        return lambda node: _allocatable(key[1], node.status.allocatable.get(key[1], 0))
    if key == TAINTS:
        return lambda node: tuple((each.key, each.value, each.effect) for each in node.spec.taints)
    if key == UNSCHEDULABLE:
        return lambda node: True if node.spec.unschedulable else None
    raise KeyError(key)


def changed_columns(old: Node, new: Node) -> set[Key]:
    changed: set[Key] = set()
    for kind, before, after in (
        (LABEL, old.metadata.labels, new.metadata.labels),
        (ALLOCATABLE, old.status.allocatable, new.status.allocatable),
    ):
        if before != after:
            keys = before.keys() | after.keys()
            changed.update((kind, key) for key in keys if before.get(key) != after.get(key))
    if old.spec.taints != new.spec.taints:
        changed.add(TAINTS)
    if old.spec.unschedulable != new.spec.unschedulable:
        changed.add(UNSCHEDULABLE)
    return changed


def all_columns(node: Node) -> set[Key]:
    changed: set[Key] = {MEMBERSHIP, TAINTS, UNSCHEDULABLE}
    changed.update((LABEL, key) for key in node.metadata.labels)
    changed.update((ALLOCATABLE, key) for key in node.status.allocatable)
    return changed


def is_compared(_key: Key) -> bool:
    return False
