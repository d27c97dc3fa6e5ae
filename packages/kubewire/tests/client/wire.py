"""A server on a real socket that answers with the bytes of a test, to see what a client does with them."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable


class Wire:
    """One accepted connection, from the server's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> bytes:
        """Return the next request with its body, or nothing if the client closed the connection."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            return head + await self._reader.readexactly(int(length or 0))
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()

    async def sent(self) -> None:
        """Wait until the kernel has all bytes."""
        while self._writer.transport.get_write_buffer_size():
            await asyncio.sleep(0)

    def cut(self) -> None:
        """End the connection below TLS, without the close_notify of a server that has sent all."""
        self._writer.transport.abort()

    def reset(self) -> None:
        self._writer.transport.abort()


Script = Callable[[Wire], Awaitable[None]]


class ScriptedServer:
    """Plays one script per connection, in order; connections without a script are accepted and not answered."""

    def __init__(
        self, *scripts: Script, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._scripts, self._context, self._host = list(scripts), context, host
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://{self.address}"

    async def __aenter__(self) -> "ScriptedServer":
        self._server = await asyncio.start_server(self._accept, self._host, 0, ssl=self._context)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connections += 1
        if self._scripts:
            played = self._scripts.pop(0)(Wire(reader, writer))
            self._tasks.append(asyncio.ensure_future(played))

    async def ended(self) -> None:
        """Wait for all scripts, and raise their errors."""
        await asyncio.gather(*self._tasks)
