"""The cluster's registration on the hub: whether it is accepted, its lease settings, and whether it was deleted."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final

from fairway.api.cluster import CONDITION_ACCEPTED, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.klusterlet.errors import Refused
from kubewire.api.encoding import encode
from kubewire.api.meta import TRUE, Condition, find_condition, set_condition
from kubewire.client import (
    SYSTEM_CLOCK,
    Backoff,
    Batch,
    Client,
    Clock,
    Conflict,
    Deleted,
    Forbidden,
    Informer,
    KubeError,
    NotFound,
    Patch,
)
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

FIELD_MANAGER: Final = "fairway-join"
ATTEMPTS: Final = 5

REMOVED: Final = (
    "cluster {name} was removed from the hub; `fairway join leave` removes what is left of it here, and with a new "
    "token it can join again"
)
NOT_ACCEPTED: Final = "the hub no longer accepts cluster %s; waiting until it does"
CHECK_FAILED: Final = "cannot check whether cluster %s is accepted: %s"

_BACKOFF: Final = Backoff(base=0.25, cap=5.0)


async def wait_for_access(hub: Client, name: str, *, waiting: Callable[[], None]) -> None:
    """Wait until the hub has accepted the cluster. Calls ``waiting`` once if it must wait.

    It polls: an agent that was denied may read its ManagedCluster, but one that was never accepted has no rights.
    """
    failures, reported, throttle = 0, False, LogThrottle(log)
    while True:
        accepted = True
        try:
            accepted = not _is_denied(await hub.get(MANAGED_CLUSTERS, name))
            if accepted:
                return
        except Forbidden:
            accepted = False
        except NotFound:
            raise Refused(REMOVED.format(name=name)) from None
        except KubeError as error:
            if not error.retryable:
                raise
            throttle.log(logging.WARNING, type(error), CHECK_FAILED, name, error)
        if not accepted and not reported:
            waiting()
            reported = True
        await asyncio.sleep(_BACKOFF.delay(failures))
        failures += 1


def _is_denied(cluster: ManagedCluster) -> bool:
    """Whether an administrator has withdrawn the acceptance, or the rights are not granted again yet."""
    accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return not cluster.spec.hubAcceptsClient or (accepted is not None and accepted.status != TRUE)


class Membership:
    """Watches the ManagedCluster of this cluster within ``async with``."""

    def __init__(self, hub: Client, name: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.hub, self.name, self._clock = hub, name, clock
        self._informer = Informer(hub, MANAGED_CLUSTERS, fields=f"metadata.name={name}")
        self._listeners: list[Callable[[], None]] = []
        self._removed = asyncio.Event()
        self._was_accepted = False
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> "Membership":
        self._informer.subscribe(self._on_change)
        await self._informer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._informer.__aexit__(kind, error, trace)

    @property
    def cluster(self) -> ManagedCluster | None:
        return self._informer.get(self.name)

    @property
    def accepted(self) -> bool:
        cluster = self.cluster
        if cluster is None or not cluster.spec.hubAcceptsClient:
            return False
        accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
        return accepted is not None and accepted.status == TRUE

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every change."""
        self._listeners.append(listener)

    async def wait_until_removed(self) -> None:
        """Raises Refused when the cluster is removed from the hub."""
        await self._removed.wait()
        raise Refused(REMOVED.format(name=self.name))

    def _on_change(self, batch: Batch[ManagedCluster]) -> None:
        # A batch may contain a deletion and a new cluster of this name; only the state after it counts.
        if any(isinstance(change, Deleted) for change in batch.changes) and self.cluster is None:
            self._removed.set()
        if self._was_accepted and self.cluster is not None and not self.accepted:
            log.warning(NOT_ACCEPTED, self.name)
        self._was_accepted = self.accepted
        for listener in self._listeners:
            listener()

    async def report(self, *conditions: Condition) -> None:
        """Set conditions in the status if they differ, and keep those of other writers.

        OCM's definition treats the list as one value, so the write requires the resource version that was read.
        """
        # The reports of this process come one after the other, so that they do not conflict among themselves.
        async with self._writing:
            cluster = self.cluster
            for attempt in range(ATTEMPTS):
                # The watched object first: mostly it is current, and the write's precondition tells when it is not.
                if attempt or cluster is None:
                    cluster = await self.hub.get(MANAGED_CLUSTERS, self.name)
                before = cluster.status.conditions or ()
                wanted = _set_conditions(before, conditions, clock=self._clock)
                if wanted == before:
                    return
                meta = {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resourceVersion}
                body = {
                    "metadata": meta,
                    "status": {"conditions": [encode(condition) for condition in wanted]},
                }
                with suppress(Conflict):
                    await self.hub.patch(
                        MANAGED_CLUSTERS,
                        self.name,
                        body,
                        kind=Patch.MERGE,
                        subresource="status",
                        field_manager=FIELD_MANAGER,
                    )
                    return


def _set_conditions(
    before: Sequence[Condition], conditions: Sequence[Condition], *, clock: Clock
) -> tuple[Condition, ...]:
    after = tuple(before)
    for condition in conditions:
        after = set_condition(after, condition, now=clock.wall())
    return after
