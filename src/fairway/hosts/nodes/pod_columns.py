"""Columns that the pods on a node fill: a whole number for each node.

Each pod adds fixed amounts to columns of its node (``PodTemplate.amounts``): its requests, its host ports, its
affinity terms, and one to the *group* of pods with its namespace and labels. Columns of pods that match a selector are
sums over groups, and exist once a plugin reads them.
"""

from typing import Final

from fairway.hosts.column import Key
from fairway.hosts.resources import REQUESTED

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

POD_CLAIM: Final = "pod-claim"
"""``("pod-claim", namespace, name)``: number of volumes of pods that use the PersistentVolumeClaim."""
POD_DISK: Final = "pod-disk"
"""``("pod-disk", kind, id, mode)``: number of inline volumes that mount the disk, ``read-only`` or ``read-write``."""

ATTACHED_VOLUMES: Final = "attached-volumes"
"""``("attached-volumes", driver)``: number of volumes of a CSI driver that are attached to the node for its pods, or by
a VolumeAttachment."""
VOLUME_LIMIT: Final = "volume-limit"
"""``("volume-limit", driver)``: how many fit there, plus 2; 1 without a limit, and 0 if the node lacks the driver."""
STORAGE_COLUMNS: Final = frozenset({ATTACHED_VOLUMES, VOLUME_LIMIT})

ADDED: Final = frozenset({REQUESTED, SCORING_REQUESTED, HOST_PORT, POD_GROUP, POD_TERM, POD_CLAIM, POD_DISK})
"""Columns that are sums of what pods add."""
HELD: Final = frozenset({POD_CLAIM, POD_DISK})
"""Those for which the pods' index finds the nodes: there may be one for each pod, too many to have columns."""

OF_LOWER_PRIORITY: Final = "of-lower-priority"
"""``("of-lower-priority", priority, *column)``: what pods of a lower priority add to the cell of another column."""
OF_NOMINATED: Final = "of-nominated"
"""``("of-nominated", priority, *column)``: what pods of at least this priority would add to it that are nominated
to the node, and not on it."""
PARTIAL: Final = frozenset({OF_LOWER_PRIORITY, OF_NOMINATED})
"""Parts of other columns, for suppositions. They are not reported: what they are parts of is."""

POD_TERMS: Key = ("pod-terms",)
"""The set of affinity terms that pods on nodes have. Never a column, only reported."""
NAMESPACES: Key = ("namespaces",)
"""Labels of namespaces. Never a column, only reported."""
VOLUMES: Key = ("volumes",)
"""PersistentVolumes that claims may bind. Falls when a pod takes one. Never a column, like the next ones."""
VOLUME: Final = "volume"
"""``("volume", name)``: a PersistentVolume."""
CLAIM: Final = "claim"
"""``("claim", namespace, name)``: a PersistentVolumeClaim."""
STORAGE_CLASS: Final = "storage-class"
"""``("storage-class", name)``"""
CSI_DRIVER: Final = "csi-driver"
"""``("csi-driver", name)``"""
STORAGE_CAPACITY: Final = "storage-capacity"
"""``("storage-capacity", class)``: the largest volumes that fit in the CSIStorageCapacities of a class."""

NOMINATED: Key = ("nominated-pods",)
"""The pods that wait on a nominated node. Never a column, only reported."""

ANY_ADDRESS: Final = "*"
WILDCARD: Final = "0.0.0.0"
TERMINATING: Final = "terminating"


def scoring_requested(resource: str) -> Key:
    return (SCORING_REQUESTED, resource)


def pod_claim(namespace: str, name: str) -> Key:
    return (POD_CLAIM, namespace, name)


def pod_disk(kind: str, disk: str, *, read_only: bool) -> Key:
    return (POD_DISK, kind, disk, "read-only" if read_only else "read-write")


def host_port(protocol: str, port: int, address: str = ANY_ADDRESS) -> Key:
    return (HOST_PORT, protocol, str(port), address)


def of_lower_priority(priority: int, column: Key) -> Key:
    return (OF_LOWER_PRIORITY, str(priority), *column)


def of_nominated(priority: int, column: Key) -> Key:
    return (OF_NOMINATED, str(priority), *column)


def pods_matching(query: str) -> Key:
    return (PODS_MATCHING, query)


def attached_volumes(driver: str) -> Key:
    return (ATTACHED_VOLUMES, driver)


def volume_limit(driver: str) -> Key:
    return (VOLUME_LIMIT, driver)
