"""State of the placement controller: the fleet, placements and decisions, and what follows from changes of them.

No I/O: changes come in, placements to requeue go out, and ``decide`` returns a plan. ``session`` is the only way to
write it. There a plan counts as written at once, so that the next placement in a burst takes it into account before the
hub has responded.

The informers of placements and decisions get the hub's responses to our own writes, so their changes include our own.
They arrive in order: neither a late watch event nor a late response makes an object older.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.placement.decision_index import DecisionIndex, placement_of
from fairway.controllers.placement.queue import DIRTY, LISTED, Owner, PlacementQueue
from fairway.controllers.placement.record import PlacementRecord
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.placement.settled import SettledCheck, delay_until, settled_until
from fairway.controllers.placement.shard import Shard
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.engine import cycle
from fairway.engine.dependencies import Event
from fairway.engine.fault import FaultError
from fairway.engine.memory import DEFAULT_LIMIT, Memory
from fairway.engine.outcome import Outcome
from fairway.engine.pending import PendingAnswer
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.profile import Profile
from fairway.engine.workload import HostKey
from fairway.hosts.clusters import Fleet, cells, objects
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.instant import Micros, to_micros
from fairway.hosts.journal import NOTHING, Change
from fairway.observe.meters import Meters
from fairway.workloads.placement import default_profile, verdict
from fairway.workloads.placement.alike import AlikePlacements
from fairway.workloads.placement.commits import is_committed
from fairway.workloads.placement.debits import debits_of, rebuild_debits
from fairway.workloads.placement.dependencies import dependencies_of
from fairway.workloads.placement.plugins.stability import stay_of
from fairway.workloads.placement.plugins.work_budget import Paused
from fairway.workloads.placement.reconcile_plan import ReconcilePlan, due_of, make_plan
from fairway.workloads.placement.selection import host_key, selection_of
from fairway.workloads.placement.workload import PlacementWorkload
from kubewire.api.meta import ObjectMeta
from kubewire.client import Added, Batch, Deleted, Informer, Resource

log: Final = logging.getLogger(__name__)

NOT_DIGESTED: Final = "cannot process object, keeping the last valid version  kind=%s object=%s/%s"

CHANGED: Final = "{kind} {name} changed"
"""What wakes placements, in explanations."""
_OF_DECISIONS: Final = frozenset({cells.DECISIONS[0], cells.OWN_DECISIONS, cells.DEBIT, cells.PROMISED[0]})
"""Kinds of columns that decisions and HostedClusterRequests change."""
SCORE_KINDS: Final = (ADD_ON_PLACEMENT_SCORES.kind, MANAGED_CLUSTER_SCORES.kind)
FEW_SCORES: Final = 8
"""Scores of one batch for which placements are checked before they are queued. After more, each placement is decided
once for all of them."""
BULK_SCORES: Final = 1000
"""Scores of one list from which they are loaded at once."""


class PlacementState:
    """Puts placements and changes of the fleet into ``queue``, and calls ``lost(owner)`` when a placement is deleted.

    Placements outside of ``shard`` are ignored; their decisions are not, because Balance counts them.
    """

    _decision_informer: Informer[PlacementDecision]
    _placement_informer: Informer[Placement]

    def __init__(
        self,
        queue: PlacementQueue,
        *,
        meters: Meters,
        profile: Profile | None = None,
        shard: Shard | None = None,
        memo_limit: int = DEFAULT_LIMIT,
        lost: Callable[[Owner], None] = lambda _: None,
        history: DecisionHistory | None = None,
    ) -> None:
        self.fleet = Fleet()
        self._history = history
        self.profile = profile or default_profile()
        self.records: dict[Owner, PlacementRecord] = {}
        self._queue, self._on_lost = queue, lost
        self._commits, self._debits = is_committed(self.profile), debits_of(self.profile)
        self._meters = meters
        self._shard = shard or Shard()
        self._memory = Memory(limit=memo_limit, alike=AlikePlacements(self.profile))
        self._decisions = DecisionIndex()

    def follow(self, informers: InformerFactory, *, calculators: bool, requests: bool = False) -> None:
        """``calculators``: whether the hub serves ManagedClusterScores; ``requests``: HostedClusterRequests."""
        kinds = (
            MANAGED_CLUSTER_SETS,
            MANAGED_CLUSTER_SET_BINDINGS,
            MANAGED_CLUSTERS,
            ADD_ON_PLACEMENT_SCORES,
        )
        optional = (
            *((MANAGED_CLUSTER_SCORES,) if calculators else ()),
            *((HOSTED_CLUSTER_REQUESTS,) if requests else ()),
        )
        for resource in (*kinds, *optional):
            self.follow_kind(informers, cast("Resource[Any]", resource))
        self._decision_informer = informers.of(PLACEMENT_DECISIONS)
        self._placement_informer = informers.of(PLACEMENTS)
        self._decision_informer.subscribe(_guarded(self.on_decisions))
        self._placement_informer.subscribe(_guarded(self.on_placements))

    def follow_kind(self, informers: InformerFactory, resource: Resource[Any]) -> None:
        informers.of(resource).subscribe(_guarded(partial(self.objects_changed, resource.kind)))

    # Changes

    def objects_changed(self, kind: str, batch: Batch[Any]) -> None:
        """Bring the fleet up to date with objects of one kind."""
        if batch.listed and self._is_initial(kind, batch):
            objects.load(self.fleet, (change.object for change in batch.changes if isinstance(change, Added)))
            self._queue.change(LISTED)
            return
        few = kind in SCORE_KINDS and len(batch.changes) <= FEW_SCORES
        for change in batch.changes:
            update = objects.delete if isinstance(change, Deleted) else objects.upsert
            thing = change.object
            self._publish_change(kind, thing.metadata, update(self.fleet, thing), check=few)

    def _is_initial(self, kind: str, batch: Batch[Any]) -> bool:
        """Whether a list fills the fleet, so that loading it at once is faster than following single changes."""
        if kind == MANAGED_CLUSTERS.kind:
            return not len(self.fleet)
        large = kind == ADD_ON_PLACEMENT_SCORES.kind and len(batch.changes) > BULK_SCORES
        return large and all(isinstance(change, Added) for change in batch.changes)

    def on_placements(self, batch: Batch[Placement]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._on_placement_deleted(change.object)
            elif self._shard.has(change.object.metadata.namespace):
                self._on_placement(change.object)

    def on_decisions(self, batch: Batch[PlacementDecision]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._on_decision_deleted(change.object)
            else:
                self._on_decision(change.object)

    def _on_placement(self, new: Placement) -> None:
        meta = new.metadata
        owner = (meta.namespace, meta.name)
        record = self.records.get(owner)
        if record is None:
            self.records[owner] = PlacementRecord(new, self.workload(new))
            self._queue.put(new)
            return
        old = record.placement
        record.placement = new
        if _spec_changed(old, new):
            debits = record.workload.trust.debits
            record.workload = self.workload(new)
            if record.workload.trust.debits != debits:
                self.fleet.release_debits(owner)
            record.settled = None
            self._memory.forget(*owner)
            self._queue.put(new)
        elif old.status != new.status and not record.observe(meta.resourceVersion):
            self.mark_dirty(owner, externally_modified=True)

    def _on_placement_deleted(self, deleted: Placement) -> None:
        owner = (deleted.metadata.namespace, deleted.metadata.name)
        if self.records.pop(owner, None) is None:
            return
        self._on_lost(owner)
        self._queue.discard(owner)
        self._memory.forget(*owner)

    def _on_decision(self, new: PlacementDecision) -> None:
        """Another client's write, or our own."""
        meta = new.metadata
        old = self._decisions.put(new)
        if not self._concerned(old, new, externally_modified=old is not None, write_id=meta.resourceVersion):
            self._publish_change("PlacementDecision", meta, self.fleet.upsert_decision(new))

    def _on_decision_deleted(self, deleted: PlacementDecision) -> None:
        meta = deleted.metadata
        known = self._decisions.drop(meta.namespace, meta.name)
        if known is None:
            return
        if not self._concerned(known, externally_modified=True, write_id=meta.uid):
            self._publish_change(
                "PlacementDecision", meta, self.fleet.delete_decision(meta.namespace, meta.name)
            )

    def _concerned(
        self, *decisions: PlacementDecision | None, externally_modified: bool, write_id: str
    ) -> bool:
        """Requeue the owners of the decisions. Return whether one of them is being written, so that the fleet has to
        wait."""
        # Of both versions: a decision that gets another label is missing for one placement, and surplus for the
        # other.
        owners = {placement_of(decision) for decision in decisions if decision is not None}
        names = {decision.metadata.name for decision in decisions if decision is not None}
        waits = False
        for owner in owners:
            record = self.records.get(owner)
            if record is not None and record.observe(write_id, pages=names):
                waits = True
            else:
                self.mark_dirty(owner, externally_modified=externally_modified)
        return waits

    def mark_dirty(self, owner: Owner, *, externally_modified: bool) -> None:
        """Requeue a placement, because the hub may no longer have what was decided."""
        record = self.records.get(owner)
        if record is not None:
            record.mark_dirty(externally_modified=externally_modified)
            self._queue.wake((owner,), trigger=DIRTY)

    def _publish_change(self, kind: str, meta: ObjectMeta, change: Change, *, check: bool = False) -> None:
        """Requeue the placements that depend on the change. ``check``: skip those that it leaves as they are."""
        if change is NOTHING:
            return
        self._meters.cells(kind=kind, count=len(change.columns))
        name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        # Decisions requeue no placement that reads anything: each would requeue all others, endlessly.
        decided = _OF_DECISIONS.issuperset(key[0] for key in change.columns)
        self._queue.change(
            Event(
                label=CHANGED.format(kind=kind, name=name),
                hosts=frozenset() if decided else frozenset(change.rows),
                columns=change.columns,
            ),
            is_unaffected=self._settled_check() if check else None,
        )

    def rebuild_debits(self, *, now: datetime) -> None:
        """Use the debits that follow from the hub's decisions and scores, at the start of a term."""
        for owner, record in self.records.items():
            debits = record.workload.trust.debits
            if debits:
                rebuild_debits(
                    self.fleet,
                    owner,
                    debits,
                    self._decisions.decisions_of(owner).values(),
                    now=to_micros(now),
                )

    def workload(self, placement: Placement) -> PlacementWorkload:
        return PlacementWorkload(placement, debits=self._debits)

    def placed(self) -> dict[PlacementWorkload, tuple[HostKey, ...]]:
        """Return the clusters of all placements as the hub shows them."""
        snapshot = self.fleet.snapshot()
        keys = {name: host_key(snapshot.cluster(row)) for name, row in snapshot.hosts.row_of.items()}
        return {
            record.workload: tuple(
                keys.get(name, HostKey(name, "")) for name in sorted(self.clusters_on_hub(owner))
            )
            for owner, record in self.records.items()
        }

    # Decisions

    def decide(
        self,
        owner: Owner,
        *,
        now: datetime,
        work: int | None = None,
        snapshot: ClusterSnapshot | None = None,
    ) -> ReconcilePlan | None:
        """Decide a placement. Return what to write in a ``session``, or None if there is nothing to decide.

        ``work`` limits the work of CEL expressions (see ``plugins.work_budget``): raises Paused when it is not enough.
        The result so far is kept, and the next call continues. Raises PendingAnswer; once it is fetched, the next call
        continues with the same ``snapshot`` and ``now``.
        """
        record = self.records.get(owner)
        if record is None or record.workload.idle:
            return None
        workload = record.workload
        workload.pace.allow(work, overdraws=False)
        snapshot = self.fleet.snapshot() if snapshot is None else snapshot
        try:
            return self._decide(owner, record, snapshot, now=now)
        except FaultError:
            # The details of an incremental cycle are those of a full one, in which a plugin failed.
            self._memory.restart(workload, self.profile)
            return self._decide(owner, record, snapshot, now=now)

    def _decide(
        self, owner: Owner, record: PlacementRecord, snapshot: ClusterSnapshot, *, now: datetime
    ) -> ReconcilePlan:
        placement, workload = record.placement, record.workload
        began, followed = time.perf_counter(), self._memory.followed
        outcome = self._memory.run(snapshot, workload, self.profile, now=to_micros(now))
        on = self._memory.followed != followed
        self._meters.cycle(seconds=time.perf_counter() - began, followed=on)
        memo = self._memory.memo_of(workload, self.profile)
        if memo is None or memo != record.memo:
            record.memo = memo
            feasible = self._memory.feasible(workload, self.profile)
            record.dependencies = dependencies_of(outcome, placement, feasible=feasible)
        if on and not self._commits and (until := settled_until(record, outcome, now=now)) is not None:
            return ReconcilePlan(placement=placement, pages=None, until=until)
        last = record.last_recorded
        due = due_of(placement, last=last, now=now)
        if record.externally_modified:
            record.externally_modified = False
            record.repairing = True
        plan = make_plan(
            verdict.conclude(outcome, workload),
            placement,
            named=self._decisions.named(owner[0]),
            own=self._decisions.decisions_of(owner),
            refresh=due is None or record.repairing,
            last=last,
            now=now,
            until=min(outcome.until, NEVER_CHANGES if due is None else due),
        )
        stay = stay_of(outcome)
        suppressed, is_due = record.report_suppressed(stay, now=to_micros(now))
        if stay is not None and suppressed:
            self._meters.suppressed(stay.cause, suppressed)
            plan = replace(plan, waiting=stay if is_due else None)
        if self._history is not None and plan.pages is not None and plan.changes_decisions:
            plan = self._recorded(plan, record, outcome, self._history)
        if self._commits and plan.pages is not None:
            plan = replace(plan, selection=selection_of(outcome, workload, pages=plan.pages))
        return replace(plan, faults=faults) if (faults := record.report_faults(outcome.faults)) else plan

    def _recorded(
        self, plan: ReconcilePlan, record: PlacementRecord, outcome: Outcome, history: DecisionHistory
    ) -> ReconcilePlan:
        owner = record.workload.owner
        record.decided = history.placement(
            outcome, pages=plan.pages or (), status=plan.outcome, cause=self._queue.trigger(owner)
        )
        return plan if record.decided is None else replace(plan, record_id=record.decided.id)

    def _settled_check(self) -> SettledCheck | None:
        """Return a check for the placements that a change concerns; None if all must be decided."""
        if self._commits:
            return None
        snapshot, now = self.fleet.snapshot(), self._queue.wall()

        def follow(record: PlacementRecord) -> Outcome | None:
            began = time.perf_counter()
            try:
                outcome = self._memory.follow(snapshot, record.workload, self.profile, now=to_micros(now))
            except Exception:
                return None  # deciding it fails in the same way, and reports it
            if outcome is None or self._memory.memo_of(record.workload, self.profile) != record.memo:
                return None
            self._meters.cycle(seconds=time.perf_counter() - began, followed=True)
            return outcome

        def lower_deadline(owner: Owner, until: Micros) -> None:
            self._queue.lower_deadline(owner, after=delay_until(until, now))

        return SettledCheck(self.records, now=now, follow=follow, lower_deadline=lower_deadline)

    def work_of(self, owner: Owner) -> int:
        """Work of CEL expressions in the last decision."""
        record = self.records.get(owner)
        return 0 if record is None else record.workload.pace.used

    def advance(self, owner: Owner, *, now: datetime, work: int) -> bool:
        """Do a slice of the work of a decision. Return whether it was the last one."""
        record = self.records.get(owner)
        if record is None or record.workload.idle:
            return True
        workload = record.workload
        workload.pace.allow(work)
        try:
            cycle.run(self.fleet.snapshot(), workload, self.profile, now=to_micros(now))
        except Paused:
            return False
        except PendingAnswer:
            pass  # the expressions are evaluated; plugins in processes of their own are asked when it is decided
        return True

    def inspect(
        self,
        workload: PlacementWorkload,
        *,
        now: datetime,
        work: int | None = None,
        snapshot: ClusterSnapshot | None = None,
    ) -> Outcome:
        """Run a cycle for any placement, without changing anything. Raises Paused and PendingAnswer like ``decide``."""
        workload.pace.allow(work)
        snapshot = self.fleet.snapshot() if snapshot is None else snapshot
        return cycle.run(snapshot, workload, self.profile, now=to_micros(now))

    def find(self, namespace: str, name: str) -> Placement | None:
        record = self.records.get((namespace, name))
        return None if record is None else record.placement

    def decisions_of(self, owner: Owner) -> Mapping[str, PlacementDecision]:
        """Return the decisions of a placement by name, as the hub has them. Read-only."""
        return self._decisions.decisions_of(owner)

    def clusters_on_hub(self, owner: Owner) -> set[str]:
        """Return the clusters of a placement as the hub shows them."""
        return {
            decided.clusterName
            for page in self.decisions_of(owner).values()
            for decided in page.status.decisions
        }

    def decision(self, namespace: str, name: str) -> PlacementDecision | None:
        return self._decisions.get(namespace, name)

    # Writes

    def session(self, plan: ReconcilePlan) -> WriteSession:
        """Return the context in which the plan is written. Raises KeyError if the placement was deleted."""
        meta = plan.placement.metadata
        return WriteSession(self, self.records[meta.namespace, meta.name], plan)

    def wrote(self, decision: PlacementDecision) -> None:
        """The hub's response to our write."""
        self._answer(placement_of(decision), decision.metadata.resourceVersion)
        self._decision_informer.observe(decision)

    def removed(self, decision: PlacementDecision) -> None:
        """The hub has deleted it on our request."""
        self._answer(placement_of(decision), decision.metadata.uid)
        self._decision_informer.observe_deletion(decision)

    def wrote_placement(self, placement: Placement) -> None:
        meta = placement.metadata
        self._answer((meta.namespace, meta.name), meta.resourceVersion)
        self._placement_informer.observe(placement)

    def _answer(self, owner: Owner, write_id: str) -> None:
        record = self.records.get(owner)
        if record is not None:
            record.answer(write_id)


def _guarded(handler: Callable[[Batch[Any]], None]) -> Callable[[Batch[Any]], None]:
    """Process a batch object by object if it fails, so that one unexpected object does not affect the others."""

    def handle(batch: Batch[Any]) -> None:
        try:
            handler(batch)
        except Exception:
            for change in batch.changes:  # those that were processed already requeue their placements at most
                try:
                    handler(structs.replace(batch, changes=(change,)))
                except Exception:
                    meta = change.object.metadata
                    log.exception(NOT_DIGESTED, type(change.object).__name__, meta.namespace, meta.name)

    return handle


def _spec_changed(old: Placement, new: Placement) -> bool:
    """Whether anything that a decision reads of the placement changed: all but its status."""
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or old.spec != new.spec
        or before.annotations != after.annotations
        or (before.deletionTimestamp is None) != (after.deletionTimestamp is None)
    )
