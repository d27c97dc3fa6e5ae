"""Which decisions of a whole fleet move with a change.

The plan does what the placement controller does when the change arrives: it decides the placements whose decisions
depend on what changed, and no others, one after the other, and each sees the new decisions of those before. So a plan
starts from the recorded decisions, and a decision that is out of date stays so unless the change concerns it; then the
plan marks the move as due without the change, too.

The controller decides in the order in which changes arrive. The plan has all of them at once, and decides in the order
of namespace and name. The order makes a difference only where placements read the decisions of others: with Balance and
with debits of scores.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fairway.api.decision import PlacementDecision
from fairway.api.kinds import KubeObject
from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.engine.dependencies import DependencyIndex, Event
from fairway.engine.fault import FaultError
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Profile
from fairway.engine.trace import HostTrace, Trace
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.instant import Micros
from fairway.whatif.advice import satisfied
from fairway.whatif.fleet.changes import Changed
from fairway.whatif.fleet.consequences import Consequence, Consumers
from fairway.whatif.world import Key, World, clusters_of
from fairway.workloads.placement.alike import AlikePlacements
from fairway.workloads.placement.dependencies import dependencies_of
from fairway.workloads.placement.steps import labelled
from fairway.workloads.placement.verdict import conclude
from fairway.workloads.placement.workload import PlacementWorkload

MOST_REASONS = 20
"""Clusters of one move, added or removed, with a reason: it is computed cluster by cluster. All are named."""


@dataclass(frozen=True, slots=True)
class Move:
    """A decision that names other clusters afterwards."""

    placement: Key
    before: tuple[str, ...] | None
    """None for a placement without a decision."""
    after: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    reasons: tuple[HostTrace, ...]
    """Of the first added and removed clusters, afterwards."""
    wanted: int | None
    satisfied: bool
    status: str
    """The reason of the condition PlacementSatisfied."""
    due: bool
    """Whether the placement moves in the same way without the change, once it is decided again."""
    consequences: tuple[Consequence, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A placement that the change concerns, and that cannot be decided."""

    placement: Key
    message: str


@dataclass(frozen=True, slots=True)
class FleetPlan:
    changes: tuple[Changed, ...]
    clusters: int
    """Number of clusters in the fleet, before the change."""
    placements: int
    concerned: int
    """Number of placements that were decided again."""
    moves: tuple[Move, ...]
    """By namespace and name."""
    skipped: tuple[Skipped, ...]
    stranded: tuple[Consequence, ...]
    """What stays on clusters that the change takes away, because no placement moves it."""

    @property
    def gains(self) -> dict[str, int]:
        """By how many decisions each cluster gains or, if negative, loses; the largest changes first."""
        change: Counter[str] = Counter()
        for move in self.moves:
            change.update(move.added)
            change.subtract(move.removed)
        return {
            name: count
            for name, count in sorted(change.items(), key=lambda item: (-abs(item[1]), item[0]))
            if count
        }

    @property
    def clusters_touched(self) -> set[str]:
        return {name for move in self.moves for name in (*move.added, *move.removed)}

    @property
    def namespaces_touched(self) -> set[str]:
        return {move.placement[0] for move in self.moves}


def make(
    objects: Sequence[KubeObject], changes: Sequence[Changed], *, profile: Profile, now: Micros
) -> FleetPlan:
    """Decide a changed fleet. The objects are not modified."""
    return _Planning(objects, profile=profile, now=now).plan(changes)


