"""What the loss of hosting clusters would leave without a place, whether or not a policy keeps room for it.

Requests are placed by the code that recovers them, as if the hosts had failed together. Of the hosted clusters
of other authors only the number is known: each counts as a small one that any available host may take.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fairway.api.hosted_request import RELEASING, HostedClusterRequest
from fairway.engine.workload import HostKey
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.planning.move_problem import Assignment, after
from fairway.workloads.hosting.planning.move_search import MOST_WORK
from fairway.workloads.hosting.planning.moves import MovePlan, evacuate
from fairway.workloads.hosting.planning.report import report_of
from fairway.workloads.hosting.planning.violations import available_hosts
from fairway.workloads.hosting.requests.demand import SMALL
from fairway.workloads.hosting.resources import HOSTED, MILLI
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    hosts: tuple[HostKey, ...]
    plan: MovePlan
    """Where the hosted clusters of requests would be created again."""
    others: int
    """Hosted clusters of other authors on the lost hosts, and decisions of Placements that they do not publish yet."""
    stranded_others: int
    """Those of them that fit on no other host."""
    unknown: tuple[str, ...] = ()
    """Lost hosts whose load is unknown, so that ``others`` does not include theirs."""

    @property
    def hosted(self) -> int:
        return len(self.plan.moves) + len(self.plan.stuck) + self.others

    @property
    def stranded(self) -> int:
        return len(self.plan.stuck) + self.stranded_others


def lose(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    hosts: Collection[HostKey],
    *,
    now: Micros,
    most_work: int = MOST_WORK,
) -> Loss:
    """Answer what would fit elsewhere if these hosts failed at once. Nothing moves to make room."""
    known = {key_of(request): request for request in requests}
    residents = {
        resident.key: resident for host in hosts for resident in state.on(host) if resident.phase != RELEASING
    }
    plan = evacuate(state, known, residents.values(), hosts, chains=False, now=now, most_work=most_work)
    others, unknown = 0, []
    for host in sorted(hosts):
        facts = state.facts.get(host.name)
        if facts is None or not isinstance(facts.capacity, Capacity):
            unknown.append(host.name)
        else:
            others += facts.capacity.others.get(HOSTED, 0) // MILLI + len(facts.promised)
    assignments = [Assignment(residents[move.key], move.target) for move in plan.moves]
    workloads = {move.key: state.workload_of(known[move.key]) for move in plan.moves}
    left = after(state, assignments, workloads)
    room = sum(
        report_of(left, left.facts[name], now=now).slots[SMALL]
        for name in sorted(available_hosts(left))
        if left.facts[name].key not in hosts
    )
    return Loss(
        hosts=tuple(sorted(hosts)),
        plan=plan,
        others=others,
        stranded_others=max(0, others - room),
        unknown=tuple(unknown),
    )
