"""Moves of hosted clusters between hosts: a plan for a person to approve. Nothing is written.

``drain`` plans where the hosted clusters of some hosts would move. ``rebalance`` finds the fewest moves after which no
host violates a policy. Each plan states what is proved about it. Plans are compared by the state after all moves: the
constraints of each request, the policies and all other moves of the plan count.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairway.api.hosted_request import RELEASING, HostedClusterRequest
from fairway.engine import cycle
from fairway.engine.profile import Profile
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.decision import REASONS_SHOWN, Decision, decision_of
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.placement_promises import describe_promises
from fairway.workloads.hosting.planning.move_problem import (
    Assignment,
    Eligibility,
    MoveProblem,
    freeze_of,
    size_of,
)
from fairway.workloads.hosting.planning.move_search import MOST_WORK, Proof
from fairway.workloads.hosting.planning.violations import (
    Violation,
    available_hosts,
    fixable_violations,
    violations,
)
from fairway.workloads.hosting.plugins.capacity_known import NOT_READ
from fairway.workloads.hosting.profile import without_quiet_hours, without_spare
from fairway.workloads.hosting.resources import HOSTED, MILLI, SLOTS
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import Resident, key_of

NO_OTHER: Final = "there is no other hosting cluster"
NO_REQUEST: Final = "its HostedClusterRequest no longer exists"
FOREIGN: Final = (
    "{host}: {count} hosted clusters were not created by a HostedClusterRequest, and are not moved; adopt them with: "
    "fairway hosting adopt {host}"
)
NOT_MOVED: Final = "{host}: {promised} and not moved"
EXCHANGE: Final = (
    "some of these hosted clusters exchange their hosts: none of them fits before another one has left, so delete all "
    "of them before you create the first one again"
)
OUTAGE: Final = "{host} {outage}; it carries {count} hosted clusters"
OUTAGE_LOST: Final = (
    "{host} {outage}; plan where its {count} hosted clusters go with: fairway hosting recover {host}"
)
LEAVING: Final = "{host}: {count} hosted clusters are being removed from it already"
MOST_TRIALS: Final = 2000
"""Single moves that are tried for a plan that helps in part."""

Requests = Mapping[WorkloadKey, HostedClusterRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    key: WorkloadKey
    source: HostKey
    target: HostKey
    size: str
    slots: int
    """Room that moves, in thousandths of small hosted clusters."""
    freeze: Micros
    """0 if the hosted cluster does not exist yet."""

    def __str__(self) -> str:
        return f"{self.key.namespace}/{self.key.name}: {self.source.name} -> {self.target.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A hosted cluster that no other host can take."""

    key: WorkloadKey
    source: HostKey
    reason: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    moves: tuple[Move, ...] = ()
    """In an order in which each one fits when those before it are done, unless a note says otherwise."""
    stuck: tuple[Stuck, ...] = ()
    before: tuple[Violation, ...] = ()
    after: tuple[Violation, ...] = ()
    """Violations that remain."""
    proof: Proof = Proof.CHEAPEST
    lower_bound: int = 0
    """No plan has fewer moves."""
    work: int = 0
    """Visits of the search."""
    notes: tuple[str, ...] = field(default=())
    lost: tuple[HostKey, ...] = ()
    """Lost hosts that still carry something. A plan of moves does not change that."""

    @property
    def fewest(self) -> bool:
        """Whether it is proved that no smaller number of moves is enough."""
        return self.proof in (Proof.CHEAPEST, Proof.FEWEST)

    @property
    def freeze(self) -> Micros:
        return sum(move.freeze for move in self.moves)

    @property
    def hash(self) -> str:
        """Identify the plan: equal moves have an equal hash."""
        lines = (f"{move.key.uid} {move.source.uid} {move.target.uid} {move}" for move in self.moves)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def drain(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    hosts: Collection[HostKey],
    *,
    now: Micros,
    most_work: int = MOST_WORK,
) -> MovePlan:
    """Plan where the hosted clusters of some hosts would move, none of them to another of these.

    The room that a policy keeps for the failure of a host is used; what then has no spare host is in ``after``. If all
    of them do not fit otherwise, hosted clusters of other hosts move, too.
    """
    known = {key_of(request): request for request in requests}
    staying = [resident for host in hosts for resident in state.on(host) if resident.phase != RELEASING]
    plan = evacuate(state, known, staying, hosts, chains=True, now=now, most_work=most_work)
    notes = [note for host in sorted(hosts) for note in _notes_on(state, host, now=now)]
    lost = tuple(
        host
        for host in sorted(hosts)
        if (outage := state.outage(host)) is not None and outage.is_lost(state.lost_after(host), now=now)
    )
    return _with_notes(replace(plan, lost=lost), notes)


