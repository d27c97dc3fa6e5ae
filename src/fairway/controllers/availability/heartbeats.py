"""The time of each cluster's last heartbeat, on this process's monotonic clock.

An agent renews its lease by its own wall clock, which may differ from the hub's. OCM subtracts one from the other: a
cluster whose clock is some minutes slow is never available, and one whose clock is an hour fast counts as alive an hour
after it died. Here a renewal counts from the moment it is *observed*, whatever time it contains. Only for a lease that
is observed for the first time, after a start, the time it contains is used, and never one in the future. So a slow
clock matters only at a start: the cluster is found silent, and its agent corrects that.

A lease without a readable time counts from its creation.
"""

from datetime import datetime
from typing import Final

from kubewire.api.lease import Lease, parse_micro_time

LEASE: Final = "managed-cluster-lease"
"""The name of the Lease in each cluster's namespace."""


class Heartbeats:
    def __init__(self) -> None:
        self._renewals: dict[str, float] = {}

    def last_renewal(self, cluster: str) -> float | None:
        """Return the last heartbeat on the monotonic clock; None if there is no lease."""
        return self._renewals.get(cluster)

    def add(self, cluster: str, lease: Lease, *, wall: datetime, now: float) -> None:
        """Record a new lease. ``now`` is from the monotonic clock."""
        renewed = parse_micro_time(lease.spec.renewTime) or lease.metadata.creationTimestamp or wall
        self._renewals[cluster] = now - max(0.0, (wall - renewed).total_seconds())

    def renew(self, cluster: str, *, now: float) -> None:
        self._renewals[cluster] = now

    def remove(self, cluster: str) -> None:
        self._renewals.pop(cluster, None)
