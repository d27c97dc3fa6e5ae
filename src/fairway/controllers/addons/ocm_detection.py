"""Detect OCM's addon-manager by its Lease. While it runs, Fairway does not manage add-ons.

Both would render the same add-ons differently, and overwrite each other's works and conditions.
"""

from datetime import datetime, timedelta
from typing import Final

from fairway.api.lease import Lease, parse_micro_time
from fairway.kube.lease import CLOCKS_APART, effective_lease_seconds

NAMESPACE: Final = "open-cluster-management-hub"
LEASE: Final = "manager-lock"
USUAL_LEASE: Final = 137
"""Seconds; the duration of OCM's lease if it does not specify one."""

RUNS: Final = (
    "OCM's addon-manager runs on this hub (%s holds the lease %s/%s): Fairway does not manage add-ons "
    "until that lease expires"
)
GONE: Final = "OCM's addon-manager has stopped: Fairway manages add-ons"


def remaining(lease: Lease | None, now: datetime) -> float:
    """Seconds until the addon-manager's lease expires; 0 if it has expired."""
    renewed = None if lease is None else parse_micro_time(lease.spec.renewTime)
    if lease is None or not lease.spec.holderIdentity or renewed is None:
        return 0.0
    lasts = timedelta(seconds=effective_lease_seconds(lease.spec.leaseDurationSeconds, default=USUAL_LEASE))
    # Compare durations: the expiry itself could exceed the largest datetime.
    age = now - renewed
    return max((lasts - age).total_seconds(), 0.0) if age > -CLOCKS_APART else 0.0
