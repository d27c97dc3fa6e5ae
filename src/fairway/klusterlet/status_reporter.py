"""Keep the cluster's status on the hub up to date: health, version, resources, claims.

Only differences from the watched ManagedCluster are written: changes of other clients are repaired, and an unchanged
cluster causes no requests. Resources are applied, so that amounts that others added stay and removed amounts are
removed; conditions are one list shared with OCM, see Membership.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Final

import msgspec
from msgspec import Struct

from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.resources import CLUSTER_CLAIMS, MANAGED_CLUSTERS, NODES
from fairway.klusterlet import names
from fairway.klusterlet.membership import FIELD_MANAGER, Membership
from fairway.klusterlet.report import CUSTOM_CLAIMS, ClusterReport, claims, totals
from kubewire.api.meta import FALSE, TRUE, Condition
from kubewire.client import (
    SYSTEM_CLOCK,
    ApiError,
    Client,
    Clock,
    Conflict,
    Forbidden,
    Informer,
    KubeError,
    NotFound,
    Patch,
)
from kubewire.client.log_throttle import LogThrottle, retry_level

log: Final = logging.getLogger(__name__)

HEALTH_SECONDS: Final = 60.0
"""Interval of health checks of a healthy cluster."""
RETRY_SECONDS: Final = 5.0
"""Interval after an unhealthy result or a failed write."""
TROUBLE_SECONDS: Final = 20.0
"""Time after which an unhealthy cluster is reported unavailable; a restart is shorter."""
PACE_SECONDS: Final = 0.5
"""Pause between writes: nodes change in bursts."""
TIMEOUT_SECONDS: Final = 10.0

JOINED: Final = "ManagedClusterJoined"
AVAILABLE: Final = "ManagedClusterAvailable"
UNAVAILABLE: Final = "ManagedClusterKubeAPIServerUnavailable"
CONDITIONS: Final = {
    ("ManagedCluster", names.JOINED): {JOINED: "The agent has registered the cluster."},
    ("ManagedCluster", CONDITION_AVAILABLE): {
        AVAILABLE: "The cluster's API server is healthy.",
        UNAVAILABLE: "The cluster's API server is unhealthy; the message has its answer.",
    },
}

IS_JOINED: Final = Condition(type=names.JOINED, status=TRUE, reason=JOINED, message="Managed cluster joined")
IS_AVAILABLE: Final = Condition(
    type=CONDITION_AVAILABLE, status=TRUE, reason=AVAILABLE, message="Managed cluster is available"
)
UNAVAILABLE_MESSAGE: Final = "The kube-apiserver is not ok, status code: {code}, {why}"

CLAIMS_OMITTED: Final = "%d claims of cluster %s not reported: the limit is %d"
NOT_WRITTEN: Final = "cannot update the status of cluster %s: %s"
UNHEALTHY: Final = "cluster %s is unhealthy: %s"


class _Version(Struct, frozen=True, rename="camel"):
    git_version: str = ""


class StatusReporter:
    """``health_seconds`` is also the interval of version checks."""

    def __init__(
        self,
        hub: Client,
        cluster: Client,
        membership: Membership,
        *,
        health_seconds: float = HEALTH_SECONDS,
        most_claims: int = CUSTOM_CLAIMS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._hub, self._cluster, self._membership, self._clock = hub, cluster, membership, clock
        self._health_seconds, self._most = health_seconds, most_claims
        self._nodes = Informer(cluster, NODES)
        self._claims = Informer(cluster, CLUSTER_CLAIMS)
        self._woken = asyncio.Event()
        self._throttle = LogThrottle(log)
        self._version = ""
        self._checked_at: float | None = None
        self._unhealthy_since: float | None = None
        self._left_out = 0
        self._reported: ClusterReport | None = None
        """Last applied report; None at the start, so that the first one is always applied."""
        membership.subscribe(self._woken.set)
        self._nodes.subscribe(lambda _: self._woken.set())
        self._claims.subscribe(lambda _: self._woken.set())

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._nodes)
            await stack.enter_async_context(self._claims)
            while True:
                self._woken.clear()
                pause = await self._sync()
                try:
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                except TimeoutError:
                    continue
                # After the wake, not before: the first change of a burst waits for those that follow it, as one write.
                await asyncio.sleep(PACE_SECONDS)

    async def _sync(self) -> float:
        """Return the seconds until the next check."""
        if not self._membership.accepted:
            return self._health_seconds
        try:
            available = await self._check_health()
            if available is None:
                return RETRY_SECONDS
            # Joined first, because the hub's controllers wait for it.
            await self._membership.report(IS_JOINED, available)
            if available.status == TRUE:
                await self._report()
        except Conflict:
            return RETRY_SECONDS  #  earlier if the watch delivers the other write
        except KubeError as error:
            self._throttle.log(retry_level(error), type(error), NOT_WRITTEN, self._membership.name, error)
            return RETRY_SECONDS
        if available.status != TRUE:
            return RETRY_SECONDS
        assert self._checked_at is not None
        return max(0.1, self._checked_at + self._health_seconds - self._clock.monotonic())

    async def _check_health(self) -> Condition | None:
        """Return the availability condition, from a recent check if possible; None while it is uncertain."""
        now = self._clock.monotonic()
        fresh = self._checked_at is not None and now - self._checked_at < self._health_seconds
        if fresh and self._unhealthy_since is None:
            return IS_AVAILABLE
        why = await self._probe()
        if why is None:
            self._checked_at, self._unhealthy_since = now, None
            return IS_AVAILABLE
        self._throttle.log(logging.WARNING, "health", UNHEALTHY, self._membership.name, why)
        if self._unhealthy_since is None:
            self._unhealthy_since = now
        # One failed probe is not reported: an API server restarts within seconds, and the condition would move
        # placements away and back.
        if now - self._unhealthy_since < TROUBLE_SECONDS:
            return None
        return Condition(type=CONDITION_AVAILABLE, status=FALSE, reason=UNAVAILABLE, message=why)

    async def _probe(self) -> str | None:
        """Return an error; None if the API is healthy. Stores the version."""
        try:
            try:
                await self._cluster.request("GET", "/livez", timeout=TIMEOUT_SECONDS)
            except (NotFound, Forbidden):
                await self._cluster.request("GET", "/healthz", timeout=TIMEOUT_SECONDS)
            answer = await self._cluster.request("GET", "/version", timeout=TIMEOUT_SECONDS)
            self._version = msgspec.json.decode(answer.body, type=_Version).git_version
        except KubeError as error:
            code = error.code if isinstance(error, ApiError) else 0
            return UNAVAILABLE_MESSAGE.format(code=code, why=str(error)[:1000])
        except msgspec.MsgspecError:
            return None  #  healthy, with an unusual version
        return None

    async def _report(self) -> None:
        if not self._nodes.synced.is_set() or not self._claims.synced.is_set():
            return  #  both informers wake the loop
        capacity, allocatable = totals(self._nodes.store.values())
        reported, left_out = claims(self._claims.store.values(), most=self._most)
        if left_out != self._left_out:
            self._left_out = left_out
            if left_out:
                log.warning(CLAIMS_OMITTED, left_out, self._membership.name, self._most)
        report = ClusterReport(
            version=self._version, capacity=capacity, allocatable=allocatable, claims=reported
        )
        known = self._membership.cluster
        if known is None or (report == self._reported and report.is_in(known.status)):
            return
        await self._hub.patch(
            MANAGED_CLUSTERS,
            self._membership.name,
            {"metadata": {"name": self._membership.name}, "status": report.document()},
            kind=Patch.APPLY,
            subresource="status",
            field_manager=FIELD_MANAGER,
            force=True,
        )
        self._reported = report
