"""Objects in memory, and the one definition of what a question about a placement asks.

``ask`` answers what the controller would decide next, with the objects as they are:

- The placement has its own recorded decision, if there is one: Steady counts it, its debits and Balance do not.
- All other placements keep their recorded decisions, also those that would be decided differently now.
- A placement without a recorded decision is decided first if it precedes the asked one by namespace and name: that is
  the order in which placements of files are decided. Later ones have no decision yet.

So the answer depends on the objects alone, not on which command asks, nor on what it asked before. What is decided
first is taken back before another question, and never shown as recorded.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from msgspec import structs

from fairway.api.decision import PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Profile
from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters import objects as fleet_objects
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.instant import Micros, from_micros
from fairway.hosts.journal import NOTHING, Change
from fairway.workloads.placement import default_profile
from fairway.workloads.placement.debits import debits_of, rebuild_debits
from fairway.workloads.placement.reconcile_plan import ReconcilePlan, decision_of, make_plan, owner_of
from fairway.workloads.placement.steps import Create, Delete, Fill, Relabel, Step, labelled, owners_of
from fairway.workloads.placement.verdict import Verdict, conclude
from fairway.workloads.placement.workload import PlacementWorkload

Key = tuple[str, str]
"""(namespace, name)"""


class Run(Protocol):
    """``cycle.run``, or a memory's."""

    def __call__(
        self, snapshot: ClusterSnapshot, workload: PlacementWorkload, profile: Profile, /, *, now: Micros
    ) -> Outcome: ...


def _quietly(keys: list[Key]) -> Iterable[Key]:
    return keys


