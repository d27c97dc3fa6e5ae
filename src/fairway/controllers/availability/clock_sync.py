"""The condition ManagedClusterConditionClockSynced: whether the clocks of a cluster's agent and the hub agree.

An agent writes its own time into its lease. When the renewal is observed, that time should be close to the hub's. The
condition only informs: Fairway's availability does not depend on the agent's clock (see ``heartbeats``), but
certificates and tokens do. Threshold, reasons, messages and the annotation that turns the check off are OCM's.
"""

from datetime import datetime, timedelta
from typing import Final

from fairway.api.cluster import ManagedCluster
from kubewire.api.meta import FALSE, TRUE, Condition, find_condition

CLOCK_SYNCED: Final = "ManagedClusterConditionClockSynced"
SKIPPED: Final = "registration.open-cluster-management.io/skip-clock-sync-check"
"""Annotation of a cluster whose clock is known to differ; with "true" it counts as synced."""
DURATIONS: Final = 5
"""Durations of the lease by which the clocks may differ."""
USUAL_DURATION: Final = 60
"""Seconds, if the cluster does not specify them."""

SYNCED: Final = Condition(
    type=CLOCK_SYNCED,
    status=TRUE,
    reason="ManagedClusterClockSynced",
    message="The clock of the managed cluster is synced with the hub.",
)
OUT_OF_SYNC: Final = Condition(
    type=CLOCK_SYNCED,
    status=FALSE,
    reason="ManagedClusterClockOutOfSync",
    message=(
        "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities."
    ),
)

CONDITIONS: Final = {
    ("ManagedCluster", CLOCK_SYNCED): {
        SYNCED.reason: "The agent's clock agrees with the hub's, within five durations of its lease.",
        OUT_OF_SYNC.reason: "The agent's clock differs from the hub's by more than that.",
    }
}


def is_synced(cluster: ManagedCluster, renewed: datetime, *, wall: datetime) -> bool:
    """``renewed`` is what the agent has just written, ``wall`` the hub's time."""
    if cluster.metadata.annotations.get(SKIPPED) == "true":
        return True
    seconds = cluster.spec.leaseDurationSeconds
    allowed = timedelta(seconds=DURATIONS * (seconds if seconds > 0 else USUAL_DURATION))
    return -allowed < wall - renewed < allowed


def condition(*, synced: bool) -> Condition:
    return SYNCED if synced else OUT_OF_SYNC


def is_shown(cluster: ManagedCluster, *, synced: bool) -> bool:
    """Whether the cluster has the condition with this status already."""
    shown = find_condition(cluster.status.conditions or (), CLOCK_SYNCED)
    return shown is not None and shown.status == condition(synced=synced).status
