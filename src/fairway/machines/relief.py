"""Decide which migrations a node needs: for demand that was denied there, and for use above the watermark."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.instant import Micros
from fairway.machines.instructions import Alert
from fairway.machines.machine import Machine
from fairway.machines.migration import Claim, Migration, Phase, Reason
from fairway.machines.migrations import Migrations
from fairway.machines.permits import Permits, Turn, room_below
from fairway.machines.planner import Candidate, Plan, Targets, plan_moves, plan_oldest_first
from fairway.machines.policy import MachinePolicy
from fairway.machines.size import added, covered, describe, largest, missing

NOT_NEEDED = "room appeared on node {host}: the migration is not needed"
CAPACITY_NEEDED = "CapacityNeeded"
CAPACITY_MESSAGE = "machine {key} on node {host} lacks {missing}, and no set of migrations makes room for it"

MOST_RETRIES = 8
"""Nodes that are planned for again with one event, because room appeared elsewhere."""

Need = tuple[Machine, dict[str, int]]


class TargetOracle(Protocol):
    """Answers where a machine could run, as a dry run of the filters."""

    def feasible(self, machine: Machine) -> Sequence[HostKey]:
        """Return the nodes that pass the filters, the best first. Room is checked by the planner."""


class Relief:
    def __init__(
        self, policy: MachinePolicy, permits: Permits, migrations: Migrations, oracle: TargetOracle
    ) -> None:
        self._policy = policy
        self._permits = permits
        self._migrations = migrations
        self._oracle = oracle
        self.above: dict[HostKey, Micros] = {}
        """Since when a node exceeds its watermark."""
        self.short: dict[HostKey, None] = {}
        """Nodes that need more room than migrations under way make."""
        self._tried: dict[HostKey, tuple[Micros, int]] = {}
        """When each node was last planned for, and how often room had appeared by then."""
        self._appeared = 0
        """How often room appeared anywhere."""
        self._reported: dict[WorkloadKey, int] = {}

    def review(self, turn: Turn, host: HostKey) -> None:
        """Give back room that is not needed any more, and cancel migrations before their cutover that are not."""
        for migration in self._migrations.from_host(host):
            if migration.source not in self._permits.machines:
                self._migrations.close_rest(turn, migration)
                continue
            if not migration.leaving:
                continue
            migration = self._migrations.set_claims(turn, migration, self._needed_claims(turn, migration))
            if not migration.cancellable:
                continue
            if migration.claims or self._relieves(turn, migration):
                self._migrations.unneeded.pop(migration.id, None)
                continue
            since = self._migrations.unneeded.setdefault(migration.id, turn.now)
            if host in turn.certain or turn.now - since >= self._policy.settle_delay:
                self._migrations.cancel(turn, migration, NOT_NEEDED.format(host=host))

    def _needed_claims(self, turn: Turn, migration: Migration) -> tuple[Claim, ...]:
        """Return the claims cut down to what their beneficiaries still lack; free room is given back first."""
        claims: list[Claim] = []
        left: ResourceList = turn.account(migration.source_host).holding(migration.source)
        for claim in migration.claims:
            machine = self._permits.machines.get(claim.beneficiary)
            if machine is None:
                continue
            lacking = self._permits.demands[machine.key].missing(machine.factors)
            for other, each in self._migrations.claims_of(machine.key):
                first = each.from_source and not claim.from_source
                if first or (each.from_source == claim.from_source and other.id < migration.id):
                    lacking = missing(lacking, each.amounts)
            amounts = covered(claim.amounts, lacking)
            if claim.from_source:
                # The source may have shrunk.
                amounts = covered(amounts, left)
                left = missing(left, amounts)
            if amounts == claim.amounts:
                claims.append(claim)
            elif amounts:
                claims.append(Claim(beneficiary=machine.key, amounts=amounts, from_source=claim.from_source))
        return tuple(claims)

    def _relieves(self, turn: Turn, migration: Migration) -> bool:
        """Return whether the node would exceed its watermark if this migration were cancelled."""
        if migration.reason is not Reason.PRESSURE:
            return False
        return bool(self._excess(turn, migration.source_host, without=migration))

    def _excess(self, turn: Turn, host: HostKey, *, without: Migration | None = None) -> dict[str, int]:
        """Return by how much a node exceeds its watermark after the migrations under way."""
        account = turn.account(host)
        after = dict(account.used)
        for each in self._migrations.from_host(host):
            if each.leaving and each != without and each.source in self._permits.machines:
                after = added(after, each.claimed())
                after = {name: amount - each.amounts.get(name, 0) for name, amount in after.items()}
        return missing(after, self._permits.watermark(account)) if account.capacity is not None else {}

    def plan(self, turn: Turn, host: HostKey) -> None:
        """Start the migrations that the node needs and the limits allow."""
        self.short.pop(host, None)
        self._tried[host] = (turn.now, self._appeared)
        waiters = self._permits.waiters(host)
        excess = self._excess(turn, host)
        if not excess:
            self.above.pop(host, None)
            if not waiters:
                return
        needs = self._attach(turn, host, waiters)
        if self._must_wait(turn, host):
            if needs or excess:
                self.short[host] = None
            return
        if needs and self._policy.for_demand:
            self._plan_for_demand(turn, host, needs)
        excess = self._excess(turn, host)
        if excess and self._policy.for_pressure:
            self._plan_for_pressure(turn, host, excess)

    def _must_wait(self, turn: Turn, host: HostKey) -> bool:
        cancelled = self._migrations.cancelled_at.get(host)
        return cancelled is not None and turn.now < cancelled + self._policy.settle_delay

    def _attach(self, turn: Turn, host: HostKey, waiters: list[Machine]) -> list[Need]:
        """Claim unclaimed room of migrations under way; return what is still lacking."""
        needs: list[Need] = []
        for machine in waiters:
            lacking = self._permits.demands[machine.key].missing(machine.factors)
            for _, claim in self._migrations.claims_of(machine.key):
                lacking = missing(lacking, claim.amounts)
            for migration in self._migrations.from_host(host):
                if not lacking or not migration.leaving or migration.source not in self._permits.machines:
                    continue
                held = turn.account(host).holding(migration.source)
                part = covered(lacking, missing(held, migration.claimed()))
                if part:
                    claims = _with(migration.claims, machine.key, part)
                    self._migrations.set_claims(turn, migration, claims)
                    lacking = missing(lacking, part)
            if lacking:
                needs.append((machine, lacking))
        return needs

    def _plan_for_demand(self, turn: Turn, host: HostKey, needs: list[Need]) -> None:
        """Plan for all that wait, or for as many as possible in their order, or for a part of the first one."""
        room = self._candidates(turn, host, without={machine.key for machine, _ in needs})
        free = {name: max(0, amount) for name, amount in turn.account(host).free().items()}
        for count in range(len(needs), 0, -1):
            plan = self._plan_for(needs[:count], free, room)
            if plan is not None:
                self._start(turn, host, plan, needs[:count], free, Reason.DEMAND)
                if count < len(needs):
                    self.short[host] = None
                return
        self.short[host] = None
        machine = needs[0][0]
        most = self._permits.demands[machine.key].missing_units - 1
        units = largest(
            most, lambda units: self._plan_for([self._part(machine, units)], free, room) is not None
        )
        if units:
            part = self._part(machine, units)
            plan = self._plan_for([part], free, room)
            assert plan is not None
            self._start(turn, host, plan, [part], free, Reason.DEMAND)
        else:
            # Not if only the number of migrations is in the way: then the next one that ends makes it possible.
            candidates, targets = room
            unlimited = Targets(targets.room, dict.fromkeys(targets.room, len(candidates)))
            if self._plan_for([self._part(machine, 1)], free, (candidates, unlimited)) is None:
                self._report(turn, host, needs)

    def _plan_for(
        self, needs: list[Need], free: ResourceList, room: tuple[list[Candidate], Targets]
    ) -> Plan | None:
        total: dict[str, int] = {}
        for _, lacking in needs:
            total = added(total, lacking)
        return self._find(missing(total, free), *room)

    def _part(self, machine: Machine, units: int) -> Need:
        """Return what a machine lacks for so many compute units more."""
        lacking = self._permits.demands[machine.key].missing(machine.factors, units=units)
        for _, claim in self._migrations.claims_of(machine.key):
            lacking = missing(lacking, claim.amounts)
        return machine, lacking

    def _plan_for_pressure(self, turn: Turn, host: HostKey, excess: ResourceList) -> None:
        since = self.above.setdefault(host, turn.now)
        account = turn.account(host)
        overfull = bool(missing(account.used, account.capacity or {}))
        if not overfull and turn.now - since < self._policy.pressure_delay:
            return
        candidates, targets = self._candidates(turn, host, without=set())
        plan = self._find(excess, candidates, targets, partial=True)
        if plan is None:
            self.short[host] = None
            return
        if not plan.covers:
            self.short[host] = None
        self._start(turn, host, plan, [], {}, Reason.PRESSURE)

    def _find(
        self, deficit: ResourceList, candidates: list[Candidate], targets: Targets, *, partial: bool = False
    ) -> Plan | None:
        if self._policy.oldest_first:
            plan = plan_oldest_first(deficit, candidates, targets)
            return plan if plan.moves and (plan.covers or partial) else None
        exact = self._policy.exact_candidates
        return plan_moves(deficit, candidates, targets, exact_candidates=exact, partial=partial)

    def _candidates(
        self, turn: Turn, host: HostKey, *, without: set[WorkloadKey]
    ) -> tuple[list[Candidate], Targets]:
        candidates: list[Candidate] = []
        targets = Targets()
        beneficiaries = {
            claim.beneficiary for each in self._migrations.from_host(host) for claim in each.claims
        }
        for machine in self._permits.on_host(host):
            if machine.key in without or machine.key in beneficiaries or not self._movable(turn, machine):
                continue
            failures = self._migrations.failures.get(machine.key)
            feasible = [each for each in self._oracle.feasible(machine) if each != host]
            if failures is not None:
                # Targets that failed come last.
                feasible.sort(key=failures.targets.__contains__)
            for each in feasible:
                if each not in targets.room:
                    self._add_target(turn, targets, each)
            candidates.append(
                Candidate(
                    key=machine.key,
                    amounts=turn.account(host).holding(machine.key),
                    bytes=machine.size_to_copy,
                    priority=machine.priority,
                    arrived=machine.created if machine.moved is None else machine.moved,
                    targets=feasible,
                )
            )
        return candidates, targets

    def _movable(self, turn: Turn, machine: Machine) -> bool:
        if not machine.vm or not machine.migratable or self._migrations.of_source(machine.key) is not None:
            return False
        if self._migrations.of_target(machine.key.namespace, machine.key.name) is not None:
            return False
        if self._permits.owners.get(machine.identity) != machine.key:
            return False
        if machine.moved is not None and turn.now - machine.moved < self._policy.cooldown:
            return False
        failures = self._migrations.failures.get(machine.key)
        return failures is None or failures.not_before <= turn.now

    def _add_target(self, turn: Turn, targets: Targets, host: HostKey) -> None:
        account = turn.account(host)
        targets.room[host] = room_below(self._permits.watermark(account), account)
        targets.slots[host] = self._policy.per_target - self._migrations.to_host(host)

    def _start(
        self,
        turn: Turn,
        host: HostKey,
        plan: Plan,
        needs: list[Need],
        free: ResourceList,
        reason: Reason,
    ) -> None:
        """Start as many moves as the limits allow, and share out the room that they leave."""
        active = [each for each in self._migrations.records.values() if each.phase in _UNDER_WAY]
        slots = min(
            self._policy.per_source - sum(each.source_host == host for each in active),
            self._policy.per_fleet - len(active),
        )
        if slots < len(plan.moves):
            self.short[host] = None
        lacking = [(machine.key, dict(amounts)) for machine, amounts in needs]
        started: list[tuple[WorkloadKey, HostKey, ResourceList, list[Claim]]] = []
        for move in plan.moves[: max(0, slots)]:
            left: ResourceList = move.amounts
            claims: list[Claim] = []
            for at, (key, amounts) in enumerate(lacking):
                part = covered(amounts, left)
                if part:
                    claims.append(Claim(beneficiary=key, amounts=part))
                    left, lacking[at] = missing(left, part), (key, missing(amounts, part))
            started.append((move.key, move.target, move.amounts, claims))
        if len(started) == len(plan.moves):
            # The rest comes from room that is free now, and must not be given away meanwhile.
            for key, amounts in lacking:
                part = covered(amounts, free)
                mine = next((c for *_, c in started if any(each.beneficiary == key for each in c)), None)
                if part and mine is not None:
                    mine.append(Claim(beneficiary=key, amounts=part, from_source=False))
                    free = missing(free, part)
        for key, target, size, claims in started:
            machine = self._permits.machines[key]
            self._migrations.start(turn, machine, target, amounts=size, claims=tuple(claims), reason=reason)

    def _report(self, turn: Turn, host: HostKey, needs: list[Need]) -> None:
        """Raise the capacity-needed signal, once for each request."""
        for machine, lacking in needs:
            generation = self._permits.demands[machine.key].generation
            if self._reported.get(machine.key) != generation:
                self._reported[machine.key] = generation
                message = CAPACITY_MESSAGE.format(key=machine.key, host=host, missing=describe(lacking))
                turn.out.append(
                    Alert(
                        reason=CAPACITY_NEEDED, message=message, host=host, key=machine.key, missing=lacking
                    )
                )

    def note_room(self) -> None:
        """Note that room appeared, or a migration ended: nodes that are short may be helped now."""
        self._appeared += 1

    def retries(self, now: Micros) -> list[HostKey]:
        """Return nodes that are short and may be helped now, those first that have waited longest."""
        found = [host for host in self.short if self._retry_at(host, now) <= now]
        return sorted(found, key=lambda host: self._tried[host])[:MOST_RETRIES]

    def _retry_at(self, host: HostKey, now: Micros) -> Micros:
        tried, appeared = self._tried[host]
        return tried + self._policy.replan_delay if appeared != self._appeared else now + 1

    def due(self, now: Micros) -> list[HostKey]:
        """Return the nodes for which time alone has changed something since they were planned for."""
        return [
            host
            for host in {**self.above, **self.short}
            if any(self._tried[host][0] < at <= now for at in self._moments(host))
        ]

    def _moments(self, host: HostKey) -> Iterator[Micros]:
        if host in self.above:
            yield self.above[host] + self._policy.pressure_delay
        cancelled = self._migrations.cancelled_at.get(host)
        if cancelled is not None:
            yield cancelled + self._policy.settle_delay
        if host in self.short:
            for machine in self._permits.on_host(host):
                if machine.moved is not None:
                    yield machine.moved + self._policy.cooldown
                failures = self._migrations.failures.get(machine.key)
                if failures is not None:
                    yield failures.not_before

    def deadlines(self, now: Micros) -> Iterator[Micros]:
        for since in self._migrations.unneeded.values():
            yield since + self._policy.settle_delay
        for host in {**self.above, **self.short}:
            yield from (at for at in self._moments(host) if at > now)
        for host in self.short:
            if self._tried[host][1] != self._appeared:
                yield max(now + 1, self._retry_at(host, now))

    def forget_machine(self, key: WorkloadKey) -> None:
        self._reported.pop(key, None)

    def forget(self, host: HostKey) -> None:
        for each in (self.above, self.short, self._tried, self._migrations.cancelled_at):
            each.pop(host, None)


_UNDER_WAY = frozenset(Phase) - {Phase.SWAP_COMMITTED, Phase.CLEANED, Phase.CANCELLED, Phase.FAILED}


def _with(claims: tuple[Claim, ...], key: WorkloadKey, part: ResourceList) -> tuple[Claim, ...]:
    for at, each in enumerate(claims):
        if each.beneficiary == key and each.from_source:
            more = Claim(beneficiary=key, amounts=added(each.amounts, part))
            return (*claims[:at], more, *claims[at + 1 :])
    return (*claims, Claim(beneficiary=key, amounts=part))
