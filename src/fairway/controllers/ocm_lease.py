"""Whether a controller of OCM runs on the hub, by its Lease. While it does, Fairway's counterpart writes nothing.

Both would write the same objects differently, and repair each other's without end.
"""

from datetime import datetime, timedelta
from typing import Final

from kubewire.api.lease import Lease, parse_micro_time
from kubewire.client.lease import CLOCKS_APART, effective_lease_seconds

NAMESPACE: Final = "open-cluster-management-hub"
USUAL_LEASE: Final = 137
"""Seconds; the duration of OCM's lease if it does not specify one."""


def remaining(lease: Lease | None, now: datetime) -> float:
    """Seconds until the controller's lease expires; 0 if it has expired."""
    renewed = None if lease is None else parse_micro_time(lease.spec.renewTime)
    if lease is None or not lease.spec.holderIdentity or renewed is None:
        return 0.0
    lasts = timedelta(seconds=effective_lease_seconds(lease.spec.leaseDurationSeconds, default=USUAL_LEASE))
    # Compare durations: the expiry itself could exceed the largest datetime.
    age = now - renewed
    return max((lasts - age).total_seconds(), 0.0) if age > -CLOCKS_APART else 0.0
