"""Request bodies and large responses in transit, and the memory they may take.

Memory is counted by what has arrived or waits to be sent, so clients that send or read slowly hold little. A user
may hold a quarter of it, so that there is always memory for others. A request that doesn't fit gets a 429.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from aiohttp import web

from kubehub import status
from kubehub.flowcontrol.turns import BUSY
from kubehub.serialization.body import LIMIT, TOO_LARGE
from kubehub.serving.connection import BODY_SECONDS, Connection

BODIES: Final = 256 * 1024 * 1024
"""Bytes of request bodies that are held at once."""
ANSWERS: Final = 512 * 1024 * 1024
"""Bytes of large responses that are held at once; a single one may be larger."""
PIECE: Final = 256 * 1024
"""Larger responses are sent in pieces of this size, as fast as the client reads."""
ANSWER_SECONDS: Final = 60.0
"""Seconds that a client may take to read a large response; kube-apiserver's limit for any request."""

_SHARE: Final = 4
"""A user may hold the total divided by this."""

LATE_BODY: Final = "timed out reading the request body"


class HeldBytes:
    """Counts the bytes that are held for clients."""

    def __init__(self, most: int) -> None:
        self.most, self.share = most, most // _SHARE
        self.bytes = 0
        self.owned: dict[str, int] = {}

    @contextmanager
    def reserve(self, owner: str = "") -> Iterator["Reservation"]:
        reservation = Reservation(self, owner)
        try:
            yield reservation
        finally:
            self.bytes -= reservation.taken
            left = self.owned.get(owner, 0) - reservation.taken
            if left > 0:
                self.owned[owner] = left
            else:
                self.owned.pop(owner, None)


class Reservation:
    """The bytes that one request of a user holds."""

    def __init__(self, held: HeldBytes, owner: str) -> None:
        self._held, self._owner = held, owner
        self.taken = 0

    def take(self, size: int) -> None:
        """Reserve bytes. Raises a 429, unless nothing else is reserved, by the user or at all."""
        held, owned = self._held, self._held.owned.get(self._owner, 0)
        full = held.bytes > self.taken and held.bytes + size > held.most
        if full or (self._owner and owned > self.taken and owned + size > held.share):
            raise status.too_many_requests(BUSY, retry_after=1)
        held.bytes += size
        held.owned[self._owner] = owned + size
        self.taken += size


class Traffic:
    def __init__(self, *, bodies: int = BODIES, answers: int = ANSWERS) -> None:
        self.bodies, self.answers = HeldBytes(bodies), HeldBytes(answers)

    @asynccontextmanager
    async def body(
        self, request: web.BaseRequest, *, limit: int = LIMIT, owner: str = ""
    ) -> AsyncIterator[bytes]:
        """Read the body, which stays reserved until the block is left. Raises a 408, 413 or 429."""
        if (request.content_length or 0) > limit:
            raise status.too_large(TOO_LARGE.format(limit))
        with self.bodies.reserve(owner) as reservation:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    raw = await _read(request, reservation, limit)
            except TimeoutError:
                raise status.Refusal(code=408, reason="Timeout", message=LATE_BODY) from None
            yield raw

    async def send(
        self, request: web.BaseRequest, answer: web.Response, *, owner: str = ""
    ) -> web.StreamResponse:
        """Return the same response, sent in pieces if it is large. Raises a 429."""
        payload = answer.body
        if not isinstance(payload, bytes) or len(payload) <= PIECE or request.method == "HEAD":
            return answer
        with self.answers.reserve(owner) as reservation:
            reservation.take(len(payload))
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
                raise ConnectionResetError("timed out writing the response") from None
            return response


async def _read(request: web.BaseRequest, reservation: Reservation, limit: int) -> bytes:
    pieces = bytearray()
    while piece := await request.content.readany():
        if len(pieces) + len(piece) > limit:
            raise status.too_large(TOO_LARGE.format(limit))
        reservation.take(len(piece))
        pieces += piece
    return bytes(pieces)
