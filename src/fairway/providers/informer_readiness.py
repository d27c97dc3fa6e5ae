"""Wait until a provider's informers are complete and current.

A result from an incomplete or stale list would be wrong. So a reading waits a while for the first lists, and fails if a
watch has been interrupted for long.

A silent watch may be healthy, or its server may hang. So the cluster is also probed periodically, and must respond.
"""

import asyncio
from typing import Any, Final

from fairway.api.meta import reason_of
from fairway.kube import Client, Informer, KubeError
from fairway.providers.provider import ProviderError

PATIENCE_SECONDS: Final = 20.0
"""For the first list, which of a large cluster takes seconds."""
ANSWER_SECONDS: Final = 5.0
STALE_SECONDS: Final = 60.0
"""Watches end now and then, and are begun anew. However long an interval is: what is read is published as new."""

NOT_LISTED: Final = "NotListed"
WATCH_LOST: Final = "WatchLost"
UNREADABLE: Final = "Unreadable"

CANNOT_LIST: Final = "cannot list {kind}s of the cluster: {why}"
NOT_YET: Final = "the list is not complete after {seconds:g} s"
NO_ANSWER: Final = "the cluster does not respond ({why}): the watched state may be stale"
"""Without a number that never is the same, for every other message is written anew."""
NO_NEWS: Final = "{kind}s of the cluster have not been watched for {seconds:.0f} s"


async def wait_until_current(client: Client, *informers: Informer[Any]) -> None:
    """Returns once all that is followed can be gone by. Raises ProviderError if it cannot."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for informer in informers:
                await informer.synced.wait()
    except TimeoutError:
        late = next(each for each in informers if not each.synced.is_set())
        why = await _why_not(client, late)
        raise ProviderError(CANNOT_LIST.format(kind=late.resource.kind, why=why), reason=NOT_LISTED) from None
    for informer in informers:
        if informer.lag > STALE_SECONDS:
            told = NO_NEWS.format(kind=informer.resource.kind, seconds=informer.lag)
            raise ProviderError(told, reason=WATCH_LOST)


class LivenessCheck:
    """Of the cluster that is followed by ``informer``. Costs a small request every interval, and none in between."""

    def __init__(self, client: Client, informer: Informer[Any]) -> None:
        self._client, self._resource = client, informer.resource
        self._last: float | None = None

    async def ensure(self, *, interval: float) -> None:
        """Raises ProviderError if there were none for longer than a restart takes, however long an interval is."""
        clock = asyncio.get_running_loop().time
        began = clock()
        if self._last is None:
            self._last = began  # what is followed was just listed
        if began - self._last < interval / 2:
            return
        try:
            await self._client.newest(self._resource, timeout=ANSWER_SECONDS)
        except KubeError as error:
            if clock() - self._last > STALE_SECONDS:
                raise ProviderError(NO_ANSWER.format(why=error), reason=WATCH_LOST) from None
        else:
            self._last = clock()


async def _why_not(client: Client, informer: Informer[Any]) -> str:
    try:
        await client.newest(informer.resource, timeout=ANSWER_SECONDS)
    except KubeError as error:
        return str(error)
    return NOT_YET.format(seconds=PATIENCE_SECONDS)


def unreadable(*informers: Informer[Any]) -> list[str]:
    """Objects of which fields cannot be read, with these fields."""
    return [
        f"{informer.resource.kind} {'/'.join(part for part in key if part)}: {reason_of(fields)}"
        for informer in informers
        for key, fields in informer.unreadable.items()
    ]


async def end(task: "asyncio.Task[None]") -> None:
    """Of what was begun beside the informers."""
    task.cancel()
    await asyncio.wait([task])


def nobody() -> None:
    """Wakes nobody: there is nobody yet."""
