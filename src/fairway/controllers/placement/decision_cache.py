"""The PlacementDecisions of the hub, from its watch and from its responses to our own writes.

A response usually arrives before the watch event. So a decision here only ever gets newer, by its resource version, and
a decision that we deleted stays deleted.
"""

from collections.abc import Mapping
from typing import TypeVar

from fairway.api.decision import PlacementDecision
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.unobserved_writes import Key, UnobservedWrites, is_newer
from fairway.placement.steps import labelled

K = TypeVar("K")


def placement_of(decision: PlacementDecision) -> Owner:
    """Return the placement that the decision's label names."""
    return (decision.metadata.namespace, labelled(decision))


class DecisionCache:
    def __init__(self) -> None:
        self._named: dict[str, dict[str, PlacementDecision]] = {}
        """By namespace and name."""
        self._own: dict[Owner, dict[str, PlacementDecision]] = {}
        """The same, by the placement in their label."""
        self._removed: dict[Key, str] = {}
        """Uids of decisions that we deleted and whose deletion the watch has not delivered yet."""
        self._observed: Mapping[Key, PlacementDecision] = {}
        self._unobserved = UnobservedWrites()

    def follow(self, observed: Mapping[Key, PlacementDecision]) -> None:
        """``observed`` is the informer's store, which may be behind the hub's responses to us."""
        self._observed = observed

    def get(self, namespace: str, name: str) -> PlacementDecision | None:
        return self._named.get(namespace, {}).get(name)

    def named(self, namespace: str) -> Mapping[str, PlacementDecision]:
        """Return the decisions of a namespace. Read-only."""
        return self._named.get(namespace, {})

    def own(self, owner: Owner) -> Mapping[str, PlacementDecision]:
        """Return the decisions of a placement, by name. Read-only."""
        return self._own.get(owner, {})

    # From the watch

    def observed(self, key: Key) -> PlacementDecision | None:
        return self._observed.get(key)

    def see(self, new: PlacementDecision, *, again: bool) -> bool:
        """Store a decision; return whether it is newer. ``again``: even if it is older than the stored one."""
        meta = new.metadata
        if self._removed.get((meta.namespace, meta.name)) == meta.uid:
            return False
        old = self.get(meta.namespace, meta.name)
        if old is not None and not again and not is_newer(new, old):
            return False
        self._put(new)
        return True

    def see_removal(self, gone: PlacementDecision) -> PlacementDecision | None:
        """Remove a decision; return the stored one if it existed."""
        meta = gone.metadata
        self._removed.pop((meta.namespace, meta.name), None)
        known = self.get(meta.namespace, meta.name)
        if known is None or known.metadata.uid != meta.uid:
            return None
        self._drop(known)
        return known

    def reach(self, version: str) -> list[Key]:
        """The watch has reached this version. Return the keys for which its state, not our responses, counts from now
        on."""
        return self._unobserved.reach(version)

    def restart(self) -> list[Key]:
        """The hub's history went back. Return the keys that only our responses had."""
        removed, self._removed = self._removed, {}
        return [*self._unobserved.restart(), *removed]

    # From responses

    def wrote(self, decision: PlacementDecision) -> None:
        meta = decision.metadata
        known = self.get(meta.namespace, meta.name)
        if known is not None and not is_newer(decision, known):
            return
        if self._unobserved.answered((meta.namespace, meta.name), meta.resourceVersion):
            self._put(decision)

    def removed(self, decision: PlacementDecision) -> None:
        """The hub has deleted it on our request."""
        meta = decision.metadata
        known = self.get(meta.namespace, meta.name)
        if known is not None and known.metadata.uid == meta.uid:
            self._drop(known)
            self._unobserved.forget((meta.namespace, meta.name))
            self._removed[(meta.namespace, meta.name)] = meta.uid

    def _put(self, decision: PlacementDecision) -> None:
        meta = decision.metadata
        self._drop(self.get(meta.namespace, meta.name))
        self._named.setdefault(meta.namespace, {})[meta.name] = decision
        self._own.setdefault(placement_of(decision), {})[meta.name] = decision

    def _drop(self, decision: PlacementDecision | None) -> None:
        if decision is not None:
            meta = decision.metadata
            _discard(self._named, meta.namespace, meta.name)
            _discard(self._own, placement_of(decision), meta.name)


def _discard(groups: dict[K, dict[str, PlacementDecision]], key: K, name: str) -> None:
    del groups[key][name]
    if not groups[key]:
        del groups[key]
