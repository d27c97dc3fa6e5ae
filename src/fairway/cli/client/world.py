"""A what-if world that follows a watched hub."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairway.api.kinds import KubeObject
from fairway.api.placement import PLACEMENT_LABEL
from fairway.cli.client.overlay import applied_to
from fairway.cli.files.loader import LoadedObjects
from fairway.engine.profile import Profile
from fairway.whatif.fleet.changes import Identity, identity
from fairway.whatif.world import Key, World
from fairway.workloads.placement.conditions import SATISFIED
from kubewire.api.meta import FALSE, find_condition
from kubewire.client import Added, Deleted, Updated
from kubewire.client.change import Change


@dataclass(frozen=True, slots=True)
class Recorded:
    """The decision of a placement as the hub has it."""

    clusters: tuple[str, ...]
    """In order."""
    scores: Mapping[str, int]
    """Points by cluster, at the time of the decision or of its last refresh."""
    at: datetime | None
    """That time."""


def recorded(world: World, key: Key) -> Recorded | None:
    """Return a placement's recorded decision; None if it has no PlacementDecision."""
    namespace, name = key
    pages = [
        decision
        for decision in world.decisions(namespace).values()
        if decision.metadata.labels.get(PLACEMENT_LABEL) == name
    ]
    if not pages:
        return None
    pages.sort(key=lambda page: (len(page.metadata.name), page.metadata.name))
    decisions = [decision for page in pages for decision in page.status.decisions]
    return Recorded(
        clusters=tuple(dict.fromkeys(decision.clusterName for decision in decisions)),
        scores={decision.clusterName: decision.score for decision in decisions if decision.score is not None},
        at=world.placements[key].status.lastScoreUpdateTime if key in world.placements else None,
    )


def reported(world: World, key: Key) -> str:
    """Return why the controller keeps an earlier decision, from the placement's status; empty if it does not."""
    condition = find_condition(world.placements[key].status.conditions, SATISFIED)
    return condition.message if condition is not None and condition.status == FALSE else ""


class LiveWorld:
    """Collects changes of a hub and keeps a world with files applied over its objects."""

    def __init__(self, files: LoadedObjects | None = None, *, profile: Profile | None = None) -> None:
        self._profile = profile
        self._written = {identity(file.object): file.object for file in files or ()}
        self._objects: dict[Identity, KubeObject] = {}
        self._changed: dict[Identity, None] = {}
        self._world: World | None = None

    def observe(self, change: Change[Any]) -> None:
        match change:
            case Added(thing) | Updated(_, thing):
                self._objects[identity(thing)] = thing
            case Deleted(thing):
                self._objects.pop(identity(thing), None)
                # A world has no delete; deletions are rare enough to rebuild it.
                self._world = None
        self._changed[identity(thing)] = None

    def world(self) -> World:
        """Return the current world. It changes with the hub: do not keep it."""
        if self._world is None:
            every = {**self._objects, **self._written}
            self._world = World((self._now(which) for which in every), profile=self._profile)
        elif self._changed:
            self._world.withdraw()
            for which in self._changed:
                self._world.put(self._now(which))
        self._changed.clear()
        return self._world

    def _now(self, which: Identity) -> KubeObject:
        existing = self._objects.get(which)
        written = self._written.get(which)
        if written is not None:
            return applied_to(existing, written)
        assert existing is not None
        return existing
