"""The input of the rules: the objects, their fleet, and the candidates of each placement.

All of it is computed once, over columns, and shared by all rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

from fairway.api.addon import ClusterManagementAddOn
from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.placement import Placement
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.engine import cycle
from fairway.engine.points import Context
from fairway.engine.profile import Profile
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.cells import Shape
from fairway.hosts.instant import Micros
from fairway.whatif.world import World
from fairway.workloads.placement.plugins import missing_score, predicate
from fairway.workloads.placement.workload import PlacementWorkload

_Object = TypeVar("_Object")


@dataclass(frozen=True, slots=True)
class Pool:
    """Clusters that a placement may use. A filter with a mistake is skipped."""

    eligible: Bits
    """Members of the eligible sets; none while one of these is invalid."""
    matching: Bits
    """Members that match the predicates."""
    candidates: Bits
    """Those that also pass every other filter, with or without scores."""
    surviving: Bits
    """The candidates without those that are excluded for a missing score."""


class Scene:
    def __init__(self, objects: Iterable[object], *, now: Micros, profile: Profile | None = None) -> None:
        self.objects = tuple(objects)
        self.now = now
        self.world = World(self.objects, profile=profile)
        self.snapshot = self.world.fleet.snapshot()
        self.clusters = self._of(ManagedCluster)
        self.sets = self._of(ManagedClusterSet)
        self.bindings = self._of(ManagedClusterSetBinding)
        self.addon_scores = self._of(AddOnPlacementScore)
        self.cluster_scores = self._of(ManagedClusterScore)
        self.placements = self._of(Placement)
        self.add_ons = self._of(ClusterManagementAddOn)
        self.hosting_policies = self._of(HostingPolicy)
        self.hosted_requests = self._of(HostedClusterRequest)
        self._pools: dict[tuple[str, str], Pool] = {}

    def _of(self, kind: type[_Object]) -> tuple[_Object, ...]:
        return tuple(obj for obj in self.objects if isinstance(obj, kind))

    @property
    def populated(self) -> bool:
        """Whether there are clusters to compare with."""
        return bool(self.clusters)

    @cached_property
    def prioritizers(self) -> frozenset[str]:
        """Names of the registered Score plugins."""
        return frozenset(self.world.profile.scorers.registered)

    @cached_property
    def default_prioritizers(self) -> frozenset[str]:
        """Names of the Score plugins of mode Additive."""
        return frozenset(self.default_weights)

    @cached_property
    def default_weights(self) -> dict[str, int]:
        """Weights of the Score plugins of mode Additive, by name."""
        return {weighted.plugin.name: weighted.weight for weighted in self.world.profile.scorers.defaults}

    def workload(self, placement: Placement) -> PlacementWorkload:
        return self.world.workload((placement.metadata.namespace, placement.metadata.name))

    def context(self, placement: Placement) -> Context:
        return Context(snapshot=self.snapshot, workload=self.workload(placement), now=self.now)

    def hiding(self, placement: Placement) -> Micros | None:
        """The time that expressions use to hide expired scores."""
        return self.now if self.workload(placement).trust.hides_expired else None

    def pool(self, placement: Placement) -> Pool:
        key = (placement.metadata.namespace, placement.metadata.name)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._drain(placement)
        return pool

    def _drain(self, placement: Placement) -> Pool:
        context = self.context(placement)
        status, eligible, plugins = cycle.pre_filter(context, self.world.profile)
        if status.aborts:
            eligible = self.snapshot.none()
        matching = candidates = survivors = eligible
        for calls in plugins.filters:
            status, passed = cycle.filter_rows(context, calls, survivors, whole_fleet=True)
            survivors = survivors if status.aborts else passed
            if calls.plugin.name == predicate.NAME:
                matching = survivors
            if calls.plugin.name != missing_score.NAME:
                candidates = survivors
        return Pool(eligible=eligible, matching=matching, candidates=candidates, surviving=survivors)

    def names(self, bits: Bits) -> list[str]:
        """In name order."""
        names = self.snapshot.hosts.names
        return sorted(names[row] for row in bitmap.rows_of(bits).tolist())

    @cached_property
    def label_keys(self) -> frozenset[str]:
        return frozenset(key for cluster in self.clusters for key in cluster.metadata.labels)

    @cached_property
    def claim_keys(self) -> frozenset[str]:
        return frozenset(claim.name for cluster in self.clusters for claim in cluster.status.clusterClaims)

    def keys(self, kind: str) -> frozenset[str]:
        """Keys of labels or claims that at least one cluster has."""
        return self.claim_keys if kind == cells.CLAIM else self.label_keys

    def values(self, kind: str, key: str) -> list[str]:
        """All values clusters have for a label or claim."""
        return [str(value) for value, _ in self.snapshot.codes((kind, key)).items()]

    @cached_property
    def taints(self) -> frozenset[tuple[str, str, str]]:
        """(key, value, effect) of every taint of every cluster."""
        shapes = (cast("Shape", shape) for shape, _ in self.snapshot.codes(cells.TAINTS).items())
        return frozenset(taint for shape in shapes for taint in shape)

    @cached_property
    def score_names(self) -> dict[str, frozenset[str]]:
        """Names of the scores in AddOnPlacementScores of a name, on any cluster."""
        return {
            resource: frozenset(item.name for score in table.values() for item in score.status.scores)
            for resource, table in self.snapshot.scores.items()
        }