@dataclass(frozen=True, slots=True)
class _Assumed:
    """What there was before a placement without a recorded decision was decided for a question."""

    placement: Placement
    pages: Mapping[str, PlacementDecision | None]
    """By name; None for those that did not exist."""


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
        self._undecided: list[Key] | None = None
        """Placements without a recorded decision, in order; None before the first question."""
        self._assumed: list[_Assumed] = []
        """The first ones of these, which are decided for the current question."""
        self._asked_at: Micros | None = None
        self._answer: tuple[Key, Verdict] | None = None
        """The last one."""
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

    def put(self, obj: object) -> Change:
        """Create or replace an object, and return what changed of the fleet; kinds that placements do not read are
        ignored."""
        match obj:
            case PlacementDecision():
                meta = obj.metadata
                owner = (meta.namespace, labelled(obj))
                debits = self.workload(owner).trust.debits if owner in self.placements else {}
                with self.fleet.selecting(owner, debits if self._debited else {}):
                    change = self.fleet.upsert_decision(obj)
                self._decisions.setdefault(meta.namespace, {})[meta.name] = obj
                return change
            case Placement():
                key = (obj.metadata.namespace, obj.metadata.name)
                self.placements[key] = obj
                # Another workload, because plugins keep what they derive from a spec in it.
                self._workloads.pop(key, None)
                return NOTHING
            case _:
                return fleet_objects.upsert(self.fleet, obj)

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

    def clusters(self, key: Key) -> tuple[str, ...] | None:
        """Return the clusters of a placement's recorded decision, in order; None if it has none."""
        return clusters_of(page for page in self.decisions(key[0]).values() if labelled(page) == key[1])

    def ask(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement without writing, as this module defines it."""
        self.prepare(key, now=now)
        verdict = self.decide(key, now=now)
        self._answer = (key, verdict)
        return verdict

    def prepare(
        self, key: Key, *, now: Micros, progress: Callable[[list[Key]], Iterable[Key]] = _quietly
    ) -> None:
        """Decide what is decided before a placement, so that ``decide`` answers, with whatever edits are tried."""
        if now != self._asked_at:
            self.withdraw()
            self._asked_at = now
        if self._undecided is None:
            self._undecided = sorted(
                owner
                for owner in self.placements
                if not self.fleet.has_decision(owner) and not self.workload(owner).idle
            )
        wanted = bisect_left(self._undecided, key)
        self._take_back(wanted)
        for earlier in progress(self._undecided[len(self._assumed) : wanted]):
            # Asked just now, if all placements are asked in order.
            known, verdict = self._answer or (None, None)
            if known != earlier or verdict is None:
                verdict = self.decide(earlier, now=now)
            plan, named = self.plan(earlier, verdict, now=now), self.decisions(earlier[0])
            pages = {name: named.get(name) for name in map(_page_of, plan.steps)}
            self._assumed.append(_Assumed(self.placements[earlier], pages))
            self.write(plan, plan.steps)
        self._answer = None

    def withdraw(self) -> None:
        """Take back what was decided for questions. Required before objects change for good."""
        self._take_back(0)
        self._undecided = self._answer = None

    def _take_back(self, kept: int) -> None:
        while len(self._assumed) > kept:
            before = self._assumed.pop()
            namespace, name = before.placement.metadata.namespace, before.placement.metadata.name
            self.placements[namespace, name] = before.placement
            for page, decision in before.pages.items():
                self._set_page(namespace, page, decision)

    def decide(self, key: Key, *, now: Micros) -> Verdict:
        """Decide a placement with the world as it is, without writing."""
        return conclude(self.outcome(key, now=now), self.workload(key))

    def outcome(self, key: Key, *, now: Micros, run: Run = cycle.run) -> Outcome:
        """Return the outcome of a placement's cycle, which ``run`` runs."""
        self._rebuild_debits(now)
        return run(self.fleet.snapshot(), self.workload(key), self.profile, now=now)

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

    def plan(self, key: Key, verdict: Verdict, *, now: Micros, refresh: bool = False) -> ReconcilePlan:
        """Return the writes that bring this world up to date with a verdict; with ``refresh`` also those of scores."""
        named = self.decisions(key[0])
        return make_plan(
            verdict,
            self.placements[key],
            named=named,
            own={name: decision for name, decision in named.items() if labelled(decision) == key[1]},
            refresh=refresh,
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

    def written(
        self, key: Key, verdict: Verdict, *, now: Micros
    ) -> tuple[Placement, list[PlacementDecision]]:
        """Return a placement and its PlacementDecisions, in order, as they would be with a verdict written."""
        placement, named = self.placements[key], dict(self.decisions(key[0]))
        if not self.workload(key).idle:
            plan = self.plan(key, verdict, now=now, refresh=True)
            for step in plan.steps:
                page, decision = _page_of(step), _carried_out(step, named, placement)
                if decision is None:
                    del named[page]
                else:
                    named[page] = decision
            if plan.status is not None:
                placement = structs.replace(placement, status=plan.status)
        return placement, _ordered(page for page in named.values() if labelled(page) == key[1])

    def write(self, plan: ReconcilePlan, steps: Iterable[Step]) -> None:
        """Carry out these steps of a plan, and write its status."""
        placement = plan.placement
        namespace, name = placement.metadata.namespace, placement.metadata.name
        for step in steps:
            decision = _carried_out(step, self.decisions(namespace), placement)
            self._set_page(namespace, _page_of(step), decision)
        if plan.status is not None:
            # The workload stays valid: it depends on metadata and spec only.
            self.placements[namespace, name] = structs.replace(placement, status=plan.status)

    def _set_page(self, namespace: str, page: str, decision: PlacementDecision | None) -> None:
        """Put a PlacementDecision; delete it for None."""
        if decision is not None:
            self.put(decision)
        elif self._decisions.get(namespace, {}).pop(page, None) is not None:
            self.fleet.delete_decision(namespace, page)


def clusters_of(pages: Iterable[PlacementDecision]) -> tuple[str, ...] | None:
    """Return the clusters of a placement's PlacementDecisions, in order; None if it has none."""
    ordered = _ordered(pages)
    if not ordered:
        return None
    return tuple(dict.fromkeys(made.clusterName for page in ordered for made in page.status.decisions))


def _ordered(pages: Iterable[PlacementDecision]) -> list[PlacementDecision]:
    return sorted(pages, key=lambda page: (len(page.metadata.name), page.metadata.name))


def _page_of(step: Step) -> str:
    """Return the name of the PlacementDecision that a step writes."""
    return step.page.name if isinstance(step, Create | Relabel) else step.page


def _carried_out(
    step: Step, named: Mapping[str, PlacementDecision], placement: Placement
) -> PlacementDecision | None:
    """Return what a step makes of its PlacementDecision; None if it deletes it."""
    match step:
        case Create():
            return decision_of(step.page, placement)
        case Fill():
            return structs.replace(named[step.page], status=PlacementDecisionStatus(decisions=step.decisions))
        case Relabel():
            old = named[step.page.name]
            owners = owners_of(old, owner_of(placement))
            meta = structs.replace(old.metadata, labels=dict(step.page.labels), ownerReferences=owners)
            return structs.replace(old, metadata=meta)
        case Delete():
            return None
