"""`fairway run` as it is, but for a shorter lease, and for telling a test what it writes in lines of JSON.

On ``stop`` it stops itself with SIGSTOP at the worst moment: it has made sure that it leads, a write is
next. When it is continued the write goes out, as if it had been stopped within the system call.
"""

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final
from unittest.mock import patch

from chaos.control import ControlClient
from fairway.cli import main as cli
from fairway.observe.logs import OWN_LOGGERS
from kubewire.client.errors import KubeError
from kubewire.client.lease import Timing
from kubewire.client.transport import Response, Transport

TIMING: Final = Timing(lease=6, renew=5.0, retry=0.25)
"""Long enough that a slow leader keeps the lease."""
WRITES: Final = frozenset({"POST", "PATCH", "PUT", "DELETE"})

_OURS: Final = re.compile(r"/(?:placements|placementdecisions)(?:/|$)")


class LogPrinter(logging.Handler):
    """Also repeats what is logged."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(logging.INFO)
        self._path, self._name = path, name
        self._line: ControlClient | None = None
        self._listening: asyncio.Task[None] | None = None
        self._stop = False
        self._sending: set[asyncio.Task[Response]] = set()
        self._early: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._report(log=record.getMessage(), level=record.levelname)

    def _report(self, **line: Any) -> None:
        if self._line is None:
            self._early.append(line)
        else:
            self._line.send(**line)

    async def _introduce(self) -> None:
        line = await ControlClient.connect(self._path, name=self._name)
        if self._line is None:
            self._line = line
            self._listening = asyncio.create_task(self._listen(line))
            for message in self._early:
                line.send(**message)

    async def _listen(self, line: ControlClient) -> None:
        while True:
            self._stop = (await line.receive())["stop"]
            self._report(received=self._stop)

    async def request(
        self,
        send: Callable[..., Awaitable[Response]],
        transport: Transport,
        method: str,
        path: str,
        **options: Any,
    ) -> Response:
        if self._line is None:
            await self._introduce()
        if method not in WRITES or _OURS.search(path) is None:
            return await send(transport, method, path, **options)
        self._report(tries=method, path=path)
        if not self._stop:
            return await self._sent(send(transport, method, path, **options), method, path)
        self._stop = False
        self._report(inside=True)
        assert self._line is not None
        await self._line.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
        # The end of the term ends the waiting for the answer, but what was sent was sent.
        sending = asyncio.create_task(self._sent(send(transport, method, path, **options), method, path))
        self._sending.add(sending)
        return await asyncio.shield(sending)

    async def _sent(self, sending: Awaitable[Response], method: str, path: str) -> Response:
        try:
            answer = await sending
        except KubeError as error:
            self._report(refused=type(error).__name__, path=path)
            raise
        if method != "DELETE":  # some hubs return no version for a deletion
            version = int(json.loads(answer.body)["metadata"]["resourceVersion"])
            self._report(wrote=version, path=path)
        return answer


def main() -> None:
    path, name, *arguments = sys.argv[1:]
    talker = LogPrinter(path, name)
    for logger in OWN_LOGGERS:
        logging.getLogger(logger).addHandler(talker)
    send = Transport.request

    async def request(transport: Transport, method: str, path: str, **options: Any) -> Response:
        return await talker.request(send, transport, method, path, **options)

    sys.argv = ["fairway", "run", "--identity", name, *arguments]
    with (
        patch.object(Timing, "of_lease", lambda _seconds: TIMING),
        patch.object(Transport, "request", request),
    ):
        cli.main()
