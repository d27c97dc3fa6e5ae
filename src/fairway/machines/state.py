"""The state of all machines: one event in, instructions out.

Every event is one transaction of the ledger. A machine that leaves, the machine that grows into its room, and the end
of the earmark between them are therefore one step, which no observer of the ledger can split.
"""

from collections.abc import Callable, Iterable, Mapping

from fairway.engine.ledger import Earmark, Entry, HostAccount, Ledger, Recorded, Reservation
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey, checked_resources
from fairway.fleet.instant import Micros
from fairway.fleet.steps import Steps, finish, strides
from fairway.machines import events
from fairway.machines.events import Event, MachineObserved
from fairway.machines.instructions import Alert, Instruction, RoomFreed
from fairway.machines.machine import Demand, Machine
from fairway.machines.migration import ENDED, Migration, Phase
from fairway.machines.migrations import SAME_HOST, TARGET_HOST_LOST, TARGET_LOST, Migrations
from fairway.machines.permit_protocol import Permit
from fairway.machines.permits import Permits, Turn
from fairway.machines.policy import MachinePolicy
from fairway.machines.relief import Relief, TargetOracle
from fairway.machines.size import charge, covered

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


class MachineState:
    def __init__(self, *, ledger: Ledger, policy: MachinePolicy, oracle: TargetOracle) -> None:
        self.ledger = ledger
        self.policy = policy
        self.migrations = Migrations(policy, epoch=ledger.epoch)
        self.permits = Permits(policy, epoch=ledger.epoch, is_frozen=self.migrations.is_frozen)
        self.migrations.permits = self.permits
        self.relief = Relief(policy, self.permits, self.migrations, oracle)
        self.nominated: Callable[[HostKey], Mapping[WorkloadKey, ResourceList]] = lambda _: {}
        """Returns the pods that wait on a node until the pods they preempt are deleted, and what they count."""
        self._epoch = ledger.epoch
        self._now: Micros = 0

    @classmethod
    def rebuild(
        cls,
        *,
        epoch: int,
        policy: MachinePolicy,
        oracle: TargetOracle,
        hosts: Iterable[tuple[HostKey, ResourceList | None]],
        machines: Iterable[MachineObserved],
        records: Iterable[Migration],
        now: Micros,
    ) -> "MachineState":
        """Do all of ``rebuild_in_steps`` at once."""
        return finish(
            cls.rebuild_in_steps(
                epoch=epoch,
                policy=policy,
                oracle=oracle,
                hosts=hosts,
                machines=machines,
                records=records,
                now=now,
            )
        )

    @classmethod
    def rebuild_in_steps(
        cls,
        *,
        epoch: int,
        policy: MachinePolicy,
        oracle: TargetOracle,
        hosts: Iterable[tuple[HostKey, ResourceList | None]],
        machines: Iterable[MachineObserved],
        records: Iterable[Migration],
        now: Micros,
    ) -> Steps["MachineState"]:
        """Restore the state from objects alone. Nothing is approved until it handles Loaded."""
        machines, records = list(machines), list(records)
        ledger = yield from Ledger.rebuild_in_steps(
            epoch=epoch,
            capacities=hosts,
            observed=(
                (each.machine.host, each.machine.key, charge(each.machine.using, each.machine.factors))
                for each in machines
            ),
            objects=[*_reservations(machines, epoch), *_earmarks(records, epoch)],
        )
        state = cls(ledger=ledger, policy=policy, oracle=oracle)
        state._now = now
        for record in records:
            state.migrations.restore(record)
        for some in strides(machines):
            yield
            with ledger.transaction(epoch=epoch) as tx:
                turn = Turn(tx, now)
                for each in some:
                    state._apply(turn, each)
        return state

    def handle(self, event: Event, *, now: Micros) -> list[Instruction]:
        self._now = now
        with self.ledger.transaction(epoch=self._epoch) as tx:
            turn = Turn(tx, now)
            self._apply(turn, event)
            self._settle(turn)
        return turn.out

    def next_deadline(self) -> Micros | None:
        """Return when to send TimePassed, if nothing else happens before."""
        found = [*self.permits.deadlines(), *self.migrations.deadlines(), *self.relief.deadlines(self._now)]
        earmarks = self.ledger.next_deadline()
        return min(found if earmarks is None else [*found, earmarks], default=None)

    def permit(self, key: WorkloadKey) -> Permit:
        """Return the permit of a machine."""
        demand, factors = self.permits.demands[key], self.permits.machines[key].factors
        return Permit(
            resources=demand.approved,
            migrate=self.migrations.is_frozen(key),
            migrations=tuple(sorted({each.id for each, _ in self.migrations.claims_of(key)})),
            denied=demand.missing(factors),
        )

    def target_rejection(self, namespace: str, name: str, host: HostKey) -> str | None:
        """Return why the target pod of a migration must not be bound to a node; None for other pods and nodes."""
        migration = self.migrations.of_target(namespace, name)
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
            case events.PodForgotten(key, host):
                self._forget_pod(turn, key, host)
            case events.Loaded():
                self._load(turn)
            case events.PermitRequested(request, node):
                self.permits.ask(turn, request, node=node)
            case events.PermitWritten(key):
                self.permits.note_written(turn, key)
            case events.PermitNotWritten(key):
                self.permits.note_not_written(turn, key)
            case events.PermitConflict(key, demand):
                self.permits.adopt(turn, key, demand)
            case events.RecordWritten(id_, revision):
                self.migrations.note_written(turn, id_, revision)
            case events.RecordNotWritten(id_, revision):
                self.migrations.note_not_written(turn, id_, revision)
            case events.MigrationObserved(id_, observation):
                self.migrations.observe(turn, id_, observation)
            case events.TargetNominated(id_, host):
                migration = self.migrations.records.get(id_)
                if migration is not None and migration.cancellable and host == migration.source_host:
                    self.migrations.cancel(turn, migration, SAME_HOST)
                    turn.touch(host, certain=True)
            case events.EarmarksPreempted():
                self._preempt(turn, event)
            case events.TimePassed():
                self._pass_time(turn)

    def _observe_machine(self, turn: Turn, key: WorkloadKey, event: MachineObserved) -> None:
        migration = self.migrations.of_target(key.namespace, key.name)
        is_target = migration is not None and migration.phase not in (Phase.SWAP_COMMITTED, Phase.CLEANED)
        if migration is not None and is_target:
            # Its room is booked from here on.
            turn.close(migration.target_host, migration.hold_id)
            turn.touch(migration.target_host)
        self.permits.add(turn, event.machine, event.demand, is_target=is_target)

    def _remove_machine(self, turn: Turn, key: WorkloadKey) -> None:
        migration = self.migrations.of_source(key)
        if migration is not None:
            self.migrations.leave(turn, key)
        self.permits.remove(turn, key)
        if migration is not None:
            self.migrations.note_source_gone(turn, migration)
        incoming = self.migrations.of_target(key.namespace, key.name)
        if incoming is not None and incoming.cancellable and incoming.target == key:
            self.migrations.cancel(turn, incoming, TARGET_LOST, failed=True)
        self.migrations.forget_machine(key)
        self.relief.forget_machine(key)

    def _forget_pod(self, turn: Turn, key: WorkloadKey, host: HostKey) -> None:
        """Give back what was assumed, unless the pod was bound to this node in the meantime."""
        machine = self.permits.machines.get(key)
        if (machine is None or machine.host != host) and turn.tx.account(host) is not None:
            turn.tx.release(host, key)
            turn.touch(host, certain=True)

    def _lose_host(self, turn: Turn, host: HostKey) -> None:
        for machine in list(self.permits.on_host(host)):
            self._remove_machine(turn, machine.key)
        for migration in list(self.migrations.records.values()):
            if migration.target_host == host and migration.cancellable:
                message = TARGET_HOST_LOST.format(host=host)
                self.migrations.cancel(turn, migration, message, failed=True)
        turn.tx.remove_host(host)
        self.relief.forget(host)

    def _load(self, turn: Turn) -> None:
        self.permits.ready = True
        for host in self.ledger.hosts():
            turn.touch(host)
        self.migrations.resume(turn)
        for migration in list(self.migrations.records.values()):
            if migration.source not in self.permits.machines and migration.phase not in ENDED:
                self.migrations.leave(turn, migration.source)
                self.migrations.note_source_gone(turn, migration)
            self.migrations.advance(turn, migration.id)

    def preemptible(self, host: HostKey, *, by: WorkloadKey, priority: int) -> list[Earmark]:
        """Return the earmarks on a node whose room a workload may take: all that they serve has a lower priority."""
        account = self.ledger.account(host)
        if account is None or not self.policy.preempt_earmarks:
            return []
        return [
            each
            for each in account.kept(by)
            if not each.id.startswith(f"{NOMINATION}/")
            and all(machine.priority < priority for machine in self._served_by(each))
        ]

    def _served_by(self, earmark: Earmark) -> list[Machine]:
        """Return the machines that wait for the room of an earmark: its beneficiary; or of the room for the target of
        a migration, the machine that moves and those that get its room."""
        keys = {earmark.beneficiary}
        for migration in self.migrations.records.values():
            if migration.hold_id == earmark.id:
                keys |= {migration.source, *(each.beneficiary for each in migration.claims)}
        return [self.permits.machines[key] for key in keys if key in self.permits.machines]

    def _preempt(self, turn: Turn, event: events.EarmarksPreempted) -> None:
        """Close earmarks for a workload that is nominated to their node. A migration that has lost the room of its
        target is cancelled; machines that wait are planned for again."""
        found = self.preemptible(event.host, by=event.by, priority=event.priority)
        known = {each.id: each for each in found}
        for id_ in event.earmarks:
            earmark = turn.account(event.host).earmarks.get(id_)
            if earmark is None:
                continue
            allowed = id_ in known
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
        for migration in list(self.migrations.records.values()):
            if migration.hold_id == hold_id and migration.cancellable:
                message = TARGET_PREEMPTED.format(by=by, host=migration.target_host)
                self.migrations.cancel(turn, migration, message)
                turn.touch(migration.source_host)

    def _drop_claim(self, turn: Turn, earmark_id: str) -> str:
        for migration in self.migrations.records.values():
            kept = tuple(each for each in migration.claims if migration.earmark_id(each) != earmark_id)
            if kept != migration.claims or migration.hold_id == earmark_id:
                self.migrations.set_claims(turn, migration, kept)
                return migration.id
        return ""

    def _pass_time(self, turn: Turn) -> None:
        self.permits.retry(turn)
        self.migrations.expire(turn)
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
        for id_ in self.migrations.unneeded:
            turn.touch(self.migrations.records[id_].source_host)

    def _settle(self, turn: Turn) -> None:
        """Serve the machines that wait, and start or cancel migrations, on every node that the event concerns."""
        before = {host: self._free(host) for host in turn.touched}
        done: set[HostKey] = set()
        while len(done) < len(turn.touched):
            for host in [each for each in turn.touched if each not in done]:
                done.add(host)
                before.setdefault(host, self._free(host))
                self._keep_nominated(turn, host)
                self.permits.serve(turn, host)
                if self.permits.ready:
                    self.relief.review(turn, host)
                    self.permits.serve(turn, host)
        freed = [host for host in turn.touched if _grew(before[host], turn.tx.account(host))]
        if self.permits.ready:
            for migration in list(self.migrations.records.values()):
                if migration.phase is Phase.SWAP_COMMITTED:
                    self.migrations.advance(turn, migration.id)
            if freed or self.migrations.ended:
                self.relief.note_room()
            for host in {**turn.touched, **dict.fromkeys(self.relief.retries(turn.now))}:
                self.relief.plan(turn, host)
        self.migrations.ended.clear()
        turn.out.extend(RoomFreed(host) for host in freed if _grew(before[host], turn.tx.account(host)))
        self.permits.reply(turn, self.permit)
        self.migrations.flush(turn)

    def _keep_nominated(self, turn: Turn, host: HostKey) -> None:
        """Keep free room for pods that preempted others there: no machine grows into it before them."""
        wanted = self.nominated(host)
        if turn.tx.account(host) is None:
            return
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


def _reservations(machines: Iterable[MachineObserved], epoch: int) -> Iterable[Entry]:
    for each in machines:
        if each.machine.vm:
            demand = each.demand or Demand(requested=each.machine.using, approved=each.machine.using)
            yield Entry(
                epoch=epoch,
                host=each.machine.host,
                subject=each.machine.key,
                value=Reservation(checked_resources(charge(demand.approved, each.machine.factors))),
                recorded=Recorded.OBJECT,
            )


def _earmarks(records: Iterable[Migration], epoch: int) -> Iterable[Entry]:
    for record in records:
        found = [(record.source_host, record.earmark(each)) for each in record.claims]
        if record.phase in (Phase.PLANNED, Phase.TARGET_PENDING):
            found.append((record.target_host, record.hold()))
        for host, earmark in found:
            yield Entry(epoch=epoch, host=host, subject=earmark.id, value=earmark, recorded=Recorded.OBJECT)