def _notes_on(state: HostingState, host: HostKey, *, now: Micros) -> Iterator[str]:
    """Yield what a plan to empty a host does not do."""
    if (note := outage_note(state, host, now=now)) is not None:
        yield note
    if leaving := sum(resident.phase == RELEASING for resident in state.on(host)):
        yield LEAVING.format(host=host.name, count=leaving)
    facts = state.facts.get(host.name)
    if facts is not None and isinstance(facts.capacity, Capacity):
        if others := facts.capacity.others.get(HOSTED, 0) // MILLI:
            yield FOREIGN.format(host=host.name, count=others)
        if facts.promised:
            yield NOT_MOVED.format(host=host.name, promised=describe_promises(facts.promised))


def evacuate(
    state: HostingState,
    requests: Requests,
    residents: Iterable[Resident],
    hosts: Collection[HostKey],
    *,
    chains: bool,
    now: Micros,
    most_work: int = MOST_WORK,
) -> MovePlan:
    """Plan where residents of some hosts would move. ``chains``: whether others may move to make room for them."""
    trial = _Trial(state.fork(), requests, now=now)
    for host in hosts:
        trial.close(host)
    wanted = _largest_first(residents)
    results = [trial.move(resident) for resident in wanted]
    moves = tuple(result for result in results if isinstance(result, Move))
    stuck = tuple(result for result in results if isinstance(result, Stuck))
    if not stuck:
        # Each of them moves in every plan, so no plan has fewer moves or a shorter freeze.
        return MovePlan(moves=moves, after=violations(trial.state), lower_bound=len(moves))
    search = _Evacuation(state, requests, hosts, now=now, most_work=most_work)
    return search.plan(
        wanted, MovePlan(moves=moves, stuck=stuck, after=violations(trial.state)), chains=chains
    )


def rebalance(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    hosts: Collection[HostKey] | None = None,
    *,
    now: Micros,
    most_work: int = MOST_WORK,
) -> MovePlan:
    """Plan the fewest moves after which no available host violates a policy, or else some that help.

    ``hosts``: those whose violations count, and whose hosted clusters move; None for all.
    """
    plan = _rebalance(state, requests, hosts, now=now, most_work=most_work)
    lost, notes = _outages(state, hosts, now=now)
    return replace(plan, notes=(*plan.notes, *notes), lost=lost)


def _rebalance(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    hosts: Collection[HostKey] | None,
    *,
    now: Micros,
    most_work: int,
) -> MovePlan:
    before = fixable_violations(state, hosts)
    if not before:
        return MovePlan()
    known = {key_of(request): request for request in requests}
    clean = hosts if hosts is not None else [facts.key for facts in state.facts.values()]
    movable = _movable(state, hosts)
    problem = MoveProblem(state, known, Eligibility(state, now=now), may=movable, clean=clean)
    result = problem.solve(most_work=most_work)
    if result.plan is not None:
        assignments, in_order = problem.assignments(result.plan.moves)
        return MovePlan(
            moves=_moves(assignments),
            before=before,
            after=fixable_violations(problem.state_after(assignments), hosts),
            proof=result.proof,
            lower_bound=result.lower_bound,
            work=result.work,
            notes=() if in_order else (EXCHANGE,),
        )
    partly = _greedy(state, known, before, hosts, now=now)
    proof = Proof.NOT_PROVED if not partly.after else result.proof
    return MovePlan(
        moves=partly.moves,
        before=before,
        after=partly.after,
        proof=proof,
        lower_bound=result.lower_bound,
        work=result.work,
    )


def _outages(
    state: HostingState, hosts: Collection[HostKey] | None, *, now: Micros
) -> tuple[tuple[HostKey, ...], tuple[str, ...]]:
    """Return the lost hosts that carry something, and a note about each host that is unavailable."""
    lost: list[HostKey] = []
    notes: list[str] = []
    for host in state.residents.hosts():
        if hosts is not None and host not in hosts:
            continue
        if (note := outage_note(state, host, now=now)) is not None:
            notes.append(note)
            outage = state.outage(host)
            if outage is not None and outage.is_lost(state.lost_after(host), now=now):
                lost.append(host)
    return tuple(lost), tuple(notes)


