"""State of the placement controller: the fleet, placements and decisions, and what follows from changes of them.

No I/O: changes come in, placements to requeue go out, and ``look`` returns a plan. ``session`` is the only way to
write it. There a plan counts as written at once, so that the next placement in a burst takes it into account before the
hub has responded.

The hub's responses to our own writes count like watch events, also for placements (see ``decision_cache``).
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from fairway.api.decision import PlacementDecision
from fairway.api.meta import ObjectMeta
from fairway.api.placement import Placement
from fairway.clusters import Fleet, cells, objects
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.placement.decision_cache import DecisionCache, placement_of
from fairway.controllers.placement.queue import DISTURBED, LISTED, Owner, PlacementQueue
from fairway.controllers.placement.record import PlacementRecord
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.placement.settled import SettledCheck, delay_until, settled_until
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.unobserved_writes import UnobservedWrites, is_newer, is_same_version
from fairway.engine import cycle
from fairway.engine.dependencies import Event
from fairway.engine.fault import FaultError
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.profile import Profile
from fairway.engine.workload import HostKey
from fairway.fleet.instant import Micros, to_micros
from fairway.fleet.journal import NOTHING, Change
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Added,
    Batch,
    Deleted,
    Informer,
    Resource,
    Updated,
)
from fairway.observe.meters import Meters
from fairway.placement import default_profile, verdict
from fairway.placement.alike import AlikePlacements
from fairway.placement.commits import is_committed
from fairway.placement.debits import debits_of, rebuild_debits
from fairway.placement.dependencies import dependencies_of
from fairway.placement.reconcile_plan import ReconcilePlan, due_of, make_plan
from fairway.placement.selection import host_key, selection_of
from fairway.plugins.placement_workload import PlacementWorkload
from fairway.plugins.work_budget import Paused

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

    def __init__(
        self,
        queue: PlacementQueue,
        *,
        meters: Meters,
        profile: Profile | None = None,
        shard: Shard | None = None,
        lost: Callable[[Owner], None] = lambda _: None,
    ) -> None:
        self.fleet = Fleet()
        self.profile = profile or default_profile()
        self.records: dict[Owner, PlacementRecord] = {}
        self._queue, self._lost_one = queue, lost
        self._commits, self._debits = is_committed(self.profile), debits_of(self.profile)
        self._meters = meters
        self._shard = shard or Shard()
        self._memory = Memory(alike=AlikePlacements(self.profile))
        self._decisions = DecisionCache()
        self._observed_placements: Mapping[Owner, Placement] = {}
        """The informer's store, which may be behind the hub's responses to us."""
        self._unobserved_placements = UnobservedWrites()
        self._epochs: dict[str, tuple[int, str]] = {}
        """By kind, with the version of the list that began the epoch."""

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
            informer: Informer[Any] = informers.of(cast("Resource[Any]", resource))
            informer.subscribe(_guarded(partial(self.objects_changed, resource.kind)))
        decisions, placements = informers.of(PLACEMENT_DECISIONS), informers.of(PLACEMENTS)
        self._decisions.follow(decisions.store)
        self._observed_placements = placements.store
        decisions.subscribe(_guarded(self.seen_decisions))
        placements.subscribe(_guarded(self.seen_placements))

    # Changes

    def objects_changed(self, kind: str, batch: Batch[Any]) -> None:
        """Bring the fleet up to date with objects of one kind."""
        self._went_back(kind, batch)
        if batch.listed and self._is_initial(kind, batch):
            objects.load(self.fleet, (each.object for each in batch.changes if isinstance(each, Added)))
            self._queue.change(LISTED)
            return
        few = kind in SCORE_KINDS and len(batch.changes) <= FEW_SCORES
        for each in batch.changes:
            update = objects.delete if isinstance(each, Deleted) else objects.upsert
            thing = _new(each)
            self._tell(kind, thing.metadata, update(self.fleet, thing), check=few)

    def _is_initial(self, kind: str, batch: Batch[Any]) -> bool:
        """Whether a list fills the fleet, so that loading it at once is faster than following single changes."""
        if kind == MANAGED_CLUSTERS.kind:
            return not len(self.fleet)
        large = kind == ADD_ON_PLACEMENT_SCORES.kind and len(batch.changes) > BULK_SCORES
        return large and all(isinstance(each, Added) for each in batch.changes)

    def seen_placements(self, batch: Batch[Placement]) -> None:
        again = self._went_back("Placement", batch)
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._lose(change.object)
            elif self._shard.has(_new(change).metadata.namespace):
                self._see_placement(_new(change), again=again)
        for key in self._unobserved_placements.reach(batch.resource_version):
            self._believe_placement(key)

    def seen_decisions(self, batch: Batch[PlacementDecision]) -> None:
        again = self._went_back("PlacementDecision", batch)
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._see_removal(change.object)
            else:
                self._see_decision(_new(change), again=again)
        for key in self._decisions.reach(batch.resource_version):
            self._believe_decision(key)

    def _went_back(self, kind: str, batch: Batch[Any]) -> bool:
        """Return whether the hub's history went back: then older versions count, and writes that only we observed are
        void."""
        epoch, began = self._epochs.setdefault(kind, (batch.epoch, ""))
        if epoch == batch.epoch:
            return batch.resource_version == began  # the same list again, in parts
        self._epochs[kind] = (batch.epoch, batch.resource_version)
        for key in self._decisions.restart():
            self._believe_decision(key)
        for key in self._unobserved_placements.restart():
            self._believe_placement(key)
        return True

    def _believe_decision(self, key: Owner) -> None:
        """Use the watch's state instead of the response to our write."""
        ours, observed = self._decisions.get(*key), self._decisions.observed(key)
        if observed is None:
            if ours is not None:
                self._see_removal(ours)
        elif not is_same_version(ours, observed):
            self._see_decision(observed, again=True)

    def _believe_placement(self, key: Owner) -> None:
        record, observed = self.records.get(key), self._observed_placements.get(key)
        if record is not None and observed is not None and not is_same_version(record.placement, observed):
            self._see_placement(observed, again=True)

    def _see_placement(self, new: Placement, *, again: bool) -> None:
        meta = new.metadata
        owner = (meta.namespace, meta.name)
        record = self.records.get(owner)
        if record is None:
            self.records[owner] = PlacementRecord(new, self.workload(new))
            self._queue.put(new)
            return
        old = record.placement
        if not again and not is_newer(new, old):
            return
        record.placement = new
        if _asks_otherwise(old, new):
            debits = record.workload.trust.debits
            record.workload = self.workload(new)
            if record.workload.trust.debits != debits:
                self.fleet.forget_debits(owner)
            record.settled = None
            self._memory.forget(*owner)
            self._queue.put(new)
        elif old.status != new.status and not record.observe(meta.resourceVersion):
            self.disturb(owner, externally_modified=True)

    def _lose(self, gone: Placement) -> None:
        owner = (gone.metadata.namespace, gone.metadata.name)
        record = self.records.get(owner)
        if record is None or record.placement.metadata.uid != gone.metadata.uid:
            return
        del self.records[owner]
        self._lost_one(owner)
        self._queue.discard(owner)
        self._memory.forget(*owner)

    def _see_decision(self, new: PlacementDecision, *, again: bool) -> None:
        """Another client's write, or the watch event of our own."""
        meta = new.metadata
        old = self._decisions.get(meta.namespace, meta.name)
        if not self._decisions.see(new, again=again):
            return
        if not self._concerned(old, new, externally_modified=old is not None, sign=meta.resourceVersion):
            self._tell("PlacementDecision", meta, self.fleet.upsert_decision(new))

    def _see_removal(self, gone: PlacementDecision) -> None:
        known = self._decisions.see_removal(gone)
        if known is None:
            return
        meta = gone.metadata
        if not self._concerned(known, externally_modified=True, sign=meta.uid):
            self._tell("PlacementDecision", meta, self.fleet.delete_decision(meta.namespace, meta.name))

    def _concerned(self, *decisions: PlacementDecision | None, externally_modified: bool, sign: str) -> bool:
        """Requeue the owners of the decisions. Return whether one of them is being written, so that the fleet has to
        wait."""
        owners = {placement_of(each) for each in decisions if each is not None}
        names = {each.metadata.name for each in decisions if each is not None}
        waits = False
        for owner in owners:
            record = self.records.get(owner)
            if record is not None and record.observe(sign, pages=names):
                waits = True
            else:
                self.disturb(owner, externally_modified=externally_modified)
        return waits

    def disturb(self, owner: Owner, *, externally_modified: bool) -> None:
        """Decide a placement again, because the hub may no longer have what was decided."""
        record = self.records.get(owner)
        if record is not None:
            record.disturb(externally_modified=externally_modified)
            self._queue.wake((owner,), trigger=DISTURBED)

    def _tell(self, kind: str, meta: ObjectMeta, change: Change, *, check: bool = False) -> None:
        """``check``: whether to check first which placements are affected."""
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
                    self.fleet, owner, debits, self._decisions.own(owner).values(), now=to_micros(now)
                )

    def workload(self, placement: Placement) -> PlacementWorkload:
        return PlacementWorkload(placement, debits=self._debits)

    def placed(self) -> dict[PlacementWorkload, tuple[HostKey, ...]]:
        """Return the clusters of all placements as the hub shows them."""
        snapshot = self.fleet.snapshot()
        keys = {name: host_key(snapshot.cluster(row)) for name, row in snapshot.hosts.row_of.items()}
        return {
            record.workload: tuple(keys.get(name, HostKey(name, "")) for name in sorted(self.shown(owner)))
            for owner, record in self.records.items()
        }

    # Decisions

    def look(self, owner: Owner, *, now: datetime, work: int | None = None) -> ReconcilePlan | None:
        """Decide a placement. Return what to write in a ``session``, or None if there is nothing to decide.

        ``work`` limits the work of CEL expressions (see ``plugins.work_budget``): raises Paused when it is not enough.
        The result so far is kept, and the next call continues.
        """
        record = self.records.get(owner)
        if record is None or record.workload.idle:
            return None
        workload = record.workload
        workload.pace.allow(work, overdraws=False)
        try:
            return self._decide(owner, record, now=now)
        except FaultError:
            # The details of an incremental cycle are those of a full one, in which a plugin failed.
            self._memory.restart(workload, self.profile)
            return self._decide(owner, record, now=now)

    def _decide(self, owner: Owner, record: PlacementRecord, *, now: datetime) -> ReconcilePlan:
        placement, workload = record.placement, record.workload
        began, followed = time.perf_counter(), self._memory.followed
        outcome = self._memory.run(self.fleet.snapshot(), workload, self.profile, now=to_micros(now))
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
            own=self._decisions.own(owner),
            refresh=due is None or record.repairing,
            last=last,
            now=now,
            until=min(outcome.until, NEVER_CHANGES if due is None else due),
        )
        if self._commits and plan.pages is not None:
            plan = replace(plan, selection=selection_of(outcome, workload, pages=plan.pages))
        return replace(plan, faults=faults) if (faults := record.report_faults(outcome.faults)) else plan

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

        def hasten(owner: Owner, until: Micros) -> None:
            self._queue.hasten(owner, after=delay_until(until, now))

        return SettledCheck(self.records, now=now, follow=follow, hasten=hasten)

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
        return True

    def inspect(self, workload: PlacementWorkload, *, now: datetime, work: int | None = None) -> Outcome:
        """Run a cycle for any placement, without changing anything. Raises Paused like ``look``."""
        workload.pace.allow(work)
        return cycle.run(self.fleet.snapshot(), workload, self.profile, now=to_micros(now))

    def find(self, namespace: str, name: str) -> Placement | None:
        record = self.records.get((namespace, name))
        return None if record is None else record.placement

    def own(self, owner: Owner) -> Mapping[str, PlacementDecision]:
        """Return the decisions of a placement by name, as the hub has them. Read-only."""
        return self._decisions.own(owner)

    def shown(self, owner: Owner) -> set[str]:
        """Return the clusters of a placement as the hub shows them."""
        return {each.clusterName for page in self.own(owner).values() for each in page.status.decisions}

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
        self._decisions.wrote(decision)

    def removed(self, decision: PlacementDecision) -> None:
        """The hub has deleted it on our request."""
        self._answer(placement_of(decision), decision.metadata.uid)
        self._decisions.removed(decision)

    def wrote_placement(self, placement: Placement) -> None:
        owner, version = (
            (placement.metadata.namespace, placement.metadata.name),
            placement.metadata.resourceVersion,
        )
        self._answer(owner, version)
        record = self.records.get(owner)
        if record is not None and is_newer(placement, record.placement):
            if _asks_otherwise(record.placement, placement):
                return  # the watch will deliver it, and requeue the placement
            if self._unobserved_placements.answered(owner, version):
                record.placement = placement

    def _answer(self, owner: Owner, sign: str) -> None:
        record = self.records.get(owner)
        if record is not None:
            record.answer(sign)


def _guarded(handler: Callable[[Batch[Any]], None]) -> Callable[[Batch[Any]], None]:
    """Process a batch object by object if it fails, so that one unexpected object does not affect the others."""

    def handle(batch: Batch[Any]) -> None:
        try:
            handler(batch)
        except Exception:
            for change in batch.changes:  # changes that were processed already have no effect the second time
                try:
                    handler(replace(batch, changes=(change,)))
                except Exception:
                    meta = _new(change).metadata
                    log.exception(NOT_DIGESTED, type(_new(change)).__name__, meta.namespace, meta.name)

    return handle


def _new(change: Any) -> Any:
    return change.new if isinstance(change, Updated) else change.object


def _asks_otherwise(old: Placement, new: Placement) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or old.spec != new.spec
        or before.annotations != after.annotations
        or (before.deletionTimestamp is None) != (after.deletionTimestamp is None)
    )
