"""Clusters and cluster sets, in clusteradm's columns."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from fairway.api.amount_display import display_amount
from fairway.api.cluster import CLUSTER_SET_LABEL, ManagedCluster
from fairway.api.clusterset import LABEL_SELECTOR, ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.cli.get.view import Lot, View, Wanted
from fairway.cli.output import Row
from kubewire.api.meta import find_condition
from kubewire.api.selector import Requirement, compile_selector

AVAILABLE: Final = "ManagedClusterConditionAvailable"
EMPTY: Final = "ClusterSetEmpty"
NO_CLUSTER: Final = "name,!name"
"""A selector that matches nothing."""


class Clusters(View):
    noun, nouns = "cluster", "clusters"
    less = ("version", "accepted", "memory", "cpu")
    shown = (MANAGED_CLUSTERS,)
    columns: Final = {
        "name": "Name",
        "accepted": "Accepted",
        "available": "Available",
        "clusterset": "ClusterSet",
        "cpu": "CPU",
        "memory": "Memory",
        "version": "Kubernetes Version",
    }

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._clusters: dict[str, ManagedCluster] = {}

    def put(self, thing: ManagedCluster) -> Iterable[Lot]:
        self._clusters[thing.metadata.name] = thing
        return (thing.metadata.name,)

    def drop(self, thing: ManagedCluster) -> Iterable[Lot]:
        self._clusters.pop(thing.metadata.name, None)
        return (thing.metadata.name,)

    def lots(self) -> Iterable[Lot]:
        return sorted(self._clusters)

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        del now
        cluster = self._clusters.get(str(lot))
        if cluster is None or not self.matches(cluster):
            return {}
        status = cluster.status
        available = find_condition(status.conditions or (), AVAILABLE)
        row = {
            "name": cluster.metadata.name,
            "accepted": "true" if cluster.spec.hubAcceptsClient else "false",
            "available": available.status if available else "",
            "clusterset": cluster.metadata.labels.get(CLUSTER_SET_LABEL),
            "cpu": _amount(status.capacity, "cpu"),
            "memory": _amount(status.capacity, "memory"),
            "version": status.version.kubernetes,
        }
        return {cluster.metadata.name: row}


def _amount(amounts: Mapping[str, str | int | float], name: str) -> str:
    return display_amount(name, amounts[name]) if name in amounts else ""


class ClusterSets(View):
    noun, nouns = "cluster set", "cluster sets"
    less = ("managed",)
    shown = (MANAGED_CLUSTER_SETS,)
    beside = (MANAGED_CLUSTER_SET_BINDINGS,)
    columns: Final = {
        "name": "Name",
        "bound": "Bound Namespaces",
        "status": "Status",
        "managed": "Managed Namespaces",
    }

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._sets: dict[str, ManagedClusterSet] = {}
        self._bound: defaultdict[str, set[str]] = defaultdict(set)
        """Namespaces by the name of the binding, which must equal the name of its set."""

    def put(self, thing: Any) -> Iterable[Lot]:
        name = thing.metadata.name
        if isinstance(thing, ManagedClusterSetBinding):
            self._bound[name].add(thing.metadata.namespace)
        else:
            self._sets[name] = thing
        return (name,)

    def drop(self, thing: Any) -> Iterable[Lot]:
        name = thing.metadata.name
        if isinstance(thing, ManagedClusterSetBinding):
            self._bound[name].discard(thing.metadata.namespace)
        else:
            self._sets.pop(name, None)
        return (name,)

    def lots(self) -> Iterable[Lot]:
        return sorted(self._sets)

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        del now
        name = str(lot)
        cluster_set = self._sets.get(name)
        if cluster_set is None or not self.matches(cluster_set):
            return {}
        status = find_condition(cluster_set.status.conditions, EMPTY)
        row = {
            "name": name,
            "bound": sorted(self._bound[name]),
            "status": status.message if status else "",
            "managed": [namespace.name for namespace in cluster_set.spec.managedNamespaces],
        }
        return {name: row}


def members(managed_cluster_set: ManagedClusterSet) -> str:
    """Return the label selector of the clusters in a set, for a query. Raises SelectorError if it is invalid."""
    how = managed_cluster_set.spec.clusterSelector
    if how.selectorType != LABEL_SELECTOR:
        return f"{CLUSTER_SET_LABEL}={managed_cluster_set.metadata.name}"
    selector = compile_selector(how.labelSelector)
    return NO_CLUSTER if selector.nothing else ",".join(map(_written, selector.requirements))


def _written(requirement: Requirement) -> str:
    values = ",".join(sorted(requirement.values))
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} notin ({values})"
        case "Exists":
            return requirement.key
        case _:
            return f"!{requirement.key}"
