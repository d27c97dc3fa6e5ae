"""What travels: bodies on their way in, large answers on their way out, and how much of both is held at once.

Memory is counted by what has arrived or waits to be sent, not by who asked, so that those who send or read slowly
hold little and keep nobody else from being served. Where it runs out, the next one is asked to come again later.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from aiohttp import web

from fairway.hub import status
from fairway.hub.serving.body import LIMIT, TOO_LARGE
from fairway.hub.serving.connection import BODY_SECONDS, Connection

BODIES: Final = 256 * 1024 * 1024
"""Bytes of bodies that are held at once."""
ANSWERS: Final = 512 * 1024 * 1024
"""Bytes of large answers that are held at once; a single one may be larger."""
PIECE: Final = 256 * 1024
"""Answers beyond this are large: they are sent in pieces of this size, as fast as the client reads."""
ANSWER_SECONDS: Final = 60.0
"""How long a client may take over a large answer; as kube-apiserver's limit for any request."""

BUSY: Final = "too many requests, please try again later"
LATE_BODY: Final = "the request's body did not arrive in time"


class Held:
    """Bytes that are held for clients."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0

    @contextmanager
    def room(self) -> Iterator["Room"]:
        room = Room(self)
        try:
            yield room
        finally:
            self.bytes -= room.taken


class Room:
    """What one client has taken of it."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.taken = 0

    def take(self, size: int) -> None:
        """Raises a 429. Who is alone gets what it wants."""
        others = self._held.bytes - self.taken
        if others and self._held.bytes + size > self._held.most:
            raise status.too_many_requests(BUSY, retry_after=1)
        self._held.bytes += size
        self.taken += size


class Traffic:
    def __init__(self, *, bodies: int = BODIES, answers: int = ANSWERS) -> None:
        self.bodies, self.answers = Held(bodies), Held(answers)

    @asynccontextmanager
    async def body(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """The whole of it, which counts as held until the block is left. Raises a 408, 413 or 429."""
        if (request.content_length or 0) > LIMIT:
            raise status.too_large(TOO_LARGE)
        with self.bodies.room() as room:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    raw = await _read(request, room)
            except TimeoutError:
                raise status.Refusal(code=408, reason="Timeout", message=LATE_BODY) from None
            yield raw

    async def send(self, request: web.BaseRequest, answer: web.Response) -> web.StreamResponse:
        """The same answer, sent in pieces if it is large. Raises a 429."""
        payload = answer.body
        if not isinstance(payload, bytes) or len(payload) <= PIECE or request.method == "HEAD":
            return answer
        with self.answers.room() as room:
            room.take(len(payload))
            response = web.StreamResponse(status=answer.status, headers=answer.headers)
            response.content_length = len(payload)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await response.prepare(request)
                    view = memoryview(payload)
                    for start in range(0, len(payload), PIECE):
                        await response.write(view[start : start + PIECE])
                    await response.write_eof()
            except TimeoutError:
                if isinstance(request.protocol, Connection):
                    request.protocol.abort()
                raise ConnectionResetError("the client doesn't read its answer") from None
            return response


async def _read(request: web.BaseRequest, room: Room) -> bytes:
    pieces = bytearray()
    while piece := await request.content.readany():
        if len(pieces) + len(piece) > LIMIT:
            raise status.too_large(TOO_LARGE)
        room.take(len(piece))
        pieces += piece
    return bytes(pieces)
