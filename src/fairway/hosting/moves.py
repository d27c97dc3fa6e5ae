"""Moves of hosted clusters between hosts: a plan for a person to approve. Nothing is written.

``drain`` plans where the hosted clusters of one host would move. ``rebalance`` finds the fewest moves after which no
host violates a policy. Both place each hosted cluster with the profile ``hosting``, on a copy of the state, so that its
constraints, the policy and all earlier moves count.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import REQUIRED
from fairway.engine import cycle
from fairway.engine.profile import Profile
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.fleet.instant import SECOND, Micros
from fairway.hosting.capacity import Capacity
from fairway.hosting.decision import REASONS_SHOWN, Decision, decision_of
from fairway.hosting.demand import CUSTOM
from fairway.hosting.evacuation import Evacuation
from fairway.hosting.placement_promises import describe_promises
from fairway.hosting.plugins.capacity_known import NOT_READ
from fairway.hosting.profile import hosting_profile
from fairway.hosting.resources import HOSTED, MILLI, SLOTS, shown
from fairway.hosting.state import HostingState
from fairway.hosting.workload import Resident, key_of

FREEZE: Final[Mapping[str, Micros]] = {
    "small": 10 * 60 * SECOND,
    "medium": 20 * 60 * SECOND,
    "large": 40 * 60 * SECOND,
}
"""Assumed time without changes to a hosted cluster while its etcd is copied to another host, by size."""
LONGEST_FREEZE: Final = max(FREEZE.values())
"""Of other sizes."""

OVER: Final = "carries {amount} {resource} more than the policy allows"
TENANT: Final = "carries {count} hosted clusters of tenant {tenant}, and the policy allows one"
NO_SPARE: Final = "{count} of its hosted clusters would not fit elsewhere if it failed"
NO_OTHER: Final = "there is no other hosting cluster"
NO_REQUEST: Final = "its HostedClusterRequest no longer exists"
FOREIGN: Final = "{count} hosted clusters were not created by a HostedClusterRequest, and are not moved"
NOT_MOVED: Final = "{promised} and not moved"
MOST_TRIALS: Final = 600
"""Combinations of moves that are tried before the search continues with one move at a time."""
MOST_CANDIDATES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Where a host violates a policy. ``weight`` compares violations: the larger, the worse."""

    host: str
    message: str
    weight: float


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    moves: tuple[Move, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    before: tuple[Violation, ...] = ()
    after: tuple[Violation, ...] = ()
    """Violations that remain."""
    fewest: bool = True
    """Whether no smaller number of moves is enough."""
    notes: tuple[str, ...] = field(default=())

    @property
    def freeze(self) -> Micros:
        return sum(each.freeze for each in self.moves)

    @property
    def hash(self) -> str:
        """Identify the plan: equal moves have an equal hash."""
        lines = (f"{each.key.uid} {each.source.uid} {each.target.uid} {each}" for each in self.moves)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def violations(state: HostingState) -> tuple[Violation, ...]:
    """Return where hosts violate the policies that cover them, in the order of hosts."""
    found = [each for name in sorted(state.facts) for each in _of_host(state, name)]
    for policy in sorted(state.policies.values(), key=lambda each: each.name):
        if policy.limits.spare_hosts and (stranded := Evacuation.of(state, policy).stranded()):
            host, count = stranded
            found.append(Violation(host=host, message=NO_SPARE.format(count=count), weight=float(count)))
    return tuple(found)


def _of_host(state: HostingState, name: str) -> Iterator[Violation]:
    facts = state.facts[name]
    if isinstance(facts.capacity, Capacity):
        for resource, left in state.free(facts.key).items():
            if left < 0:
                share = -left / max(1, facts.capacity.total.get(resource, 0))
                words = OVER.format(amount=shown(resource, -left), resource=resource)
                yield Violation(host=name, message=words, weight=1 + share)
    if any(state.policies[each].tenants == REQUIRED for each in facts.policies):
        tenants: dict[str, int] = {}
        for resident in state.on(facts.key):
            tenants[resident.tenant] = tenants.get(resident.tenant, 0) + 1
        for tenant, count in sorted(tenants.items()):
            if count > 1:
                words = TENANT.format(count=count, tenant=tenant)
                yield Violation(host=name, message=words, weight=float(count - 1))


def drain(
    state: HostingState, requests: Iterable[HostedClusterRequest], host: HostKey, *, now: Micros
) -> MovePlan:
    """Plan where the hosted clusters of a host would move, the largest first.

    The room that a policy keeps for the failure of a host is used; what then has no spare host is in ``after``.
    """
    trial = _Trial(state.fork(), requests, now=now, spare=False)
    trial.close(host)
    moves: list[Move] = []
    stuck: list[Stuck] = []
    for resident in _largest_first(state.on(host)):
        result = trial.move(resident)
        if isinstance(result, Move):
            moves.append(result)
        else:
            stuck.append(result)
    facts = state.facts.get(host.name)
    notes: list[str] = []
    if facts is not None and isinstance(facts.capacity, Capacity):
        if others := facts.capacity.others.get(HOSTED, 0) // MILLI:
            notes.append(FOREIGN.format(count=others))
        if facts.promised:
            notes.append(NOT_MOVED.format(promised=describe_promises(facts.promised)))
    return MovePlan(moves=tuple(moves), stuck=tuple(stuck), after=violations(trial.state), notes=tuple(notes))


def rebalance(state: HostingState, requests: Iterable[HostedClusterRequest], *, now: Micros) -> MovePlan:
    """Plan the fewest moves after which no host violates a policy, or else fewer do."""
    known = list(requests)
    before = violations(state)
    if not before:
        return MovePlan()
    hosts = {each.host for each in before}
    residents = [each for name in sorted(hosts) for each in _cheapest_first(state.on(state.facts[name].key))][
        :MOST_CANDIDATES
    ]
    trials = 0
    for number in range(1, len(residents) + 1):
        best: MovePlan | None = None
        for chosen in combinations(residents, number):
            trials += 1
            if trials > MOST_TRIALS:
                break
            plan = _try(state, known, chosen, now=now)
            if not plan.after and not plan.stuck and (best is None or plan.freeze < best.freeze):
                best = plan
        if best is not None:
            return MovePlan(moves=best.moves, before=before, fewest=trials <= MOST_TRIALS)
        if trials > MOST_TRIALS:
            break
    return _greedy(state, known, before, now=now)


def _try(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    chosen: Iterable[Resident],
    *,
    now: Micros,
) -> MovePlan:
    trial = _Trial(state.fork(), requests, now=now)
    results = [trial.move(each) for each in _largest_first(chosen)]
    return MovePlan(
        moves=tuple(each for each in results if isinstance(each, Move)),
        stuck=tuple(each for each in results if isinstance(each, Stuck)),
        after=violations(trial.state),
    )


def _greedy(
    state: HostingState,
    requests: list[HostedClusterRequest],
    before: tuple[Violation, ...],
    *,
    now: Micros,
) -> MovePlan:
    """Take the move that helps most, again and again."""
    chosen: list[Resident] = []
    current = MovePlan(after=before)
    while current.after:
        hosts = {each.host for each in current.after}
        taken = {each.key for each in chosen}
        plans = [
            (_try(state, requests, [*chosen, each], now=now), each)
            for name in sorted(hosts)
            for each in state.on(state.facts[name].key)
            if each.key not in taken
        ]
        better = [(plan, each) for plan, each in plans if not plan.stuck and _weight(plan) < _weight(current)]
        if not better:
            break
        current, resident = min(better, key=lambda item: (_weight(item[0]), item[0].freeze))
        chosen.append(resident)
    return MovePlan(moves=current.moves, before=before, after=current.after, fewest=False)


def _weight(plan: MovePlan) -> float:
    return sum(each.weight for each in plan.after)


class _Trial:
    """A copy of the state on which moves take effect."""

    def __init__(
        self,
        state: HostingState,
        requests: Iterable[HostedClusterRequest],
        *,
        now: Micros,
        spare: bool = True,
    ) -> None:
        self.state = state
        self._now = now
        self._requests = {key_of(each): each for each in requests}
        self._profile: Profile = hosting_profile(state, quiet=False, spare=spare)

    def close(self, host: HostKey) -> None:
        """Take nothing more on this host."""
        self.state.facts.pop(host.name, None)

    def move(self, resident: Resident) -> Move | Stuck:
        state, source = self.state, resident.host
        request = self._requests.get(resident.key)
        if request is None:
            return Stuck(key=resident.key, source=source, reason=NO_REQUEST)
        workload = state.workload_of(request)
        state.vacate(resident.key)
        facts = state.facts.pop(source.name, None)
        try:
            outcome = cycle.run(state.snapshot(), workload, self._profile, now=self._now)
        finally:
            if facts is not None:
                state.facts[source.name] = facts
        decision = decision_of(outcome, workload.key)
        if decision.host is None:
            state.occupy(resident)
            return Stuck(key=resident.key, source=source, reason=_reason(decision))
        state.reserve(workload, decision.host)
        size = CUSTOM if resident.demand is None else resident.demand.size
        return Move(
            key=resident.key,
            source=source,
            target=decision.host,
            size=size,
            slots=resident.amounts.get(SLOTS, 0),
            freeze=0 if resident.confirmed is None else FREEZE.get(size, LONGEST_FREEZE),
        )


def _reason(decision: Decision) -> str:
    """Return why no other host qualifies; hosts that are closed for the move need no reason."""
    reasons = [f"{each.count} {each.reason}" for each in decision.rejections if each.reason != NOT_READ]
    return "; ".join(reasons[:REASONS_SHOWN]) or NO_OTHER


def _largest_first(residents: Iterable[Resident]) -> list[Resident]:
    return sorted(residents, key=lambda each: (-each.amounts.get(SLOTS, 0), each.key))


def _cheapest_first(residents: Iterable[Resident]) -> list[Resident]:
    """Order by disturbance: those that do not exist yet, then the smallest."""
    return sorted(
        residents, key=lambda each: (each.confirmed is not None, each.amounts.get(SLOTS, 0), each.key)
    )