def outage_note(state: HostingState, host: HostKey, *, now: Micros) -> str | None:
    """Return the facts about a host that is unavailable; None if it is available."""
    outage, after = state.outage(host), state.lost_after(host)
    if outage is None:
        return None
    words = OUTAGE_LOST if outage.is_lost(after, now=now) else OUTAGE
    count = sum(1 for _ in state.on(host))
    return words.format(host=host.name, outage=outage.describe(after, now=now), count=count)


def _movable(state: HostingState, hosts: Collection[HostKey] | None = None) -> list[Resident]:
    """Return the residents of available hosts, or of those of ``hosts``."""
    keys = (state.facts[name].key for name in available_hosts(state))
    return sorted(
        (resident for host in keys if hosts is None or host in hosts for resident in state.on(host)),
        key=lambda resident: resident.key,
    )


class _Evacuation:
    """The exact search for a place for each resident of some hosts, after one pass did not find it."""

    def __init__(
        self,
        state: HostingState,
        requests: Requests,
        hosts: Collection[HostKey],
        *,
        now: Micros,
        most_work: int,
    ) -> None:
        self._state, self._requests, self._hosts = state, requests, hosts
        self._most_work, self._work = most_work, 0
        self._eligibility = Eligibility(state, closed=hosts, now=now)

    def plan(self, residents: list[Resident], rough: MovePlan, *, chains: bool) -> MovePlan:
        """``rough`` is the plan of one pass, with reasons why the others are stuck."""
        reasons = {stuck.key: stuck for stuck in rough.stuck}
        wanted = [resident for resident in residents if self._admitted(resident)]
        hopeless = tuple(
            reasons[resident.key]
            for resident in residents
            if resident not in wanted and resident.key in reasons
        )
        # Whatever else moves, no host admits these: at most the others can be placed.
        proof = Proof.IMPOSSIBLE if hopeless else Proof.CHEAPEST
        if len(wanted) == len(rough.moves):
            return self._planned(rough.moves, rough, hopeless, proof)
        problem = self._problem(wanted)
        # Half of the work: the rest is for a search in which others make room.
        result = problem.solve(most_work=self._most_work // 2)
        self._work += result.work
        settled = result.proof
        if result.plan is None and chains:
            may = [resident for resident in _movable(self._state) if resident.host not in self._hosts]
            problem = self._problem(wanted, may)
            result = problem.solve(most_work=self._most_work - self._work)
            self._work += result.work
            settled = result.proof
        if result.plan is not None:
            assignments, in_order = problem.assignments(result.plan.moves)
            plan = self._planned(
                _moves(assignments),
                MovePlan(after=violations(problem.state_after(assignments))),
                hopeless,
                proof if hopeless else result.proof,
                lower_bound=result.lower_bound,
            )
            return plan if in_order else _with_notes(plan, (EXCHANGE,))
        return self._most_of(wanted, rough, Proof.IMPOSSIBLE if hopeless else settled)

    def _most_of(self, wanted: list[Resident], rough: MovePlan, proof: Proof) -> MovePlan:
        """Add one resident after the other to those that the rough plan places."""
        placed = {move.key for move in rough.moves}
        kept = [resident for resident in wanted if resident.key in placed]
        best: tuple[MoveProblem, tuple[tuple[int, int], ...]] | None = None
        for resident in wanted:
            # Each search takes up to a quarter of the work, and there may be as many as hosted clusters. This bounds
            # their sum.
            if resident.key in placed or self._work >= self._most_work * 2:
                continue
            problem = self._problem([*kept, resident])
            result = problem.solve(most_work=self._most_work // 4)
            self._work += result.work
            if result.plan is not None:
                kept.append(resident)
                best = problem, result.plan.moves
        if best is None:
            return self._planned(rough.moves, rough, rough.stuck, proof)
        problem, moves = best
        assignments, _ = problem.assignments(moves)
        done = {resident.key for resident in kept}
        stuck = tuple(stuck for stuck in rough.stuck if stuck.key not in done)
        left = MovePlan(after=violations(problem.state_after(assignments)))
        return self._planned(_moves(assignments), left, stuck, proof)

    def _planned(
        self,
        moves: tuple[Move, ...],
        left: MovePlan,
        stuck: tuple[Stuck, ...],
        proof: Proof,
        *,
        lower_bound: int | None = None,
    ) -> MovePlan:
        return MovePlan(
            moves=moves,
            stuck=stuck,
            after=left.after,
            proof=proof,
            lower_bound=len(moves) if lower_bound is None else lower_bound,
            work=self._work,
        )

    def _problem(self, must: Iterable[Resident], may: Iterable[Resident] = ()) -> MoveProblem:
        return MoveProblem(self._state, self._requests, self._eligibility, must=must, may=may, clean=())

    def _admitted(self, resident: Resident) -> bool:
        """Return whether a host admits it, whatever else moves."""
        if (request := self._requests.get(resident.key)) is None:
            return False
        hosts = self._eligibility.hosts(self._state.workload_of(request))
        return any(host != resident.host for host in hosts)


def _greedy(
    state: HostingState,
    requests: Requests,
    before: tuple[Violation, ...],
    within: Collection[HostKey] | None,
    *,
    now: Micros,
) -> MovePlan:
    """Take the move that helps most, again and again."""
    chosen: list[Resident] = []
    current = MovePlan(after=before)
    trials = 0
    while current.after and trials < MOST_TRIALS:
        hosts = {violation.host for violation in current.after}
        taken = {resident.key for resident in chosen}
        best: tuple[float, Micros, Resident, MovePlan] | None = None
        for name in sorted(hosts):
            for resident in state.on(state.facts[name].key):
                if resident.key in taken or trials >= MOST_TRIALS:
                    continue
                # A trial repeats the moves that were chosen before it, with one cycle for each.
                trials += 1 + len(chosen)
                plan = _try(state, requests, [*chosen, resident], within, now=now)
                rank = _weight(plan), plan.freeze
                if not plan.stuck and rank[0] < _weight(current) and (best is None or rank < best[:2]):
                    best = (*rank, resident, plan)
        if best is None:
            break
        current = best[3]
        chosen.append(best[2])
    return MovePlan(moves=current.moves, before=before, after=current.after)


def _try(
    state: HostingState,
    requests: Requests,
    chosen: Iterable[Resident],
    within: Collection[HostKey] | None,
    *,
    now: Micros,
) -> MovePlan:
    trial = _Trial(state.fork(), requests, now=now, spare=True)
    results = [trial.move(resident) for resident in _largest_first(chosen)]
    return MovePlan(
        moves=tuple(result for result in results if isinstance(result, Move)),
        stuck=tuple(result for result in results if isinstance(result, Stuck)),
        after=fixable_violations(trial.state, within),
    )


def _weight(plan: MovePlan) -> float:
    return sum(violation.weight for violation in plan.after)


class _Trial:
    """A copy of the state on which moves take effect, each to the host that the profile prefers."""

    def __init__(self, state: HostingState, requests: Requests, *, now: Micros, spare: bool = False) -> None:
        self.state = state
        self._now, self._requests = now, requests
        profile = without_quiet_hours(state.profile)
        self._profile: Profile = profile if spare else without_spare(profile)

    def close(self, host: HostKey) -> None:
        """Take nothing more on this host."""
        self.state.close(host)

    def move(self, resident: Resident) -> Move | Stuck:
        state, source = self.state, resident.host
        request = self._requests.get(resident.key)
        if request is None:
            return Stuck(key=resident.key, source=source, reason=NO_REQUEST, size=size_of(resident))
        workload = state.workload_of(request)
        # Vacated before the cycle: its own amounts must not count against its constraints, such as those of its
        # tenant.
        state.vacate(resident.key)
        closed = state.close(source)
        outcome = cycle.run(state.snapshot(), workload, self._profile, now=self._now)
        if closed is not None:
            state.reopen(closed)
        decision = decision_of(outcome, workload.key)
        if decision.host is None:
            state.occupy(resident)
            return Stuck(key=resident.key, source=source, reason=_reason(decision), size=size_of(resident))
        state.reserve(workload, decision.host)
        return _move(resident, decision.host)


def _move(resident: Resident, target: HostKey) -> Move:
    return Move(
        key=resident.key,
        source=resident.host,
        target=target,
        size=size_of(resident),
        slots=resident.amounts.get(SLOTS, 0),
        freeze=freeze_of(resident),
    )


def _moves(assignments: Iterable[Assignment]) -> tuple[Move, ...]:
    return tuple(_move(assignment.resident, assignment.target) for assignment in assignments)


def _with_notes(plan: MovePlan, notes: Iterable[str]) -> MovePlan:
    return replace(plan, notes=(*plan.notes, *notes))


def _reason(decision: Decision) -> str:
    """Return why no other host qualifies; hosts that are closed for the move need no reason."""
    reasons = [
        f"{rejection.count} {rejection.reason}"
        for rejection in decision.rejections
        if rejection.reason != NOT_READ
    ]
    return "; ".join(reasons[:REASONS_SHOWN]) or NO_OTHER


def _largest_first(residents: Iterable[Resident]) -> list[Resident]:
    return sorted(residents, key=lambda resident: (-resident.amounts.get(SLOTS, 0), resident.key))
