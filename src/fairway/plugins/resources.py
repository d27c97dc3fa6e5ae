"""ResourcesFit, LeastAllocated and BalancedAllocation: which hosts have room for a workload, and which of them is best.

They read columns of ``fairway.fleet.resources``, whatever the kind of host. With ``ledger``, room is what the ledger
can grant (see ``LedgerColumns``); without, it is what a host has less what its observed workloads request. The scores
are those of kube-scheduler: amounts are integers and quotients are truncated.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from math import sqrt

import numpy as np
import numpy.typing as npt

from fairway.engine.ledger import HostAccount, Ledger
from fairway.engine.points import Context, CycleWorkload, Raw, Reads, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import ResourceList, Workload, WorkloadKey, format_amount
from fairway.fleet import bitmap
from fairway.fleet.bitmap import Bits, Rows
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction
from fairway.fleet.resources import allocatable, earmarked, grantable, requested

FIT = "ResourcesFit"
LEAST = "LeastAllocated"
BALANCED = "BalancedAllocation"

INSUFFICIENT = "has too little {resource}: {asked} requested, {left}"
LEFT = "{left} left"
NO_DEMAND = "plugin {plugin} reads the demand of a Workload; got {kind}"

HIGHEST = 100
DEFAULT_RESOURCES: Mapping[str, int] = {"cpu": 1, "memory": 1}
"""The resources that are scored, with their weights."""
EXACT = ((1 << 63) - 1) // HIGHEST
"""Larger amounts are multiplied as Python integers, which do not overflow."""

Amounts = npt.NDArray[np.int64]


def workload_of(workload: CycleWorkload, plugin: str) -> tuple[WorkloadKey, ResourceList]:
    if not isinstance(workload, Workload):
        raise TypeError(NO_DEMAND.format(plugin=plugin, kind=type(workload).__name__))
    return workload.key, workload.demand


class ResourcesFit(Timeless):
    """Rejects hosts without room for the demand."""

    name = FIT

    def __init__(self, *, ledger: Ledger | None = None) -> None:
        self._ledger = ledger

    def filter(self, context: Context, row: int, /) -> Status:
        who, demand = workload_of(context.workload, FIT)
        own = self._own(context, who).get(row, {})
        snapshot = context.snapshot
        short: dict[str, int] = {}
        for resource, asked in demand.items():
            if self._ledger is not None:
                left = int(snapshot.counts(grantable(resource)).values[row]) + own.get(resource, 0)
            else:
                left = int(snapshot.counts(allocatable(resource)).values[row])
                left -= int(snapshot.counts(requested(resource)).values[row])
            if asked > left:
                short[resource] = left
        if not short:
            return OK
        name = snapshot.hosts.names[row]
        account = None if self._ledger is None else self._ledger.account_named(name)
        return Status(Code.UNSCHEDULABLE, lambda: _reasons(who, demand, short, account), plugin=FIT)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        who, demand = workload_of(context.workload, FIT)
        snapshot = context.snapshot
        passed = candidates
        for resource, asked in demand.items():
            if self._ledger is not None:
                fits = snapshot.counts(grantable(resource)).values >= asked
            else:
                have, used = snapshot.counts(allocatable(resource)), snapshot.counts(requested(resource))
                fits = used.values <= have.values - asked
            passed = passed & bitmap.pack(fits)
        for row in self._own(context, who):
            if bitmap.test(candidates, row) and not bitmap.test(passed, row):
                passed = passed.copy()
                bitmap.put(passed, row, not self.filter(context, row).rejects)
        return OK, passed

    def reads(self, context: Context, /) -> Reads:
        _, demand = workload_of(context.workload, FIT)
        helps: dict[Key, Direction] = {}
        for resource in demand:
            if self._ledger is not None:
                helps |= {grantable(resource): Direction.UP, earmarked(resource): Direction.UP}
            else:
                helps |= {allocatable(resource): Direction.UP, requested(resource): Direction.DOWN}
        return Reads(cells=frozenset(helps), helps=helps)

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        """The demand, and the room that is kept for this workload."""
        who, demand = workload_of(workload, FIT)
        kept = {} if self._ledger is None else self._ledger.earmarked_for(who)
        rooms = frozenset((host, frozenset(room.items())) for host, room in kept.items())
        return frozenset(demand.items()), rooms

    def _own(self, context: Context, who: WorkloadKey) -> dict[int, dict[str, int]]:
        """Return the room that is kept for this workload, by row."""
        kept = {} if self._ledger is None else self._ledger.earmarked_for(who)
        row_of = context.snapshot.hosts.row_of
        return {row_of[host.name]: room for host, room in kept.items() if host.name in row_of}


def _reasons(
    who: WorkloadKey, demand: ResourceList, short: Mapping[str, int], account: HostAccount | None
) -> tuple[str, ...]:
    """Return a reason for each short resource, with the holders and earmarks that the ledger knows."""
    found = {} if account is None else {each.resource: each for each in account.shortages(who, demand)}
    reasons: list[str] = []
    for resource, amount in short.items():
        left = LEFT.format(left=format_amount(resource, max(0, amount)))
        if resource in found:
            left = found[resource].obstacles
        reasons.append(
            INSUFFICIENT.format(resource=resource, asked=format_amount(resource, demand[resource]), left=left)
        )
    return tuple(reasons)


class _Allocation(Timeless):
    """A score by how much of a host is allocated once the workload is there."""

    name = ""

    def __init__(self, *, resources: Mapping[str, int] | None = None, ledger: bool = False) -> None:
        self._resources = dict(DEFAULT_RESOURCES if resources is None else resources)
        self._ledger = ledger

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        _, demand = workload_of(workload, self.name)
        return frozenset(demand.items())

    def _scored(self, _demand: ResourceList) -> Iterable[tuple[str, int]]:
        """Return the resources that are scored for a workload with this demand, and their weights."""
        return self._resources.items()

    def _on_host(self, context: Context, row: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield weight, capacity, use and demand of each resource that the host has."""
        _, demand = workload_of(context.workload, self.name)
        snapshot = context.snapshot
        for resource, weight in self._scored(demand):
            have = int(snapshot.counts(allocatable(resource)).values[row])
            if have:
                if self._ledger:
                    used = max(0, have - max(0, int(snapshot.counts(grantable(resource)).values[row])))
                else:
                    used = int(snapshot.counts(requested(resource)).values[row])
                yield weight, have, used, demand.get(resource, 0)

    def _on_fleet(self, context: Context, rows: Rows) -> Iterator[tuple[int, Amounts, Amounts, int]]:
        """Yield the same for all rows; the capacity is 0 where a host does not have the resource."""
        _, demand = workload_of(context.workload, self.name)
        snapshot = context.snapshot
        for resource, weight in self._scored(demand):
            have = snapshot.counts(allocatable(resource)).values[rows]
            if self._ledger:
                left = snapshot.counts(grantable(resource)).values[rows]
                used = np.maximum(have - np.maximum(left, 0), 0)
            else:
                used = snapshot.counts(requested(resource)).values[rows]
            yield weight, have, used, demand.get(resource, 0)

    def reads(self, _context: Context, /) -> Reads:
        used = grantable if self._ledger else requested
        return Reads(
            cells=frozenset(key for each in self._resources for key in (allocatable(each), used(each)))
        )


