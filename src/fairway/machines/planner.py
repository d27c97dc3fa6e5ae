"""Choose the machines to move so that a node gets room, and where to.

A plan is the cheapest set of moves that covers a deficit: the fewest moves, then the fewest bytes, then the lowest
priorities, then the longest stay. Every target must have room after all moves of the plan. Up to 20 candidates are
searched exactly; of more, the most useful are taken first, and the plan states how many moves are needed at least.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.instant import Micros

MOST_STEPS = 50_000
"""Steps of the exact search, after which the best plan so far is taken."""
MOST_TARGETS = 32
"""Targets that are tried for one move while others are assigned, too."""
EXACT_CANDIDATES = 20

Cost = tuple[int, int, int, int]
"""Moves, bytes, priorities, and how recently the machines arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A machine that may move."""

    key: WorkloadKey
    amounts: ResourceList
    """What it counts on a node."""
    bytes: int = 0
    """What a migration copies."""
    priority: int = 0
    arrived: Micros = 0
    targets: Sequence[HostKey] = ()
    """Nodes that passed the filters for it, the best first."""


@dataclass(frozen=True, slots=True)
class Move:
    key: WorkloadKey
    target: HostKey
    amounts: ResourceList


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    moves: tuple[Move, ...]
    cost: Cost
    lower_bound: int
    """No plan has fewer moves."""
    exact: bool
    """Whether no plan is cheaper."""
    covers: bool = True
    """Whether it covers the whole deficit."""


@dataclass(slots=True)
class Targets:
    """What is left on each node while a plan is made. A node without an entry takes nothing."""

    room: dict[HostKey, dict[str, int]] = field(default_factory=dict)
    slots: dict[HostKey, int] = field(default_factory=dict)
    """Migrations that a node may still receive."""

    def take(self, candidate: Candidate, target: HostKey) -> bool:
        room = self.room.get(target)
        if room is None or self.slots.get(target, 0) < 1:
            return False
        if any(amount > room.get(resource, 0) for resource, amount in candidate.amounts.items()):
            return False
        self._add(candidate, target, -1)
        return True

    def give_back(self, candidate: Candidate, target: HostKey) -> None:
        self._add(candidate, target, 1)

    def _add(self, candidate: Candidate, target: HostKey, sign: int) -> None:
        room = self.room[target]
        for resource, amount in candidate.amounts.items():
            room[resource] = room.get(resource, 0) + sign * amount
        self.slots[target] += sign

    def copy(self) -> "Targets":
        return Targets({host: dict(room) for host, room in self.room.items()}, dict(self.slots))


def plan_moves(
    deficit: ResourceList,
    candidates: Sequence[Candidate],
    targets: Targets,
    *,
    exact_candidates: int = EXACT_CANDIDATES,
    partial: bool = False,
) -> Plan | None:
    """Return the cheapest plan; None if no set of moves covers the deficit.

    With ``partial``, return moves that cover as much of it as possible instead of None. ``targets`` is not changed.
    """
    deficit = {resource: amount for resource, amount in deficit.items() if amount > 0}
    if not deficit:
        return None
    movable = [each for each in candidates if _has_target(each, targets) and _useful(each, deficit)]
    bound = lower_bound(deficit, movable)
    if bound is not None and len(movable) <= exact_candidates:
        found = _Search(deficit, movable, targets).run(bound)
        if found is not None:
            return found
    if bound is None and not partial:
        return None
    return _greedy(deficit, movable, targets, bound=bound or len(movable), partial=partial)


def plan_oldest_first(deficit: ResourceList, candidates: Sequence[Candidate], targets: Targets) -> Plan:
    """Move the longest-lived machines until the deficit is covered: a baseline to compare plans with."""
    deficit = {resource: amount for resource, amount in deficit.items() if amount > 0}
    left, room, chosen = dict(deficit), targets.copy(), []
    for each in sorted(candidates, key=lambda each: (each.arrived, each.key)):
        if not any(amount > 0 for amount in left.values()):
            break
        target = next((host for host in each.targets if room.take(each, host)), None)
        if target is not None:
            chosen.append((each, target))
            left = {name: amount - each.amounts.get(name, 0) for name, amount in left.items()}
    return _plan(
        chosen,
        bound=lower_bound(deficit, candidates) or 0,
        exact=False,
        covers=not any(amount > 0 for amount in left.values()),
    )


def lower_bound(deficit: ResourceList, candidates: Sequence[Candidate]) -> int | None:
    """Return how many moves every plan needs at least; None if all moves together are not enough."""
    least = 0
    for resource, amount in deficit.items():
        left, count = amount, 0
        for size in sorted((each.amounts.get(resource, 0) for each in candidates), reverse=True):
            if left <= 0:
                break
            left, count = left - size, count + 1
        if left > 0:
            return None
        least = max(least, count)
    return least


def _has_target(candidate: Candidate, targets: Targets) -> bool:
    for target in candidate.targets:
        if targets.take(candidate, target):
            targets.give_back(candidate, target)
            return True
    return False


def _useful(candidate: Candidate, deficit: ResourceList) -> bool:
    return any(candidate.amounts.get(resource, 0) > 0 for resource in deficit)


class _Search:
    """Depth-first over sets of equal size, smallest first, with bounds on coverage and bytes."""

    def __init__(self, deficit: ResourceList, candidates: Sequence[Candidate], targets: Targets) -> None:
        self.deficit = deficit
        self.targets = targets
        self.order = sorted(candidates, key=lambda each: (each.bytes, each.priority, each.arrived, each.key))
        self.steps = 0
        self.best: (
            tuple[tuple[int, int, int, tuple[WorkloadKey, ...]], list[tuple[Candidate, HostKey]]] | None
        ) = None
        # For each resource and start: the sums of the largest amounts from there on.
        self.most = {
            resource: [self._sums(resource, start) for start in range(len(self.order) + 1)]
            for resource in deficit
        }

    def _sums(self, resource: str, start: int) -> list[int]:
        sums = [0]
        for size in sorted((each.amounts.get(resource, 0) for each in self.order[start:]), reverse=True):
            sums.append(sums[-1] + size)
        return sums

    def run(self, bound: int) -> Plan | None:
        for count in range(bound, len(self.order) + 1):
            self._descend(0, count, dict(self.deficit), [], 0)
            if self.best is not None or self.steps > MOST_STEPS:
                break
        if self.best is None:
            return None
        return _plan(self.best[1], bound=bound, exact=self.steps <= MOST_STEPS, covers=True)

    def _descend(
        self, start: int, count: int, left: dict[str, int], chosen: list[Candidate], bytes_: int
    ) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            return
        if count == 0:
            if not any(amount > 0 for amount in left.values()):
                self._consider(chosen)
            return
        for at in range(start, len(self.order) - count + 1):
            if any(amount > self.most[name][at][count] for name, amount in left.items()):
                return  # later starts cover even less
            each = self.order[at]
            least = bytes_ + each.bytes * count  # sorted by bytes: all that follow copy at least as much
            if self.best is not None and least > self.best[0][0]:
                return
            rest = {name: amount - each.amounts.get(name, 0) for name, amount in left.items()}
            self._descend(at + 1, count - 1, rest, [*chosen, each], bytes_ + each.bytes)

    def _consider(self, chosen: list[Candidate]) -> None:
        keys = tuple(sorted(each.key for each in chosen))
        _, copied, priority, arrived = _cost(chosen)
        cost = (copied, priority, arrived, keys)
        if self.best is not None and cost >= self.best[0]:
            return
        assigned = assign(chosen, self.targets)
        if assigned is not None:
            self.best = (cost, assigned)


def assign(chosen: Sequence[Candidate], targets: Targets) -> list[tuple[Candidate, HostKey]] | None:
    """Return a target for each, so that all have room together; None if there is no way (or none is found soon)."""
    order = sorted(chosen, key=lambda each: (-sum(each.amounts.values()), each.key))
    left = targets.copy()
    steps = 0

    def place(at: int) -> list[tuple[Candidate, HostKey]] | None:
        nonlocal steps
        if at == len(order):
            return []
        tried = 0
        for target in order[at].targets:
            if tried == MOST_TARGETS or steps > MOST_STEPS // 10:
                return None
            if left.take(order[at], target):
                tried, steps = tried + 1, steps + 1
                rest = place(at + 1)
                if rest is not None:
                    return [(order[at], target), *rest]
                left.give_back(order[at], target)
        return None

    return place(0)


def _greedy(
    deficit: ResourceList, candidates: Sequence[Candidate], targets: Targets, *, bound: int, partial: bool
) -> Plan | None:
    left, room = dict(deficit), targets.copy()
    chosen: list[tuple[Candidate, HostKey]] = []
    waiting = list(candidates)

    def usefulness(each: Candidate) -> float:
        return sum(
            min(each.amounts.get(name, 0), amount) / deficit[name]
            for name, amount in left.items()
            if amount > 0
        )

    while waiting and any(amount > 0 for amount in left.values()):
        best = min(
            waiting, key=lambda each: (-usefulness(each), each.bytes, each.priority, each.arrived, each.key)
        )
        waiting.remove(best)
        if not usefulness(best):
            break
        target = next((host for host in best.targets if room.take(best, host)), None)
        if target is not None:
            chosen.append((best, target))
            left = {name: amount - best.amounts.get(name, 0) for name, amount in left.items()}
    covers = not any(amount > 0 for amount in left.values())
    if not chosen or not (covers or partial):
        return None
    # An early large move may be unnecessary after the later ones.
    for each in sorted(chosen, key=lambda pair: -pair[0].bytes):
        if covers and all(amount + each[0].amounts.get(name, 0) <= 0 for name, amount in left.items()):
            chosen.remove(each)
            left = {name: amount + each[0].amounts.get(name, 0) for name, amount in left.items()}
    return _plan(chosen, bound=bound, exact=False, covers=covers)


def _plan(chosen: Sequence[tuple[Candidate, HostKey]], *, bound: int, exact: bool, covers: bool) -> Plan:
    moves = tuple(Move(each.key, target, each.amounts) for each, target in chosen)
    return Plan(
        moves=moves,
        cost=_cost([each for each, _ in chosen]),
        lower_bound=bound,
        exact=exact,
        covers=covers,
    )


def _cost(chosen: Sequence[Candidate]) -> Cost:
    return (
        len(chosen),
        sum(each.bytes for each in chosen),
        sum(each.priority for each in chosen),
        sum(each.arrived for each in chosen),
    )
