"""Choose the machines to move so that a node gets room, and where to.

A plan is the cheapest set of moves that covers a deficit: the fewest moves, then the fewest bytes, then the lowest
priorities, then the longest stay. Every target must have room after all moves of the plan. Up to 20 candidates are
searched exactly; of more, the most useful are taken first, and the plan states how many moves are needed at least.

The work of a plan is bounded, whatever the fleet is like, and done in steps. What a search could not establish within
its bound, its answer does not claim.
"""

from collections.abc import Sequence

from fairway.engine.workload import HostKey, ResourceList
from fairway.hosts.steps import Steps
from fairway.workloads.machines.movable import Movables, find_movables
from fairway.workloads.machines.move_search import MoveSearch
from fairway.workloads.machines.moves import Answer, Candidate, Plan, Proof, Targets, Work, plan_of

EXACT_CANDIDATES = 20


def plan_moves_in_steps(
    deficit: ResourceList,
    candidates: Sequence[Candidate],
    targets: Targets,
    work: Work,
    *,
    exact_candidates: int = EXACT_CANDIDATES,
    partial: bool = False,
) -> Steps[Answer]:
    """Return the cheapest plan; none if no set of moves covers the deficit.

    With ``partial``, return moves that cover as much of it as possible instead of none. ``targets`` is not changed.
    """
    deficit = {resource: amount for resource, amount in deficit.items() if amount > 0}
    if not deficit:
        return Answer(None)
    movables = yield from find_movables(candidates, deficit, targets, work)
    bound = lower_bound(deficit, movables.candidates)
    covers = bound is not None and bound <= movables.most and not _exceeds(deficit, movables.room)
    if not covers and not partial:
        return Answer(None, proved=not work.cut)
    proved = not work.cut
    if covers and len(movables.candidates) <= exact_candidates:
        # What is left is for the greedy plan, which needs little.
        part = work.part(1)
        part.left = part.left * 9 // 10
        before, part.cut = part.left, work.cut
        exact = yield from MoveSearch(deficit, movables, part).run(bound or 0)
        work.left -= before - max(0, part.left)
        if exact.plan is not None or (exact.proved and not partial):
            return exact
        proved = exact.proved
    elif covers:
        proved = False
    plan = yield from _greedy(
        deficit, movables, work, bound=bound or len(movables.candidates), partial=partial
    )
    return Answer(plan, proved=proved)


def plan_oldest_first_in_steps(
    deficit: ResourceList, candidates: Sequence[Candidate], targets: Targets, work: Work
) -> Steps[Plan]:
    """Move the longest-lived machines until the deficit is covered: a baseline to compare plans with."""
    deficit = {resource: amount for resource, amount in deficit.items() if amount > 0}
    left, room = dict(deficit), targets.copy()
    chosen: list[tuple[Candidate, HostKey]] = []
    for candidate in sorted(candidates, key=lambda candidate: (candidate.arrived, candidate.key)):
        if not any(amount > 0 for amount in left.values()):
            break
        target = _take(candidate, candidate.targets, room, work)
        if target is not None:
            chosen.append((candidate, target))
            left = {name: amount - candidate.amounts.get(name, 0) for name, amount in left.items()}
        if work.pauses():
            yield
    return plan_of(
        chosen,
        bound=lower_bound(deficit, candidates) or 0,
        proof=Proof.NONE,
        covers=not any(amount > 0 for amount in left.values()),
    )


def lower_bound(deficit: ResourceList, candidates: Sequence[Candidate]) -> int | None:
    """Return how many moves every plan needs at least; None if all moves together are not enough."""
    least = 0
    for resource, amount in deficit.items():
        left, count = amount, 0
        # Each resource alone, by the largest machines first, and without regard to targets: no set of fewer machines
        # gives back as much of it. That only makes the bound too low, never too high, so what it excludes is
        # impossible.
        sizes = (candidate.amounts.get(resource, 0) for candidate in candidates)
        for size in sorted(sizes, reverse=True):
            if left <= 0:
                break
            left, count = left - size, count + 1
        if left > 0:
            return None
        least = max(least, count)
    return least


def _exceeds(deficit: ResourceList, room: ResourceList) -> bool:
    return any(amount > room.get(resource, 0) for resource, amount in deficit.items())


def _take(candidate: Candidate, hosts: Sequence[HostKey], room: Targets, work: Work) -> HostKey | None:
    for host in hosts:
        if not work.spend(1):
            return None
        if room.take(candidate, host):
            return host
    return None


def _greedy(
    deficit: ResourceList, movables: Movables, work: Work, *, bound: int, partial: bool
) -> Steps[Plan | None]:
    left, room = dict(deficit), movables.targets.copy()
    chosen: list[tuple[Candidate, HostKey]] = []
    kind_of = dict(zip([c.key for c in movables.candidates], movables.kinds, strict=True))
    waiting = list(movables.candidates)

    def usefulness(candidate: Candidate) -> float:
        return sum(
            min(candidate.amounts.get(name, 0), amount) / deficit[name]
            for name, amount in left.items()
            if amount > 0
        )

    # Each choice visits all that wait, so the search is quadratic. The limit of work ends it with what was chosen so
    # far.
    while waiting and any(amount > 0 for amount in left.values()) and work.spend(len(waiting)):
        if work.pauses():
            yield
        # They are in order of their cost: the first of equal use is the cheapest.
        best = max(waiting, key=usefulness)
        waiting.remove(best)
        # The most useful one gives back nothing that is lacking, so none does.
        if not usefulness(best):
            break
        target = _take(best, movables.options[kind_of[best.key]], room, work)
        if target is not None:
            chosen.append((best, target))
            left = {name: amount - best.amounts.get(name, 0) for name, amount in left.items()}
    covers = not any(amount > 0 for amount in left.values())
    if not chosen or not (covers or partial):
        return None
    # An early large move may be unnecessary after the later ones.
    for candidate, target in sorted(chosen, key=lambda pair: -pair[0].bytes):
        if covers and all(amount + candidate.amounts.get(name, 0) <= 0 for name, amount in left.items()):
            chosen.remove((candidate, target))
            left = {name: amount + candidate.amounts.get(name, 0) for name, amount in left.items()}
    return plan_of(chosen, bound=bound, proof=Proof.NONE, covers=covers)