class LeastAllocated(_Allocation):
    """Prefers hosts with more room: the weighted mean of the shares that stay free, in percent."""

    name = LEAST

    def score(self, context: Context, row: int, /) -> int:
        total, weights = 0, 0
        for weight, have, used, asked in self._on_host(context, row):
            total += weight * (max(0, have - used - asked) * HIGHEST // have)
            weights += weight
        return total // weights if weights else 0

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        total = np.zeros(len(rows), dtype=np.int64)
        weights = np.zeros(len(rows), dtype=np.int64)
        for weight, have, used, asked in self._on_fleet(context, rows):
            exists = have > 0
            free = np.maximum(have - used, asked) - asked
            if free.max(initial=0) > EXACT:
                free = free.astype(object)
            total += weight * (free * HIGHEST // np.maximum(have, 1)).astype(np.int64) * exists
            weights += weight * exists
        return Raw(total // np.maximum(weights, 1))


class BalancedAllocation(_Allocation):
    """Prefers hosts whose resources are used evenly once the workload is there: 75 if it changes nothing."""

    name = BALANCED

    def score(self, context: Context, row: int, /) -> int:
        before: list[float] = []
        after: list[float] = []
        for _, have, used, asked in self._on_host(context, row):
            before.append(min(1.0, float(used) / float(have)))
            after.append(min(1.0, (float(used) + float(asked)) / float(have)))
        return 50 + (50 + _balance(after) - _balance(before)) // 2

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        resources = list(self._on_fleet(context, rows))
        exists = [have > 0 for _, have, _, _ in resources]
        before, after = (
            _balances(
                [
                    np.minimum(1.0, (used + float(asked * extra)) / np.maximum(have, 1))
                    for _, have, used, asked in resources
                ],
                exists,
            )
            for extra in (0, 1)
        )
        return Raw(50 + (50 + after - before) // 2)


def _balance(fractions: list[float]) -> int:
    """Return 100 where all fractions are equal, 50 where they are as different as possible."""
    if len(fractions) < 2:
        return HIGHEST
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions) / len(fractions)
        squares = 0.0
        for each in fractions:
            squares += (each - mean) * (each - mean)
        deviation = sqrt(squares / len(fractions))
    return int((1 - deviation) * HIGHEST)


def _balances(fractions: list[npt.NDArray[np.float64]], exists: list[npt.NDArray[np.bool_]]) -> Amounts:
    """Return ``_balance`` of every row, of the resources that exist there. In the same order of operations, so that
    rounding is the same, too."""
    if all(there.all() for there in exists):
        return _balances_of_all(fractions)
    size = len(exists[0]) if exists else 0
    count = np.zeros(size, dtype=np.int64)
    total = np.zeros(size)
    for each, there in zip(fractions, exists, strict=True):
        count += there
        total += np.where(there, each, 0.0)
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size)
    for each, there in zip(fractions, exists, strict=True):
        squares += np.where(there, (each - mean) * (each - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    deviation[count < 2] = 0.0
    pairs = count == 2
    if pairs.any():
        # The reference computes the deviation of two differently, which rounds differently.
        signed, open_ = np.zeros(size), np.ones(size, dtype=np.bool_)
        for each, there in zip(fractions, exists, strict=True):
            signed = np.where(there, np.where(open_, each, signed - each), signed)
            open_ = open_ & ~there
        deviation = np.where(pairs, np.abs(signed / 2), deviation)
    return ((1 - deviation) * HIGHEST).astype(np.int64)


def _balances_of_all(fractions: list[npt.NDArray[np.float64]]) -> Amounts:
    """Return the same where every host has every resource, which is the usual case."""
    if len(fractions) < 2:
        return np.full(len(fractions[0]) if fractions else 0, HIGHEST, dtype=np.int64)
    if len(fractions) == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions[1:], fractions[0]) / len(fractions)
        squares = np.zeros(len(mean))
        for each in fractions:
            apart = each - mean
            squares += apart * apart
        deviation = np.sqrt(squares / len(fractions))
    return ((1 - deviation) * HIGHEST).astype(np.int64)
