"""Objects in memory: placements are decided one after the other, each with the decisions of the previous ones."""

from collections.abc import Iterable

from msgspec import structs

from fairway.api.decision import PlacementDecision, PlacementDecisionStatus
from fairway.api.meta import ObjectMeta, OwnerReference, set_condition
from fairway.api.placement import Placement
from fairway.fleet import Fleet
from fairway.fleet import objects as fleet_objects
from fairway.fleet.instant import Micros, from_micros
from fairway.placement import verdict
from fairway.placement.pages import Page
from fairway.placement.verdict import Verdict
from fairway.placement.workload import PlacementWorkload

Key = tuple[str, str]
"""(namespace, name)"""


class World:
    """A fleet with its placements and decisions. Objects have no versions and are not validated."""

    def __init__(self, objects: Iterable[object] = ()) -> None:
        self.fleet = Fleet()
        self.placements: dict[Key, Placement] = {}
        self._decisions: dict[str, dict[str, PlacementDecision]] = {}
        """By namespace, then name."""
        self._workloads: dict[Key, PlacementWorkload] = {}
        given = tuple(objects)
        fleet_objects.load(self.fleet, (each for each in given if not isinstance(each, PlacementDecision)))
        for each in given:
            if isinstance(each, Placement | PlacementDecision):
                self.put(each)

    def put(self, thing: object) -> None:
        """Create or replace an object; kinds that placements do not read are ignored."""
        fleet_objects.upsert(self.fleet, thing)
        match thing:
            case PlacementDecision():
                meta = thing.metadata
                self._decisions.setdefault(meta.namespace, {})[meta.name] = thing
            case Placement():
                key = (thing.metadata.namespace, thing.metadata.name)
                self.placements[key] = thing
                self._workloads.pop(key, None)

    def workload(self, key: Key) -> PlacementWorkload:
        """Raise KeyError if the placement does not exist."""
        found = self._workloads.get(key)
        if found is None:
            found = self._workloads[key] = PlacementWorkload(self.placements[key])
        return found

    def decisions(self, namespace: str) -> dict[str, PlacementDecision]:
        """The caller must not modify it."""
        return self._decisions.get(namespace, {})

    def look(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement without writing."""
        workload = self.workload(key)
        return verdict.reach(
            self.fleet.snapshot(), workload, now=now, existing=self.decisions(workload.namespace)
        )

    def place(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement and write the decision, unless its scheduling is disabled."""
        found = self.look(key, now=now)
        workload = self.workload(key)
        if workload.idle or found.frozen:
            return found
        self.placements[key] = _with_status(self.placements[key], found, now=now)
        writes = found.writes
        for page in writes.create:
            self.put(_decision(workload.placement, page))
        mine = self.decisions(workload.namespace)
        for page in writes.rewrite:
            self.put(
                structs.replace(mine[page.name], status=PlacementDecisionStatus(decisions=page.decisions))
            )
        for page in writes.relabel:
            meta = structs.replace(mine[page.name].metadata, labels=dict(page.labels))
            self.put(structs.replace(mine[page.name], metadata=meta))
        for name in writes.delete:
            del self._decisions[workload.namespace][name]
            self.fleet.delete_decision(workload.namespace, name)
        return found


def _with_status(placement: Placement, found: Verdict, *, now: Micros) -> Placement:
    conditions = placement.status.conditions
    for condition in found.conditions:
        conditions = set_condition(conditions, condition, now=from_micros(now))
    status = structs.replace(
        placement.status,
        numberOfSelectedClusters=found.selected,
        decisionGroups=found.groups,
        conditions=conditions,
    )
    return structs.replace(placement, status=status)


def _decision(placement: Placement, page: Page) -> PlacementDecision:
    meta = placement.metadata
    owner = OwnerReference(
        apiVersion=placement.apiVersion,
        kind="Placement",
        name=meta.name,
        uid=meta.uid,
        controller=True,
        blockOwnerDeletion=True,
    )
    return PlacementDecision(
        metadata=ObjectMeta(
            name=page.name,
            namespace=meta.namespace,
            labels=dict(page.labels),
            ownerReferences=(owner,),
        ),
        status=PlacementDecisionStatus(decisions=page.decisions),
    )
