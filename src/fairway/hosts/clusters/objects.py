"""Load hub objects into a fleet: the one way for controllers, what-if and the command line.

``upsert`` and ``delete`` return what changed, for the placements that depend on it. ``load`` fills a fleet at once.
"""

from collections.abc import Iterable

from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.hosts.clusters.fleet import Fleet
from fairway.hosts.clusters.scores import calculator_of
from fairway.hosts.journal import NOTHING, Change


def upsert(fleet: Fleet, obj: object) -> Change:
    """Create or replace an object. Kinds that placements do not read change nothing."""
    match obj:
        case AddOnPlacementScore():
            return fleet.upsert_score(obj)
        case ManagedClusterScore():
            return fleet.upsert_cluster_score(obj)
        case ManagedCluster():
            return fleet.upsert_cluster(obj)
        case PlacementDecision():
            return fleet.upsert_decision(obj)
        case HostedClusterRequest():
            return fleet.upsert_request(obj)
        case ManagedClusterSet():
            return fleet.upsert_set(obj)
        case ManagedClusterSetBinding():
            return fleet.upsert_binding(obj)
        case _:
            return NOTHING


def delete(fleet: Fleet, obj: object) -> Change:
    match obj:
        case ManagedCluster():
            return fleet.delete_cluster(obj.metadata.name)
        case ManagedClusterSet():
            return fleet.delete_set(obj.metadata.name)
        case ManagedClusterSetBinding():
            return fleet.delete_binding(obj.metadata.namespace, obj.metadata.name)
        case AddOnPlacementScore():
            return fleet.delete_score(obj.metadata.namespace, obj.metadata.name)
        case ManagedClusterScore():
            calculator = calculator_of(obj)
            return (
                NOTHING
                if calculator is None
                else fleet.delete_cluster_score(obj.metadata.namespace, calculator)
            )
        case PlacementDecision():
            return fleet.delete_decision(obj.metadata.namespace, obj.metadata.name)
        case HostedClusterRequest():
            return fleet.delete_request(obj.metadata.namespace, obj.metadata.name)
        case _:
            return NOTHING


def load(fleet: Fleet, objects: Iterable[object]) -> None:
    """Fill a fleet at once, several times faster than single upserts."""
    clusters: list[ManagedCluster] = []
    scores: list[AddOnPlacementScore] = []
    for obj in objects:
        if isinstance(obj, ManagedCluster):
            clusters.append(obj)
        elif isinstance(obj, AddOnPlacementScore):
            scores.append(obj)
        else:
            upsert(fleet, obj)
    if clusters:
        fleet.load(clusters)
    fleet.load_scores(scores)
