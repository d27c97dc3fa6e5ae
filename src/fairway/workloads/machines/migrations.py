"""The steps of migrations.

Every step is written to the migration's record before it takes effect. What happens next follows from the record and
from the last observation alone, so that a restart continues where the record ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from fairway.engine.ledger import Earmark, LedgerError
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.machines.events import Observation, Stage
from fairway.workloads.machines.instructions import (
    Abort,
    Cutover,
    DeleteRecord,
    DeleteSource,
    Instruction,
    Observe,
    Prepare,
    Transfer,
    WriteRecord,
)
from fairway.workloads.machines.machine import Machine
from fairway.workloads.machines.migration import Claim, Migration, Phase, Reason, migration_id
from fairway.workloads.machines.permits import Permits
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.table import Failures, MachineTable, MigrationEntry, SourceEntry
from fairway.workloads.machines.turn import Turn

SAME_HOST = "the target pod was bound to the node that the machine leaves"
TARGET_LOST = "the target pod was deleted"
TARGET_HOST_LOST = "node {host} of the target pod was deleted"
SOURCE_LOST = "the source pod was deleted before the copy was complete"
NOT_BOUND = "the target pod was not bound in time"
NOT_COPIED = "the copy was not complete in time"
COPY_FAILED = "the migration failed: {message}"

_EFFECTS: dict[Phase, Callable[[Migration], Instruction]] = {
    Phase.PLANNED: Prepare,
    Phase.COPYING: Transfer,
    Phase.CUTOVER: Cutover,
    Phase.CANCELLING: Abort,
}
_BEFORE_EFFECT = {
    Phase.PLANNED: {Stage.ABSENT},
    Phase.COPYING: {Stage.BOUND},
    Phase.CUTOVER: {Stage.COPIED},
    Phase.CANCELLING: set(Stage) - {Stage.ABSENT, Stage.UNKNOWN},
}
"""Stages in which the effect of a phase has certainly not begun, so that a restart may begin it."""

_WITHOUT_COPY = {Stage.ABSENT, Stage.PENDING, Stage.BOUND}


class Migrations:
    def __init__(self, policy: MachinePolicy, table: MachineTable, permits: Permits) -> None:
        self._policy, self._table, self._permits = policy, table, permits

    def start(
        self,
        turn: Turn,
        machine: Machine,
        target_host: HostKey,
        *,
        amounts: ResourceList,
        claims: tuple[Claim, ...],
        reason: Reason,
    ) -> None:
        """Plan a migration: keep room for its beneficiaries and for its target, and write the record."""
        source = self._table.sources.get(machine.key)
        attempt = 1 if source is None else source.attempts + 1
        id_ = migration_id(machine.vm, machine.key, attempt)
        migration = Migration(
            id=id_,
            vm=machine.vm,
            kind=machine.kind,
            source=machine.key,
            source_host=machine.host,
            target=WorkloadKey(machine.key.namespace, id_),
            target_host=target_host,
            amounts=dict(amounts),
            reason=reason,
            claims=claims,
            purpose=claims,
            started=turn.now,
            since=turn.now,
            deadline=turn.now + self._policy.copy_timeout,
            attempt=attempt,
        )
        turn.tx.earmark(target_host, migration.hold())
        for claim in claims:
            turn.tx.earmark(machine.host, migration.earmark(claim))
        self._save(turn, migration)

    def set_claims(self, turn: Turn, migration: Migration, claims: tuple[Claim, ...]) -> Migration:
        """Change what is kept for whom, in the ledger and in the record."""
        if claims == migration.claims:
            return migration
        host, after = migration.source_host, replace(migration, claims=claims)
        kept = {after.earmark_id(claim) for claim in claims}
        for claim in migration.claims:
            if migration.earmark_id(claim) not in kept:
                turn.close(host, migration.earmark_id(claim))
        for claim in claims:
            if claim not in migration.claims and not self._keep(turn, host, after.earmark(claim)):
                after = replace(after, claims=tuple(other for other in after.claims if other != claim))
        if after.claims:
            self._table.migrations[after.id].unneeded_since = None
        self._save(turn, after)
        return after

    def _keep(self, turn: Turn, host: HostKey, earmark: Earmark) -> bool:
        """Add or replace an earmark; close it if the node shrank and no longer has the room."""
        try:
            turn.tx.earmark(host, earmark)
        except LedgerError:
            turn.close(host, earmark.id)
            return False
        return True

    def cancel(self, turn: Turn, migration: Migration, message: str, *, failed: bool = False) -> None:
        """Give up a migration whose target does not run the machine."""
        outcome = Phase.FAILED if failed else Phase.CANCELLED
        # Before the phase changes: machines must not wait for room that this source will not leave.
        migration = self.set_claims(turn, migration, ())
        turn.close(migration.target_host, migration.hold_id)
        entry = self._save(
            turn, migration.step(Phase.CANCELLING, now=turn.now, outcome=outcome, message=message)
        )
        entry.unneeded_since = None
        if failed:
            self._note_failure(turn, migration)
        else:
            # The node waits ``settle_delay`` before its next plan: demand that rises and falls would start and cancel
            # one copy after the other. A failure has a back-off of its own, by machine.
            self._table.node(migration.source_host).cancelled_at = turn.now
        turn.touch(migration.source_host)
        turn.touch(migration.target_host)

    def _note_failure(self, turn: Turn, migration: Migration) -> None:
        source = self._table.sources.setdefault(migration.source, SourceEntry())
        before = source.failures
        count = 1 if before is None else before.count + 1
        wait = min(self._policy.most_backoff, self._policy.backoff << (count - 1))
        targets = {*(before.targets if before else ()), migration.target_host}
        source.failures = Failures(count, turn.now + wait, frozenset(targets))

    def note_written(self, turn: Turn, id_: str, revision: int) -> None:
        entry = self._table.migrations.get(id_)
        # A record that changed in this turn gets another revision at its end: this write is of an older one.
        if entry is None or entry.migration.revision != revision or id_ in turn.unsaved:
            return
        entry.is_written = True
        self._begin(turn, entry)
        self.advance(turn, id_)

    def note_not_written(self, turn: Turn, id_: str, revision: int) -> None:
        entry = self._table.migrations.get(id_)
        if entry is not None and entry.migration.revision == revision:
            entry.retry_at = turn.now + self._policy.retry_delay

    def observe(self, turn: Turn, id_: str, observation: Observation) -> None:
        entry = self._table.migrations.get(id_)
        if entry is None:
            return
        entry.observation = observation
        if observation.stage is Stage.FAILED and entry.migration.cancellable:
            message = COPY_FAILED.format(message=observation.message)
            self.cancel(turn, entry.migration, message, failed=True)
            return
        if entry.is_written:
            self._begin(turn, entry)
        self.advance(turn, id_)

    def _begin(self, turn: Turn, entry: MigrationEntry) -> None:
        """Ask for the effect of a phase, once; after a restart, only if it certainly has not begun."""
        phase, observed = entry.migration.phase, entry.observation
        # Records are written and observations arrive in any order, and each of both calls this.
        if phase not in _EFFECTS or entry.begun == phase:
            return
        if entry.uncertain == phase and (observed is None or observed.stage not in _BEFORE_EFFECT[phase]):
            return
        entry.begun = phase
        turn.out.append(_EFFECTS[phase](entry.migration))

    def advance(self, turn: Turn, id_: str) -> None:
        """Take the steps that the last observation allows. A step is taken once the one before it is written."""
        entry = self._table.migrations.get(id_)
        if entry is None or not entry.is_written or id_ in turn.unsaved:
            return
        migration, observed = entry.migration, entry.observation or Observation(stage=Stage.UNKNOWN)
        match migration.phase:
            case Phase.PLANNED:
                if observed.target is not None:
                    self._adopt_target(turn, migration, observed.target)
            case Phase.TARGET_PENDING:
                if observed.target_host is not None:
                    self._bind(turn, migration, observed.target_host)
            case Phase.TARGET_BOUND:
                self._save(turn, migration.step(Phase.COPYING, now=turn.now))
            case Phase.COPYING:
                if observed.stage in (Stage.COPIED, Stage.SWITCHED):
                    self._save(turn, migration.step(Phase.CUTOVER, now=turn.now))
                elif migration.source not in self._table.machines and observed.stage in _WITHOUT_COPY:
                    self.cancel(turn, migration, SOURCE_LOST, failed=True)
            case Phase.CUTOVER:
                self._finish(turn, migration, observed)
            case Phase.SWAP_COMMITTED:
                kept = turn.account(migration.source_host).earmarks
                # The record is what a restart rebuilds the earmarks from. Ended before the permits of all
                # beneficiaries are on the hub, it would leave their room to the machine that asks first after the
                # restart.
                if all(
                    self._permits.is_recorded(claim.beneficiary) and migration.earmark_id(claim) not in kept
                    for claim in migration.claims
                ):
                    self._save(turn, migration.step(Phase.CLEANED, now=turn.now, claims=()))
            case Phase.CANCELLING:
                if observed.stage is Stage.SWITCHED:
                    # The switch was faster than the cancellation. The machine runs at its target, so the only way is
                    # forward.
                    self._save(turn, migration.step(Phase.CUTOVER, now=turn.now, outcome=None))
                elif observed.target is None and observed.stage in (Stage.ABSENT, Stage.FAILED):
                    self._end_cancellation(turn, migration)
            case Phase.CLEANED | Phase.CANCELLED | Phase.FAILED:
                self._end(turn, migration)

    def _end_cancellation(self, turn: Turn, migration: Migration) -> None:
        self._permits.remove(turn, migration.target)
        if turn.tx.account(migration.target_host) is not None:
            turn.tx.observe(migration.target_host, migration.target, None)
        turn.touch(migration.source_host)
        assert migration.outcome is not None
        self._save(turn, migration.step(migration.outcome, now=turn.now))

    def _adopt_target(self, turn: Turn, migration: Migration, target: WorkloadKey) -> None:
        after = migration.step(Phase.TARGET_PENDING, now=turn.now, target=target)
        if migration.hold_id in turn.account(migration.target_host).earmarks:
            turn.close(migration.target_host, migration.hold_id)
            self._keep(turn, migration.target_host, after.hold())
        self._save(turn, after)

    def _bind(self, turn: Turn, migration: Migration, host: HostKey) -> None:
        if host == migration.source_host:
            self.cancel(turn, migration, SAME_HOST)
            return
        turn.close(migration.target_host, migration.hold_id)
        # Without the hold, nothing counts the room of the target until its pod is observed as a machine.
        if migration.target not in self._table.machines:
            turn.tx.observe(host, migration.target, migration.amounts)
        turn.touch(migration.target_host)
        self._save(turn, migration.step(Phase.TARGET_BOUND, now=turn.now, target_host=host))

    def _finish(self, turn: Turn, migration: Migration, observed: Observation) -> None:
        if migration.source not in self._table.machines:
            self._permits.end_handover(turn, migration.identity, migration.target)
            self._save(turn, migration.step(Phase.SWAP_COMMITTED, now=turn.now))
        elif observed.stage is Stage.SWITCHED:
            turn.out.append(DeleteSource(migration))
        elif observed.stage is Stage.ABSENT:
            # The target is lost, and the machine still runs at its source: there is nothing to go forward to.
            self.cancel(turn, migration, TARGET_LOST, failed=True)

    def _end(self, turn: Turn, migration: Migration) -> None:
        turn.out.append(DeleteRecord(migration))
        self._table.remove_migration(migration)
        source = self._table.sources.get(migration.source)
        if source is not None and migration.phase is Phase.CLEANED:
            source.failures = None
        if migration.source not in self._table.machines:
            self._table.forget_source(migration.source)
            self._table.end_handover(migration.identity)
        turn.touch(migration.source_host)
        turn.touch(migration.target_host)
        turn.ended.append(migration)

    def leave(self, turn: Turn, source: WorkloadKey) -> None:
        """Give the room of a deleted source to its beneficiaries; keep its request for the target."""
        migration = self._table.migration_of(source)
        if migration is None:
            return
        for claim in migration.claims:
            if claim.from_source:
                self._permits.transfer(turn, migration.source_host, migration.earmark_id(claim))
        self._permits.begin_handover(source)

    def close_rest(self, turn: Turn, migration: Migration) -> None:
        """Give back what beneficiaries could not use of the room that the source left."""
        for claim in migration.claims:
            if not self._table.is_frozen(claim.beneficiary):
                turn.close(migration.source_host, migration.earmark_id(claim))

    def note_source_gone(self, turn: Turn, migration: Migration) -> None:
        """Continue without the source: forward if the copy is complete, otherwise the migration has failed."""
        if migration.cancellable and migration.phase is not Phase.COPYING:
            self.cancel(turn, migration, SOURCE_LOST, failed=True)
            return
        turn.out.append(Observe(migration))
        self.advance(turn, migration.id)

    def resume(self, turn: Turn) -> None:
        """Continue after a restart: all records are written, and nothing is known about their progress."""
        for entry in self._table.migrations.values():
            entry.is_written = True
            entry.uncertain = entry.migration.phase
            turn.out.append(Observe(entry.migration))

    def expire(self, turn: Turn) -> None:
        """Act on all deadlines that have passed."""
        for entry in list(self._table.migrations.values()):
            if entry.retry_at is not None and entry.retry_at <= turn.now:
                entry.retry_at = None
                turn.unsaved[entry.migration.id] = None
            migration = entry.migration
            limit = self._limit(entry)
            if limit is None or limit > turn.now:
                continue
            if migration.cancellable:
                unbound = migration.phase in (Phase.PLANNED, Phase.TARGET_PENDING)
                self.cancel(turn, migration, NOT_BOUND if unbound else NOT_COPIED, failed=True)
            else:
                entry.migration = replace(migration, since=turn.now)
                if entry.is_written:
                    # The effect may have been lost: it is asked for again if it has not begun.
                    entry.begun = entry.observation = None
                    entry.uncertain = migration.phase
                    turn.out.append(Observe(migration))

    def _limit(self, entry: MigrationEntry) -> Micros | None:
        migration, observed = entry.migration, entry.observation
        if migration.phase in (Phase.PLANNED, Phase.TARGET_PENDING):
            if migration.phase is Phase.PLANNED and observed is not None and observed.waiting:
                # Another migration would wait as long. The room is kept until the deadline.
                return migration.deadline
            return migration.since + self._policy.target_timeout
        if migration.phase in (Phase.TARGET_BOUND, Phase.COPYING):
            return migration.deadline
        if migration.phase in (Phase.CANCELLING, Phase.CUTOVER):
            return migration.since + self._policy.abort_timeout
        return None

    def deadlines(self) -> Iterator[Micros]:
        for entry in self._table.migrations.values():
            if entry.retry_at is not None:
                yield entry.retry_at
            limit = self._limit(entry)
            if limit is not None:
                yield limit

    def _save(self, turn: Turn, migration: Migration) -> MigrationEntry:
        """Change a record. It takes effect once it is written."""
        entry = self._table.put_migration(migration)
        entry.is_written = False
        turn.unsaved[migration.id] = None
        return entry

    def flush(self, turn: Turn) -> None:
        """Ask for the records that changed to be written, once each."""
        for id_ in turn.unsaved:
            entry = self._table.migrations[id_]
            # Once in each turn, however often the record changed in it: what is written is what the turn ends with,
            # and the reply to the write of an earlier revision is recognised as outdated.
            entry.migration = replace(entry.migration, revision=entry.migration.revision + 1)
            entry.retry_at = None
            turn.out.append(WriteRecord(entry.migration))
