"""Detect OCM's own placement controller by its Lease: two controllers would overwrite each other's decisions.

The Lease is compared with this machine's clock, so a clock that is minutes fast takes a live controller for dead; a
later check still ends this process. A Lease that claims to last for days, or has a time in the future, is ignored: it
would block this controller forever.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubewire.api.lease import Lease, parse_micro_time
from kubewire.client import Client, Forbidden, KubeError, NotFound
from kubewire.client.lease import CLOCKS_APART, LEASES, effective_lease_seconds

log: Final = logging.getLogger(__name__)

NAMESPACE: Final = "open-cluster-management-hub"
LEASE: Final = "placement-lock"
USUAL_LEASE: Final = 137
"""Default duration of OCM's lease, in seconds."""

RUNS: Final = (
    "OCM's own placement controller runs on this hub: {holder} holds the lease {namespace}/{name}. "
    "Two controllers that write the same decisions would overwrite each other. Stop OCM's first (see "
    "docs/how-to/install.md), compare with it by --shadow, or, if it does not write, add --beside-ocm"
)
CANNOT_TELL: Final = (
    "cannot check whether OCM's own placement controller runs on this hub (%s); "
    "make sure that only one of the two writes"
)


class OcmControllerRunning(Exception):
    def __init__(self, lease: "OcmLease") -> None:
        self.lease = lease
        super().__init__(RUNS.format(holder=lease.holder, namespace=lease.namespace, name=LEASE))


@dataclass(frozen=True, slots=True, kw_only=True)
class OcmLease:
    holder: str
    namespace: str


async def find(client: Client, *, now: datetime, namespace: str = NAMESPACE) -> OcmLease | None:
    """Return None if there is no such Lease, or, with a warning in the log, if it cannot be read."""
    try:
        lease = await client.get(LEASES, LEASE, namespace=namespace)
    except NotFound:
        return None
    except Forbidden as error:
        log.warning(CANNOT_TELL, error.message)
        return None
    except KubeError as error:
        log.warning(CANNOT_TELL, error)
        return None
    return OcmLease(holder=lease.spec.holderIdentity, namespace=namespace) if _alive(lease, now) else None


def _alive(lease: Lease, now: datetime) -> bool:
    renewed = parse_micro_time(lease.spec.renewTime)
    if not lease.spec.holderIdentity or renewed is None:
        return False
    lasts = timedelta(seconds=effective_lease_seconds(lease.spec.leaseDurationSeconds, default=USUAL_LEASE))
    # Not their sum, which could exceed the last valid time.
    return -CLOCKS_APART < now - renewed < lasts
