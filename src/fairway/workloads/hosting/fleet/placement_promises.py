"""Decisions of Placements that take room on hosting clusters, until the published load includes them.

A Placement takes part if its annotation ``fairway.dev/score-debits`` changes the score that has the load of hosting
clusters. Each of its decisions stands for one hosted cluster. ``clusters.promises`` has the rule by which it counts.

A decision takes room only if a HostingPolicy of the host names the namespace of the Placement in
``placementNamespaces``: otherwise a user who may create Placements in one namespace could take the room of all others.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL, Placement
from fairway.api.score import AddOnPlacementScore
from fairway.engine.workload import WorkloadKey
from fairway.hosts.clusters.debits import NO_RULES, DebitRules
from fairway.hosts.clusters.decisions import Owner
from fairway.hosts.clusters.promises import Promise, promise_of
from fairway.hosts.instant import Micros
from fairway.workloads.placement.plugins.trust import trust_of_placement

RESERVED_BY: Final = "{count} reserved by {placements}"
SHOWN: Final = 3


def describe_promises(promised: Sequence[WorkloadKey]) -> str:
    """Name the Placements; empty if there is none."""
    if not promised:
        return ""
    kind = "placement" if len(promised) == 1 else "placements"
    names = f"{kind} {', '.join(map(str, promised[:SHOWN]))}"
    if (more := len(promised) - SHOWN) > 0:
        names += f" and {more:,} more"
    return RESERVED_BY.format(count=len(promised), placements=names)


class PlacementPromises:
    """Methods that change something return the clusters whose promises may differ."""

    def __init__(self, *, debits: DebitRules = NO_RULES) -> None:
        """``debits`` are the rules of the profile of Placements."""
        self._debits = debits
        self._resources: dict[Owner, frozenset[str]] = {}
        """Names of the AddOnPlacementScores that decisions of a Placement change; only of those that change some."""
        self._keys: dict[Owner, WorkloadKey] = {}
        """Of the same Placements."""
        self._pages: dict[Owner, dict[str, PlacementDecision]] = {}
        self._owner_of: dict[tuple[str, str], Owner] = {}
        self._by_cluster: dict[str, dict[Owner, Promise]] = {}
        """Only of Placements in ``_resources``."""

    def put_placement(self, placement: Placement) -> set[str]:
        meta = placement.metadata
        owner, key = (meta.namespace, meta.name), WorkloadKey(meta.namespace, meta.name, meta.uid)
        changes = trust_of_placement(placement, self._debits).debits
        resources = frozenset(resource for (resource, _), change in changes.items() if change)
        if self._resources.get(owner, frozenset()) == resources and self._keys.get(owner, key) == key:
            return set()
        changed = self.delete_placement(*owner)
        if not resources:
            return changed
        self._resources[owner], self._keys[owner] = resources, key
        for page in self._pages.get(owner, {}).values():
            self._promise(owner, page, promise_of(page))
        return changed | self._clusters(owner)

    def delete_placement(self, namespace: str, name: str) -> set[str]:
        owner = (namespace, name)
        changed = self._clusters(owner)
        self._resources.pop(owner, None)
        self._keys.pop(owner, None)
        self._forget(owner, changed)
        return changed

    def put_decision(self, decision: PlacementDecision, *, observed: Micros | None = None) -> set[str]:
        """``observed``: when it was observed to change; None if it was listed."""
        meta = decision.metadata
        key = (meta.namespace, meta.name)
        owner = (meta.namespace, meta.labels.get(PLACEMENT_LABEL, ""))
        changed: set[str] = set()
        if self._owner_of.get(key, owner) != owner:
            changed = self.delete_decision(decision)
        before = self._clusters(owner)
        self._owner_of[key] = owner
        self._pages.setdefault(owner, {})[meta.name] = decision
        after = self._clusters(owner)
        self._forget(owner, before - after)
        self._promise(owner, decision, promise_of(decision, since=observed))
        return changed | (before ^ after)

    def delete_decision(self, decision: PlacementDecision) -> set[str]:
        meta = decision.metadata
        owner = self._owner_of.pop((meta.namespace, meta.name), None)
        if owner is None:
            return set()
        before = self._clusters(owner)
        pages = self._pages[owner]
        del pages[meta.name]
        if not pages:
            del self._pages[owner]
        gone = before - self._clusters(owner)
        self._forget(owner, gone)
        return gone

    def pending(
        self, cluster: str, score: AddOnPlacementScore | None, *, resource: str, now: Micros
    ) -> dict[WorkloadKey, Promise]:
        """Return, by Placement, what the load of a cluster, published as ``resource``, does not include yet."""
        return {
            self._keys[owner]: promise
            for owner, promise in self._by_cluster.get(cluster, {}).items()
            if resource in self._resources[owner] and promise.is_pending(score, now=now)
        }

    def _clusters(self, owner: Owner) -> set[str]:
        """Return the clusters of a Placement that takes part."""
        pages = self._pages.get(owner, {}).values() if owner in self._resources else ()
        return {decision.clusterName for page in pages for decision in page.status.decisions}

    def _promise(self, owner: Owner, page: PlacementDecision, promise: Promise | None) -> None:
        """A cluster that the Placement had already keeps its promise, also if it moved to another page."""
        if promise is not None and owner in self._resources:
            for decision in page.status.decisions:
                self._by_cluster.setdefault(decision.clusterName, {}).setdefault(owner, promise)

    def _forget(self, owner: Owner, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            promises = self._by_cluster.get(cluster, {})
            promises.pop(owner, None)
            if not promises:
                self._by_cluster.pop(cluster, None)
