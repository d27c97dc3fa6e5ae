"""The Lease that an add-on's agent renews on its own cluster while it is healthy.

OCM reports an add-on as available while its Lease is renewed.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from kubewire.api.lease import format_micro_time
from kubewire.client import SYSTEM_CLOCK, Client, Clock, KubeError, Patch
from kubewire.client.leader import unique_identity
from kubewire.client.lease import LEASES
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

EVERY_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 2.0
"""Pause between health checks until the agent is healthy for the first time."""
JITTER: Final = 0.25
"""Fraction of the renewal interval; spreads the renewals of agents that started together."""
LASTS_SECONDS: Final = 60

NOT_RENEWED: Final = "cannot renew Lease %s/%s: %s"


class AgentLease:
    """Renews the Lease within ``async with``. Calls ``is_healthy`` before every renewal."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        is_healthy: Callable[[], bool],
        every: float = EVERY_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client, self._name, self._namespace = client, name, namespace
        self._is_healthy, self._every, self._clock = is_healthy, every, clock
        self._identity = unique_identity(name)
        self._throttle = LogThrottle(log, every=3600.0)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AgentLease":
        self._task = asyncio.create_task(self._run(), name=f"lease {self._name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        renewed = False
        while True:
            if self._is_healthy():
                await self.renew()
                renewed = True
            pause = self._every if renewed else min(self._every, FIRST_SECONDS)
            await asyncio.sleep(pause * (1 + random.uniform(-JITTER, 0)))

    async def renew(self) -> None:
        """Apply the Lease. Failures are logged, because the agent continues to publish scores."""
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LASTS_SECONDS,
            "renewTime": format_micro_time(self._clock.wall()),
        }
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name},
            "spec": spec,
        }
        try:
            await self._client.patch(
                LEASES,
                self._name,
                body,
                kind=Patch.APPLY,
                namespace=self._namespace,
                field_manager="fairway-agent",
                force=True,
            )
        except KubeError as error:
            self._throttle.log(logging.WARNING, type(error), NOT_RENEWED, self._namespace, self._name, error)
