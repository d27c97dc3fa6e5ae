"""Plugins that schedule by a ledger alone, for tests and benchmarks of the engine: Fit, MostRoom and ReserveDemand."""

from collections.abc import Hashable, Mapping

import numpy as np

from fairway.engine.ledger import InsufficientCapacity, Ledger
from fairway.engine.points import CommitContext, Context, CycleWorkload, Raw, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.engine.workload import ResourceList, Workload
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.resources import earmarked, grantable

RESERVE = "ReserveDemand"


def columns_of(demand: ResourceList) -> dict[Key, Direction]:
    return {grantable(resource): Direction.UP for resource in demand}


def demand_of(workload: CycleWorkload) -> ResourceList:
    assert isinstance(workload, Workload)
    return workload.demand


class Fit(Timeless):
    """Rejects hosts on which the ledger cannot grant the demand."""

    name = "Fit"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def filter(self, context: Context, row: int, /) -> Status:
        room = self._own(context).get(row, {})
        for resource, asked in demand_of(context.workload).items():
            if asked > int(context.snapshot.counts(grantable(resource)).values[row]) + room.get(resource, 0):
                return unschedulable(f"has too little {resource}", plugin=self.name)
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        passed = candidates.copy()
        for resource, asked in demand_of(context.workload).items():
            passed &= bitmap.pack(context.snapshot.counts(grantable(resource)).values >= asked)
        for row in self._own(context):
            if bitmap.test(candidates, row):
                bitmap.put(passed, row, not self.filter(context, row).rejects)
        return OK, passed

    def reads(self, context: Context, /) -> Reads:
        demand = demand_of(context.workload)
        helps = columns_of(demand) | {earmarked(resource): Direction.UP for resource in demand}
        return Reads(cells=frozenset(helps), helps=helps)

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        assert isinstance(workload, Workload)
        kept = self._ledger.earmarked_for(workload.key).items()
        rooms = frozenset((host, frozenset(room.items())) for host, room in kept)
        return frozenset(workload.demand.items()), rooms

    def _own(self, context: Context) -> dict[int, dict[str, int]]:
        """Return the room that is kept for this workload, by row."""
        assert isinstance(context.workload, Workload)
        row_of = context.snapshot.hosts.row_of
        kept = self._ledger.earmarked_for(context.workload.key)
        return {row_of[host.name]: room for host, room in kept.items() if host.name in row_of}


class MostRoom(Timeless):
    """Prefers hosts on which the ledger can grant more units of these resources."""

    name = "MostRoom"

    def __init__(self, *resources: str, unit: int) -> None:
        self._resources, self._unit = resources, unit

    def score(self, context: Context, row: int, /) -> int:
        return int(self.score_fleet(context, np.array([row])).values[0])

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        rooms = (context.snapshot.counts(grantable(resource)).values[rows] for resource in self._resources)
        total = sum(
            (np.maximum(room, 0) // self._unit for room in rooms), np.zeros(len(rows), dtype=np.int64)
        )
        return Raw(np.minimum(total, 100))

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset(map(grantable, self._resources)))

    def signature(self, _workload: CycleWorkload, /) -> Hashable:
        return ()


class ReserveDemand:
    """Reserves the demand of a workload in the ledger, on every host that was selected for it."""

    name = RESERVE

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def reserve(self, context: CommitContext, /) -> Status:
        try:
            with self._ledger.transaction() as transaction:
                for host in context.hosts:
                    transaction.reserve(host, context.workload.key, context.workload.demand)
        except InsufficientCapacity as refused:
            return unschedulable(str(refused), plugin=self.name)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        with self._ledger.transaction() as transaction:
            for host in context.hosts:
                if self._ledger.account(host) is not None:
                    transaction.release(host, context.workload.key)

    def releases(self, context: CommitContext, /) -> Mapping[Key, Direction]:
        return columns_of(context.workload.demand)

    def commit_reads(self, context: CommitContext, /) -> Reads:
        columns = columns_of(context.workload.demand)
        return Reads(cells=frozenset(columns), helps=columns)
