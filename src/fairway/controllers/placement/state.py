"""All the placement controller knows: the fleet, placements and decisions, and what follows from a change of them.

No I/O: changes come in, names of placements to look at again go out, and a look gives a proposal. What is being
written counts as written at once, so that the next placement in a burst sees what the last one chose even though the
hub has not answered yet; if the write fails, it counts as what the hub really has.

What the hub answers to our own writes counts like what its watch tells, for placements too (see ``known``).
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from fairway.api.decision import PlacementDecision
from fairway.api.placement import SORT_BY_SCORE, Placement
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.placement.decision_cache import DecisionCache, placement_of
from fairway.controllers.placement.dependency_index import DependencyIndex, Owner, dependencies_of
from fairway.controllers.placement.inflight_writes import InflightWrites
from fairway.controllers.placement.reconcile_plan import ReconcilePlan, due_of, make_plan
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.unobserved_writes import UnobservedWrites, is_newer, is_same_version
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.points import NEVER_CHANGES
from fairway.fleet import Fleet, objects
from fairway.fleet.decisions import Holding
from fairway.fleet.instant import to_micros
from fairway.fleet.journal import NOTHING, Change
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
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
from fairway.plugins import verdict
from fairway.plugins.placement import PlacementWorkload
from fairway.plugins.work_budget import Paused

log: Final = logging.getLogger(__name__)

NOT_DIGESTED: Final = "cannot process object, keeping the last valid version  kind=%s object=%s/%s"

BULK_SCORES: Final = 1000
"""Scores of one list that are loaded at once."""


class PlacementState:
    """``wake`` is told whom to look at again, ``lost`` whom never again.

    Placements outside of ``shard`` are none of ours, their decisions are.
    """

    def __init__(
        self,
        *,
        wake: Callable[[Owner], None],
        meters: Meters,
        shard: Shard | None = None,
        lost: Callable[[Owner], None] = lambda _: None,
    ) -> None:
        self.fleet = Fleet()
        self.placements: dict[Owner, Placement] = {}
        self._wake_one, self._lost_one = wake, lost
        self._meters = meters
        self._shard = shard or Shard()
        self._memory = Memory()
        self._dependencies = DependencyIndex()
        self._workloads: dict[Owner, PlacementWorkload] = {}
        self._decisions = DecisionCache()
        self._inflight = InflightWrites()
        self._settled: dict[Owner, frozenset[str]] = {}
        """What was chosen when a placement was last found, or made, right."""
        self._externally_modified: set[Owner] = set()
        """Placements of which somebody else changed the status or a decision, since they were last looked at."""
        self._repairing: set[Owner] = set()
        """Those of them that were looked at, and those that are being written, until all of it is on the hub."""
        self._told_placements: Mapping[Owner, Placement] = {}
        """All that the watch has told of, which may be behind what the hub has answered to us."""
        self._unobserved_placements = UnobservedWrites()
        self._epochs: dict[str, tuple[int, str]] = {}
        """By kind, with the version of the list that an epoch began with."""

    def follow(self, informers: InformerFactory, *, calculators: bool) -> None:
        """``calculators``: whether the hub has ManagedClusterScores."""
        kinds = (
            MANAGED_CLUSTER_SETS,
            MANAGED_CLUSTER_SET_BINDINGS,
            MANAGED_CLUSTERS,
            ADD_ON_PLACEMENT_SCORES,
        )
        for resource in (*kinds, *((MANAGED_CLUSTER_SCORES,) if calculators else ())):
            informer: Informer[Any] = informers.of(cast("Resource[Any]", resource))
            informer.subscribe(_guarded(partial(self.objects_changed, resource.kind)))
        decisions, placements = informers.of(PLACEMENT_DECISIONS), informers.of(PLACEMENTS)
        self._decisions.follow(decisions.store)
        self._told_placements = placements.store
        decisions.subscribe(_guarded(self.seen_decisions))
        placements.subscribe(_guarded(self.seen_placements))

    # Changes

    def objects_changed(self, kind: str, batch: Batch[Any]) -> None:
        """Bring the fleet up to date with objects of one kind."""
        self._went_back(kind, batch)
        if batch.listed and self._is_initial(kind, batch):
            objects.load(self.fleet, (each.object for each in batch.changes if isinstance(each, Added)))
            self._wake_all()
            return
        for each in batch.changes:
            update = objects.delete if isinstance(each, Deleted) else objects.upsert
            self._tell(kind, update(self.fleet, _new(each)))

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
        """Whether the hub's history went back: then older is newer, and what only we know of never happened."""
        epoch, began = self._epochs.setdefault(kind, (batch.epoch, ""))
        if epoch == batch.epoch:
            return batch.resource_version == began  # the same list, told once more in parts
        self._epochs[kind] = (batch.epoch, batch.resource_version)
        for key in self._decisions.restart():
            self._believe_decision(key)
        for key in self._unobserved_placements.restart():
            self._believe_placement(key)
        return True

    def _believe_decision(self, key: Owner) -> None:
        """The watch, not what the hub answered to us."""
        ours, told = self._decisions.get(*key), self._decisions.told(key)
        if told is None:
            if ours is not None:
                self._see_removal(ours)
        elif not is_same_version(ours, told):
            self._see_decision(told, again=True)

    def _believe_placement(self, key: Owner) -> None:
        ours, told = self.placements.get(key), self._told_placements.get(key)
        if ours is not None and told is not None and not is_same_version(ours, told):
            self._see_placement(told, again=True)

    def _see_placement(self, new: Placement, *, again: bool) -> None:
        meta = new.metadata
        owner = (meta.namespace, meta.name)
        old = self.placements.get(owner)
        if old is not None and not again and not is_newer(new, old):
            return
        self.placements[owner] = new
        if old is None or _asks_otherwise(old, new):
            self._workloads[owner] = PlacementWorkload(new)
            self._memory.forget(*owner)
        elif old.status == new.status or self._inflight.heard(owner, meta.resourceVersion):
            return
        else:
            self._externally_modified.add(owner)
        self._settled.pop(owner, None)
        self._wake(owner)

    def _lose(self, gone: Placement) -> None:
        owner = (gone.metadata.namespace, gone.metadata.name)
        known = self.placements.get(owner)
        if known is None or known.metadata.uid != gone.metadata.uid:
            return
        del self.placements[owner], self._workloads[owner]
        self._lost_one(owner)
        self._settled.pop(owner, None)
        self._externally_modified.discard(owner)
        self._repairing.discard(owner)
        self._memory.forget(*owner)
        self._dependencies.forget(owner)

    def _see_decision(self, new: PlacementDecision, *, again: bool) -> None:
        """Somebody else's write, or the echo of our own."""
        meta = new.metadata
        old = self._decisions.get(meta.namespace, meta.name)
        if not self._decisions.see(new, again=again):
            return
        if not self._concerned(old, new, externally_modified=old is not None, sign=meta.resourceVersion):
            self._tell("PlacementDecision", self.fleet.upsert_decision(new))

    def _see_removal(self, gone: PlacementDecision) -> None:
        known = self._decisions.see_removal(gone)
        if known is None:
            return
        meta = gone.metadata
        if not self._concerned(known, externally_modified=True, sign=meta.uid):
            self._tell("PlacementDecision", self.fleet.delete_decision(meta.namespace, meta.name))

    def _concerned(self, *decisions: PlacementDecision | None, externally_modified: bool, sign: str) -> bool:
        """Wakes whose decisions they are. Whether one of those is being written, and the fleet has to wait."""
        owners = {placement_of(each) for each in decisions if each is not None}
        names = {each.metadata.name for each in decisions if each is not None}
        waits = False
        for owner in owners:
            if self._inflight.heard(owner, sign, pages=names):
                waits = True
            else:
                self._disturbed(owner, externally_modified=externally_modified)
        return waits

    def _disturbed(self, owner: Owner, *, externally_modified: bool) -> None:
        self._settled.pop(owner, None)
        if externally_modified:
            self._externally_modified.add(owner)
        self._wake(owner)

    def _tell(self, kind: str, change: Change) -> None:
        if change is NOTHING:
            return
        self._meters.cells(kind=kind, count=len(change.columns))
        surely, perhaps = self._dependencies.concerned(change)
        for owner in surely:
            self._wake(owner)
        considers, rows = self._memory.considers, change.rows
        for owner in perhaps:
            if considers(owner[0], owner[1], rows):
                self._wake(owner)

    def _wake(self, owner: Owner) -> None:
        if owner in self.placements:
            self._wake_one(owner)

    def _wake_all(self) -> None:
        for owner in self.placements:
            self._wake_one(owner)

    # Looks

    def look(self, owner: Owner, *, now: datetime, work: int | None = None) -> ReconcilePlan | None:
        """What to write now; None when there is nothing to look at. ``done`` or ``begin`` should follow.

        ``work`` limits what is done for CEL expressions (see ``plugins.work_budget``): raises Paused when that is not
        enough. What was done is kept, and the next look goes on from there.
        """
        placement = self.placements.get(owner)
        if placement is None or self._workloads[owner].idle:
            return None
        workload = self._workloads[owner]
        workload.pace.allow(work, overdraws=False)
        began, followed = time.perf_counter(), self._memory.followed
        outcome = self._memory.run(self.fleet.snapshot(), workload, workload.profile, now=to_micros(now))
        on = self._memory.followed != followed
        self._meters.cycle(seconds=time.perf_counter() - began, followed=on)
        if not on:
            self._dependencies.put(owner, dependencies_of(outcome, placement))
        due = due_of(placement, now=now)
        refresh = due is None
        until = min(outcome.until, NEVER_CHANGES if due is None else due)
        if on and not refresh and not outcome.status.aborts and self._as_before(owner, outcome, workload):
            return ReconcilePlan(placement=placement, pages=None, until=until)
        if owner in self._externally_modified:
            self._externally_modified.discard(owner)
            self._repairing.add(owner)
        return make_plan(
            verdict.conclude(outcome, workload, existing=None),
            placement,
            named=self._decisions.named(owner[0]),
            own=self._decisions.own(owner),
            refresh=refresh or owner in self._repairing,
            now=now,
            until=until,
        )

    def _as_before(self, owner: Owner, outcome: Outcome, workload: PlacementWorkload) -> bool:
        """Whether nothing can be different but scores: same clusters, and nothing else to divide them by."""
        settled = self._settled.get(owner)
        spec = workload.placement.spec
        groups = spec.decisionStrategy.groupStrategy
        # In order of score the best are a group of their own, and who is among them may change.
        ranked = spec.sortBy == SORT_BY_SCORE and groups.clustersPerDecisionGroup is not None
        return (
            bool(settled)
            and not groups.decisionGroups
            and not ranked
            and settled == frozenset(outcome.selected)
        )

    def work_of(self, owner: Owner) -> int:
        """What the last look did for CEL expressions."""
        workload = self._workloads.get(owner)
        return 0 if workload is None else workload.pace.used

    def advance(self, owner: Owner, *, now: datetime, work: int) -> bool:
        """Does a part of what a look needs, and returns whether that was the last part."""
        workload = self._workloads.get(owner)
        if workload is None or workload.idle:
            return True
        workload.pace.allow(work)
        try:
            cycle.run(self.fleet.snapshot(), workload, workload.profile, now=to_micros(now))
        except Paused:
            return False
        return True

    def inspect(self, workload: PlacementWorkload, *, now: datetime, work: int | None = None) -> Outcome:
        """A cycle for any placement, on the hub or not. Changes nothing. Raises Paused like ``look``."""
        workload.pace.allow(work)
        return cycle.run(self.fleet.snapshot(), workload, workload.profile, now=to_micros(now))

    def own(self, owner: Owner) -> Mapping[str, PlacementDecision]:
        """The decisions of a placement by name, as the hub has them. The caller must not write to it."""
        return self._decisions.own(owner)

    def decision(self, namespace: str, name: str) -> PlacementDecision | None:
        return self._decisions.get(namespace, name)

    # Writes

    def begin(self, owner: Owner, plan: ReconcilePlan) -> None:
        """Counts what is proposed as written. ``end`` must follow."""
        writing = self._inflight.begin(owner)
        if plan.pages is None:
            return
        # Until ``settle``, some pages may have the reasons of this cycle and others those of an earlier one.
        self._settled.pop(owner, None)
        self._repairing.add(owner)
        namespace, names = owner[0], writing.pages
        for page in plan.pages:
            names.add(page.name)
            self.fleet.hold(
                namespace=namespace, name=page.name, holding=Holding(owner=owner, clusters=page.clusters)
            )
        for name in self._decisions.own(owner):
            if name not in names:
                names.add(name)
                self.fleet.hold(namespace=namespace, name=name, holding=None)

    def wrote(self, decision: PlacementDecision) -> None:
        """The hub's answer to a write of ours."""
        self._inflight.answered(placement_of(decision), decision.metadata.resourceVersion)
        self._decisions.wrote(decision)

    def removed(self, decision: PlacementDecision) -> None:
        """The hub has deleted it for us."""
        self._inflight.answered(placement_of(decision), decision.metadata.uid)
        self._decisions.removed(decision)

    def wrote_placement(self, placement: Placement) -> None:
        owner = (placement.metadata.namespace, placement.metadata.name)
        self._inflight.answered(owner, placement.metadata.resourceVersion)
        known = self.placements.get(owner)
        if known is not None and is_newer(placement, known):
            if _asks_otherwise(known, placement):
                return  # the watch will tell, and then it is looked at
            if self._unobserved_placements.answered(owner, placement.metadata.resourceVersion):
                self.placements[owner] = placement

    def end(self, owner: Owner) -> None:
        """However the writes went: from now on the hub's word counts again."""
        namespace, writing = owner[0], self._inflight.end(owner)
        for name in writing.pages:
            actual = self.decision(namespace, name)
            if actual is None:
                self.fleet.delete_decision(namespace, name)
            else:
                self.fleet.upsert_decision(actual)
        if writing.externally_modified:
            self._disturbed(owner, externally_modified=True)

    def settle(self, owner: Owner, plan: ReconcilePlan) -> None:
        """The hub has all that was proposed."""
        if plan.pages is None:
            return
        self._repairing.discard(owner)
        if owner in self.placements and owner not in self._externally_modified:
            self._settled[owner] = plan.selected


def _guarded(handler: Callable[[Batch[Any]], None]) -> Callable[[Batch[Any]], None]:
    """One object that nobody foresaw must not cost all that was told of along with it."""

    def told(batch: Batch[Any]) -> None:
        try:
            handler(batch)
        except Exception:
            for change in batch.changes:  # what was dealt with already is no news the second time
                try:
                    handler(replace(batch, changes=(change,)))
                except Exception:
                    meta = _new(change).metadata
                    log.exception(NOT_DIGESTED, type(_new(change)).__name__, meta.namespace, meta.name)

    return told


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
