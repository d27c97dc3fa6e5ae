"""Spread: keeps the chosen clusters even over regions, zones or whatever a label or claim tells apart.

Clusters are taken one by one, best first. A constraint with DoNotSchedule passes over a cluster that would put its
topology more than ``maxSkew`` ahead of the emptiest one, even if fewer clusters than wanted are chosen then. One
with ScheduleAnyway prefers clusters that keep within ``maxSkew``, whatever the scores say, and takes others only
when there are none. Earlier constraints matter more. Topologies are those of the clusters that passed the filters;
clusters without the label or claim are in none, and the last to be taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairway.api.placement import DO_NOT_SCHEDULE, TOPOLOGY_CLAIM, SpreadConstraint
from fairway.engine import ranking
from fairway.engine.points import Context, Reads, Scores, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.fleet import cells
from fairway.fleet.bitmap import Bits, Rows
from fairway.fleet.column import CodeColumn, Key
from fairway.fleet.snapshot import Snapshot

NAME = "Spread"
NO_TOPOLOGY = "has no {kind} {key}, over which the placement must be spread"
TOO_UNEVEN = "would leave {kind} {key}={value} {skew} ahead of the emptiest, and at most {most} is allowed"


@dataclass(frozen=True, slots=True)
class Constraint:
    column: Key
    most: int
    hard: bool

    @property
    def kind(self) -> str:
        return self.column[0]

    @property
    def key(self) -> str:
        return self.column[1]


class Spread(Timeless):
    """Filters out what has no topology a hard constraint asks for, and does the choosing."""

    name = NAME

    def __init__(self, *, constraints: Sequence[SpreadConstraint]) -> None:
        self.constraints = tuple(
            Constraint(
                column=(
                    cells.CLAIM if each.topologyKeyType == TOPOLOGY_CLAIM else cells.LABEL,
                    each.topologyKey,
                ),
                most=max(1, each.maxSkew),
                hard=each.whenUnsatisfiable == DO_NOT_SCHEDULE,
            )
            for each in constraints
        )

    @property
    def hard(self) -> bool:
        return any(each.hard for each in self.constraints)

    def filter(self, context: Context, row: int, /) -> Status:
        for each in self.constraints:
            if each.hard and not context.snapshot.codes(each.column).codes[row]:
                return unschedulable(NO_TOPOLOGY.format(kind=each.kind, key=each.key), plugin=NAME)
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        for each in self.constraints:
            if each.hard:
                candidates = candidates & ~context.snapshot.codes(each.column).bitmap(0)
        return OK, candidates

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset(each.column for each in self.constraints))

    def choose(self, context: Context, rows: Rows, totals: Scores) -> Rows:
        """The wanted rows, best first."""
        snapshot = context.snapshot
        wanted = len(rows) if context.workload.wanted is None else min(context.workload.wanted, len(rows))
        if wanted <= 0:
            return rows[:0]
        ordered = ranking.best(rows, totals, snapshot.hosts.rank[rows], wanted=None)
        pools = _pools(snapshot, self.constraints, ordered)
        tally = _Tally(self.constraints, pools)
        taken: set[int] = set()
        while len(taken) < wanted:
            pool = tally.pick(pools)
            if pool is None:
                break
            taken.add(pool.take())
            tally.add(pool.topology)
        return ordered[np.isin(ordered, np.fromiter(taken, np.int64, len(taken)))]

    def objector(self, context: Context, chosen: Rows, rows: Rows) -> Callable[[int], str | None]:
        """Says which hard constraint keeps a row out beside the chosen ones, in words. ``rows``: all feasible."""
        counted: list[tuple[Constraint, CodeColumn, dict[int, int], int]] = []
        for each in self.constraints:
            if each.hard:
                column = context.snapshot.codes(each.column)
                counts = dict.fromkeys(np.unique(column.codes[rows]).tolist(), 0)
                for code in column.codes[chosen].tolist():
                    counts[code] += 1
                counted.append((each, column, counts, min(counts.values(), default=0)))

        def objection(row: int) -> str | None:
            for each, column, counts, lowest in counted:
                mine = int(column.codes[row])
                skew = counts[mine] + 1 - lowest
                if skew > each.most:
                    return TOO_UNEVEN.format(
                        kind=each.kind, key=each.key, value=column.values[mine], skew=skew, most=each.most
                    )
            return None

        return objection


class _Pool:
    """Rows with the same topologies, best first."""

    __slots__ = ("_at", "_places", "_rows", "topology")

    def __init__(self, topology: tuple[int, ...], rows: list[int], places: list[int]) -> None:
        self.topology = topology
        self._rows = rows
        self._places = places
        self._at = 0

    @property
    def place(self) -> int | None:
        """Where the best row left stands in the ranking of all; None when none is left."""
        return self._places[self._at] if self._at < len(self._rows) else None

    def take(self) -> int:
        self._at += 1
        return self._rows[self._at - 1]


class _Tally:
    """How many rows each topology of each constraint has been given."""

    def __init__(self, constraints: Sequence[Constraint], pools: Sequence[_Pool]) -> None:
        self._constraints = constraints
        self._counts: list[dict[int, int]] = [
            {pool.topology[at]: 0 for pool in pools if pool.topology[at]} for at in range(len(constraints))
        ]

    def add(self, topology: tuple[int, ...]) -> None:
        for counts, code in zip(self._counts, topology, strict=True):
            if code:
                counts[code] += 1

    def pick(self, pools: Sequence[_Pool]) -> _Pool | None:
        lowest = [min(counts.values(), default=0) for counts in self._counts]
        best: tuple[tuple[bool, ...], int] | None = None
        found: _Pool | None = None
        for pool in pools:
            place = pool.place
            if place is None:
                continue
            broken = tuple(self._broken(pool.topology, lowest))
            if any(each.hard and too_far for each, too_far in zip(self._constraints, broken, strict=True)):
                continue
            if best is None or (broken, place) < best:
                best, found = (broken, place), pool
        return found

    def _broken(self, topology: tuple[int, ...], lowest: list[int]) -> Iterator[bool]:
        for each, counts, code, low in zip(self._constraints, self._counts, topology, lowest, strict=True):
            yield code == 0 or counts[code] + 1 - low > each.most


def _pools(snapshot: Snapshot, constraints: Sequence[Constraint], ordered: Rows) -> list[_Pool]:
    columns: list[CodeColumn] = [snapshot.codes(each.column) for each in constraints]
    members: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    codes = [column.codes[ordered].tolist() for column in columns]
    for place, (row, topology) in enumerate(zip(ordered.tolist(), zip(*codes, strict=True), strict=True)):
        rows, places = members.setdefault(topology, ([], []))
        rows.append(row)
        places.append(place)
    return [_Pool(topology, rows, places) for topology, (rows, places) in members.items()]
