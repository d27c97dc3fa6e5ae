"""Health of add-ons that report it by a Lease.

An agent renews a Lease with the add-on's name in its own namespace on the cluster. As for clusters, a renewal counts
from when it is observed, on the monotonic clock; the time it contains is used only for a lease that is observed first.
"""

import asyncio
import logging
from typing import Final

from fairway.api.addon import CUSTOMIZED_HEALTH, ManagedClusterAddOn
from fairway.klusterlet.addons import install_namespace, report_condition
from kubewire.api.lease import Lease, parse_micro_time
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition, find_condition
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Informer, KubeError, NotFound
from kubewire.client.lease import LEASES
from kubewire.client.log_throttle import LogThrottle, retry_level

log: Final = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
GRACE_SECONDS: Final = 5 * 60.0

AVAILABLE: Final = "Available"
RENEWED: Final = "ManagedClusterAddOnLeaseUpdated"
STOPPED: Final = "ManagedClusterAddOnLeaseUpdateStopped"
NOT_FOUND: Final = "ManagedClusterAddOnLeaseNotFound"

CONDITIONS: Final = {
    ("ManagedClusterAddOn", AVAILABLE): {
        RENEWED: "The agent renews its lease.",
        STOPPED: "The agent has not renewed its lease for five minutes.",
        NOT_FOUND: "The agent has no lease yet.",
    }
}
RENEWED_MESSAGE: Final = "{name} add-on is available."
STOPPED_MESSAGE: Final = "{name} add-on is not available."
NOT_FOUND_MESSAGE: Final = "The status of {name} add-on is unknown."
NOT_REPORTED: Final = "cannot report the health of add-on %s: %s"


class AddOnHealth:
    """``add_ons`` is an informer that runs elsewhere."""

    def __init__(
        self,
        hub: Client,
        cluster: Client,
        add_ons: Informer[ManagedClusterAddOn],
        *,
        name: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._hub, self._cluster, self._add_ons = hub, cluster, add_ons
        self._name, self._clock = name, clock
        self._renewals: dict[tuple[str, str], tuple[str, float]] = {}
        """Last renewal by the lease's uid and name, with the monotonic time at which it was observed."""
        self._throttle = LogThrottle(log)

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        for add_on in list(self._add_ons.store.values()):
            health_check = add_on.status.healthCheck
            if health_check is not None and health_check.mode == CUSTOMIZED_HEALTH:
                continue  #  its installer reports its health
            try:
                condition = await self._evaluate(add_on)
                known = find_condition(add_on.status.conditions, AVAILABLE)
                if known is None or (known.status, known.reason) != (condition.status, condition.reason):
                    name = add_on.metadata.name
                    await report_condition(self._hub, self._name, name, condition, clock=self._clock)
            except (KubeError, ValueError) as error:  #  the hub may contain an invalid namespace
                self._throttle.log(retry_level(error), type(error), NOT_REPORTED, add_on.metadata.name, error)

    async def _evaluate(self, add_on: ManagedClusterAddOn) -> Condition:
        name = add_on.metadata.name
        try:
            lease = await self._cluster.get(LEASES, name, namespace=install_namespace(add_on))
        except NotFound:
            message = NOT_FOUND_MESSAGE.format(name=name)
            return Condition(type=AVAILABLE, status=UNKNOWN, reason=NOT_FOUND, message=message)
        if self._silence(lease) < GRACE_SECONDS:
            message = RENEWED_MESSAGE.format(name=name)
            return Condition(type=AVAILABLE, status=TRUE, reason=RENEWED, message=message)
        message = STOPPED_MESSAGE.format(name=name)
        return Condition(type=AVAILABLE, status=FALSE, reason=STOPPED, message=message)

    def _silence(self, lease: Lease) -> float:
        """Seconds since the last renewal."""
        key, now = (lease.metadata.uid, lease.metadata.name), self._clock.monotonic()
        known = self._renewals.get(key)
        if known is None:
            written = (
                parse_micro_time(lease.spec.renewTime)
                or lease.metadata.creationTimestamp
                or self._clock.wall()
            )
            ago = max(0.0, (self._clock.wall() - written).total_seconds())
            self._renewals[key] = (lease.spec.renewTime, now - ago)
        elif known[0] != lease.spec.renewTime:
            self._renewals[key] = (lease.spec.renewTime, now)
        return now - self._renewals[key][1]
