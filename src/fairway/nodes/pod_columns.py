"""Columns that the pods on a node fill: a whole number for each node.

Each pod adds fixed amounts to columns of its node (``PodTemplate.amounts``): its requests, its host ports, its
affinity terms, and one to the *group* of pods with its namespace and labels. Columns of pods that match a selector are
sums over groups, and exist once a plugin reads them.
"""

from typing import Final

from fairway.fleet.column import Key
from fairway.fleet.resources import REQUESTED

SCORING_REQUESTED: Final = "scoring-requested-milli"
"""``("scoring-requested-milli", "cpu")``: requests with defaults for containers that have none."""
HOST_PORT: Final = "host-port"
"""``("host-port", protocol, port, address)``: number of containers with the port; address ``*`` for all addresses."""
POD_GROUP: Final = "pod-group"
"""``("pod-group", namespace, labels, terminating)``: number of pods."""
POD_TERM: Final = "pod-term"
"""``("pod-term", kind, term)``: number of pods that have the affinity term."""
PODS_MATCHING: Final = "pods-matching"
"""``("pods-matching", query)``: number of pods that match a ``PodQuery``."""

ADDED: Final = frozenset({REQUESTED, SCORING_REQUESTED, HOST_PORT, POD_GROUP, POD_TERM})
"""Columns that are sums of what pods add."""

POD_TERMS: Key = ("pod-terms",)
"""The set of affinity terms that pods on nodes have. Never a column, only reported."""
NAMESPACES: Key = ("namespaces",)
"""Labels of namespaces. Never a column, only reported."""
VOLUMES: Key = ("volumes",)
"""PersistentVolumes and claims. Never a column, only reported."""

NOMINATED: Key = ("nominated-pods",)
"""The pods that wait on a nominated node. Never a column, only reported."""

ANY_ADDRESS: Final = "*"
WILDCARD: Final = "0.0.0.0"
TERMINATING: Final = "terminating"


def scoring_requested(resource: str) -> Key:
    return (SCORING_REQUESTED, resource)


def host_port(protocol: str, port: int, address: str = ANY_ADDRESS) -> Key:
    return (HOST_PORT, protocol, str(port), address)


def pods_matching(query: str) -> Key:
    return (PODS_MATCHING, query)
