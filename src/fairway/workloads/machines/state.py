"""The state of all machines: one event in, instructions out.

Every event is one transaction of the ledger. A machine that leaves, the machine that grows into its room, and the end
of the earmark between them are therefore one step, which no observer of the ledger can split.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from fairway.engine.ledger import Earmark, HostAccount, Ledger
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.hosts.steps import Steps, finish, strides
from fairway.workloads.machines import events
from fairway.workloads.machines.events import Event, MachineObserved
from fairway.workloads.machines.instructions import Alert, Instruction
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import ENDED, Migration, Phase
from fairway.workloads.machines.migration_limits import MigrationLimits
from fairway.workloads.machines.migrations import SAME_HOST, TARGET_HOST_LOST, TARGET_LOST, Migrations
from fairway.workloads.machines.permit_protocol import Permit
from fairway.workloads.machines.permits import Permits
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.relief import Relief, TargetOracle
from fairway.workloads.machines.size import charge, covered
from fairway.workloads.machines.table import MachineTable, demand_of
from fairway.workloads.machines.turn import Turn

SOURCE_NODE = "node {host} is the one that machine {vm} leaves"
CANCELLED_TARGET = "migration {id} was cancelled"
EARMARK_EXPIRED = "EarmarkExpired"
EXPIRED_MESSAGE = (
    "room on node {host} was kept for {key} until the deadline of migration {id}, and is free now"
)
EARMARK_PREEMPTED = "EarmarkPreempted"
PREEMPTED_MESSAGE = "{by} takes room on node {host} that was kept for {key}"
TARGET_PREEMPTED = "{by}, which has a higher priority, takes the room on node {host}"
EARMARK_KEPT = "EarmarkKept"
NOMINATION = "nomination"
"""Owner of room that is kept for a pod which preempts others."""
KEPT_MESSAGE = "{by} cannot take room on node {host} that is kept for {key}"


Nominated = Callable[[HostKey], Mapping[WorkloadKey, ResourceList]]
"""Returns the pods that wait on a node until the pods they preempt are deleted, and what they count."""


def no_nominations(_host: HostKey) -> Mapping[WorkloadKey, ResourceList]:
    return {}


class MachineState:
    """``paced`` and ``limits`` are those of ``Relief``."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        policy: MachinePolicy,
        oracle: TargetOracle,
        nominated: Nominated = no_nominations,
        paced: bool = False,
        limits: Mapping[str, MigrationLimits] | None = None,
        now: Micros = 0,
    ) -> None:
        self.ledger = ledger
        self.policy = policy
        self.table = MachineTable()
        self._permits = Permits(policy, self.table)
        self._migrations = Migrations(policy, self.table, self._permits)
        self.relief = Relief(policy, self.table, self._migrations, oracle, paced=paced, limits=limits)
        self._nominated = nominated
        self._now = now

    @classmethod
    def rebuild(
        cls,
        *,
        policy: MachinePolicy,
        oracle: TargetOracle,
        hosts: Iterable[tuple[HostKey, ResourceList | None]],
        machines: Iterable[MachineObserved],
        records: Iterable[Migration],
        now: Micros,
        nominated: Nominated = no_nominations,
        paced: bool = False,
        limits: Mapping[str, MigrationLimits] | None = None,
    ) -> "MachineState":
        """Do all of ``rebuild_in_steps`` at once."""
        return finish(
            cls.rebuild_in_steps(
                policy=policy,
                oracle=oracle,
                hosts=hosts,
                machines=machines,
                records=records,
                now=now,
                nominated=nominated,
                paced=paced,
                limits=limits,
            )
        )

    @classmethod
    def rebuild_in_steps(
        cls,
        *,
        policy: MachinePolicy,
        oracle: TargetOracle,
        hosts: Iterable[tuple[HostKey, ResourceList | None]],
        machines: Iterable[MachineObserved],
        records: Iterable[Migration],
        now: Micros,
        nominated: Nominated = no_nominations,
        paced: bool = False,
        limits: Mapping[str, MigrationLimits] | None = None,
    ) -> Steps["MachineState"]:
        """Restore the state from objects alone. Nothing is approved until it handles Loaded."""
        machines, records = list(machines), list(records)
        ledger = yield from Ledger.rebuild_in_steps(
            capacities=hosts,
            observed=(
                (machine.host, machine.key, charge(machine.using, machine.factors))
                for machine in (observation.machine for observation in machines)
            ),
            reservations=_reservations(machines),
            earmarks=_earmarks(records),
        )
        state = cls(
            ledger=ledger,
            policy=policy,
            oracle=oracle,
            nominated=nominated,
            paced=paced,
            limits=limits,
            now=now,
        )
        for record in records:
            state.table.put_migration(record)
        for some in strides(machines):
            yield
            with ledger.transaction() as tx:
                turn = Turn(tx, now)
                for observation in some:
                    state._apply(turn, observation)
        return state

    def handle(self, event: Event, *, now: Micros) -> list[Instruction]:
        self._now = now
        with self.ledger.transaction() as tx:
            turn = Turn(tx, now)
            self._apply(turn, event)
            self._settle(turn, timer=isinstance(event, events.TimePassed))
        return turn.out

    def next_deadline(self) -> Micros | None:
        """Return when to send TimePassed, if nothing else happens before."""
        deadlines = [
            *self._permits.deadlines(),
            *self._migrations.deadlines(),
            *self.relief.deadlines(self._now),
        ]
        earmarks = self.ledger.next_deadline()
        return min(deadlines if earmarks is None else [*deadlines, earmarks], default=None)

    def permit(self, key: WorkloadKey) -> Permit:
        """Return the permit of a machine."""
        entry = self.table.machines[key]
        demand = demand_of(entry)
        return Permit(
            resources=demand.approved,
            migrate=self.table.is_frozen(key),
            migrations=tuple(sorted({migration.id for migration, _ in self.table.claims_of(key)})),
            denied=demand.missing(entry.machine.factors),
        )

    def target_rejection(self, namespace: str, name: str, host: HostKey) -> str | None:
        """Return why the target pod of a migration must not be bound to a node; None for other pods and nodes."""
        migration = self.table.migration_to(namespace, name)
        if migration is None:
            return None
        if not migration.cancellable:
            return CANCELLED_TARGET.format(id=migration.id)
        if self.policy.prevent_same_host and host == migration.source_host:
            return SOURCE_NODE.format(host=host, vm=migration.vm)
        return None

    def _apply(self, turn: Turn, event: Event) -> None:
        match event:
            case events.HostObserved(host, capacity):
                turn.tx.set_capacity(host, capacity)
                turn.touch(host)
            case events.HostGone(host):
                self._lose_host(turn, host)
            case events.MachineObserved(machine, demand):
                self._observe_machine(turn, machine.key, event)
            case events.MachineGone(key):
                self._remove_machine(turn, key)
            case events.PodAssumed(key, host, amounts):
                turn.tx.reserve(host, key, amounts)
                self.table.assumed[key] = host
            case events.PodForgotten(key):
                self._forget_pod(turn, key)
            case events.Loaded():
                self._load(turn)
            case events.PermitRequested(request, node):
                self._permits.ask(turn, request, node=node)
            case events.PermitWritten(key):
                self._permits.note_written(turn, key)
            case events.PermitNotWritten(key):
                self._permits.note_not_written(turn, key)
            case events.PermitConflict(key, demand):
                self._permits.adopt(turn, key, demand)
            case events.RecordWritten(id_, revision):
                self._migrations.note_written(turn, id_, revision)
            case events.RecordNotWritten(id_, revision):
                self._migrations.note_not_written(turn, id_, revision)
            case events.MigrationObserved(id_, observation):
                self._migrations.observe(turn, id_, observation)
            case events.TargetNominated(id_, host):
                migration = self.table.migration(id_)
                if migration is not None and migration.cancellable and host == migration.source_host:
                    self._migrations.cancel(turn, migration, SAME_HOST)
                    turn.touch(host, certain=True)
            case events.EarmarksPreempted():
                self._preempt(turn, event)
            case events.TargetsChanged(hosts):
                self.relief.note_targets(hosts)
            case events.LimitsChanged(kind, limits):
                self.relief.set_limits(kind, limits)
            case events.TimePassed():
                self._pass_time(turn)

    def _observe_machine(self, turn: Turn, key: WorkloadKey, event: MachineObserved) -> None:
        migration = self.table.migration_to(key.namespace, key.name)
        is_target = migration is not None and migration.phase not in (Phase.SWAP_COMMITTED, Phase.CLEANED)
        if migration is not None and is_target:
            # Its room is booked from here on.
            turn.close(migration.target_host, migration.hold_id)
            turn.touch(migration.target_host)
        self._permits.add(turn, event.machine, event.demand, is_target=is_target)
        self._forget_pod(turn, key)

    def _remove_machine(self, turn: Turn, key: WorkloadKey) -> None:
        migration = self.table.migration_of(key)
        if migration is not None:
            # Before the machine is removed: the transfer grows the beneficiary in the same step in which the source
            # leaves. In the other order, the room would be free in between, and ``serve`` could grant it to another
            # machine.
            self._migrations.leave(turn, key)
        self._permits.remove(turn, key)
        if migration is not None:
            self._migrations.note_source_gone(turn, migration)
        incoming = self.table.migration_to(key.namespace, key.name)
        if incoming is not None and incoming.cancellable and incoming.target == key:
            self._migrations.cancel(turn, incoming, TARGET_LOST, failed=True)
        self.table.forget_source(key)

    def _forget_pod(self, turn: Turn, key: WorkloadKey) -> None:
        """Give back the place that was assumed for a pod, unless the pod is bound to that node."""
        host, machine = self.table.assumed.pop(key, None), self.table.machine(key)
        if host is None:
            return
        if (machine is None or machine.host != host) and turn.tx.account(host) is not None:
            turn.tx.release(host, key)
            turn.touch(host, certain=True)

    def _lose_host(self, turn: Turn, host: HostKey) -> None:
        for machine in list(self.table.on_host(host)):
            self._remove_machine(turn, machine.key)
        for migration in self.table.all_migrations():
            if migration.target_host == host and migration.cancellable:
                message = TARGET_HOST_LOST.format(host=host)
                self._migrations.cancel(turn, migration, message, failed=True)
        # Last: an observation about one of its machines would create the account again.
        turn.tx.remove_host(host)
        self.relief.forget(host)
        self.table.remove_node(host)

    def _load(self, turn: Turn) -> None:
        self.table.is_loaded = True
        for host in self.ledger.hosts():
            turn.touch(host)
        self._migrations.resume(turn)
        for migration in self.table.all_migrations():
            if migration.source not in self.table.machines and migration.phase not in ENDED:
                self._migrations.leave(turn, migration.source)
                self._migrations.note_source_gone(turn, migration)
            self._migrations.advance(turn, migration.id)

    def preemptible(self, host: HostKey, *, by: WorkloadKey, priority: int) -> list[Earmark]:
        """Return the earmarks on a node whose room a workload may take: all that they serve has a lower priority."""
        account = self.ledger.account(host)
        if account is None or not self.policy.preempt_earmarks:
            return []
        return [
            earmark
            for earmark in account.kept(by)
            if not earmark.id.startswith(f"{NOMINATION}/")
            and all(machine.priority < priority for machine in self._served_by(earmark))
        ]

    def _served_by(self, earmark: Earmark) -> list[Machine]:
        """Return the machines that wait for the room of an earmark: its beneficiary; or of the room for the target of
        a migration, the machine that moves and those that get its room."""
        keys = {earmark.beneficiary}
        for migration in self.table.all_migrations():
            if migration.hold_id == earmark.id:
                keys |= {migration.source, *(claim.beneficiary for claim in migration.claims)}
        return [self.table.machines[key].machine for key in keys if key in self.table.machines]

    def _preempt(self, turn: Turn, event: events.EarmarksPreempted) -> None:
        """Close earmarks for a workload that is nominated to their node. A migration that has lost the room of its
        target is cancelled; machines that wait are planned for again."""
        preemptible = self.preemptible(event.host, by=event.by, priority=event.priority)
        allowed_ids = {earmark.id for earmark in preemptible}
        for id_ in event.earmarks:
            earmark = turn.account(event.host).earmarks.get(id_)
            if earmark is None:
                continue
            allowed = id_ in allowed_ids
            reason, text = (EARMARK_PREEMPTED, PREEMPTED_MESSAGE) if allowed else (EARMARK_KEPT, KEPT_MESSAGE)
            for machine in self._served_by(earmark):
                words = text.format(by=event.by, host=event.host, key=machine.key)
                turn.out.append(Alert(reason=reason, message=words, host=event.host, key=machine.key))
            if allowed:
                turn.close(event.host, id_)
                self._drop_claim(turn, id_)
                self._drop_target(turn, id_, by=event.by)
        turn.touch(event.host)

    def _drop_target(self, turn: Turn, hold_id: str, *, by: WorkloadKey) -> None:
        """Cancel the migration that kept room for its target."""
        for migration in self.table.all_migrations():
            if migration.hold_id == hold_id and migration.cancellable:
                message = TARGET_PREEMPTED.format(by=by, host=migration.target_host)
                self._migrations.cancel(turn, migration, message)
                turn.touch(migration.source_host)

    def _drop_claim(self, turn: Turn, earmark_id: str) -> str:
        for migration in self.table.all_migrations():
            kept = tuple(claim for claim in migration.claims if migration.earmark_id(claim) != earmark_id)
            if kept != migration.claims or migration.hold_id == earmark_id:
                self._migrations.set_claims(turn, migration, kept)
                return migration.id
        return ""

    def _pass_time(self, turn: Turn) -> None:
        self._permits.retry(turn)
        self._migrations.expire(turn)
        for host, earmark in self.ledger.expired(now=turn.now):
            if earmark.id in turn.account(host).earmarks:
                turn.close(host, earmark.id)
                id_ = self._drop_claim(turn, earmark.id)
                message = EXPIRED_MESSAGE.format(host=host, key=earmark.beneficiary, id=id_)
                alert = Alert(reason=EARMARK_EXPIRED, message=message, host=host, key=earmark.beneficiary)
                turn.out.append(alert)
                turn.touch(host)
        for host in self.relief.due(turn.now):
            turn.touch(host)
        for entry in self.table.migrations.values():
            if entry.unneeded_since is not None:
                turn.touch(entry.migration.source_host)

    def _settle(self, turn: Turn, *, timer: bool) -> None:
        """Serve the machines that wait, and start or cancel migrations, on every node that the event concerns."""
        before = {host: self._free(host) for host in turn.touched}
        done: set[HostKey] = set()
        # To serve one node may touch others, such as the target of a migration that it cancels. It ends, because each
        # node is done once.
        while len(done) < len(turn.touched):
            for host in [host for host in turn.touched if host not in done]:
                done.add(host)
                before.setdefault(host, self._free(host))
                self._keep_nominated(turn, host)
                self._permits.serve(turn, host)
                if self.table.is_loaded:
                    self.relief.review(turn, host)
                    # Again, because the review gives back room that no machine needs any more.
                    self._permits.serve(turn, host)
        if self.table.is_loaded:
            freed = any(_grew(before[host], turn.tx.account(host)) for host in turn.touched)
            for migration in self.table.all_migrations():
                if migration.phase is Phase.SWAP_COMMITTED:
                    self._migrations.advance(turn, migration.id)
            if freed or turn.ended:
                # Before the request: ``retries`` has the nodes for which room appeared since their last plan.
                self.relief.note_room()
            self.relief.request(turn, {**turn.touched, **dict.fromkeys(self.relief.retries(turn.now))})
            if timer:
                # Only then: an informer may report many events in one callback.
                self.relief.work_off(turn)
        self._permits.reply(turn, self.permit)
        self._migrations.flush(turn)

    def _keep_nominated(self, turn: Turn, host: HostKey) -> None:
        """Keep free room for pods that preempted others there: no machine grows into it before them."""
        wanted = self._nominated(host)
        if turn.tx.account(host) is None:
            return
        # All are closed first: ``wanted`` is complete, and room of a pod that is no longer nominated must count as
        # free for the others.
        for earmark in list(turn.account(host).earmarks.values()):
            if earmark.id.startswith(f"{NOMINATION}/"):
                turn.close(host, earmark.id)
        for key, amounts in wanted.items():
            account = turn.account(host)
            free = {name: max(0, left) for name, left in account.free().items()}
            room = {} if account.holds(key) else covered(amounts, free)
            if room:
                id_ = f"{NOMINATION}/{key.namespace}/{key.name}"
                turn.tx.earmark(host, Earmark(id=id_, beneficiary=key, amounts=room))

    def _free(self, host: HostKey) -> dict[str, int]:
        account = self.ledger.account(host)
        return {} if account is None else account.free()


def _grew(before: ResourceList, account: HostAccount | None) -> bool:
    """Return whether more room is free for everyone."""
    if account is None:
        return False
    return any(amount > max(0, before.get(resource, 0)) for resource, amount in account.free().items())


def _reservations(machines: Iterable[MachineObserved]) -> Iterator[tuple[HostKey, WorkloadKey, ResourceList]]:
    for observation in machines:
        machine = observation.machine
        if machine.vm:
            demand = observation.demand or Demand(requested=machine.using, approved=machine.using)
            yield machine.host, machine.key, charge(demand.approved, machine.factors)


def _earmarks(records: Iterable[Migration]) -> Iterator[tuple[HostKey, Earmark]]:
    for record in records:
        for claim in record.claims:
            yield record.source_host, record.earmark(claim)
        if record.phase in (Phase.PLANNED, Phase.TARGET_PENDING):
            yield record.target_host, record.hold()
