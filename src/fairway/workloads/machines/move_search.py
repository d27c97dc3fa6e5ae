"""The exact search for the cheapest set of moves: depth-first over sets of equal size, smallest first.

Machines that are alike are taken in order of their cost, and of interchangeable nodes one is tried, so that a fleet of
equal nodes is no harder than one node of each kind.
"""

from collections.abc import Sequence

from fairway.engine.workload import HostKey, ResourceList
from fairway.hosts.steps import Steps
from fairway.workloads.machines.movable import Movables
from fairway.workloads.machines.moves import Answer, Candidate, Proof, Targets, Work, plan_of

ASSIGNMENT = 4_000
"""Visits for the targets of one set: the longest part of a search between two steps."""

Assignment = list[tuple[Candidate, HostKey]]
Chosen = tuple[int, ...]
"""Places of candidates."""
Sums = tuple[int, int, int]


class MoveSearch:
    def __init__(self, deficit: ResourceList, movables: Movables, work: Work) -> None:
        self._deficit, self._movables, self._work = deficit, movables, work
        self._order = movables.candidates
        self._best: tuple[Sums, Assignment] | None = None
        self._before = self._alike_before(movables.kinds)
        self._most = {resource: self._largest(resource) for resource in deficit}
        """For each resource and start: the sums of the largest amounts from there on."""
        self._sums: list[Sums] = [(0, 0, 0)]
        """Costs of the first candidates. They are in order of cost, so that no others cost less."""
        for candidate in self._order:
            self._sums.append(_plus(self._sums[-1], _cost(candidate)))

    def _alike_before(self, kinds: Sequence[int]) -> list[int]:
        last: dict[int, int] = {}
        before = []
        for at, kind in enumerate(kinds):
            before.append(last.get(kind, -1))
            last[kind] = at
        return before

    def _largest(self, resource: str) -> list[list[int]]:
        return [self._largest_from(resource, start) for start in range(len(self._order) + 1)]

    def _largest_from(self, resource: str, start: int) -> list[int]:
        sums = [0]
        for size in sorted((c.amounts.get(resource, 0) for c in self._order[start:]), reverse=True):
            sums.append(sums[-1] + size)
        return sums

    def run(self, bound: int) -> Steps[Answer]:
        """Return the cheapest plan with at least ``bound`` moves; it is not proved to be that if the work was cut."""
        fewest = not self._work.cut
        # The smallest sets first: the first plan has the fewest moves, and what was searched to its end before proves
        # it.
        for count in range(bound, self._movables.most + 1):
            yield from self._descend(0, count, dict(self._deficit), dict(self._movables.room), (0, 0, 0), ())
            if self._best is not None:
                proof = Proof.NONE if not fewest else Proof.FEWEST if self._work.cut else Proof.CHEAPEST
                return Answer(plan_of(self._best[1], bound=bound, proof=proof))
            fewest = not self._work.cut
            if self._work.left < 0:
                break
        return Answer(None, proved=not self._work.cut)

    def _descend(
        self, start: int, count: int, left: dict[str, int], room: dict[str, int], cost: Sums, chosen: Chosen
    ) -> Steps[None]:
        if count == 0:
            if not any(amount > 0 for amount in left.values()):
                self._consider(cost, chosen)
            if self._work.pauses():
                yield
            return
        for at in range(start, len(self._order) - count + 1):
            if not self._work.spend(1):
                return
            for name, amount in left.items():
                if amount > self._most[name][at][count]:
                    return  # later starts cover even less
            least = _plus(cost, _minus(self._sums[at + count], self._sums[at]))
            # Costs are compared in lexicographic order, which addition keeps: the sum of the first candidates is the
            # least of all sums of as many, and it only grows with later starts.
            if self._best is not None and least >= self._best[0]:
                return
            # A set that skips a cheaper one of the same kind has an equal set that does not, and is no more
            # expensive.
            if self._before[at] >= 0 and self._before[at] not in chosen:
                continue
            amounts = self._order[at].amounts
            if any(amount > room.get(name, 0) for name, amount in amounts.items()):
                continue
            yield from self._descend(
                at + 1,
                count - 1,
                {name: amount - amounts.get(name, 0) for name, amount in left.items()},
                {name: amount - amounts.get(name, 0) for name, amount in room.items()},
                _plus(cost, _cost(self._order[at])),
                (*chosen, at),
            )

    def _consider(self, cost: Sums, chosen: Chosen) -> None:
        if self._best is None or cost < self._best[0]:
            assignment = self._assign(chosen)
            if assignment is not None:
                self._best = (cost, assignment)

    def _assign(self, chosen: Chosen) -> Assignment | None:
        """Return a target for each, so that all have room together; None if there is no way, or none is found soon."""
        movables, work = self._movables, Work(min(ASSIGNMENT, max(0, self._work.left)))
        before = work.left
        order = sorted(chosen, key=lambda at: -sum(self._order[at].amounts.values()))
        assignment = _place(
            [(self._order[at], movables.options[movables.kinds[at]]) for at in order], movables, work
        )
        self._work.spend(before - max(0, work.left))
        self._work.cut |= work.cut
        return assignment


def _place(
    waiting: Sequence[tuple[Candidate, Sequence[HostKey]]], movables: Movables, work: Work
) -> Assignment | None:
    if not waiting:
        return []
    candidate, hosts = waiting[0]
    failed: set[object] = set()
    targets = movables.targets
    for host in hosts:
        if not work.spend(1):
            return None
        if not targets.fits(candidate, host):
            continue
        # A node in the state of one that failed would fail as well. Without this, a fleet of equal nodes is tried
        # node by node.
        state = _state(host, movables, targets)
        if state in failed:
            continue
        targets.take(candidate, host)
        rest = _place(waiting[1:], movables, work)
        targets.give_back(candidate, host)
        if rest is not None:
            return [(candidate, host), *rest]
        failed.add(state)
    return None


def _state(host: HostKey, movables: Movables, targets: Targets) -> object:
    return movables.states[host], targets.slots[host], tuple(targets.room[host].values())


def _cost(candidate: Candidate) -> Sums:
    return candidate.bytes, candidate.priority, candidate.arrived


def _plus(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _minus(one: Sums, other: Sums) -> Sums:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]
