"""Convert a Node to cells: names of the columns, and the columns in which two versions differ."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fairway.api.node import Node
from fairway.api.pod_requests import CPU, amount_of
from fairway.hosts.column import MEMBERSHIP, CodeColumn, Column, CountColumn, Key, NumberColumn
from fairway.hosts.nodes.pod_columns import ADDED, PARTIAL, PODS_MATCHING, STORAGE_COLUMNS
from fairway.hosts.resources import ALLOCATABLE, LARGEST
from kubewire.api.quantity import QuantityError

LABEL = "label"
TAINTS: Key = ("taints",)
"""The taints, as a tuple of ``NodeTaint``."""
UNSCHEDULABLE: Key = ("unschedulable",)
"""True for a cordoned node."""
READY: Key = ("ready",)
"""The status of the Ready condition."""
IMAGE = "image"
"""``("image", name)``: the size of the image in bytes."""

_AMOUNTS = frozenset({ALLOCATABLE, PODS_MATCHING, *ADDED, *PARTIAL, *STORAGE_COLUMNS})


def label(key: str) -> Key:
    return (LABEL, key)


def image(name: str) -> Key:
    return (IMAGE, name)


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
    if key[0] == IMAGE:
        return NumberColumn(capacity=capacity, stamp=stamp)
    return CodeColumn(capacity=capacity, stamp=stamp)


def cell_reader(key: Key) -> Callable[[Node], Any]:
    """Return the function that reads this column's cell from a node. Columns that pods fill have none."""
    kind = key[0]
    if kind == LABEL:
        return lambda node: node.metadata.labels.get(key[1])
    if kind == ALLOCATABLE:
        return lambda node: _allocatable(key[1], node.status.allocatable.get(key[1], 0))
    if key == TAINTS:
        # A node without taints has no value, like a row without a node.
        return lambda node: node.spec.taints or None
    if key == READY:
        return lambda node: node.readiness
    if kind == IMAGE:
        return lambda node: _images(node).get(key[1])
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
    if old.status.conditions != new.status.conditions and old.readiness != new.readiness:
        changed.add(READY)
    if old.status.images != new.status.images:
        before_images, after_images = _images(old), _images(new)
        names = before_images.keys() | after_images.keys()
        changed.update(image(name) for name in names if before_images.get(name) != after_images.get(name))
    return changed


def all_columns(node: Node) -> set[Key]:
    changed: set[Key] = {MEMBERSHIP, TAINTS, UNSCHEDULABLE, READY}
    changed.update((LABEL, key) for key in node.metadata.labels)
    changed.update((ALLOCATABLE, key) for key in node.status.allocatable)
    changed.update(map(image, _images(node)))
    return changed


def _images(node: Node) -> dict[str, int]:
    return {name: image.sizeBytes for image in node.status.images for name in image.names}


def is_compared(_key: Key) -> bool:
    return False
