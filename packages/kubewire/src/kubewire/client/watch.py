"""A watch stream: chunks to lines, lines to events, and a missing end to an error.

Events are delivered in the groups they arrived in. Under load that is hundreds at a time, so a consumer does its own
work once per group.
"""

import asyncio
from typing import Final, Generic

import aiohttp

from kubewire.api.resource import T
from kubewire.client.codec import Codec, Lines, Unreadable, WatchEvent
from kubewire.client.errors import DeadlineExceeded, TransportError
from kubewire.client.session import describe_failure

GRACE: Final = 15.0
"""Seconds by which the hub may be late to end a watch."""

BROKEN: Final = "{name}: the connection broke: {why}"


class Stream(Generic[T]):
    """Iterate to get groups of events. Ends when the hub ends the watch; raises KubeErrors.

    ``unreadable`` are the fields of the last group that were dropped because they cannot be decoded.
    """

    def __init__(
        self, response: aiohttp.ClientResponse, codec: Codec[T], *, timeout: float, name: str = "watch"
    ) -> None:
        self._response, self._codec, self._name = response, codec, name
        self._lines = Lines()
        self._error: Exception | None = None
        self._deadline = asyncio.get_running_loop().time() + timeout + GRACE
        self.unreadable: tuple[Unreadable, ...] = ()

    def __aiter__(self) -> "Stream[T]":
        return self

    async def __anext__(self) -> list[WatchEvent[T]]:
        while self._error is None:
            chunk = await self._read()
            if not chunk:
                if self._lines.pending:
                    raise TransportError(f"{self._name}: the connection ended in the middle of a line")
                raise StopAsyncIteration
            lines = self._lines.feed(chunk)
            if not lines:
                continue
            batch = self._codec.events(lines)
            # Deliver the events before an error first; raise the error at the next iteration.
            self._error = batch.error
            self.unreadable = batch.unreadable
            if batch.events or batch.unreadable:
                return batch.events
        raise self._error

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._response.content.readany()
        except TimeoutError as error:
            if isinstance(error, aiohttp.ClientError):
                raise TransportError(BROKEN.format(name=self._name, why=describe_failure(error))) from error
            raise DeadlineExceeded(
                f"{self._name}: the hub did not end the watch within {GRACE:g} s after its timeout"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(BROKEN.format(name=self._name, why=describe_failure(error))) from error
