"""Objects in memory: placements are decided one after the other, each with the decisions of the previous ones."""

from collections.abc import Iterable
from typing import Self

from msgspec import structs

from fairway.api.decision import PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.engine.profile import Profile
from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters import objects as fleet_objects
from fairway.hosts.instant import Micros, from_micros
from fairway.workloads.placement import default_profile
from fairway.workloads.placement.debits import debits_of, rebuild_debits
from fairway.workloads.placement.reconcile_plan import ReconcilePlan, decision_of, make_plan, owner_of
from fairway.workloads.placement.steps import Create, Delete, Fill, Relabel, Step, labelled, owners_of
from fairway.workloads.placement.verdict import Verdict, conclude
from fairway.workloads.placement.workload import PlacementWorkload

Key = tuple[str, str]
"""(namespace, name)"""


class World:
    """A fleet with its placements and decisions. Objects have no versions and are not validated."""

    def __init__(self, objects: Iterable[object] = (), *, profile: Profile | None = None) -> None:
        self.fleet = Fleet()
        self.profile = profile or default_profile()
        self.placements: dict[Key, Placement] = {}
        self._decisions: dict[str, dict[str, PlacementDecision]] = {}
        """By namespace, then name."""
        self._workloads: dict[Key, PlacementWorkload] = {}
        self._debited = False
        """Whether debits were rebuilt from the initial decisions; later ones are debited when they are put."""
        given = tuple(objects)
        fleet_objects.load(self.fleet, (obj for obj in given if not isinstance(obj, PlacementDecision)))
        for obj in given:
            if isinstance(obj, Placement | PlacementDecision):
                self.put(obj)

    @classmethod
    def of_fleet(cls, fleet: Fleet, placement: Placement, *, profile: Profile) -> Self:
        """Return a world of a fleet that has all decisions and debits, with one placement."""
        world = cls(profile=profile)
        world.fleet, world._debited = fleet, True
        world.put(placement)
        return world

    def put(self, obj: object) -> None:
        """Create or replace an object; kinds that placements do not read are ignored."""
        match obj:
            case PlacementDecision():
                meta = obj.metadata
                owner = (meta.namespace, labelled(obj))
                debits = self.workload(owner).trust.debits if owner in self.placements else {}
                with self.fleet.selecting(owner, debits if self._debited else {}):
                    self.fleet.upsert_decision(obj)
                self._decisions.setdefault(meta.namespace, {})[meta.name] = obj
            case Placement():
                key = (obj.metadata.namespace, obj.metadata.name)
                self.placements[key] = obj
                # Another workload, because plugins keep what they derive from a spec in it.
                self._workloads.pop(key, None)
            case _:
                fleet_objects.upsert(self.fleet, obj)

    def workload(self, key: Key) -> PlacementWorkload:
        """Raise KeyError if the placement does not exist."""
        workload = self._workloads.get(key)
        if workload is None:
            workload = self._workloads[key] = PlacementWorkload(
                self.placements[key], debits=debits_of(self.profile)
            )
        return workload

    def decisions(self, namespace: str) -> dict[str, PlacementDecision]:
        """The caller must not modify it."""
        return self._decisions.get(namespace, {})

    def decide(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement without writing."""
        workload = self.workload(key)
        self._rebuild_debits(now)
        outcome = cycle.run(self.fleet.snapshot(), workload, self.profile, now=now)
        return conclude(outcome, workload)

    def _rebuild_debits(self, now: Micros) -> None:
        # At the first decision, because the age of a debit depends on the time of the question.
        if self._debited:
            return
        self._debited = True
        for owner in self.placements:
            debits = self.workload(owner).trust.debits
            if debits:
                pages = [page for page in self.decisions(owner[0]).values() if labelled(page) == owner[1]]
                rebuild_debits(self.fleet, owner, debits, pages, now=now)

    def plan(self, key: Key, verdict: Verdict, *, now: Micros) -> ReconcilePlan:
        """Return the writes that bring this world up to date with a verdict."""
        named = self.decisions(key[0])
        return make_plan(
            verdict,
            self.placements[key],
            named=named,
            own={name: decision for name, decision in named.items() if labelled(decision) == key[1]},
            refresh=False,
            last=self.placements[key].status.lastScoreUpdateTime,
            now=from_micros(now),
            until=None,
        )

    def place(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement and write the decision, unless its scheduling is disabled."""
        verdict = self.decide(key, now=now)
        if not self.workload(key).idle:
            plan = self.plan(key, verdict, now=now)
            self.write(plan, plan.steps)
        return verdict

    def write(self, plan: ReconcilePlan, steps: Iterable[Step]) -> None:
        """Carry out these steps of a plan, and write its status."""
        placement = plan.placement
        namespace, name = placement.metadata.namespace, placement.metadata.name
        for step in steps:
            existing = self.decisions(namespace)
            match step:
                case Create():
                    self.put(decision_of(step.page, placement))
                case Fill():
                    status = PlacementDecisionStatus(decisions=step.decisions)
                    self.put(structs.replace(existing[step.page], status=status))
                case Relabel():
                    old = existing[step.page.name]
                    meta = structs.replace(
                        old.metadata,
                        labels=dict(step.page.labels),
                        ownerReferences=owners_of(old, owner_of(placement)),
                    )
                    self.put(structs.replace(old, metadata=meta))
                case Delete():
                    del self._decisions[namespace][step.page]
                    self.fleet.delete_decision(namespace, step.page)
        if plan.status is not None:
            # The workload stays valid: it depends on metadata and spec only.
            self.placements[namespace, name] = structs.replace(placement, status=plan.status)
