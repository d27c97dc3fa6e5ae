"""NodeResourcesFit: rejects nodes without room for the pod, and scores by how much of a node is requested.

All resources count: CPU, memory, ephemeral storage, extended resources, huge pages and the number of pods.
``scoring_strategy`` has the form of kube-scheduler's NodeResourcesFitArgs. Scores count the default requests of
containers that have none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairway.api.pod_requests import CPU, HUGE_PAGES_PREFIX, MEMORY, PODS
from fairway.engine.points import Context, Raw, Reads, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.pod_columns import scoring_requested
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.hosts.resources import LARGEST, allocatable, requested
from fairway.workloads.pods.plugins.normalizing import HIGHEST
from fairway.workloads.pods.workload import PodPlugin, template_of
from kubewire.api import naming

NAME = "NodeResourcesFit"
TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient {resource}"

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
UNKNOWN_STRATEGY = "scoringStrategy.type must be one of {known}; got {given!r}"
BAD_SHAPE = (
    "scoringStrategy.requestedToCapacityRatio.shape must have points with increasing utilization from 0 to 100, "
    "and scores from 0 to 10; got {given!r}"
)
BAD_WEIGHT = "scoringStrategy.resources: the weight of {resource} must be from 1 to 100; got {given!r}"

EPHEMERAL_STORAGE: Final = "ephemeral-storage"
_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""The order of reasons; other resources follow by name."""
_DEFAULT_RESOURCES: Final[Sequence[Mapping[str, Any]]] = (
    {"name": CPU, "weight": 1},
    {"name": MEMORY, "weight": 1},
)
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."
"""Names with it are of quotas, not of resources."""
_SHAPE_SCALE = 10
"""Scores of a shape are given in tenths."""
EXACT = ((1 << 63) - 1) // HIGHEST
"""Larger amounts are multiplied as Python integers, which do not overflow."""

Amounts = npt.NDArray[np.int64]
Shape = tuple[tuple[int, int], ...]
"""Points of utilization and score."""


def is_scalar(resource: str) -> bool:
    """Return whether it is an extended resource, huge pages, attachable volumes or another prefixed resource."""
    if resource.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-")) or _NATIVE_DOMAIN in resource:
        return True
    if "/" not in resource or resource.startswith(_QUOTA_PREFIX):
        return False
    return not naming.label_key(_QUOTA_PREFIX + resource)  # the rule for names of extended resources


def checked_requests(template: PodTemplate) -> list[tuple[str, int]]:
    """Return the resources that a node must provide, in the order of their reasons."""
    requests = template.requests
    first = [(name, requests[name]) for name in _FIRST if requests.get(name)]
    return first + sorted((name, amount) for name, amount in requests.items() if amount and is_scalar(name))


@dataclass(frozen=True, slots=True)
class _Strategy:
    """How the requested share of each resource becomes a score."""

    weights: Mapping[str, int]
    score: Callable[[int, int], int]
    """Of one resource, by request and capacity."""
    score_all: Callable[[Amounts, Amounts], Amounts]
    only_positive: bool = False
    """Whether resources that score 0 do not count, and the mean is rounded instead of truncated."""


