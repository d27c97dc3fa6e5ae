"""An index of the hub's PlacementDecisions: by name, and by the placement that their label names.

The informer's store is not enough: a namespace may have thousands of placements, and each needs only its own decisions.
"""

from collections.abc import Mapping
from typing import TypeVar

from fairway.api.decision import PlacementDecision
from fairway.controllers.placement.queue import Owner
from fairway.workloads.placement.steps import labelled

K = TypeVar("K")


def placement_of(decision: PlacementDecision) -> Owner:
    """Return the placement that the decision's label names."""
    return (decision.metadata.namespace, labelled(decision))


class DecisionIndex:
    def __init__(self) -> None:
        self._named: dict[str, dict[str, PlacementDecision]] = {}
        """By namespace and name."""
        self._own: dict[Owner, dict[str, PlacementDecision]] = {}
        """The same, by the placement in their label."""

    def get(self, namespace: str, name: str) -> PlacementDecision | None:
        return self._named.get(namespace, {}).get(name)

    def named(self, namespace: str) -> Mapping[str, PlacementDecision]:
        """Return the decisions of a namespace. Read-only."""
        return self._named.get(namespace, {})

    def decisions_of(self, owner: Owner) -> Mapping[str, PlacementDecision]:
        """Return the decisions of a placement, by name. Read-only."""
        return self._own.get(owner, {})

    def put(self, decision: PlacementDecision) -> PlacementDecision | None:
        """Return the decision that had the name."""
        meta, owner = decision.metadata, placement_of(decision)
        named = self._named.setdefault(meta.namespace, {})
        old = named.get(meta.name)
        if old is not None and (owned_by := placement_of(old)) != owner:
            _discard(self._own, owned_by, meta.name)
        named[meta.name] = self._own.setdefault(owner, {})[meta.name] = decision
        return old

    def drop(self, namespace: str, name: str) -> PlacementDecision | None:
        """Return the removed decision; None if it was not there."""
        decision = self.get(namespace, name)
        if decision is not None:
            _discard(self._named, namespace, name)
            _discard(self._own, placement_of(decision), name)
        return decision


def _discard(groups: dict[K, dict[str, PlacementDecision]], key: K, name: str) -> None:
    del groups[key][name]
    if not groups[key]:
        del groups[key]
