"""Decide which migrations a node needs: for demand that was denied there, and for use above the watermark."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol

from fairway.engine.ledger import HostAccount
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.hosts.steps import finish
from fairway.workloads.machines.instructions import Alert
from fairway.workloads.machines.machine import Machine
from fairway.workloads.machines.migration import Claim, Migration, Phase, Reason
from fairway.workloads.machines.migration_limits import MigrationLimits
from fairway.workloads.machines.migrations import Migrations
from fairway.workloads.machines.moves import Answer, Candidate, Move, Plan, Targets, Work
from fairway.workloads.machines.planner import plan_moves_in_steps, plan_oldest_first_in_steps
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.size import added, covered, describe, largest, missing
from fairway.workloads.machines.table import MachineEntry, MachineTable, NodeEntry, demand_of
from fairway.workloads.machines.turn import Turn

NOT_NEEDED = "room appeared on node {host}: the migration is not needed"
CAPACITY_NEEDED = "CapacityNeeded"
CAPACITY_MESSAGE = "machine {key} on node {host} lacks {missing}, and no set of migrations makes room for it"

CAPACITY_NOT_FOUND = (
    "machine {key} on node {host} lacks {missing}, and the search found no set of migrations that makes room for it "
    "before it reached its limit"
)

MOST_RETRIES = 8
"""Nodes that are planned for again with one event, because room appeared elsewhere."""
TURN_WORK = 20_000
"""Visits of nodes by the plans of one turn of the event loop: about 20 milliseconds."""
WORK_OF_NODE = 20
WORK_OF_ROOM = 5
"""Visits that take as long as to look at the demand of a node, and to compute its room."""
PASSED_ROOMS, PASSED_NODES = 2, 10
"""Nodes that are passed in a visit's time: where the room is known, and where it is known to be enough."""
LEAST_WORK = 1_000
"""Visits of each search of a plan, however many searches it needs."""

Need = tuple[Machine, dict[str, int]]


class TargetOracle(Protocol):
    """Answers where a machine could run, as a dry run of the filters."""

    def feasible(self, machine: Machine, work: Work) -> Sequence[HostKey]:
        """Return the nodes that pass the filters, the best first. Room is checked by the planner.

        A dry run spends ``work`` for the nodes that it visits, because a plan that needs several is made in turns.
        """


class _TurnOver(Exception):
    """The work of this turn is used up. The plan is made in the next one, before all others."""


