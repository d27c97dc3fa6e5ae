"""The steps of migrations.

Every step is written to the migration's record before it takes effect. What happens next follows from the record and
from the last observation alone, so that a restart continues where the record ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fairway.engine.ledger import Earmark, LedgerError
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.instant import Micros
from fairway.machines.events import Observation, Stage
from fairway.machines.instructions import (
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
from fairway.machines.machine import Machine
from fairway.machines.migration import Claim, Migration, Phase, Reason, migration_id
from fairway.machines.permits import Permits, Turn
from fairway.machines.policy import MachinePolicy

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


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed for a machine, so that the next attempt is another one."""

    count: int
    not_before: Micros
    targets: frozenset[HostKey]


class Migrations:
    def __init__(self, policy: MachinePolicy, *, epoch: int) -> None:
        self._policy = policy
        self._epoch = epoch
        self.permits: Permits
        self.records: dict[str, Migration] = {}
        """Migrations that have not ended."""
        self.observations: dict[str, Observation] = {}
        self._by_source: dict[WorkloadKey, str] = {}
        self._by_target: dict[tuple[str, str], str] = {}
        self._written: set[str] = set()
        """Migrations whose record is written as it is."""
        self._unsaved: dict[str, None] = {}
        """Migrations whose record changed in this turn."""
        self._retries: dict[str, Micros] = {}
        self._begun: dict[str, Phase] = {}
        """The phase whose effect was last asked for."""
        self._uncertain: dict[str, Phase] = {}
        """The phase that a restart found, whose effect may have begun before."""
        self.unneeded: dict[str, Micros] = {}
        """Since when a migration is unnecessary."""
        self.cancelled_at: dict[HostKey, Micros] = {}
        self.failures: dict[WorkloadKey, Failures] = {}
        self._attempts: dict[WorkloadKey, int] = {}
        """Makes the names of a machine's migrations unique: the object of the last one may still be there."""
        self.ended: list[Migration] = []
        """Migrations that ended in this turn."""

    # Questions

    def of_source(self, key: WorkloadKey) -> Migration | None:
        found = self._by_source.get(key)
        return None if found is None else self.records[found]

    def of_target(self, namespace: str, name: str) -> Migration | None:
        found = self._by_target.get((namespace, name))
        return None if found is None else self.records[found]

    def is_frozen(self, key: WorkloadKey) -> bool:
        """Return whether a machine must not grow: it migrates, or is a target that does not run it yet."""
        migration = self.of_source(key)
        if migration is not None:
            return migration.leaving or migration.phase is Phase.CANCELLING
        migration = self.of_target(key.namespace, key.name)
        return migration is not None and migration.phase not in (Phase.SWAP_COMMITTED, Phase.CLEANED)

    def from_host(self, host: HostKey) -> list[Migration]:
        return [each for each in self.records.values() if each.source_host == host]

    def to_host(self, host: HostKey) -> int:
        return sum(
            each.target_host == host and each.phase not in (Phase.SWAP_COMMITTED, Phase.CANCELLING)
            for each in self.records.values()
        )

    def claims_of(self, key: WorkloadKey) -> Iterator[tuple[Migration, Claim]]:
        """Yield what migrations are going to give to a machine. A source that left has given it already."""
        for each in self.records.values():
            if each.claims and each.leaving and each.source in self.permits.machines:
                for claim in each.claims:
                    if claim.beneficiary == key:
                        yield each, claim

    # Changes

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
        attempt = self._attempts.get(machine.key, 0) + 1
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
        self.restore(migration)
        self._save(migration)

    def restore(self, migration: Migration) -> None:
        """Add a record, such as one that a restart found."""
        self.records[migration.id] = migration
        self._attempts[migration.source] = max(migration.attempt, self._attempts.get(migration.source, 0))
        self._by_source[migration.source] = migration.id
        self._by_target[migration.target.namespace, migration.target.name] = migration.id

    def set_claims(self, turn: Turn, migration: Migration, claims: tuple[Claim, ...]) -> Migration:
        """Change what is kept for whom, in the ledger and in the record."""
        if claims == migration.claims:
            return migration
        host, after = migration.source_host, replace(migration, claims=claims)
        kept = {after.earmark_id(each) for each in claims}
        for claim in migration.claims:
            if migration.earmark_id(claim) not in kept:
                turn.close(host, migration.earmark_id(claim))
        for claim in claims:
            if claim not in migration.claims and not self._keep(turn, host, after.earmark(claim)):
                after = replace(after, claims=tuple(each for each in after.claims if each != claim))
        if after.claims:
            self.unneeded.pop(after.id, None)
        self._save(after)
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
        migration = self.set_claims(turn, migration, ())
        turn.close(migration.target_host, migration.hold_id)
        self.unneeded.pop(migration.id, None)
        self._save(migration.step(Phase.CANCELLING, now=turn.now, outcome=outcome, message=message))
        if failed:
            self._note_failure(turn, migration)
        else:
            self.cancelled_at[migration.source_host] = turn.now
        turn.touch(migration.source_host)
        turn.touch(migration.target_host)

    def _note_failure(self, turn: Turn, migration: Migration) -> None:
        before = self.failures.get(migration.source)
        count = 1 if before is None else before.count + 1
        wait = min(self._policy.most_backoff, self._policy.backoff << (count - 1))
        targets = {*(before.targets if before else ()), migration.target_host}
        self.failures[migration.source] = Failures(count, turn.now + wait, frozenset(targets))

    def note_written(self, turn: Turn, id_: str, revision: int) -> None:
        migration = self.records.get(id_)
        if migration is None or migration.revision != revision or id_ in self._unsaved:
            return
        self._written.add(id_)
        self._begin(turn, migration)
        self.advance(turn, id_)

    def note_not_written(self, turn: Turn, id_: str, revision: int) -> None:
        migration = self.records.get(id_)
        if migration is not None and migration.revision == revision:
            self._retries[id_] = turn.now + self._policy.retry_delay

    def observe(self, turn: Turn, id_: str, observation: Observation) -> None:
        migration = self.records.get(id_)
        if migration is None:
            return
        self.observations[id_] = observation
        if observation.stage is Stage.FAILED and migration.cancellable:
            self.cancel(turn, migration, COPY_FAILED.format(message=observation.message), failed=True)
            return
        if id_ in self._written:
            self._begin(turn, migration)
        self.advance(turn, id_)

    def _begin(self, turn: Turn, migration: Migration) -> None:
        """Ask for the effect of a phase, once; after a restart, only if it certainly has not begun."""
        id_, phase = migration.id, migration.phase
        if phase not in _EFFECTS or self._begun.get(id_) == phase:
            return
        seen = self.observations.get(id_)
        if self._uncertain.get(id_) == phase and (seen is None or seen.stage not in _BEFORE_EFFECT[phase]):
            return
        self._begun[id_] = phase
        turn.out.append(_EFFECTS[phase](migration))

    def advance(self, turn: Turn, id_: str) -> None:
        """Take the steps that the last observation allows. A step is taken once the one before it is written."""
        migration = self.records.get(id_)
        if migration is None or id_ not in self._written or id_ in self._unsaved:
            return
        seen = self.observations.get(id_, Observation(stage=Stage.UNKNOWN))
        match migration.phase:
            case Phase.PLANNED:
                if seen.target is not None:
                    self._adopt_target(turn, migration, seen.target)
            case Phase.TARGET_PENDING:
                if seen.target_host is not None:
                    self._bind(turn, migration, seen.target_host)
            case Phase.TARGET_BOUND:
                self._save(migration.step(Phase.COPYING, now=turn.now))
            case Phase.COPYING:
                if seen.stage in (Stage.COPIED, Stage.SWITCHED):
                    self._save(migration.step(Phase.CUTOVER, now=turn.now))
                elif migration.source not in self.permits.machines and seen.stage in _WITHOUT_COPY:
                    self.cancel(turn, migration, SOURCE_LOST, failed=True)
            case Phase.CUTOVER:
                self._finish(turn, migration, seen)
            case Phase.SWAP_COMMITTED:
                kept = turn.account(migration.source_host).earmarks
                if all(
                    self.permits.is_recorded(each.beneficiary) and migration.earmark_id(each) not in kept
                    for each in migration.claims
                ):
                    self._save(migration.step(Phase.CLEANED, now=turn.now, claims=()))
            case Phase.CANCELLING:
                if seen.stage is Stage.SWITCHED:
                    self._save(migration.step(Phase.CUTOVER, now=turn.now, outcome=None))
                elif seen.target is None and seen.stage in (Stage.ABSENT, Stage.FAILED):
                    self._end_cancellation(turn, migration)
            case Phase.CLEANED | Phase.CANCELLED | Phase.FAILED:
                self._forget(turn, migration)

    def _end_cancellation(self, turn: Turn, migration: Migration) -> None:
        self.permits.remove(turn, migration.target)
        if turn.tx.account(migration.target_host) is not None:
            turn.tx.observe(migration.target_host, migration.target, None)
        turn.touch(migration.source_host)
        assert migration.outcome is not None
        self._save(migration.step(migration.outcome, now=turn.now))

    def _adopt_target(self, turn: Turn, migration: Migration, target: WorkloadKey) -> None:
        after = migration.step(Phase.TARGET_PENDING, now=turn.now, target=target)
        # Some migrators choose the name of the target pod.
        self._by_target.pop((migration.target.namespace, migration.target.name), None)
        self._by_target[target.namespace, target.name] = migration.id
        if migration.hold_id in turn.account(migration.target_host).earmarks:
            turn.close(migration.target_host, migration.hold_id)
            self._keep(turn, migration.target_host, after.hold())
        self._save(after)

    def _bind(self, turn: Turn, migration: Migration, host: HostKey) -> None:
        if host == migration.source_host:
            self.cancel(turn, migration, SAME_HOST)
            return
        turn.close(migration.target_host, migration.hold_id)
        if migration.target not in self.permits.machines:
            turn.tx.observe(host, migration.target, migration.amounts)
        turn.touch(migration.target_host)
        self._save(migration.step(Phase.TARGET_BOUND, now=turn.now, target_host=host))

    def _finish(self, turn: Turn, migration: Migration, seen: Observation) -> None:
        if migration.source not in self.permits.machines:
            self.permits.hand_over(turn, migration.identity, migration.target)
            self._save(migration.step(Phase.SWAP_COMMITTED, now=turn.now))
        elif seen.stage is Stage.SWITCHED:
            turn.out.append(DeleteSource(migration))
        elif seen.stage is Stage.ABSENT:
            # The target is lost, and the machine still runs at its source: there is nothing to go forward to.
            self.cancel(turn, migration, TARGET_LOST, failed=True)

    def _forget(self, turn: Turn, migration: Migration) -> None:
        turn.out.append(DeleteRecord(migration))
        for each in (
            self.records,
            self.observations,
            self._begun,
            self._uncertain,
            self._retries,
            self.unneeded,
        ):
            each.pop(migration.id, None)
        self._written.discard(migration.id)
        if self._by_source.get(migration.source) == migration.id:
            del self._by_source[migration.source]
        self._by_target.pop((migration.target.namespace, migration.target.name), None)
        if migration.phase is Phase.CLEANED:
            self.failures.pop(migration.source, None)
        if migration.source not in self.permits.machines:
            self.forget_machine(migration.source)
            self.permits.drop_stash(migration.identity)
        turn.touch(migration.source_host)
        turn.touch(migration.target_host)
        self.ended.append(migration)

    def forget_machine(self, key: WorkloadKey) -> None:
        """Drop what is remembered about the past migrations of a deleted machine."""
        if key not in self._by_source:
            self.failures.pop(key, None)
            self._attempts.pop(key, None)

    def leave(self, turn: Turn, source: WorkloadKey) -> None:
        """Give the room of a deleted source to its beneficiaries; keep its request for the target."""
        migration = self.of_source(source)
        if migration is None:
            return
        for claim in migration.claims:
            if claim.from_source:
                self.permits.transfer(turn, migration.source_host, migration.earmark_id(claim))
        self.permits.stash(source)

    def close_rest(self, turn: Turn, migration: Migration) -> None:
        """Give back what beneficiaries could not use of the room that the source left."""
        for claim in migration.claims:
            if not self.is_frozen(claim.beneficiary):
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
        for id_, migration in self.records.items():
            self._written.add(id_)
            self._uncertain[id_] = migration.phase
            turn.out.append(Observe(migration))

    def expire(self, turn: Turn) -> None:
        """Act on all deadlines that have passed."""
        for id_ in [each for each, at in self._retries.items() if at <= turn.now]:
            del self._retries[id_]
            self._unsaved[id_] = None
        for migration in list(self.records.values()):
            limit = self._limit(migration)
            if limit is None or limit > turn.now:
                continue
            if migration.cancellable:
                unbound = migration.phase in (Phase.PLANNED, Phase.TARGET_PENDING)
                self.cancel(turn, migration, NOT_BOUND if unbound else NOT_COPIED, failed=True)
            else:
                self.records[migration.id] = replace(migration, since=turn.now)
                if migration.id in self._written:
                    # The effect may have been lost: it is asked for again if it has not begun.
                    self._begun.pop(migration.id, None)
                    self._uncertain[migration.id] = migration.phase
                    self.observations.pop(migration.id, None)
                    turn.out.append(Observe(migration))

    def _limit(self, migration: Migration) -> Micros | None:
        if migration.phase in (Phase.PLANNED, Phase.TARGET_PENDING):
            return migration.since + self._policy.target_timeout
        if migration.phase in (Phase.TARGET_BOUND, Phase.COPYING):
            return migration.deadline
        if migration.phase in (Phase.CANCELLING, Phase.CUTOVER):
            return migration.since + self._policy.abort_timeout
        return None

    def deadlines(self) -> Iterator[Micros]:
        yield from self._retries.values()
        for each in self.records.values():
            limit = self._limit(each)
            if limit is not None:
                yield limit

    def _save(self, migration: Migration) -> None:
        self.records[migration.id] = migration
        self._written.discard(migration.id)
        self._unsaved[migration.id] = None

    def flush(self, turn: Turn) -> None:
        """Ask for the records that changed to be written, once each."""
        for id_ in self._unsaved:
            migration = self.records[id_]
            self.records[id_] = migration = replace(migration, revision=migration.revision + 1)
            self._retries.pop(id_, None)
            turn.out.append(WriteRecord(migration, self._epoch))
        self._unsaved.clear()
