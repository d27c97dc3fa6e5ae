"""Convert a ManagedCluster to cells: names of the columns, and the columns in which two versions differ.

Columns are created when they are first read, so a fleet pays in memory and write time only for what its placements
use. The changes that an upsert reports do not depend on that.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from fairway.api.cluster import ManagedCluster, Taint
from fairway.hosts.column import (
    MEMBERSHIP,
    CodeColumn,
    Column,
    CountColumn,
    Key,
    NumberColumn,
    ScoreColumn,
)
from kubewire.api.quantity import QuantityError, quantity_float

LABEL = "label"
CLAIM = "claim"
TAINTS: Key = ("taints",)
DELETING: Key = ("deleting",)
ALLOCATABLE = "allocatable"
CAPACITY = "capacity"
PATH = "path"
"""A value in the cluster's JSON, for expressions: ``("path", "status", "version", "kubernetes")``."""
SCORE = "score"
"""``("score", resource name, score name)``, from AddOnPlacementScore."""
SCORE_OBJECT = "score-object"
"""``("score-object", resource name)``: whether a cluster has that AddOnPlacementScore, its expiry, and 1 if it
was marked silent. Its changes are reported as those of SCORES."""
PUBLISHED = (SCORE, SCORE_OBJECT)
"""Kinds of columns that AddOnPlacementScores fill."""
SCORES = "scores"
"""``("scores", resource name)``: any change of that AddOnPlacementScore. Never a column, only reported."""
CALCULATOR = "calculator"
"""``("calculator", calculator)``, from ManagedClusterScore."""
DEBIT = "debit"
"""Size of the expected change of a score by decisions since it was published; ``clusters.debits`` has the columns."""
PROMISED: Key = ("promised",)
"""Number of HostedClusterRequests on the host that its published load does not include yet."""
DECISIONS: Key = ("decisions",)
"""Number of decisions that name the host."""

SETS = "set"
BINDINGS = "bindings"
OWN_DECISIONS = "own-decisions"
"""``("own-decisions", namespace, placement)``: that placement's decisions changed. Never a column."""

_DESCRIPTIONS: Mapping[str, str] = {
    MEMBERSHIP[0]: "the list of clusters",
    DELETING[0]: "deletion of a cluster",
    CLAIM: "ClusterClaim {}",
    PATH: "cluster field {}",
    SCORE: "score {}",
    SCORES: "AddOnPlacementScore {}",
    CALCULATOR: "ManagedClusterScore {}",
    DECISIONS[0]: "the number of decisions",
    SETS: "ManagedClusterSet {}",
    BINDINGS: "a ManagedClusterSetBinding in namespace {}",
    OWN_DECISIONS: "a PlacementDecision of {}",
}

UNSET = b""
"""The value of a path column where the cluster lacks the field: None means that there is no cluster, and ``()`` an
empty list, which expressions distinguish from a missing one."""

LARGEST_AMOUNT = 1e300
"""Amounts beyond ±this count as not reported, so that the difference of two amounts is finite."""

Shape = tuple[tuple[str, str, str], ...]
"""Taints without their times: (key, value, effect) each. Fleets have few shapes, however many clusters."""


def label(key: str) -> Key:
    return (LABEL, key)


def claim(key: str) -> Key:
    return (CLAIM, key)


def describe(key: Key) -> str:
    """Name a column, or what is only reported, in explanations."""
    kind, names = key[0], key[1:]
    text = _DESCRIPTIONS.get(kind)
    return " ".join(key) if text is None else text.format("/".join(names))


def claims_of(cluster: ManagedCluster) -> dict[str, str]:
    """Of duplicates, the last counts."""
    return {item.name: item.value for item in cluster.status.clusterClaims}


def shape_of(taints: tuple[Taint, ...]) -> Shape:
    return tuple((taint.key, taint.value, taint.effect) for taint in taints)


def new_column(key: Key, *, capacity: int, stamp: int) -> Column:
    kind = key[0]
    if kind in (ALLOCATABLE, CAPACITY):
        return NumberColumn(capacity=capacity, stamp=stamp)
    if kind in (SCORE, SCORE_OBJECT, CALCULATOR):
        return ScoreColumn(capacity=capacity, stamp=stamp)
    if key in (DECISIONS, PROMISED) or kind == DEBIT:
        return CountColumn(capacity=capacity, stamp=stamp)
    return CodeColumn(capacity=capacity, stamp=stamp)


