"""`--watch`: follow kinds of a hub until somebody ends it.

What the hub does in the meantime is the informers' business: watches that end, hubs that restart, histories that go
back. A hub that is away is waited for, and whoever watches is told, once.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from fairway.cli.client.objects import OPTIONAL
from fairway.cli.output import say
from fairway.kube import Batch, Client, Informer, NotFound, Resource
from fairway.kube.change import Change

AWAY: Final = "fairway: hub {server} is away; waiting for it"
BACK: Final = "fairway: hub {server} is back"
AWAY_SECONDS: Final = 5.0
"""A restart is shorter, and nobody's concern."""

Hear = Callable[[Change[Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Objects of one kind. Without a namespace, those of all."""

    resource: Resource[Any]
    namespace: str | None = None
    labels: str = ""
    fields: str = ""


class Bell:
    """Rings when something was heard."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._deserted = False

    def ring(self) -> None:
        self._rung.set()

    def desert(self) -> None:
        """Nobody reads what is printed any more."""
        self._deserted = True
        self._rung.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Until it rings, or so many seconds. Raises BrokenPipeError when the reader of stdout went away."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
        if self._deserted:
            raise BrokenPipeError


@asynccontextmanager
async def following(client: Client, feeds: Sequence[Feed], hear: Hear) -> AsyncIterator[Bell]:
    """Inside, everything there is has been heard as added, and the bell rings for what changes.

    Raises KubeErrors if the hub refuses at the beginning; later on it is waited for.
    """
    bell = Bell()
    informers: list[Informer[Any]] = []

    def handler(batch: Batch[Any]) -> None:
        for change in batch.changes:
            hear(change)
        bell.ring()

    async with AsyncExitStack() as stack:
        for feed in feeds:
            if not await _served(client, feed):
                continue
            informer = Informer(
                client, feed.resource, namespace=feed.namespace, labels=feed.labels, fields=feed.fields
            )
            informer.subscribe(handler)
            informers.append(await stack.enter_async_context(informer))
        await asyncio.gather(*(each.synced.wait() for each in informers))
        attending = asyncio.create_task(_attend(informers, client.connection.server))
        stack.callback(attending.cancel)
        stack.callback(_heed_reader(bell))
        yield bell


async def _served(client: Client, feed: Feed) -> bool:
    """Asks for what an informer will ask for, so that a refusal is an answer and not a line in its log."""
    try:
        version = await client.newest(feed.resource, namespace=feed.namespace)
        async with client.stream(
            feed.resource,
            namespace=feed.namespace,
            labels=feed.labels,
            fields=feed.fields,
            resource_version=version,
            timeout=1.0,
        ):
            return True
    except NotFound:
        if feed.resource.plural not in OPTIONAL:
            raise
        return False


async def _attend(informers: Sequence[Informer[Any]], server: str) -> None:
    away = False
    while True:
        await asyncio.sleep(1.0)
        lag = max((each.lag for each in informers), default=0.0)
        if not away and lag > AWAY_SECONDS:
            away = True
            say(AWAY.format(server=server), stream=sys.stderr)
        elif away and lag == 0.0:
            away = False
            say(BACK.format(server=server), stream=sys.stderr)


def _heed_reader(bell: Bell) -> Callable[[], None]:
    """A pipe's reader that goes away is noticed at once, not at the next change. Returns how to end it."""
    try:
        number = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            return lambda: None
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(number)
            bell.desert()

        loop.add_reader(number, gone)
    except (OSError, ValueError, NotImplementedError):
        return lambda: None  # no pipe, or none that can be asked: the next write will tell
    return lambda: _forget(loop, number)


def _forget(loop: asyncio.AbstractEventLoop, number: int) -> None:
    with suppress(OSError, ValueError):
        loop.remove_reader(number)
