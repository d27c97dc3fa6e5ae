"""NodeResourcesBalancedAllocation: prefers nodes whose resources are used evenly once the pod runs there.

The score is that of kube-scheduler, 75 where the pod changes nothing. A pod that requests none of the scored resources
is not scored, so that such pods do not all go to the same node.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.engine.points import Context, CycleWorkload, Raw, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Status
from fairway.engine.workload import ResourceList, Workload
from fairway.hosts.bitmap import Rows
from fairway.hosts.resources import allocatable, requested
from fairway.workloads.pods.plugins.node_resources_fit import is_scalar
from fairway.workloads.pods.plugins.normalizing import HIGHEST
from fairway.workloads.pods.workload import template_of

NAME = "NodeResourcesBalancedAllocation"
DEFAULT_RESOURCES = ("cpu", "memory")

Amounts = npt.NDArray[np.int64]


class NodeResourcesBalancedAllocation(Timeless):
    name = NAME

    def __init__(self, *, resources: Sequence[Mapping[str, Any]] | None = None) -> None:
        names = DEFAULT_RESOURCES if resources is None else (resource["name"] for resource in resources)
        self._resources = tuple(dict.fromkeys(names))

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        requests = template_of(context).requests
        return OK if any(requests.get(resource) for resource in self._resources) else SKIPPED

    def score(self, context: Context, row: int, /) -> int:
        before: list[float] = []
        after: list[float] = []
        for amounts, amounts_used, asked in self._scored(context, slice(row, row + 1)):
            have, used = int(amounts[0]), int(amounts_used[0])
            if have:
                before.append(min(1.0, float(used) / float(have)))
                after.append(min(1.0, (float(used) + float(asked)) / float(have)))
        return 50 + (50 + _balance(after) - _balance(before)) // 2

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        resources = list(self._scored(context, rows))
        exists = [have > 0 for have, _, _ in resources]
        if len(resources) != 2 or not all(there.all() for there in exists):
            before, after = (
                _balances(
                    [
                        np.minimum(1.0, (used + float(asked * extra)) / np.maximum(have, 1))
                        for have, used, asked in resources
                    ],
                    exists,
                )
                for extra in (0, 1)
            )
            return Raw(50 + (50 + after - before) // 2)
        # The usual case: the deviation of two fractions is half of their difference.
        (have, used, asked), (other_have, other_used, other_asked) = resources
        before, after = (
            ((1 - np.abs((one - other) / 2)) * HIGHEST).astype(np.int64)
            for one, other in (
                (_share(used, have), _share(other_used, other_have)),
                (_share(used + float(asked), have), _share(other_used + float(other_asked), other_have)),
            )
        )
        return Raw(50 + (50 + after - before) // 2)

    def basis(self, _context: Context, /) -> object:
        return NAME  # pre_score depends on the pod only

    def reads(self, _context: Context, /) -> Reads:
        return Reads(
            cells=frozenset(key(resource) for resource in self._resources for key in (allocatable, requested))
        )

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        return frozenset(_demand(workload).items())

    def _scored(self, context: Context, rows: Rows | slice) -> Iterator[tuple[Amounts, Amounts, int]]:
        """Yield capacity, use and demand of the scored resources, without extended ones that the pod does not
        request."""
        demand, snapshot = _demand(context.workload), context.snapshot
        for resource in self._resources:
            asked = demand.get(resource, 0)
            if asked or not is_scalar(resource):
                have = snapshot.counts(allocatable(resource)).values[rows]
                yield have, snapshot.counts(requested(resource)).values[rows], asked


def _demand(workload: CycleWorkload) -> ResourceList:
    if not isinstance(workload, Workload):
        raise TypeError(f"plugin {NAME} reads the demand of a Workload; got {type(workload).__name__}")
    return workload.demand


def _share(used: npt.NDArray[Any], have: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    share: npt.NDArray[np.float64] = used / have
    return np.minimum(share, 1.0, out=share)


def _balance(fractions: list[float]) -> int:
    """Return 100 where all fractions are equal, 50 where they are as different as possible."""
    if len(fractions) < 2:
        return HIGHEST
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions) / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = sqrt(squares / len(fractions))
    return int((1 - deviation) * HIGHEST)


def _balances(fractions: list[npt.NDArray[np.float64]], exists: list[npt.NDArray[np.bool_]]) -> Amounts:
    """Return ``_balance`` of every row, of the resources that exist there. In the same order of operations, so that
    rounding is the same, too."""
    size = len(exists[0]) if exists else 0
    count = np.zeros(size, dtype=np.int64)
    total = np.zeros(size)
    for fraction, there in zip(fractions, exists, strict=True):
        count += there
        total += np.where(there, fraction, 0.0)
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size)
    for fraction, there in zip(fractions, exists, strict=True):
        squares += np.where(there, (fraction - mean) * (fraction - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    deviation[count < 2] = 0.0
    pairs = count == 2
    if pairs.any():
        # The reference computes the deviation of two differently, which rounds differently.
        signed, open_ = np.zeros(size), np.ones(size, dtype=np.bool_)
        for fraction, there in zip(fractions, exists, strict=True):
            signed = np.where(there, np.where(open_, fraction, signed - fraction), signed)
            open_ = open_ & ~there
        deviation = np.where(pairs, np.abs(signed / 2), deviation)
    return ((1 - deviation) * HIGHEST).astype(np.int64)
