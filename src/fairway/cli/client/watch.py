"""`--watch`: follow objects of a hub until the user stops the command.

Informers resume closed watches and reconnect to a restarted hub. A hub that stays unreachable is reported once on
stderr.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.cli.client.objects import NOT_COUNTED, OPTIONAL
from fairway.cli.text import say
from kubewire.client import Batch, Client, Forbidden, Informer, NotFound, Resource
from kubewire.client.change import Change

UNREACHABLE: Final = "fairway: hub {server} unreachable, reconnecting"
RECONNECTED: Final = "fairway: hub {server} reconnected"
UNREACHABLE_SECONDS: Final = 5.0
"""Shorter outages, such as a restart, are not reported."""

Observe = Callable[[Change[Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Objects of one kind to watch, in one namespace or in all."""

    resource: Resource[Any]
    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    observe: Observe | None = None
    """Receives the changes of this feed; by default, the function that receives those of all feeds."""


class ChangeSignal:
    """Wakes the command when an object changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._abandoned = False

    def notify(self) -> None:
        self._changed.set()

    def abandon(self) -> None:
        """Make ``wait`` raise BrokenPipeError: the reader of stdout closed it."""
        self._abandoned = True
        self._changed.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a change, at most ``seconds``. Raises BrokenPipeError when the reader of stdout closed it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
        if self._abandoned:
            raise BrokenPipeError


@asynccontextmanager
async def following(client: Client, feeds: Sequence[Feed], observe: Observe) -> AsyncIterator[ChangeSignal]:
    """Watch feeds. When the block starts, ``observe`` has received every existing object as added.

    Raises KubeErrors if the hub refuses the first request; later failures are retried.
    """
    changes = ChangeSignal()
    informers: list[Informer[Any]] = []

    def handler(batch: Batch[Any], receive: Observe) -> None:
        for change in batch.changes:
            receive(change)
        changes.notify()

    async with AsyncExitStack() as stack:
        for feed in feeds:
            if not await _is_served(client, feed):
                continue
            informer = Informer(
                client, feed.resource, namespace=feed.namespace, labels=feed.labels, fields=feed.fields
            )
            informer.subscribe(partial(handler, receive=feed.observe or observe))
            informers.append(await stack.enter_async_context(informer))
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        reporting = asyncio.create_task(_report_outages(informers, client.connection.server))
        stack.callback(reporting.cancel)
        stack.callback(_notice_closed_pipe(changes))
        yield changes


async def _is_served(client: Client, feed: Feed) -> bool:
    """Send the requests an informer will send, so that a refusal raises instead of being retried."""
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
    except Forbidden as error:
        if feed.resource is not HOSTED_CLUSTER_REQUESTS:
            raise
        say(NOT_COUNTED.format(kind=feed.resource.kind, reason=error), stream=sys.stderr)
        return False


async def _report_outages(informers: Sequence[Informer[Any]], server: str) -> None:
    unreachable = False
    while True:
        await asyncio.sleep(1.0)
        lag = max((informer.lag for informer in informers), default=0.0)
        if not unreachable and lag > UNREACHABLE_SECONDS:
            unreachable = True
            say(UNREACHABLE.format(server=server), stream=sys.stderr)
        elif unreachable and lag == 0.0:
            unreachable = False
            say(RECONNECTED.format(server=server), stream=sys.stderr)


def _notice_closed_pipe(changes: ChangeSignal) -> Callable[[], None]:
    """Notice a closed pipe at once instead of at the next write. Returns a function that undoes it."""
    try:
        number = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            return lambda: None
        loop = asyncio.get_running_loop()

        def closed() -> None:
            loop.remove_reader(number)
            changes.abandon()

        loop.add_reader(number, closed)
    except (OSError, ValueError, NotImplementedError):
        return lambda: None  # not a pipe, or one that cannot be polled: the next write fails instead
    return lambda: _remove_reader(loop, number)


def _remove_reader(loop: asyncio.AbstractEventLoop, number: int) -> None:
    with suppress(OSError, ValueError):
        loop.remove_reader(number)
