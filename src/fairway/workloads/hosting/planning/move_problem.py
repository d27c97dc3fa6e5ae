"""Moves of hosted clusters as a problem of numbers for ``move_search``, built from the state of the hosts.

What depends on the host alone (labels, region, version, constraints of the request) is decided once by the filters of
the profile. What depends on other hosted clusters (room, tenants, names, spare hosts) is left to the search.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from fairway.api.hosted_request import RELEASING, HostedClusterRequest
from fairway.engine import cycle
from fairway.engine.workload import HostKey, ResourceList, Workload, WorkloadKey
from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import host_key
from fairway.workloads.hosting.planning.move_search import (
    MOST_WORK,
    Amounts,
    HostLimits,
    Mover,
    MoveSearch,
    Result,
)
from fairway.workloads.hosting.planning.violations import (
    available_hosts,
    fixable_violations,
    keeps_tenants_apart,
    violations,
)
from fairway.workloads.hosting.profile import eligibility, is_built_in
from fairway.workloads.hosting.requests.demand import CUSTOM
from fairway.workloads.hosting.resources import DIMENSIONS
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import HostingSpec, Resident, objects_of

FREEZE: Final[Mapping[str, Micros]] = {
    "small": 10 * 60 * SECOND,
    "medium": 20 * 60 * SECOND,
    "large": 40 * 60 * SECOND,
}
"""Assumed time without changes to a hosted cluster while its etcd is copied to another host, by size."""
LONGEST_FREEZE: Final = max(FREEZE.values())
"""Of other sizes."""
PLENTY: Final = 1 << 80
"""Room of a host whose capacity is unknown. Nothing moves there, so that only what leaves it counts."""


def size_of(resident: Resident) -> str:
    return CUSTOM if resident.demand is None else resident.demand.size


def freeze_of(resident: Resident) -> Micros:
    return 0 if resident.confirmed is None else FREEZE.get(size_of(resident), LONGEST_FREEZE)


@dataclass(frozen=True, slots=True)
class Assignment:
    resident: Resident
    target: HostKey


class Eligibility:
    """Which hosts admit a request, apart from room and from other hosted clusters."""

    def __init__(self, state: HostingState, *, closed: Iterable[HostKey] = (), now: Micros) -> None:
        self._state, self._closed, self._now = state, frozenset(closed), now
        self._profile = eligibility(state.profile)
        self._is_built_in = is_built_in(self._profile)
        self._known: dict[object, tuple[HostKey, ...]] = {}

    def hosts(self, workload: Workload[HostingSpec]) -> tuple[HostKey, ...]:
        """Return the hosts by name. Requests with equal constraints share one cycle."""
        spec = workload.spec
        constraints = spec.request.spec.constraints
        key = (
            msgspec.json.encode(constraints),
            spec.request.metadata.namespace if constraints.placement else "",
            spec.policy.name,
            spec.target,
            spec.problem,
            # Other filters than the built-in ones may distinguish requests by anything.
            None if self._is_built_in else workload.key,
        )
        if key not in self._known:
            snapshot = self._state.snapshot()
            outcome = cycle.run(snapshot, workload, self._profile, now=self._now)
            admitted = (host_key(snapshot.cluster(row)) for row in outcome.details.rows.tolist())
            self._known[key] = tuple(
                sorted(
                    host
                    for host in admitted
                    if host not in self._closed
                    and (facts := self._state.facts.get(host.name)) is not None
                    and facts.key == host
                )
            )
        return self._known[key]


class MoveProblem:
    """``must`` moves in every plan; ``may`` moves if that helps. Nothing moves to a host of ``eligibility.closed``."""

    def __init__(
        self,
        state: HostingState,
        requests: Mapping[WorkloadKey, HostedClusterRequest],
        eligibility: Eligibility,
        *,
        must: Iterable[Resident] = (),
        may: Iterable[Resident] = (),
        clean: Collection[HostKey],
    ) -> None:
        """``clean``: the hosts that, as far as they are available, must be within policy at the end, besides those that
        take something."""
        self._state, self._clean = state, frozenset(clean)
        self._available = available_hosts(state)
        self._violated = frozenset(violation.host for violation in violations(state))
        self._amounts_on: dict[object, ResourceList] = {}
        self._tenants: dict[str, int] = {}
        """A number for each tenant."""
        self._residents: list[Resident] = []
        self._workloads: list[Workload[HostingSpec]] = []
        self._must: list[bool] = []
        candidates: list[tuple[HostKey, ...]] = []
        for resident, has_to in [
            *((resident, True) for resident in must),
            *((resident, False) for resident in may),
        ]:
            request = requests.get(resident.key)
            if request is None:
                continue
            workload = state.workload_of(request)
            hosts = tuple(host for host in eligibility.hosts(workload) if host != resident.host)
            if has_to or (hosts and resident.phase != RELEASING):
                self._residents.append(resident)
                self._workloads.append(workload)
                self._must.append(has_to)
                candidates.append(hosts)
        self._hosts = sorted(
            {facts.key for facts in state.facts.values()} | {resident.host for resident in self._residents}
        )
        self._index = {host: index for index, host in enumerate(self._hosts)}
        self._resources = self._limiting(candidates)
        self._clashes, self._blocked = self._name_clashes()
        self.movers = [self._mover(index, hosts) for index, hosts in enumerate(candidates)]
        self.limits = [self._limits(host) for host in self._hosts]

    def solve(self, *, most_work: int = MOST_WORK) -> Result:
        spare = self._clean and any(policy.limits.spare_hosts for policy in self._state.policies.values())
        check = self._is_within_policy if spare else None
        return MoveSearch(self.limits, self.movers, check=check, most_work=most_work).solve()

    def assignments(self, moves: Iterable[tuple[int, int]]) -> tuple[list[Assignment], bool]:
        """Return the moves in an order in which each one fits when those before it are done.

        The second value is False if there is no such order, because hosted clusters exchange their hosts.
        """
        # The shortest freeze first: what fits at once is safe early, should the person who carries out the plan stop.
        waiting = sorted(moves, key=lambda move: (self.movers[move[0]].freeze, self._residents[move[0]].key))
        room = {index: list(limits.free) for index, limits in enumerate(self.limits)}
        where = {index: mover.source for index, mover in enumerate(self.movers)}
        ordered: list[tuple[int, int]] = []
        in_order = True
        while waiting:
            # The search looks at the state after all moves, so that a move may need the room that another one leaves.
            fitting = next((move for move in waiting if self._fits(move, room, where)), None)
            if fitting is None:
                in_order = False
                fitting = waiting[0]
            waiting.remove(fitting)
            ordered.append(fitting)
            mover, target = self.movers[fitting[0]], fitting[1]
            for dimension, (back, taken) in enumerate(zip(mover.amounts, mover.targets[target], strict=True)):
                room[mover.source][dimension] += back
                room[target][dimension] -= taken
            where[fitting[0]] = target
        return [
            Assignment(self._residents[index], self._hosts[target]) for index, target in ordered
        ], in_order

    def _fits(
        self, move: tuple[int, int], room: Mapping[int, Sequence[int]], where: Mapping[int, int]
    ) -> bool:
        index, target = move
        mover, limits = self.movers[index], self.limits[target]
        if any(
            taken > 0 and taken > left
            for taken, left in zip(mover.targets[target], room[target], strict=True)
        ):
            return False
        others = [other for other, host in where.items() if host == target]
        if limits.apart and (
            limits.tenants.get(mover.tenant, 0)
            or any(self.movers[other].tenant == mover.tenant for other in others)
        ):
            return False
        return mover.clashes.isdisjoint(others)

    def _is_within_policy(self, moves: Sequence[tuple[int, int]]) -> bool:
        assignments = [Assignment(self._residents[index], self._hosts[target]) for index, target in moves]
        workloads = {self._residents[index].key: self._workloads[index] for index in dict(moves)}
        return not fixable_violations(after(self._state, assignments, workloads), self._clean)

    def state_after(self, assignments: Iterable[Assignment]) -> HostingState:
        workloads = {workload.key: workload for workload in self._workloads}
        return after(self._state, assignments, workloads)

    def _limiting(self, candidates: Sequence[Sequence[HostKey]]) -> tuple[str, ...]:
        """Return the resources of which a host may have too little; the others cost time and decide nothing."""
        most: dict[str, int] = {}
        for workload, hosts in zip(self._workloads, candidates, strict=True):
            for resource in DIMENSIONS:
                largest = max((self._taken(workload, host).get(resource, 0) for host in hosts), default=0)
                most[resource] = most.get(resource, 0) + largest
        return tuple(
            resource
            for resource in DIMENSIONS
            if any(
                left is not None and left < most.get(resource, 0)
                for host in self._hosts
                for left in (self._free(host).get(resource),)
            )
        )

    def _free(self, host: HostKey) -> ResourceList:
        facts = self._state.facts.get(host.name)
        if facts is None or facts.key != host or not isinstance(facts.capacity, Capacity):
            return {}
        return self._state.free(host)

    def _is_doubtful(self, host: HostKey) -> bool:
        """Return whether a host is beyond its capacity only by what may be counted twice: nothing has to leave it."""
        return any(left < 0 for left in self._free(host).values()) and host.name not in self._violated

    def _taken(self, workload: Workload[HostingSpec], host: HostKey) -> ResourceList:
        need = workload.spec.need
        key = (need.size, need.single, tuple(need.amounts.items()), host)
        if key not in self._amounts_on:
            self._amounts_on[key] = self._state.amounts_on(workload, host)
        return self._amounts_on[key]

    def _amounts(self, amounts: ResourceList) -> Amounts:
        return tuple(amounts.get(resource, 0) for resource in self._resources)

    def _mover(self, index: int, hosts: Iterable[HostKey]) -> Mover:
        resident, workload = self._residents[index], self._workloads[index]
        return Mover(
            source=self._index[resident.host],
            amounts=self._amounts(resident.amounts),
            targets={
                self._index[host]: self._amounts(self._taken(workload, host))
                for host in hosts
                if (index, host) not in self._blocked and self._is_large_enough(host, workload)
            },
            tenant=self._tenant(workload.spec.tenant),
            freeze=freeze_of(resident),
            must=self._must[index],
            clashes=self._clashes.get(index, frozenset()),
        )

    def _is_large_enough(self, host: HostKey, workload: Workload[HostingSpec]) -> bool:
        offer = self._state.offer(host)
        asked = self._taken(workload, host)
        return all(asked.get(resource, 0) <= most for resource, most in offer.items())

    def _limits(self, host: HostKey) -> HostLimits:
        facts = self._state.facts.get(host.name)
        known = facts is not None and facts.key == host
        movers = {resident.key for resident in self._residents if resident.host == host}
        tenants: dict[int, int] = {}
        apart = facts is not None and known and keeps_tenants_apart(self._state, facts)
        if apart:
            for resident in self._state.on(host):
                if resident.key not in movers:
                    tenant = self._tenant(self._state.table.tenant_of(resident.claimant))
                    tenants[tenant] = tenants.get(tenant, 0) + 1
        free = self._free(host)
        return HostLimits(
            free=tuple(free.get(resource, PLENTY) for resource in self._resources),
            clean=host in self._clean
            and known
            and host.name in self._available
            and not self._is_doubtful(host),
            apart=apart,
            tenants=tenants,
        )

    def _tenant(self, name: str) -> int:
        return self._tenants.setdefault(name, len(self._tenants))

    def _name_clashes(
        self,
    ) -> tuple[dict[int, frozenset[int]], set[tuple[int, HostKey]]]:
        """Return which movers cannot share a host, and which hosts a mover cannot join because of one that stays."""
        owners: dict[tuple[str, str, str], dict[str, list[int]]] = {}
        wanted: list[frozenset[tuple[str, str, str, str]]] = []
        for index, (resident, workload) in enumerate(zip(self._residents, self._workloads, strict=True)):
            created = objects_of(workload.spec.request, workload.spec.namespace) | resident.objects
            wanted.append(created)
            for kind, namespace, name, source in created:
                owners.setdefault((kind, namespace, name), {}).setdefault(source, []).append(index)
        clashes: dict[int, set[int]] = {}
        for sources in owners.values():
            if len(sources) > 1:
                every = {index for indexes in sources.values() for index in indexes}
                for indexes in sources.values():
                    for index in indexes:
                        clashes.setdefault(index, set()).update(every.difference(indexes))
        staying: dict[tuple[str, str, str], list[tuple[str, HostKey]]] = {}
        movers = {resident.key for resident in self._residents}
        for host in self._hosts:
            for resident in self._state.on(host):
                if resident.key not in movers:
                    for kind, namespace, name, source in resident.objects:
                        staying.setdefault((kind, namespace, name), []).append((source, host))
        blocked = {
            (index, host)
            for index, created in enumerate(wanted)
            for kind, namespace, name, source in created
            for other, host in staying.get((kind, namespace, name), ())
            if other != source
        }
        return {index: frozenset(others) for index, others in clashes.items()}, blocked


def after(
    state: HostingState,
    assignments: Iterable[Assignment],
    workloads: Mapping[WorkloadKey, Workload[HostingSpec]],
) -> HostingState:
    """Return a copy of the state in which all moves are done. Raises InsufficientCapacity if one does not fit."""
    moved = list(assignments)
    copy = state.fork()
    for assignment in moved:
        # All leave before one arrives: hosted clusters may exchange their hosts, and the state after all moves
        # counts.
        copy.vacate(assignment.resident.key)
    for assignment in moved:
        copy.reserve(workloads[assignment.resident.key], assignment.target)
    return copy
