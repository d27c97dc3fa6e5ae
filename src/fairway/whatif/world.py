"""Objects in memory: placements are decided one after the other, each with the decisions of the previous ones."""

from collections.abc import Iterable

from msgspec import structs

from fairway.api.decision import PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import Placement
from fairway.clusters import Fleet
from fairway.clusters import objects as fleet_objects
from fairway.engine.profile import Profile
from fairway.fleet.instant import Micros, from_micros
from fairway.placement import default_profile, verdict
from fairway.placement.debits import debits_of, rebuild_debits
from fairway.placement.reconcile_plan import ReconcilePlan, decision_of, make_plan, owner_of
from fairway.placement.steps import Create, Delete, Fill, Relabel, Step, labelled, owners_of
from fairway.placement.verdict import Verdict
from fairway.plugins.placement_workload import PlacementWorkload

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
        fleet_objects.load(self.fleet, (each for each in given if not isinstance(each, PlacementDecision)))
        for each in given:
            if isinstance(each, Placement | PlacementDecision):
                self.put(each)

    def put(self, thing: object) -> None:
        """Create or replace an object; kinds that placements do not read are ignored."""
        match thing:
            case PlacementDecision():
                meta = thing.metadata
                owner = (meta.namespace, labelled(thing))
                debits = self.workload(owner).trust.debits if owner in self.placements else {}
                with self.fleet.selecting(owner, debits if self._debited else {}):
                    self.fleet.upsert_decision(thing)
                self._decisions.setdefault(meta.namespace, {})[meta.name] = thing
            case Placement():
                key = (thing.metadata.namespace, thing.metadata.name)
                self.placements[key] = thing
                self._workloads.pop(key, None)
            case _:
                fleet_objects.upsert(self.fleet, thing)

    def workload(self, key: Key) -> PlacementWorkload:
        """Raise KeyError if the placement does not exist."""
        found = self._workloads.get(key)
        if found is None:
            found = self._workloads[key] = PlacementWorkload(
                self.placements[key], debits=debits_of(self.profile)
            )
        return found

    def decisions(self, namespace: str) -> dict[str, PlacementDecision]:
        """The caller must not modify it."""
        return self._decisions.get(namespace, {})

    def look(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement without writing."""
        workload = self.workload(key)
        self._rebuild_debits(now)
        return verdict.reach(self.fleet.snapshot(), workload, self.profile, now=now)

    def _rebuild_debits(self, now: Micros) -> None:
        if self._debited:
            return
        self._debited = True
        for owner in self.placements:
            debits = self.workload(owner).trust.debits
            if debits:
                pages = [each for each in self.decisions(owner[0]).values() if labelled(each) == owner[1]]
                rebuild_debits(self.fleet, owner, debits, pages, now=now)

    def plan(self, key: Key, found: Verdict, *, now: Micros) -> ReconcilePlan:
        """Return the writes that bring this world up to date with a verdict."""
        named = self.decisions(key[0])
        return make_plan(
            found,
            self.placements[key],
            named=named,
            own={name: each for name, each in named.items() if labelled(each) == key[1]},
            refresh=False,
            last=self.placements[key].status.lastScoreUpdateTime,
            now=from_micros(now),
            until=None,
        )

    def place(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement and write the decision, unless its scheduling is disabled."""
        found = self.look(key, now=now)
        if not self.workload(key).idle:
            plan = self.plan(key, found, now=now)
            self.write(plan, plan.steps)
        return found

    def write(self, plan: ReconcilePlan, steps: Iterable[Step]) -> None:
        """Carry out these steps of a plan, and write its status."""
        placement = plan.placement
        namespace, name = placement.metadata.namespace, placement.metadata.name
        for step in steps:
            there = self.decisions(namespace)
            match step:
                case Create():
                    self.put(decision_of(step.page, placement))
                case Fill():
                    status = PlacementDecisionStatus(decisions=step.decisions)
                    self.put(structs.replace(there[step.page], status=status))
                case Relabel():
                    old = there[step.page.name]
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
