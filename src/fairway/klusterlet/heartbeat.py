"""Renew the cluster's Lease on the hub. The hub creates the Lease; the agent only renews it."""

import asyncio
import logging
import random
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from fairway.klusterlet import names
from fairway.klusterlet.membership import FIELD_MANAGER, Membership
from kubewire.api.lease import format_micro_time
from kubewire.client import SYSTEM_CLOCK, Client, Clock, KubeError
from kubewire.client.lease import LEASES
from kubewire.client.log_throttle import LogThrottle, retry_level

log: Final = logging.getLogger(__name__)

DURATION: Final = 60
"""Seconds between renewals, if the ManagedCluster has none."""
EARLIER: Final = 0.1
"""Maximum share of the duration by which a renewal is early, so that a fleet's renewals spread."""
RETRY_SECONDS: Final = 2.0

NOTEWORTHY_SECONDS: Final = 30.0

CLOCK_OFF: Final = (
    "the clock of this machine is %.0f s %s that of the hub: a hub that uses the time in the lease may consider the "
    "cluster lost, and certificates expire at another time than shown. Set the clock"
)
AHEAD_OF: Final = "ahead of"
BEHIND: Final = "behind"
NOT_RENEWED: Final = "cannot renew the lease of cluster %s: %s"


class Heartbeat:
    def __init__(self, hub: Client, membership: Membership, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._hub, self._membership, self._clock = hub, membership, clock
        self._changed = asyncio.Event()
        self._throttle = LogThrottle(log)
        self._clock_throttle = LogThrottle(log, every=3600.0)
        membership.subscribe(self._on_change)
        self._terms = self._read()

    def _read(self) -> tuple[bool, int]:
        cluster = self._membership.cluster
        wanted = 0 if cluster is None else cluster.spec.leaseDurationSeconds
        return self._membership.accepted, wanted if wanted > 0 else DURATION

    def _on_change(self) -> None:
        terms = self._read()
        # Most changes of a ManagedCluster are status writes of this agent: they must not cause another heartbeat.
        if terms != self._terms:
            self._terms = terms
            self._changed.set()

    async def run(self) -> None:
        """Run until cancelled. Renews only while the hub accepts the cluster."""
        while True:
            # Before the terms are read: a change during the renewal ends the pause below at once.
            self._changed.clear()
            accepted, duration = self._terms
            pause: float | None = None
            if accepted:
                pause = await self._renew_and_log(duration)
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _renew_and_log(self, duration: int) -> float:
        """Return the seconds until the next renewal."""
        try:
            await self.renew()
        except KubeError as error:
            # The hub creates the lease shortly after it accepts the cluster.
            self._throttle.log(retry_level(error), type(error), NOT_RENEWED, self._membership.name, error)
            # Sooner than the next renewal: the hub counts five missed durations, and a failed one should not be the
            # first of them.
            return min(RETRY_SECONDS, duration)
        # Early, never late; and spread, so that the renewals of a fleet do not stay aligned after an outage of the hub.
        return duration * random.uniform(1 - EARLIER, 1)

    async def renew(self) -> None:
        path = LEASES.path(namespace=self._membership.name, name=names.LEASE)
        # Sent back unchanged except for one field: the agent may update the lease, not patch it.
        answer = await self._hub.request("GET", path)
        # The lease needs a response anyway, so the comparison costs no request.
        self._check_clock(answer.headers.get("Date", ""))
        lease = msgspec.json.decode(answer.body)
        lease.setdefault("spec", {})["renewTime"] = format_micro_time(self._clock.wall())
        await self._hub.update(
            LEASES, names.LEASE, lease, namespace=self._membership.name, field_manager=FIELD_MANAGER
        )

    def _check_clock(self, date: str) -> None:
        """Compare with the Date header of a response."""
        try:
            there = parsedate_to_datetime(date)
        except (ValueError, TypeError, IndexError, OverflowError):
            return
        ahead = (self._clock.wall() - there.replace(tzinfo=there.tzinfo or UTC)).total_seconds()
        if abs(ahead) > NOTEWORTHY_SECONDS:
            words = AHEAD_OF if ahead > 0 else BEHIND
            self._clock_throttle.log(logging.WARNING, words, CLOCK_OFF, abs(ahead), words)
