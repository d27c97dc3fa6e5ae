"""Search for the fewest moves of hosted clusters after which every host is within its limits.

Plans are compared by the state after all moves. The search deepens by the number of moves, and branches only on what
must change: while a host is beyond a limit, one of its hosted clusters that may still move has to leave. So it is
exact: if it ends before its limit of work, no plan has fewer moves, or none exists. A host may be beyond its limits
while others of the same plan have not moved yet, so chains and exchanges are found, too.

Everything is a number here; ``move_problem`` builds a problem from the state of the hosts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

K = TypeVar("K")
Amounts = tuple[int, ...]

MOST_WORK: Final = 200_000
"""Visits of one search: a target that is considered for a hosted cluster. About 10 microseconds each."""
DIVE_SHARE: Final = 5
"""One part in so many of the work is spent on any plan, before fewer moves are tried."""
MOST_MOVES: Final = 200
"""In one plan of this search, because it calls itself for each move."""
CHECK_WORK: Final = 20
"""Visits that a check of the whole fleet is worth."""
IMPOSSIBLE: Final = 1 << 30


class Proof(Enum):
    """What is established about a plan."""

    CHEAPEST = "Cheapest"
    """No plan has fewer moves, and none of as many is frozen for less."""
    FEWEST = "Fewest"
    """No plan has fewer moves."""
    NOT_PROVED = "NotProved"
    """The search ended at its limit: fewer moves may be enough."""
    IMPOSSIBLE = "Impossible"
    """No moves are enough."""
    NOT_FOUND = "NotFound"
    """The search ended at its limit without a plan: one may exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A hosted cluster that may move."""

    source: int
    amounts: Amounts
    """What it gives back on its host."""
    targets: Mapping[int, Amounts]
    """What it takes on each host that admits it."""
    tenant: int
    freeze: int
    must: bool = False
    """Whether every plan moves it."""
    clashes: frozenset[int] = frozenset()
    """Movers that create an object of the same name, and cannot share a host with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    free: Amounts
    """Below 0 where more is used than there is."""
    clean: bool
    """Whether the host must be within its limits even if nothing arrives."""
    apart: bool = False
    """Whether each tenant may have one hosted cluster here."""
    tenants: Mapping[int, int] = field(default_factory=dict)
    """Hosted clusters that stay, by tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    moves: tuple[tuple[int, int], ...]
    """Mover and target."""
    freeze: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    plan: Plan | None
    proof: Proof
    lower_bound: int
    """No plan has fewer moves."""
    work: int


Check = Callable[[Sequence[tuple[int, int]]], bool]
"""Whether the fleet as a whole is within policy after these moves."""


class _CutError(Exception):
    """The work is used up."""


@dataclass(slots=True)
class _Class:
    """Movers that are alike: plans that differ only in which of them moves are equal."""

    mover: Mover
    members: list[int]
    moved: int = 0
    closed: bool = False
    """No more of them move in this part of the search."""

    @property
    def open(self) -> int:
        return 0 if self.closed else len(self.members) - self.moved


class MoveSearch:
    """One search. ``check`` is asked about each plan that keeps the limits of all single hosts."""

    def __init__(
        self,
        hosts: Sequence[HostLimits],
        movers: Sequence[Mover],
        *,
        check: Check | None = None,
        most_work: int = MOST_WORK,
    ) -> None:
        self._hosts, self._check, self._most_work = hosts, check, most_work
        self._dimensions = range(len(hosts[0].free) if hosts else 0)
        self._work, self._limit = 0, most_work
        self._free = [list(host.free) for host in hosts]
        self._arrived: list[dict[int, int]] = [{} for _ in hosts]
        """Movers of each class that arrived on a host."""
        self._tenants = [dict(host.tenants) for host in hosts]
        self._classes = _classes(hosts, movers)
        self._on: list[list[int]] = [[] for _ in hosts]
        for index, kind in enumerate(self._classes):
            self._on[kind.mover.source].append(index)
            tenants = self._tenants[kind.mover.source]
            tenants[kind.mover.tenant] = tenants.get(kind.mover.tenant, 0) + len(kind.members)
        self._by_amount = [
            [
                sorted(on, key=lambda index: -self._classes[index].mover.amounts[dimension])
                for dimension in self._dimensions
            ]
            for on in self._on
        ]
        self._class_of = {
            member: index for index, kind in enumerate(self._classes) for member in kind.members
        }
        # A check of the whole fleet may tell hosts apart that are alike here.
        self._alike_hosts = {} if check else _alike_hosts(hosts, self._classes, self._on)
        leaving = [kind.mover for kind in self._classes if kind.mover.must]
        self._taking = {target for kind in self._classes for target in kind.mover.targets}
        self._makes_room = any(mover.source in self._taking for mover in leaving)
        """Whether a host that must give up a hosted cluster may take another one."""
        self._scale = [
            max((abs(free[dimension]) for free in self._free), default=0) or 1
            for dimension in self._dimensions
        ]
        self._needs = [self._need(host) for host in range(len(hosts))]
        self._path: list[tuple[int, int]] = []
        """Class and target of each move."""
        self._frozen = 0
        self._best: Plan | None = None
        self._cut_by_depth = False
        self._seen: set[tuple[frozenset[tuple[tuple[int, int], int]], frozenset[int]]] = set()
        self._counts: dict[tuple[int, int], int] = {}

    def solve(self) -> Result:
        lower = sum(need for need, _ in self._needs)
        if lower >= IMPOSSIBLE or not self._has_room():
            return Result(plan=None, proof=Proof.IMPOSSIBLE, lower_bound=0, work=self._work)
        movable = sum(len(kind.members) for kind in self._classes)
        most = min(movable, MOST_MOVES)
        if lower <= most:
            # Any plan first: else a search that ends at its limit has nothing to propose. Its length bounds the depths.
            self._limit = self._most_work // DIVE_SHARE
            self._run(most, first=True)
            self._limit = self._most_work
        any_plan = self._best
        most = most if any_plan is None else len(any_plan.moves)
        # Depth by depth: the first plan has the fewest moves, and a depth that is searched to its end proves that no
        # plan has so few. A search of all depths at once proves nothing before it ends.
        for depth in range(lower, most + 1):
            self._best = any_plan if any_plan is not None and len(any_plan.moves) <= depth else None
            finished = self._run(depth, first=False)
            if self._best is not None:
                proof = Proof.CHEAPEST if finished else Proof.FEWEST
                return self._result(self._best, proof, depth)
            if not finished:
                proof = Proof.NOT_FOUND if any_plan is None else Proof.NOT_PROVED
                return self._result(any_plan, proof, depth)
            if not self._cut_by_depth:
                return self._result(None, Proof.IMPOSSIBLE, 0)
        proof = Proof.IMPOSSIBLE if most == movable else Proof.NOT_FOUND
        return self._result(None, proof, 0 if most == movable else most + 1)

    def _result(self, plan: Plan | None, proof: Proof, lower_bound: int) -> Result:
        return Result(plan=plan, proof=proof, lower_bound=lower_bound, work=self._work)

    def _run(self, depth: int, *, first: bool) -> bool:
        """Search plans of at most so many moves; ``first`` ends with any. Return whether the search was completed."""
        self._seen.clear()
        self._cut_by_depth = False
        try:
            self._descend(depth, first=first)
        except _CutError:
            return False
        finally:
            while self._path:
                self._undo()
            for kind in self._classes:
                kind.closed = False
            self._needs = [self._need(host) for host in range(len(self._hosts))]
        return True

    def _descend(self, left: int, *, first: bool) -> bool:
        """Return whether the search may end."""
        forced = least = 0
        for need, freeze in self._needs:
            forced += need
            least += freeze
        if forced > left:
            # More moves may help, unless a host can never get within its limits.
            self._cut_by_depth = self._cut_by_depth or forced < IMPOSSIBLE
            return False
        # Within one depth all plans have as many moves, so only a shorter freeze is better.
        if self._best is not None and self._frozen + least >= self._best.freeze:
            return False
        if not self._has_places(left):
            self._cut_by_depth = True
            return False
        # Moves in another order lead to the same state, searched once. What is closed limits the plans after it.
        key = (
            frozenset(self._counts.items()),
            frozenset(index for index, kind in enumerate(self._classes) if kind.closed),
        )
        if key in self._seen:
            return False
        # At most one for each visit: the limit of work bounds the memory, too.
        self._seen.add(key)
        if not forced:
            # Each host alone is within its limits. Whether the fleet is, such as with a spare host, takes a copy of the
            # state, and is worth asking only now.
            moves = self._moves()
            self._visit(1 if self._check is None else CHECK_WORK)
            if self._check is None or self._check(moves):
                self._best = Plan(moves=moves, freeze=self._frozen)
                return first
        if not left:
            self._cut_by_depth = True
            return False
        return self._branch(left, first=first)

    def _branch(self, left: int, *, first: bool) -> bool:
        must = self._next_must()
        if must is not None:
            # It moves in every plan, so there is no branch in which it stays.
            return self._try_targets(must, left, first=first)
        closed: list[int] = []
        try:
            for index in self._leavers():
                if not self._classes[index].open:
                    continue
                if self._try_targets(index, left, first=first):
                    return True
                # Plans that move one of these are searched: in the rest of this branch they stay.
                self._classes[index].closed = True
                closed.append(index)
                source = self._classes[index].mover.source
                self._needs[source] = self._need(source)
                if self._needs[source][0] >= IMPOSSIBLE:
                    break
        finally:
            for index in closed:
                self._classes[index].closed = False
            for index in closed:
                source = self._classes[index].mover.source
                self._needs[source] = self._need(source)
        return False

    def _next_must(self) -> int | None:
        """Return the class of which a mover must move that fewest hosts can take."""
        best: tuple[tuple[int, tuple[int, ...]], int] | None = None
        for index, kind in enumerate(self._classes):
            if not kind.mover.must or not kind.open:
                continue
            self._visit(1 + len(kind.mover.targets) // 8)
            fitting = sum(
                all(left >= amount for left, amount in zip(self._free[target], taken, strict=True))
                for target, taken in kind.mover.targets.items()
            )
            rank = (fitting, tuple(-amount for amount in kind.mover.amounts))
            if best is None or rank < best[0]:
                best = (rank, index)
        return None if best is None else best[1]

    def _leavers(self) -> list[int]:
        """Return the classes of which one moves in every plan that continues this one."""
        worst = max(range(len(self._needs)), key=lambda host: self._needs[host][0], default=None)
        if worst is not None and self._needs[worst][0]:
            return self._by_freeze(self._on[worst])
        return self._by_freeze(range(len(self._classes)))

    def _by_freeze(self, indexes: Sequence[int]) -> list[int]:
        return sorted(
            (index for index in indexes if self._classes[index].open),
            key=lambda index: (self._classes[index].mover.freeze, index),
        )

    def _try_targets(self, index: int, left: int, *, first: bool) -> bool:
        options: list[tuple[tuple[int, int, int], int]] = []
        tried: set[int] = set()
        for target in self._classes[index].mover.targets:
            # Hosts of equal limits that have got nothing yet lead to equal plans: one of them stands for all.
            alike = self._alike_hosts.get(target)
            if alike is not None and not self._arrived[target]:
                if alike in tried:
                    continue
                tried.add(alike)
            self._visit(1)
            self._do(index, target)
            forced = sum(need for need, _ in self._needs)
            if forced < IMPOSSIBLE:
                options.append(((forced, self._rank(index, target), target), target))
            self._undo()
        # By target last, so that equal problems have equal plans: a user who asks twice gets the same answer.
        for _, target in sorted(options):
            self._do(index, target)
            ended = self._descend(left - 1, first=first)
            self._undo()
            if ended:
                return True
        return False

    def _rank(self, index: int, target: int) -> int:
        """Fill hosts up while many must fit, and else prefer the emptiest."""
        free = self._free[target]
        least = min(
            (free[dimension] * 1000 // self._scale[dimension] for dimension in self._dimensions), default=0
        )
        return least if self._classes[index].mover.must else -least

    def _visit(self, work: int) -> None:
        self._work += work
        if self._work > self._limit:
            raise _CutError

    def _do(self, index: int, target: int) -> None:
        # In place, with _undo on the way back: copies of all hosts would take longer than a visit.
        kind = self._classes[index]
        mover = kind.mover
        kind.moved += 1
        source, taken = mover.source, mover.targets[target]
        for dimension in self._dimensions:
            self._free[source][dimension] += mover.amounts[dimension]
            self._free[target][dimension] -= taken[dimension]
        self._tenants[source][mover.tenant] -= 1
        self._tenants[target][mover.tenant] = self._tenants[target].get(mover.tenant, 0) + 1
        self._arrived[target][index] = self._arrived[target].get(index, 0) + 1
        self._counts[index, target] = self._counts.get((index, target), 0) + 1
        self._frozen += mover.freeze
        self._path.append((index, target))
        self._needs[source], self._needs[target] = self._need(source), self._need(target)

    def _undo(self) -> None:
        index, target = self._path.pop()
        kind = self._classes[index]
        mover = kind.mover
        kind.moved -= 1
        source, taken = mover.source, mover.targets[target]
        for dimension in self._dimensions:
            self._free[source][dimension] -= mover.amounts[dimension]
            self._free[target][dimension] += taken[dimension]
        self._tenants[source][mover.tenant] += 1
        self._tenants[target][mover.tenant] -= 1
        _decrement(self._arrived[target], index)
        _decrement(self._counts, (index, target))
        self._frozen -= mover.freeze
        self._needs[source], self._needs[target] = self._need(source), self._need(target)

    def _need(self, host: int) -> tuple[int, int]:
        """Return how many must at least leave a host, and how long these are frozen at least."""
        limits, free, arrived = self._hosts[host], self._free[host], self._arrived[host]
        on = [self._classes[index] for index in self._on[host]]
        must = [kind for kind in on if kind.mover.must and kind.open]
        needed = sum(kind.open for kind in must)
        freeze = sum(kind.open * kind.mover.freeze for kind in must)
        for dimension in self._dimensions:
            over = -free[dimension]
            if over <= 0 or not (limits.clean or self._takes(arrived, host, dimension)):
                continue
            count = 0
            for index in self._by_amount[host][dimension]:
                kind = self._classes[index]
                amount = kind.mover.amounts[dimension]
                if kind.open and amount > 0:
                    leaving = min(kind.open, -(-over // amount))
                    over -= leaving * amount
                    count += leaving
                    if over <= 0:
                        break
            if over > 0:
                return IMPOSSIBLE, 0
            needed = max(needed, count)
        if limits.apart and (doubled := self._doubled(host, on)):
            if doubled >= IMPOSSIBLE:
                return IMPOSSIBLE, 0
            needed = max(needed, doubled)
        if arrived and (clashing := self._clashing(host, arrived)):
            if clashing >= IMPOSSIBLE:
                return IMPOSSIBLE, 0
            needed = max(needed, clashing)
        if needed:
            freeze = max(freeze, self._shortest(on, needed))
        return needed, freeze

    def _takes(self, arrived: Mapping[int, int], host: int, dimension: int) -> bool:
        return any(self._classes[index].mover.targets[host][dimension] > 0 for index in arrived)

    def _doubled(self, host: int, on: Sequence[_Class]) -> int:
        """Return how many must leave so that no tenant has two."""
        coming = {self._classes[index].mover.tenant for index in self._arrived[host]}
        needed = 0
        for tenant, count in self._tenants[host].items():
            if count > 1 and (self._hosts[host].clean or tenant in coming):
                if sum(kind.open for kind in on if kind.mover.tenant == tenant) < count - 1:
                    return IMPOSSIBLE
                needed += count - 1
        return needed

    def _clashing(self, host: int, arrived: Mapping[int, int]) -> int:
        """Return how many must leave because one that arrived creates an object of the same name."""
        leaving: set[int] = set()
        for index in arrived:
            for other in self._classes[index].mover.clashes:
                rival = self._class_of.get(other)
                if rival is None:
                    continue
                kind = self._classes[rival]
                if rival in arrived:
                    return IMPOSSIBLE
                if kind.mover.source == host and kind.moved < len(kind.members):
                    if kind.closed:
                        return IMPOSSIBLE
                    leaving.add(rival)
        return sum(self._classes[index].open for index in leaving)

    @staticmethod
    def _shortest(on: Sequence[_Class], count: int) -> int:
        """Return the time that so many of these are frozen at least."""
        total = 0
        for kind in sorted(on, key=lambda kind: kind.mover.freeze):
            some = min(kind.open, count)
            total += some * kind.mover.freeze
            count -= some
            if not count:
                break
        return total

    def _has_room(self) -> bool:
        """Return whether all that must leave its host fits if room could be divided at will."""
        if any(
            taken[dimension] < kind.mover.amounts[dimension]
            for kind in self._classes
            for taken in kind.mover.targets.values()
            for dimension in self._dimensions
        ):
            return True  # moves make room
        for dimension in self._dimensions:
            over = sum(
                max(0, -free[dimension])
                for free, limits in zip(self._free, self._hosts, strict=True)
                if limits.clean
            )
            over += sum(
                len(kind.members) * kind.mover.amounts[dimension]
                for kind in self._classes
                if kind.mover.must
                and not self._hosts[kind.mover.source].clean
                and kind.mover.source not in self._taking
            )
            room = sum(max(0, self._free[target][dimension]) for target in self._taking)
            if over > room:
                return False
        return True

    def _has_places(self, left: int) -> bool:
        """Return whether all that must still move finds a place, if nothing else moves."""
        waiting = [kind for kind in self._classes if kind.mover.must and kind.open]
        count = sum(kind.open for kind in waiting)
        if count < left or not count or self._makes_room:
            return True
        places = 0
        for target, free in enumerate(self._free):
            taking = [kind.mover.targets[target] for kind in waiting if target in kind.mover.targets]
            if not taking:
                continue
            smallest = [min(taken[dimension] for taken in taking) for dimension in self._dimensions]
            places += min(
                (
                    max(0, free[dimension]) // amount
                    for dimension, amount in zip(self._dimensions, smallest, strict=True)
                    if amount
                ),
                default=count,
            )
            if places >= count:
                return True
        return False

    def _moves(self) -> tuple[tuple[int, int], ...]:
        taken: dict[int, Iterator[int]] = {}
        return tuple(
            (next(taken.setdefault(index, iter(self._classes[index].members))), target)
            for index, target in self._path
        )


def _decrement(counts: dict[K, int], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _classes(hosts: Sequence[HostLimits], movers: Sequence[Mover]) -> list[_Class]:
    kinds: dict[object, _Class] = {}
    for index, mover in enumerate(movers):
        apart = hosts[mover.source].apart or any(hosts[target].apart for target in mover.targets)
        targets = tuple(sorted(mover.targets.items()))
        key = (
            mover.source,
            mover.amounts,
            targets,
            # Where tenants may share all hosts, it makes no difference whose hosted cluster moves, and many more are
            # alike.
            mover.tenant if apart else -1,
            mover.freeze,
            mover.must,
            mover.clashes,
        )
        kinds.setdefault(key, _Class(mover, [])).members.append(index)
    return list(kinds.values())


def _alike_hosts(
    hosts: Sequence[HostLimits], classes: Sequence[_Class], on: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Return a number for each host without movers: hosts of one number are alike for every plan."""
    groups: dict[object, int] = {}
    alike: dict[int, int] = {}
    for index, host in enumerate(hosts):
        if on[index]:
            continue
        columns = tuple(kind.mover.targets.get(index) for kind in classes)
        key = (host.free, host.clean, host.apart, tuple(sorted(host.tenants.items())), columns)
        alike[index] = groups.setdefault(key, len(groups))
    return alike
