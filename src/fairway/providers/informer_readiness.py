"""Wait until a provider's informers are complete and current.

A result from an incomplete or stale list would be wrong. So a reading waits a while for the first lists, and fails if a
watch has been interrupted for long.

A silent watch may be healthy, or its server may hang. So the cluster is also probed periodically, and must respond.
"""

import asyncio
from typing import Any, Final

from fairway.providers.provider import ProviderError
from fairway.providers.publication import CONDITION
from kubewire.api.meta import reason_of
from kubewire.client import Client, Informer, KubeError

SYNC_SECONDS: Final = 20.0
"""Limit for the first list, which takes seconds on a large cluster."""
ANSWER_SECONDS: Final = 5.0
STALE_SECONDS: Final = 60.0
"""Watches are restarted now and then. Independent of the interval, because each reading is published as new."""

NOT_LISTED: Final = "NotListed"
WATCH_LOST: Final = "WatchLost"
UNREADABLE: Final = "Unreadable"

CONDITIONS: Final = {
    ("AddOnPlacementScore", CONDITION): {
        NOT_LISTED: "The provider cannot list objects of the cluster.",
        WATCH_LOST: "The watch of the cluster's objects is interrupted, so the known state may be stale.",
        UNREADABLE: "Some objects of the cluster cannot be decoded; the message names them.",
    }
}

CANNOT_LIST: Final = "cannot list {kind}s of the cluster: {why}"
NOT_YET: Final = "the list is not complete after {seconds:g} s"
NO_ANSWER: Final = "the cluster does not respond ({why}): the watched state may be stale"
"""Without the elapsed time: each different message would cause a write."""
NO_NEWS: Final = "{kind}s of the cluster have not been watched for {seconds:.0f} s"


async def wait_until_current(client: Client, *informers: Informer[Any]) -> None:
    """Wait until all informers are synced and current. Raises ProviderError on a timeout."""
    try:
        async with asyncio.timeout(SYNC_SECONDS):
            for informer in informers:
                await informer.synced.wait()
    except TimeoutError:
        late = next(informer for informer in informers if not informer.synced.is_set())
        why = await _probe_error(client, late)
        raise ProviderError(CANNOT_LIST.format(kind=late.resource.kind, why=why), reason=NOT_LISTED) from None
    for informer in informers:
        if informer.lag > STALE_SECONDS:
            message = NO_NEWS.format(kind=informer.resource.kind, seconds=informer.lag)
            raise ProviderError(message, reason=WATCH_LOST)


class LivenessCheck:
    """Probes the cluster of ``informer`` with a small request, at most once per interval."""

    def __init__(self, client: Client, informer: Informer[Any]) -> None:
        self._client, self._resource = client, informer.resource
        self._last: float | None = None

    async def ensure(self, *, interval: float) -> None:
        """Raises ProviderError if the cluster has not responded for ``STALE_SECONDS``."""
        clock = asyncio.get_running_loop().time
        began = clock()
        if self._last is None:
            self._last = began  #  the informer has just listed it
        if began - self._last < interval / 2:
            return
        try:
            await self._client.newest(self._resource, timeout=ANSWER_SECONDS)
        except KubeError as error:
            if clock() - self._last > STALE_SECONDS:
                raise ProviderError(NO_ANSWER.format(why=error), reason=WATCH_LOST) from None
        else:
            self._last = clock()


async def _probe_error(client: Client, informer: Informer[Any]) -> str:
    try:
        await client.newest(informer.resource, timeout=ANSWER_SECONDS)
    except KubeError as error:
        return str(error)
    return NOT_YET.format(seconds=SYNC_SECONDS)


def unreadable_objects(*informers: Informer[Any]) -> list[str]:
    """List objects with unreadable fields, and these fields."""
    return [
        f"{informer.resource.kind} {'/'.join(part for part in key if part)}: {reason_of(fields)}"
        for informer in informers
        for key, fields in informer.unreadable.items()
    ]


async def cancel_and_wait(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def ignore_wake() -> None:
    """Default wake callback before a provider runs."""
