"""A relay between a replica and the hub that can be cut without closing connections. Data sent meanwhile arrives
late, when the relay is restored.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

CHUNK = 2**16


class Relay:
    def __init__(self, server: str) -> None:
        """``server`` is the hub's address."""
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._whole = asyncio.Event()
        self._whole.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.url = ""

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Relay"]:
        server = await asyncio.start_server(self._connect, "127.0.0.1")
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for pump in list(self._pumps):
                pump.cancel()
                with suppress(asyncio.CancelledError):
                    await pump

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            await self._whole.wait()
            there, back = await asyncio.open_connection(self._host, self._port)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, back))
                    group.create_task(self._pump(there, writer))
            finally:
                back.transport.abort()
        except* OSError:
            pass  # either side may go whenever it likes
        finally:
            writer.transport.abort()
            self._pumps.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await self._whole.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError  # so that the other direction ends, too