class Relief:
    """With ``paced``, the plans of nodes wait for ``work_off``, which bounds the work of a turn; otherwise they are
    made at once. ``limits`` are those of the hypervisors that have some, by the kind of their machines."""

    def __init__(
        self,
        policy: MachinePolicy,
        table: MachineTable,
        migrations: Migrations,
        oracle: TargetOracle,
        *,
        paced: bool = False,
        limits: Mapping[str, MigrationLimits] | None = None,
    ) -> None:
        self._policy, self._table = policy, table
        self._migrations, self._oracle = migrations, oracle
        self._paced = paced
        self.limits: dict[str, MigrationLimits] = dict(limits or {})
        self._appeared = 0
        """How often room appeared anywhere."""
        self._waiting: dict[HostKey, None] = {}
        """Nodes whose plans wait for a turn, in order."""
        self._work = Work()
        self._is_first = True
        """Whether the plan is the first of its turn: then its search runs to its end, so that every plan ends."""
        self.is_paused = False
        """Whether a plan continues in the next turn, with the same answers of the oracle."""

    def review(self, turn: Turn, host: HostKey) -> None:
        """Give back room that is not needed any more, and cancel migrations before their cutover that are not."""
        for migration in self._table.migrations_from(host):
            if migration.source not in self._table.machines:
                self._migrations.close_rest(turn, migration)
                continue
            if not migration.leaving:
                continue
            migration = self._migrations.set_claims(turn, migration, self._needed_claims(turn, migration))
            if not migration.cancellable:
                continue
            entry = self._table.migrations[migration.id]
            if migration.claims or self._relieves(turn, migration):
                entry.unneeded_since = None
                continue
            if entry.unneeded_since is None:
                entry.unneeded_since = turn.now
            if host in turn.certain or turn.now - entry.unneeded_since >= self._policy.settle_delay:
                self._migrations.cancel(turn, migration, NOT_NEEDED.format(host=host))

    def _needed_claims(self, turn: Turn, migration: Migration) -> tuple[Claim, ...]:
        """Return the claims cut down to what their beneficiaries still lack; free room is given back first."""
        claims: list[Claim] = []
        left: ResourceList = turn.account(migration.source_host).holding(migration.source)
        for claim in migration.claims:
            beneficiary = self._table.machines.get(claim.beneficiary)
            if beneficiary is None:
                continue
            lacking = demand_of(beneficiary).missing(beneficiary.machine.factors)
            for other, earlier in self._table.claims_of(claim.beneficiary):
                # All migrations are cut down one after the other: without an order, each would leave it to the others.
                first = earlier.from_source and not claim.from_source
                if first or (earlier.from_source == claim.from_source and other.id < migration.id):
                    lacking = missing(lacking, earlier.amounts)
            amounts = covered(claim.amounts, lacking)
            if claim.from_source:
                # The source may have shrunk.
                amounts = covered(amounts, left)
                left = missing(left, amounts)
            if amounts == claim.amounts:
                claims.append(claim)
            elif amounts:
                claims.append(replace(claim, amounts=amounts))
        return tuple(claims)

    def _relieves(self, turn: Turn, migration: Migration) -> bool:
        """Return whether the node would exceed its watermark if this migration were cancelled."""
        if migration.reason is not Reason.PRESSURE:
            return False
        return bool(self._excess(turn, migration.source_host, without=migration))

    def _excess(self, turn: Turn, host: HostKey, *, without: Migration | None = None) -> dict[str, int]:
        """Return by how much a node exceeds its watermark after the migrations under way."""
        account = turn.account(host)
        if account.capacity is None:
            return {}
        after = dict(account.used)
        for migration in self._table.migrations_from(host):
            if migration.leaving and migration != without and migration.source in self._table.machines:
                after = added(after, migration.claimed())
                after = {name: amount - migration.amounts.get(name, 0) for name, amount in after.items()}
        return missing(after, self._policy.watermark_of(account.capacity))

    def request(self, turn: Turn, hosts: Iterable[HostKey]) -> None:
        """Plan for nodes, now or in a turn of their own."""
        for host in hosts:
            if turn.tx.account(host) is None:
                continue  # it was deleted
            if self._paced:
                self._waiting[host] = None
            else:
                self._work = Work()
                self.plan(turn, host)

    def work_off(self, turn: Turn) -> None:
        """Make plans that wait, as many as one turn has time for."""
        self._work, self.is_paused, self._is_first = Work(TURN_WORK), False, True
        for host in list(self._waiting):
            # A node without demand costs little, but 5,000 of them may wait.
            if not self._work.spend(WORK_OF_NODE):
                return
            try:
                self.plan(turn, host)
            except _TurnOver:
                self.is_paused = True
                return
            # After its plan: one that the turn interrupts stays the first, and is planned for from the start in the
            # next turn.
            del self._waiting[host]
            self._is_first = False

    def plan(self, turn: Turn, host: HostKey) -> None:
        """Start the migrations that the node needs and the limits allow."""
        node = self._table.node(host)
        self._table.set_short(node, False)
        node.tried_at, node.appearances, node.is_stirred = turn.now, self._appeared, False
        waiters = self._table.waiters(host)
        excess = self._excess(turn, host)
        if not excess:
            self._table.set_above(node, None)
            if not waiters:
                return
        needs = self._attach(turn, host, waiters)
        if self._must_wait(turn, node):
            if needs or excess:
                self._table.set_short(node, True)
            return
        if needs and self._policy.for_demand:
            self._plan_for_demand(turn, node, needs)
        excess = self._excess(turn, host)
        if excess and self._policy.for_pressure:
            self._plan_for_pressure(turn, node, excess)

    def _must_wait(self, turn: Turn, node: NodeEntry) -> bool:
        return node.cancelled_at is not None and turn.now < node.cancelled_at + self._policy.settle_delay

    def _attach(self, turn: Turn, host: HostKey, waiters: list[MachineEntry]) -> list[Need]:
        """Claim unclaimed room of migrations under way; return what is still lacking."""
        needs: list[Need] = []
        for waiter in waiters:
            machine = waiter.machine
            lacking = demand_of(waiter).missing(machine.factors)
            for _, claim in self._table.claims_of(machine.key):
                lacking = missing(lacking, claim.amounts)
            for migration in self._table.migrations_from(host):
                if not lacking or not migration.leaving or migration.source not in self._table.machines:
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

    def _plan_for_demand(self, turn: Turn, node: NodeEntry, needs: list[Need]) -> None:
        """Plan for all that wait, or for as many as possible in their order, or for a part of the first one."""
        host = node.host
        room = self._candidates(turn, host, without={machine.key for machine, _ in needs})
        free = {name: max(0, amount) for name, amount in turn.account(host).free().items()}
        # Room for some of them is also room for fewer.
        count = largest(len(needs), lambda count: self._plan_for(needs[:count], free, room).plan is not None)
        if count:
            plan = self._plan_for(needs[:count], free, room).plan
            assert plan is not None
            self._start(turn, host, plan, needs[:count], free, Reason.DEMAND)
            if count < len(needs):
                self._table.set_short(node, True)
            return
        self._table.set_short(node, True)
        machine = needs[0][0]
        most = self._table.demand(machine.key).missing_units - 1
        units = largest(
            most, lambda units: self._plan_for([self._part(machine, units)], free, room).plan is not None
        )
        if units:
            part = self._part(machine, units)
            plan = self._plan_for([part], free, room).plan
            assert plan is not None
            self._start(turn, host, plan, [part], free, Reason.DEMAND)
        else:
            # Not if only the number of migrations is in the way: then the next one that ends makes it possible.
            candidates, targets = room
            unlimited = Targets(targets.room, dict.fromkeys(targets.room, len(candidates)))
            answer = self._plan_for([self._part(machine, 1)], free, (candidates, unlimited))
            if answer.plan is None:
                self._report(turn, host, needs, proved=answer.proved)

    def _plan_for(
        self, needs: list[Need], free: ResourceList, room: tuple[list[Candidate], Targets]
    ) -> Answer:
        total: dict[str, int] = {}
        for _, lacking in needs:
            total = added(total, lacking)
        return self._find(missing(total, free), *room)

    def _part(self, machine: Machine, units: int) -> Need:
        """Return what a machine lacks for so many compute units more."""
        lacking = self._table.demand(machine.key).missing(machine.factors, units=units)
        for _, claim in self._table.claims_of(machine.key):
            lacking = missing(lacking, claim.amounts)
        return machine, lacking

    def _plan_for_pressure(self, turn: Turn, node: NodeEntry, excess: ResourceList) -> None:
        host = node.host
        since = turn.now if node.above_since is None else node.above_since
        self._table.set_above(node, since)
        account = turn.account(host)
        overfull = bool(missing(account.used, account.capacity or {}))
        if not overfull and turn.now - since < self._policy.pressure_delay:
            return
        candidates, targets = self._candidates(turn, host, without=set())
        plan = self._find(excess, candidates, targets, partial=True).plan
        if plan is None:
            self._table.set_short(node, True)
            return
        if not plan.covers:
            self._table.set_short(node, True)
        self._start(turn, host, plan, [], {}, Reason.PRESSURE)

    def _find(
        self, deficit: ResourceList, candidates: list[Candidate], targets: Targets, *, partial: bool = False
    ) -> Answer:
        # Half of what is left, so that the last of several searches has some too.
        work = self._work.part(2) if self._work.left > 2 * LEAST_WORK else Work(LEAST_WORK)
        granted = work.left
        if self._policy.oldest_first:
            oldest = finish(plan_oldest_first_in_steps(deficit, candidates, targets, work))
            answer = Answer(oldest if oldest.moves and (oldest.covers or partial) else None)
        else:
            exact = self._policy.exact_candidates
            answer = finish(
                plan_moves_in_steps(
                    deficit, candidates, targets, work, exact_candidates=exact, partial=partial
                )
            )
        self._work.spend(granted - work.left)
        return answer

    def _candidates(
        self, turn: Turn, host: HostKey, *, without: set[WorkloadKey]
    ) -> tuple[list[Candidate], Targets]:
        """Return the machines that may leave a node, and the nodes with room for any of them."""
        beneficiaries = {
            claim.beneficiary for migration in self._table.migrations_from(host) for claim in migration.claims
        }
        # A machine that is to grow here does not leave: the room that migrations make for it would be made for nothing.
        machines: list[tuple[Machine, Sequence[HostKey]]] = []
        for machine in self._table.on_host(host):
            if machine.key in without or machine.key in beneficiaries or not self._movable(turn, machine):
                continue
            machines.append((machine, self._oracle.feasible(machine, self._work)))
            self._check_turn()
        account = turn.account(host)
        amounts = {machine.key: account.holding(machine.key) for machine, _ in machines}
        lists = {id(feasible): feasible for _, feasible in machines}
        least = _least(amounts.values())
        # Most nodes of a nearly full fleet have no room for any machine: each is visited once, not once by machine.
        targets = self._targets(turn, dict.fromkeys(chain(*lists.values())), least, without=host)
        roomy = {
            at: [target for target in feasible if target in targets.room] for at, feasible in lists.items()
        }
        candidates: list[Candidate] = []
        for machine, feasible in machines:
            hosts = roomy[id(feasible)]
            failures = self._table.failures_of(machine.key)
            if failures is not None:
                # Targets that failed come last.
                hosts = sorted(hosts, key=failures.targets.__contains__)
            candidates.append(
                Candidate(
                    key=machine.key,
                    amounts=amounts[machine.key],
                    bytes=machine.size_to_copy,
                    priority=machine.priority,
                    arrived=machine.created if machine.moved is None else machine.moved,
                    targets=hosts,
                )
            )
        self._work.spend(sum(map(len, lists.values())) // PASSED_NODES)
        if self._work.left < TURN_WORK // 2 and not self._is_first:
            self._end_turn()  # what was computed is kept, so that the next turn has time for the search
        return candidates, targets

    def _check_turn(self) -> None:
        if self._work.left <= 0:
            self._end_turn()

    def _end_turn(self) -> None:
        if self._paced:
            raise _TurnOver

    def _targets(
        self, turn: Turn, hosts: Iterable[HostKey], least: ResourceList, *, without: HostKey
    ) -> Targets:
        """Return the nodes that have room for the smallest machine."""
        targets = Targets()
        hosts = list(hosts)
        self._work.spend(len(hosts) // PASSED_ROOMS)
        for host in hosts:
            room = self._room(turn, host)
            if host != without and all(room.get(name, 0) >= amount for name, amount in least.items()):
                targets.room[host] = dict(room)
        incoming = self._table.count_incoming()
        for host in targets.room:
            targets.slots[host] = self._policy.per_target - incoming[host]
        return targets

    def _room(self, turn: Turn, host: HostKey) -> dict[str, int]:
        account, node = turn.account(host), self._table.node(host)
        if node.room is not None and node.room[0] is account:
            return node.room[1]
        self._work.spend(WORK_OF_ROOM)
        self._check_turn()
        room = _room_below(self._policy.watermark_of(account.capacity), account)
        node.room = (account, room)
        return room

    def _movable(self, turn: Turn, machine: Machine) -> bool:
        if not machine.vm or not machine.migratable or self._table.migration_of(machine.key) is not None:
            return False
        if self._table.migration_to(machine.key.namespace, machine.key.name) is not None:
            return False
        if self._table.owner_of(machine.identity) != machine.key:
            return False
        if machine.moved is not None and turn.now - machine.moved < self._policy.cooldown:
            return False
        failures = self._table.failures_of(machine.key)
        return failures is None or failures.not_before <= turn.now

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
        active = [migration for migration in self._table.all_migrations() if migration.phase in _UNDER_WAY]
        slots = min(
            self._policy.per_source - sum(migration.source_host == host for migration in active),
            self._policy.per_fleet - len(active),
        )
        moves = self._within_limits(plan.moves, active, host)[: max(0, slots)]
        if len(moves) < len(plan.moves):
            self._table.set_short(self._table.node(host), True)
        lacking = [(machine.key, dict(amounts)) for machine, amounts in needs]
        started: list[tuple[WorkloadKey, HostKey, ResourceList, list[Claim]]] = []
        for move in moves:
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
                mine = next(
                    (claims for *_, claims in started if any(claim.beneficiary == key for claim in claims)),
                    None,
                )
                if part and mine is not None:
                    mine.append(Claim(beneficiary=key, amounts=part, from_source=False))
                    free = missing(free, part)
        for key, target, size, claims in started:
            machine = self._table.machines[key].machine
            self._migrations.start(turn, machine, target, amounts=size, claims=tuple(claims), reason=reason)

    def _within_limits(self, moves: Sequence[Move], active: Sequence[Migration], host: HostKey) -> list[Move]:
        """Return the moves that the hypervisors would carry out at once."""
        left = {
            kind: limits.left([migration for migration in active if migration.kind == kind], host)
            for kind, limits in self.limits.items()
        }
        allowed: list[Move] = []
        for move in moves:
            kind = self._table.machines[move.key].machine.kind
            if kind in left:
                left[kind] -= 1
            if left.get(kind, 0) >= 0:
                allowed.append(move)
        return allowed

    def _report(self, turn: Turn, host: HostKey, needs: list[Need], *, proved: bool) -> None:
        """Raise the capacity-needed signal, once for each request."""
        for machine, lacking in needs:
            entry = self._table.machines[machine.key]
            generation = demand_of(entry).generation
            if entry.reported != generation:
                entry.reported = generation
                text = CAPACITY_MESSAGE if proved else CAPACITY_NOT_FOUND
                message = text.format(key=machine.key, host=host, missing=describe(lacking))
                turn.out.append(
                    Alert(
                        reason=CAPACITY_NEEDED, message=message, host=host, key=machine.key, missing=lacking
                    )
                )

    def note_room(self) -> None:
        """Note that room appeared, or a migration ended: nodes that are short may be helped now."""
        self._appeared += 1

    def note_targets(self, hosts: Iterable[HostKey]) -> None:
        """Note that more nodes may be feasible for the machines of these nodes: of those that are short, some may be
        helped now."""
        for host in hosts:
            node = self._table.short.get(host)
            if node is not None:
                node.is_stirred = True

    def set_limits(self, kind: str, limits: MigrationLimits) -> None:
        self.limits[kind] = limits
        self.note_room()

    def retries(self, now: Micros) -> list[HostKey]:
        """Return nodes that are short and may be helped now, those first that have waited longest."""
        short = [node for node in self._table.short.values() if self._retry_at(node, now) <= now]
        short.sort(key=lambda node: (node.tried_at or 0, node.appearances))
        return [node.host for node in short[:MOST_RETRIES]]

    def _retry_at(self, node: NodeEntry, now: Micros) -> Micros:
        # Without new room anywhere, the next plan would fail as the last one did, so it is never due.
        return (node.tried_at or 0) + self._policy.replan_delay if self._is_hopeful(node) else now + 1

    def _is_hopeful(self, node: NodeEntry) -> bool:
        return node.appearances != self._appeared or node.is_stirred

    def due(self, now: Micros) -> list[HostKey]:
        """Return the nodes for which time alone has changed something since they were planned for."""
        return [
            node.host
            for node in self._table.in_need()
            if any((node.tried_at or 0) < at <= now for at in self._moments(node))
        ]

    def _moments(self, node: NodeEntry) -> Iterator[Micros]:
        if node.above_since is not None:
            yield node.above_since + self._policy.pressure_delay
        if node.cancelled_at is not None:
            yield node.cancelled_at + self._policy.settle_delay
        if node.is_short:
            for machine in self._table.on_host(node.host):
                if machine.moved is not None:
                    yield machine.moved + self._policy.cooldown
                failures = self._table.failures_of(machine.key)
                if failures is not None:
                    yield failures.not_before

    def deadlines(self, now: Micros) -> Iterator[Micros]:
        if self._waiting:
            # As soon as possible, but in a turn of its own: other tasks of the event loop run in between.
            yield now + 1
        for migration in self._table.migrations.values():
            if migration.unneeded_since is not None:
                yield migration.unneeded_since + self._policy.settle_delay
        for node in self._table.in_need():
            yield from (at for at in self._moments(node) if at > now)
            if node.is_short and self._is_hopeful(node):
                yield max(now + 1, self._retry_at(node, now))

    def forget(self, host: HostKey) -> None:
        self._waiting.pop(host, None)


_UNDER_WAY = frozenset(Phase) - {Phase.SWAP_COMMITTED, Phase.CLEANED, Phase.CANCELLED, Phase.FAILED}


def _room_below(watermark: ResourceList, account: HostAccount) -> dict[str, int]:
    """Return what a node may take until its watermark, without room that is kept for others."""
    kept = account.kept_room() if account.earmarks else {}
    free = account.free()
    return {
        name: min(free.get(name, 0), amount - account.used.get(name, 0) - kept.get(name, 0))
        for name, amount in watermark.items()
    }


def _least(amounts: Iterable[ResourceList]) -> dict[str, int]:
    """Return what each of some machines needs at least."""
    every = list(amounts)
    names = set().union(*every)
    return {name: min(machine.get(name, 0) for machine in every) for name in names}


def _with(claims: tuple[Claim, ...], key: WorkloadKey, part: ResourceList) -> tuple[Claim, ...]:
    for at, claim in enumerate(claims):
        if claim.beneficiary == key and claim.from_source:
            more = Claim(beneficiary=key, amounts=added(claim.amounts, part))
            return (*claims[:at], more, *claims[at + 1 :])
    return (*claims, Claim(beneficiary=key, amounts=part))