def cell_reader(key: Key) -> Callable[[ManagedCluster], Any]:
    """Return the function that reads this column's cell from a cluster. Scores and decisions have none."""
    kind = key[0]
    if kind == LABEL:
        name = key[1]
        return lambda cluster: cluster.metadata.labels.get(name)
    if kind == CLAIM:
        return lambda cluster: _last_claim(cluster, key[1])
    if key == TAINTS:
        return lambda cluster: shape_of(cluster.spec.taints)
    if key == DELETING:
        return lambda cluster: True if cluster.metadata.deletionTimestamp is not None else None
    if kind == ALLOCATABLE:
        return lambda cluster: amount_of(cluster.status.allocatable, key[1])
    if kind == CAPACITY:
        return lambda cluster: amount_of(cluster.status.capacity, key[1])
    if kind == PATH:
        path = key[1:]
        return lambda cluster: _at(cluster, path)
    raise KeyError(key)


def changed_columns(old: ManagedCluster, new: ManagedCluster) -> set[Key]:
    """Return the columns, existing or not, whose cells differ. The fleet compares the paths that it has columns for."""
    changed: set[Key] = set()
    if old is new:
        return changed
    if old.metadata.labels != new.metadata.labels:
        changed.update(_differing(LABEL, old.metadata.labels, new.metadata.labels))
    if old.status.clusterClaims != new.status.clusterClaims:
        changed.update(_differing(CLAIM, claims_of(old), claims_of(new)))
    if old.spec.taints != new.spec.taints:
        changed.add(TAINTS)
    if (old.metadata.deletionTimestamp is None) != (new.metadata.deletionTimestamp is None):
        changed.add(DELETING)
    if old.status.allocatable != new.status.allocatable:
        changed.update(_differing(ALLOCATABLE, old.status.allocatable, new.status.allocatable))
    if old.status.capacity != new.status.capacity:
        changed.update(_differing(CAPACITY, old.status.capacity, new.status.capacity))
    return changed


def all_columns(cluster: ManagedCluster) -> set[Key]:
    """Return the columns in which a cluster differs from a missing one."""
    changed: set[Key] = {MEMBERSHIP, TAINTS, DELETING}
    changed.update((LABEL, key) for key in cluster.metadata.labels)
    changed.update((CLAIM, item.name) for item in cluster.status.clusterClaims)
    changed.update((ALLOCATABLE, key) for key in cluster.status.allocatable)
    changed.update((CAPACITY, key) for key in cluster.status.capacity)
    return changed


def is_compared(key: Key) -> bool:
    return key[0] == PATH


def _differing(kind: str, old: Mapping[str, object], new: Mapping[str, object]) -> set[Key]:
    return {(kind, key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _last_claim(cluster: ManagedCluster, name: str) -> str | None:
    for item in reversed(cluster.status.clusterClaims):
        if item.name == name:
            return item.value
    return None


def amount_of(amounts: Mapping[str, str | int | float], name: str) -> float | None:
    """Return the amount; an invalid quantity counts as not reported: one bad cell must not block all placements."""
    text = amounts.get(name)
    if text is None:
        return None
    try:
        amount = quantity_float(text)
    except QuantityError:
        return None
    return amount if -LARGEST_AMOUNT <= amount <= LARGEST_AMOUNT else None


def _at(cluster: ManagedCluster, path: tuple[str, ...]) -> Hashable:
    """Return a value that differs whenever the JSON at this path does, or the depth at which it is missing.

    It may also differ where the JSON does not; that costs an additional evaluation, but never a wrong result.
    """
    value: Any = cluster
    for segment in path:
        if isinstance(value, Struct):
            value = getattr(value, segment, None)
        elif isinstance(value, dict):
            inner = value.get(segment)
            return (bool(value), inner)
        else:
            break
    if isinstance(value, Struct | dict):
        return msgspec.json.encode(value)
    return UNSET if value is None else value