class NodeResourcesFit(PodPlugin, Timeless):
    name = NAME

    def __init__(
        self,
        *,
        scoring_strategy: Mapping[str, Any] | None = None,
        ignored_resources: Sequence[str] = (),
        ignored_resource_groups: Sequence[str] = (),
    ) -> None:
        self._strategy = _strategy(scoring_strategy or {})
        self._ignored = frozenset(ignored_resources)
        self._ignored_groups = frozenset(ignored_resource_groups)

    def filter(self, context: Context, row: int, /) -> Status:
        snapshot, template = context.snapshot, template_of(context)
        reasons: list[str] = []
        code = Code.UNSCHEDULABLE
        have = snapshot.counts(allocatable(PODS)).values.item(row)
        if snapshot.counts(requested(PODS)).values.item(row) + 1000 > have:
            reasons.append(TOO_MANY_PODS)
        for resource, asked in self._checked(template):
            have = snapshot.counts(allocatable(resource)).values.item(row)
            if asked > have - snapshot.counts(requested(resource)).values.item(row):
                reasons.append(INSUFFICIENT.format(resource=resource))
                if asked > have:
                    code = Code.UNRESOLVABLE
        return Status(code, tuple(reasons), plugin=NAME) if reasons else OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot = context.snapshot
        fits = snapshot.counts(requested(PODS)).values + 1000 <= snapshot.counts(allocatable(PODS)).values
        for resource, asked in self._checked(template_of(context)):
            have, used = (
                snapshot.counts(allocatable(resource)).values,
                snapshot.counts(requested(resource)).values,
            )
            fits &= used <= have - asked
        return OK, candidates & bitmap.pack(fits)

    def group_rejections(self, context: Context, rows: Rows, /) -> Sequence[tuple[Status, Rows]]:
        """Each combination of insufficient resources is a group."""
        snapshot = context.snapshot
        used, have = (snapshot.counts(key(PODS)).values[rows] for key in (requested, allocatable))
        short = [(TOO_MANY_PODS, used + 1000 > have)]
        hopeless = np.zeros(len(rows), dtype=np.bool_)
        for resource, asked in self._checked(template_of(context)):
            used, have = (snapshot.counts(key(resource)).values[rows] for key in (requested, allocatable))
            short.append((INSUFFICIENT.format(resource=resource), used > have - asked))
            hopeless |= have < asked
        kind_of, examples = hopeless.astype(np.int64), np.zeros(1, dtype=np.int64)
        for _, lacks in short:
            _, examples, kind_of = np.unique(2 * kind_of + lacks, return_index=True, return_inverse=True)
        groups: list[tuple[Status, Rows]] = []
        for number, at in enumerate(examples.tolist()):
            code = Code.UNRESOLVABLE if hopeless[at] else Code.UNSCHEDULABLE
            reasons = tuple(reason for reason, lacks in short if lacks[at])
            groups.append((Status(code, reasons, plugin=NAME), rows[kind_of == number]))
        return groups

    def _checked(self, template: PodTemplate) -> Iterator[tuple[str, int]]:
        for resource, asked in checked_requests(template):
            ignored = resource in self._ignored or resource.partition("/")[0] in self._ignored_groups
            if not (ignored and is_scalar(resource)):
                yield resource, asked

    def score(self, context: Context, row: int, /) -> int:
        snapshot, strategy = context.snapshot, self._strategy
        total, weights = 0, 0
        for resource, weight, used, asked in self._scored(template_of(context)):
            have = snapshot.counts(allocatable(resource)).values.item(row)
            if not have:
                continue
            points = strategy.score(snapshot.counts(used).values.item(row) + asked, have)
            if points > 0 or not strategy.only_positive:
                total += points * weight
                weights += weight
        if not weights:
            return 0
        return (2 * total + weights) // (2 * weights) if strategy.only_positive else total // weights

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        snapshot, strategy = context.snapshot, self._strategy
        total = np.zeros(len(rows), dtype=np.int64)
        weights = np.zeros(len(rows), dtype=np.int64)
        for resource, weight, used, asked in self._scored(template_of(context)):
            have = snapshot.counts(allocatable(resource)).values[rows]
            now = np.minimum(snapshot.counts(used).values[rows], LARGEST - asked) + asked
            points = strategy.score_all(now, have)
            counted = (points > 0) & (have > 0) if strategy.only_positive else have > 0
            total += np.where(counted, points, 0) * weight
            weights += counted * weight
        least = np.maximum(weights, 1)
        return Raw((2 * total + weights) // (2 * least) if strategy.only_positive else total // least)

    def _scored(self, template: PodTemplate) -> Iterator[tuple[str, int, Key, int]]:
        """Yield name, weight, the column of what is used, and the pod's request of each scored resource."""
        for resource, weight in self._strategy.weights.items():
            asked = template.incoming_scoring_requests.get(resource, 0)
            if resource in (CPU, MEMORY):
                yield resource, weight, scoring_requested(resource), asked
            elif asked or not is_scalar(resource):
                yield resource, weight, requested(resource), asked

    def reads(self, context: Context, /) -> Reads:
        template = template_of(context)
        helps: dict[Key, Direction] = {}
        for resource in (PODS, *(name for name, _ in self._checked(template))):
            helps |= {allocatable(resource): Direction.UP, requested(resource): Direction.DOWN}
        scored = {
            key for resource, _, used, _ in self._scored(template) for key in (allocatable(resource), used)
        }
        none = dict.fromkeys(scored - helps.keys(), Direction.NONE)
        return Reads(cells=frozenset(helps.keys() | scored), helps=helps | none)


def _strategy(given: Mapping[str, Any]) -> _Strategy:
    """Create a strategy from arguments. Raise ValueError."""
    kind = given.get("type", LEAST_ALLOCATED)
    weights: dict[str, int] = {}
    for resource in given.get("resources") or _DEFAULT_RESOURCES:
        weight = resource.get("weight") or 1
        if not 1 <= weight <= 100:
            raise ValueError(BAD_WEIGHT.format(resource=resource["name"], given=weight))
        weights[resource["name"]] = weight
    if kind == LEAST_ALLOCATED:
        return _Strategy(weights, _least, _least_all)
    if kind == MOST_ALLOCATED:
        return _Strategy(weights, _most, _most_all)
    if kind != REQUESTED_TO_CAPACITY_RATIO:
        known = ", ".join((LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO))
        raise ValueError(UNKNOWN_STRATEGY.format(known=known, given=kind))
    shape = _shape((given.get("requestedToCapacityRatio") or {}).get("shape") or ())

    def score(used: int, have: int) -> int:
        return _along(shape, HIGHEST if used > have else used * HIGHEST // have)

    scores = np.array([_along(shape, share) for share in range(HIGHEST + 1)], dtype=np.int64)

    def score_all(used: Amounts, have: Amounts) -> Amounts:
        return scores[np.where(used > have, HIGHEST, _percent(np.minimum(used, have), have))]

    return _Strategy(weights, score, score_all, only_positive=True)


def _shape(points: Sequence[Mapping[str, Any]]) -> Shape:
    shape = tuple((point.get("utilization", 0), point.get("score", 0)) for point in points)
    rising = all(one < other for (one, _), (other, _) in pairwise(shape))
    if not shape or not rising or any(not (0 <= x <= 100 and 0 <= y <= 10) for x, y in shape):
        raise ValueError(BAD_SHAPE.format(given=list(points)))
    return tuple((x, y * _SHAPE_SCALE) for x, y in shape)


def _along(shape: Shape, utilization: int) -> int:
    """Return the score on the lines between the points of the shape."""
    before = shape[0]
    for point in shape:
        if utilization <= point[0]:
            if point is before:
                return point[1]
            rise = (point[1] - before[1]) * (utilization - before[0])
            steps = abs(rise) // (point[0] - before[0])  # truncates towards zero, like Go
            return before[1] + (steps if rise >= 0 else -steps)
        before = point
    return before[1]


def _least(used: int, have: int) -> int:
    return (have - used) * HIGHEST // have if used < have else 0


def _least_all(used: Amounts, have: Amounts) -> Amounts:
    return _percent(np.maximum(have - used, 0), have)


def _most(used: int, have: int) -> int:
    return min(used, have) * HIGHEST // have


def _most_all(used: Amounts, have: Amounts) -> Amounts:
    return _percent(np.minimum(used, have), have)


def _percent(part: Amounts, whole: Amounts) -> Amounts:
    """Return 100 times the quotient, truncated; 0 where the whole is 0."""
    if part.max(initial=0) > EXACT:
        return (part.astype(object) * HIGHEST // np.maximum(whole, 1)).astype(np.int64) * (whole > 0)
    return part * HIGHEST // np.maximum(whole, 1)
