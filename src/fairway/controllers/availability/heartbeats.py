"""When each cluster was last heard of, on this process's own running clock.

An agent renews its lease by its own wall clock, and nobody says that it agrees with the hub's. OCM subtracts the one
from the other: a cluster whose clock is some minutes slow is never available, and one whose clock is an hour fast is
taken for alive an hour after it died. Here a renewal counts from the moment it is *seen*: that it happened is what the
lease proves, whatever time is written in it. Only of a lease seen for the first time, after a start, nobody knows when
it was renewed; then the time written is believed, but never more than that it was just now. So a ``renewTime`` in the
future is as good as one of this moment, and no better. A slow clock matters only at a start: the cluster is found
silent then, and its agent says that it is not.

A lease without a time that can be read counts from when it was created.
"""

from datetime import datetime
from typing import Final

from fairway.api.lease import Lease, parse_micro_time

LEASE: Final = "managed-cluster-lease"
"""The name of what agents renew, in the namespace of every cluster."""


class Heartbeats:
    def __init__(self) -> None:
        self._heard: dict[str, float] = {}

    def heard(self, cluster: str) -> float | None:
        """On the running clock; None if there is no lease."""
        return self._heard.get(cluster)

    def found(self, cluster: str, lease: Lease, *, wall: datetime, now: float) -> None:
        """A lease nobody knew of. ``now`` is of the running clock."""
        renewed = parse_micro_time(lease.spec.renewTime) or lease.metadata.creationTimestamp or wall
        self._heard[cluster] = now - max(0.0, (wall - renewed).total_seconds())

    def renewed(self, cluster: str, *, now: float) -> None:
        self._heard[cluster] = now

    def lost(self, cluster: str) -> None:
        self._heard.pop(cluster, None)
