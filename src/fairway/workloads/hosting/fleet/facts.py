"""The facts about one hosting cluster."""

from dataclasses import dataclass
from typing import Final

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.clusters import cells
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.telemetry import (
    ADD_ON_AVAILABLE,
    ADD_ON_LABEL,
    FULL_CLAIM,
    HOSTING_CLAIM,
    Telemetry,
    Unknown,
)
from fairway.workloads.hosting.rules.policy import Limits
from kubewire.api.meta import TRUE, find_condition

BEING_DELETED: Final = "is being deleted"
NOT_ACCEPTED: Final = "is not accepted by the hub"
NOT_AVAILABLE: Final = "is not available: {message}"
NEVER_REPORTED: Final = "its agent has not reported yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The facts about one hosting cluster."""

    key: HostKey
    limits: Limits
    policies: tuple[str, ...]
    """Names of the HostingPolicies that cover it."""
    telemetry: Telemetry | Unknown
    capacity: Capacity | Unknown
    conflict: str = ""
    """Why the policies that cover it conflict."""
    promised: tuple[WorkloadKey, ...] = ()
    """Placements that selected it, which the telemetry does not include yet."""
    promised_until: Micros | None = None
    """When the first of these no longer counts."""
    unavailable: str = ""
    """Why the cluster takes no work; empty if it does."""
    is_available: bool = True
    """Whether its agent reports, also if the hub does not accept it any more."""
    is_full: bool = False
    """Whether it claims to be full."""
    is_unhealthy: bool = False
    """Whether its hypershift add-on is not available. It may have none: HyperShift may be installed in another way."""

    @property
    def until(self) -> Micros | None:
        """When it changes without an observation."""
        ends = [self.promised_until, self.telemetry.until if isinstance(self.telemetry, Telemetry) else None]
        return min((end for end in ends if end is not None), default=None)

    @property
    def offer(self) -> ResourceList:
        """The most that one hosted cluster can get of the host, however empty it is."""
        return self.capacity.offer if isinstance(self.capacity, Capacity) else {}


def host_key(cluster: ManagedCluster) -> HostKey:
    return HostKey(cluster.metadata.name, cluster.metadata.uid)


def is_hosting(cluster: ManagedCluster) -> bool:
    return cells.claims_of(cluster).get(HOSTING_CLAIM) == "true"


def add_on_state(cluster: ManagedCluster) -> str:
    return cluster.metadata.labels.get(ADD_ON_LABEL, ADD_ON_AVAILABLE)


def is_full(cluster: ManagedCluster) -> bool:
    return cells.claims_of(cluster).get(FULL_CLAIM) == "true"


def why_unavailable(cluster: ManagedCluster) -> str:
    """Return why a cluster takes no work; empty if it does."""
    if cluster.metadata.deletionTimestamp is not None:
        return BEING_DELETED
    if not cluster.spec.hubAcceptsClient:
        return NOT_ACCEPTED
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    if condition is None:
        return NOT_AVAILABLE.format(message=NEVER_REPORTED)
    if condition.status != TRUE:
        return NOT_AVAILABLE.format(message=condition.message or condition.reason)
    return ""


def is_available(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    return condition is not None and condition.status == TRUE and cluster.metadata.deletionTimestamp is None
