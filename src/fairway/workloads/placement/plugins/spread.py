"""Spread: distributes the selected clusters evenly over regions, zones or other values of a label or claim.

Clusters are selected one by one, best first. A constraint with DoNotSchedule skips a cluster whose topology would be
more than ``maxSkew`` ahead of the emptiest one, even if fewer clusters than requested are selected. A constraint with
ScheduleAnyway prefers clusters within ``maxSkew``, whatever their scores, and selects others only if there are no such
clusters. Earlier constraints take precedence. Topologies are those of the clusters that passed the filters;
clusters without the label or claim have none, and are selected last.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from fairway.api.placement import DO_NOT_SCHEDULE, TOPOLOGY_CLAIM
from fairway.engine import ranking
from fairway.engine.points import Context, Reads, Scores, Timeless
from fairway.engine.remedies import RaiseField, Remedy, SetCell, WantMore
from fairway.engine.status import OK, SKIPPED, Status, unschedulable
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.column import CodeColumn, Key
from fairway.hosts.snapshot import Snapshot
from fairway.workloads.placement.plugins.selector_remedies import MOST_VALUES, PLAIN_VALUE
from fairway.workloads.placement.workload import PlacementWorkload, placement_of

NAME = "Spread"
NO_TOPOLOGY = "has no {kind} {key}, over which the placement must be spread"
TOO_UNEVEN = "would leave {kind} {key}={value} {skew} ahead of the emptiest, and at most {most} is allowed"
PASSED_OVER = (
    "would have put {kind} {key}={value} more than maxSkew {most} ahead of the emptiest, "
    "so the spread policy chose a lower-ranked cluster"
)
TAKEN_LAST = "has no {kind} {key}, so the spread policy chose a lower-ranked cluster that has one"


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


Constraints = tuple[Constraint, ...]


def spread_constraints(workload: PlacementWorkload) -> Constraints:
    return tuple(
        Constraint(
            column=(
                cells.CLAIM if constraint.topologyKeyType == TOPOLOGY_CLAIM else cells.LABEL,
                constraint.topologyKey,
            ),
            most=max(1, constraint.maxSkew),
            hard=constraint.whenUnsatisfiable == DO_NOT_SCHEDULE,
        )
        for constraint in workload.placement.spec.spreadPolicy.spreadConstraints
    )


def is_hard(constraints: Constraints) -> bool:
    """Return whether clusters without a topology are rejected."""
    return any(constraint.hard for constraint in constraints)


def _constraints(context: Context) -> Constraints:
    return placement_of(context).derive(spread_constraints)


class Spread(Timeless):
    """Rejects clusters without the topology of a hard constraint, and selects."""

    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        """Skip the filter without a hard constraint."""
        return (OK if is_hard(_constraints(context)) else SKIPPED), None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        for constraint in _constraints(context):
            if constraint.hard and not context.snapshot.codes(constraint.column).codes[row]:
                return unschedulable(
                    NO_TOPOLOGY.format(kind=constraint.kind, key=constraint.key), plugin=NAME
                )
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        for constraint in _constraints(context):
            if constraint.hard:
                candidates = candidates & ~context.snapshot.codes(constraint.column).bitmap(0)
        return OK, candidates

    def filter_remedies(self, context: Context, row: int, /) -> Iterator[SetCell]:
        """Propose topologies for a cluster without one, those with the fewest clusters first.

        A cluster keeps its topology, because its location cannot be changed.
        """
        for constraint in _constraints(context):
            codes = context.snapshot.codes(constraint.column)
            if codes.value(row):
                continue
            known = sorted((codes.uses(code), str(value)) for value, code in codes.items() if value)
            values = [value for _, value in known[:MOST_VALUES]]
            yield from (SetCell(constraint.column, value) for value in values or [PLAIN_VALUE])

    def choice_remedies(self, context: Context, row: int, rows: Rows, totals: Scores, /) -> Iterator[Remedy]:
        """Propose topologies, a higher maxSkew, and more clusters."""
        yield from self.filter_remedies(context, row)
        for at, constraint in enumerate(_constraints(context)):
            if constraint.most < len(rows):
                yield RaiseField(("spec", "spreadPolicy", "spreadConstraints", at, "maxSkew"), most=len(rows))
        yield WantMore(guesses=_enough(context, row, rows, totals))

    def reads(self, context: Context, /) -> Reads:
        return Reads(cells=frozenset(constraint.column for constraint in _constraints(context)))

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        """Return the selected rows, best first; None without constraints."""
        constraints = _constraints(context)
        if not constraints:
            return None
        snapshot = context.snapshot
        wanted = len(rows) if context.workload.wanted is None else min(context.workload.wanted, len(rows))
        if wanted <= 0:
            return rows[:0]
        ordered = ranking.best(rows, totals, snapshot.hosts.rank[rows], wanted=None)
        # All are selected, and soft constraints only decide which ones.
        if wanted == len(rows) and not is_hard(constraints):
            return ordered
        queue = _Queue(constraints, _pools(snapshot, constraints, ordered))
        taken: list[int] = []
        while len(taken) < wanted and (row := queue.take()) is not None:
            taken.append(row)
        # Best first, as every choice, and not in the order in which they were taken.
        return ordered[np.isin(ordered, np.array(taken, dtype=np.int64))]

    def explain_choice(
        self, context: Context, chosen: Rows, rows: Rows, totals: Scores, /
    ) -> Callable[[int], str | None]:
        """Explain which constraint kept a feasible row out; None for a row that ranks below all chosen ones."""
        wanted = len(rows) if context.workload.wanted is None else context.workload.wanted
        constraints = _constraints(context)
        if len(chosen) < min(wanted, len(rows)):
            return _excess(context.snapshot, constraints, chosen, rows)
        return _preference(context.snapshot, constraints, chosen, rows, totals).get


def _enough(context: Context, row: int, rows: Rows, totals: Scores) -> tuple[int, ...]:
    """Estimate the necessary number of clusters.

    About the same number is selected from every topology, so a cluster is selected when each topology has as many
    selected clusters, if it has them, as there are better clusters in its own.
    """
    better = ranking.better_than(row, rows, totals, context.snapshot.hosts.rank[rows])
    columns = [context.snapshot.codes(constraint.column).codes for constraint in _constraints(context)]
    topologies = np.stack([codes[rows] for codes in columns])
    _, sizes = np.unique(topologies, axis=1, return_counts=True)
    own = (topologies == np.array([[codes[row]] for codes in columns])).all(axis=0)
    turn = int((better & own).sum())
    return (int(better.sum()) + 1, int(np.minimum(sizes, turn).sum()), int(np.minimum(sizes, turn + 1).sum()))


def _preference(
    snapshot: Snapshot[Any], constraints: Constraints, chosen: Rows, rows: Rows, totals: Scores
) -> dict[int, str]:
    """Repeat the choice, and record what kept a row out when the first row of a lower rank was taken."""
    ordered = ranking.best(rows, totals, snapshot.hosts.rank[rows], wanted=None)
    columns = [snapshot.codes(constraint.column) for constraint in constraints]
    taken = np.isin(ordered, chosen)
    left = deque(np.flatnonzero(~taken).tolist())
    queue = _Queue(constraints, _pools(snapshot, constraints, ordered))
    words: dict[int, str] = {}
    for _ in range(len(chosen)):
        pool = queue.next()
        if pool is None or pool.place is None:
            break
        preferred = queue.broken(pool.topology)
        # Rows are passed over when a row of a lower rank is taken. The counts of that moment are the reason.
        while left and left[0] < pool.place:
            row = int(ordered[left.popleft()])
            topology = tuple(int(column.codes[row]) for column in columns)
            at = _objection(constraints, queue.broken(topology), preferred)
            words[row] = _passed_over(constraints[at], columns[at], topology[at])
        queue.take()
    return words


def _objection(constraints: Constraints, broken: tuple[bool, ...], preferred: tuple[bool, ...]) -> int:
    """Return the constraint that decided between the two."""
    hard = (at for at, constraint in enumerate(constraints) if constraint.hard and broken[at])
    first = next(hard, None)
    if first is not None:
        return first
    return next(at for at, (mine, theirs) in enumerate(zip(broken, preferred, strict=True)) if mine > theirs)


def _passed_over(constraint: Constraint, column: CodeColumn, code: int) -> str:
    if not code:
        return TAKEN_LAST.format(kind=constraint.kind, key=constraint.key)
    return PASSED_OVER.format(
        kind=constraint.kind, key=constraint.key, value=column.values[code], most=constraint.most
    )


def _excess(
    snapshot: Snapshot[Any], constraints: Constraints, chosen: Rows, rows: Rows
) -> Callable[[int], str | None]:
    """Explain which hard constraint one more row would break, where fewer are chosen than wanted."""
    counted: list[tuple[Constraint, CodeColumn, dict[int, int], int]] = []
    for constraint in constraints:
        if constraint.hard:
            column = snapshot.codes(constraint.column)
            counts = dict.fromkeys(np.unique(column.codes[rows]).tolist(), 0)
            for code in column.codes[chosen].tolist():
                counts[code] += 1
            counted.append((constraint, column, counts, min(counts.values(), default=0)))

    def objection(row: int) -> str | None:
        for constraint, column, counts, lowest in counted:
            code = int(column.codes[row])
            skew = counts[code] + 1 - lowest
            if skew > constraint.most:
                return TOO_UNEVEN.format(
                    kind=constraint.kind,
                    key=constraint.key,
                    value=column.values[code],
                    skew=skew,
                    most=constraint.most,
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
        """Return the rank of the best remaining row; None if none remains."""
        return self._places[self._at] if self._at < len(self._rows) else None

    def take(self) -> int:
        self._at += 1
        return self._rows[self._at - 1]


class Tally:
    """Number of selected rows of each topology of each constraint."""

    def __init__(self, constraints: Sequence[Constraint], pools: Sequence[_Pool]) -> None:
        self._constraints = constraints
        self._counts: list[dict[int, int]] = [
            {pool.topology[at]: 0 for pool in pools if pool.topology[at]} for at in range(len(constraints))
        ]
        self._lowest = [0] * len(constraints)
        self._emptiest = [len(counts) for counts in self._counts]
        """Number of topologies with the lowest count."""

    def add(self, topology: tuple[int, ...]) -> bool:
        """Return whether the lowest count of a constraint rose, so that skipped topologies may be allowed again."""
        risen = False
        for at, code in enumerate(topology):
            if not code:
                continue
            counts = self._counts[at]
            counts[code] += 1
            if counts[code] - 1 == self._lowest[at]:
                self._emptiest[at] -= 1
                if not self._emptiest[at]:
                    self._lowest[at] += 1
                    self._emptiest[at] = sum(count == self._lowest[at] for count in counts.values())
                    risen = True
        return risen

    def broken(self, topology: tuple[int, ...]) -> tuple[bool, ...]:
        """Return the constraints that one more row of these topologies would violate."""
        return tuple(
            code == 0 or counts[code] + 1 - low > constraint.most
            for constraint, counts, code, low in zip(
                self._constraints, self._counts, topology, self._lowest, strict=True
            )
        )


class _Queue:
    """Pools by the constraints that their next row would violate, best row first.

    A pool is sorted in when it is added, and again when necessary. Until the lowest count of a constraint rises,
    pools can only violate more, so the first pool whose entry is still correct is the best of all.
    """

    def __init__(self, constraints: Sequence[Constraint], pools: Sequence[_Pool]) -> None:
        self._tally = Tally(constraints, pools)
        self._hard = [at for at, constraint in enumerate(constraints) if constraint.hard]
        self._pools = pools
        self._heaps: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
        for number in range(len(pools)):
            self._file(number)

    def take(self) -> int | None:
        """Return the next row; None if all are selected or would violate a hard constraint."""
        upcoming = self._next()
        if upcoming is None:
            return None
        filed, number = upcoming
        pool = self._pools[number]
        heappop(self._heaps[filed])
        row = pool.take()
        # Only then may pools violate fewer constraints than when they were sorted in, so that all of them are sorted
        # again, which would take too long after each row.
        if self._tally.add(pool.topology):
            self._refile()
        self._file(number)
        return row

    def next(self) -> _Pool | None:
        """Return the pool of the next row."""
        upcoming = self._next()
        return None if upcoming is None else self._pools[upcoming[1]]

    def broken(self, topology: tuple[int, ...]) -> tuple[bool, ...]:
        return self._tally.broken(topology)

    def _next(self) -> tuple[tuple[bool, ...], int] | None:
        while (first := self._first()) is not None:
            filed, (_, number) = first
            # Its topology may have got a row since it was sorted in.
            if self._tally.broken(self._pools[number].topology) == filed:
                return filed, number
            heappop(self._heaps[filed])
            self._file(number)
        return None

    def _first(self) -> tuple[tuple[bool, ...], tuple[int, int]] | None:
        # Compared constraint by constraint, so that earlier ones take precedence.
        filed = min(
            (key for key, heap in self._heaps.items() if heap and not any(key[at] for at in self._hard)),
            default=None,
        )
        return None if filed is None else (filed, self._heaps[filed][0])

    def _file(self, number: int) -> None:
        pool = self._pools[number]
        if pool.place is not None:
            filed = self._tally.broken(pool.topology)
            heappush(self._heaps.setdefault(filed, []), (pool.place, number))

    def _refile(self) -> None:
        # Pools that violate nothing stay where they are: they cannot violate less.
        for filed in [filed for filed in self._heaps if any(filed)]:
            for _, number in self._heaps.pop(filed):
                self._file(number)


def _pools(snapshot: Snapshot[Any], constraints: Sequence[Constraint], ordered: Rows) -> list[_Pool]:
    columns: list[CodeColumn] = [snapshot.codes(constraint.column) for constraint in constraints]
    members: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    codes = [column.codes[ordered].tolist() for column in columns]
    for place, (row, topology) in enumerate(zip(ordered.tolist(), zip(*codes, strict=True), strict=True)):
        rows, places = members.setdefault(topology, ([], []))
        rows.append(row)
        places.append(place)
    return [_Pool(topology, rows, places) for topology, (rows, places) in members.items()]