class _Planning:
    def __init__(self, objects: Sequence[KubeObject], *, profile: Profile, now: Micros) -> None:
        self._world, self._now = World(objects, profile=profile), now
        self._memory = Memory(alike=AlikePlacements(profile))
        self._consumers = Consumers(objects)
        self._index: DependencyIndex[Key] = DependencyIndex()
        self._recorded = _recorded(objects)
        self._expected: dict[Key, frozenset[str]] = {}
        """What each placement that is out of date would select without the change."""

    def plan(self, changes: Sequence[Changed]) -> FleetPlan:
        world = self._world
        keys = sorted(world.placements)
        clusters = len(world.fleet.snapshot().hosts)
        for key in keys:
            self._settle(key)
        concerned = self._apply(changes)
        moves: list[Move] = []
        skipped: list[Skipped] = []
        for key in sorted(concerned):
            result = self._decide(key)
            if isinstance(result, Move):
                moves.append(result)
            elif result is not None:
                skipped.append(result)
        return FleetPlan(
            changes=tuple(changes),
            clusters=clusters,
            placements=len(keys),
            concerned=len(concerned),
            moves=tuple(moves),
            skipped=tuple(skipped),
            stranded=tuple(self._consumers.stranded(changes)),
        )

    def _settle(self, key: Key) -> None:
        """Find what a recorded decision depends on; decide a placement that has none."""
        world, workload = self._world, self._world.workload(key)
        if workload.idle:
            return
        outcome = self._outcome(key)
        recorded = self._recorded.get(key)
        if recorded is None:
            plan = world.plan(key, conclude(outcome, workload), now=self._now)
            world.write(plan, plan.steps)
            self._recorded[key] = world.clusters(key)
        elif not outcome.status.aborts and outcome.selected_names != frozenset(recorded):
            self._expected[key] = outcome.selected_names
        feasible = self._memory.feasible(workload, world.profile)
        self._index.put(key, dependencies_of(outcome, workload.placement, feasible=feasible))

    def _apply(self, changes: Iterable[Changed]) -> set[Key]:
        """Change the objects. Return the placements that this concerns."""
        world, concerned = self._world, set[Key]()
        for changed in changes:
            after = changed.after
            if isinstance(after, Placement):
                before = changed.before
                if (
                    not isinstance(before, Placement)
                    or before.spec != after.spec
                    or before.metadata.annotations != after.metadata.annotations
                ):
                    key = (after.metadata.namespace, after.metadata.name)
                    concerned.add(key)
                    self._memory.forget(*key)
            change = world.put(after)
            event = Event(
                label=changed.description,
                hosts=frozenset(change.rows),
                columns=change.columns,
                added=change.added,
            )
            for key in self._index.concerned(event):
                concerned.add(key)
                # One change is enough to decide it again.
                self._index.discard(key)
        return concerned

    def _decide(self, key: Key) -> Move | Skipped | None:
        world, workload = self._world, self._world.workload(key)
        if workload.idle:
            return None
        before, outcome = self._recorded.get(key), self._outcome(key)
        # Most decisions stay, and what the controller would write of them, scores with their reasons, is most of the
        # work of a decision with thousands of clusters.
        if before is not None and not outcome.status.aborts and outcome.selected_names == frozenset(before):
            return None
        verdict = conclude(outcome, workload)
        if verdict.frozen:
            return Skipped(key, verdict.status.message)
        plan = world.plan(key, verdict, now=self._now)
        if not plan.changes_decisions:
            return None
        world.write(plan, plan.steps)
        after = world.clusters(key) or ()
        known, selected = frozenset(before or ()), frozenset(after)
        if known == selected and before is not None:
            return None
        added = tuple(name for name in after if name not in known)
        removed = tuple(name for name in before or () if name not in selected)
        good, status = satisfied(verdict)
        return Move(
            placement=key,
            before=before,
            after=after,
            added=added,
            removed=removed,
            reasons=tuple(_reasons(outcome, (*added[:MOST_REASONS], *removed[:MOST_REASONS]))),
            wanted=workload.wanted,
            satisfied=good,
            status=status,
            due=self._expected.get(key) == selected,
            consequences=tuple(self._consumers.of(key, added=added, removed=removed)),
        )

    def _outcome(self, key: Key) -> Outcome:
        return self._world.outcome(key, now=self._now, run=self._cycle)

    def _cycle(
        self, snapshot: ClusterSnapshot, workload: PlacementWorkload, profile: Profile, /, *, now: Micros
    ) -> Outcome:
        try:
            return self._memory.run(snapshot, workload, profile, now=now)
        except FaultError:
            return cycle.run(snapshot, workload, profile, now=now)


def _recorded(objects: Iterable[KubeObject]) -> dict[Key, tuple[str, ...] | None]:
    """Return the recorded clusters of all placements, in order."""
    pages: dict[Key, list[PlacementDecision]] = {}
    for thing in objects:
        if isinstance(thing, PlacementDecision):
            pages.setdefault((thing.metadata.namespace, labelled(thing)), []).append(thing)
    return {owner: clusters_of(own) for owner, own in pages.items()}


def _reasons(outcome: Outcome, names: Iterable[str]) -> Iterator[HostTrace]:
    trace, rows = Trace(outcome), outcome.snapshot.hosts.row_of
    for name in names:
        yield (
            trace.host(name) if name in rows else HostTrace(host=name, reason="the fleet has no such cluster")
        )
