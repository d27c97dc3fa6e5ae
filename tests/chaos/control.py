"""Messages between a test and its programs: lines of JSON over a socket in the file system."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from forked import PATIENCE

Message = dict[str, Any]


class Program:
    """A program as its test sees it, with all messages it sent."""

    def __init__(self, writer: asyncio.StreamWriter, name: str) -> None:
        self.name = name
        self.messages: list[Message] = []
        self._writer = writer
        self._news = asyncio.Event()
        self._closed = asyncio.Event()

    def receive(self, line: Message) -> None:
        self.messages.append(line)
        self._news.set()

    def send(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def wait_for(self, holds: Callable[[Message], bool], *, after: int = 0) -> Message:
        """Wait for a message, and return it; the first ``after`` messages do not count."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for line in self.messages[after:]:
                    if holds(line):
                        return line
                after = len(self.messages)
                self._news.clear()
                await self._news.wait()

    def close(self) -> None:
        self._closed.set()

    async def closed(self) -> None:
        """Wait until the program closed the connection. Its last messages may arrive after its end."""
        async with asyncio.timeout(PATIENCE):
            await self._closed.wait()


class ControlServer:
    """Accepts connections of programs, which send their name first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._programs: dict[str, asyncio.Future[Program]] = {}

    async def program(self, name: str) -> Program:
        async with asyncio.timeout(PATIENCE):
            return await self._expected(name)

    def _expected(self, name: str) -> "asyncio.Future[Program]":
        return self._programs.setdefault(name, asyncio.get_running_loop().create_future())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = json.loads(await reader.readline())
        program = Program(writer, first["name"])
        self._expected(program.name).set_result(program)
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                program.receive(json.loads(line))
        except ConnectionResetError:
            pass  # it was killed
        finally:
            program.close()
            writer.close()


@asynccontextmanager
async def control_server() -> AsyncIterator[ControlServer]:
    # Not below the test's own folder: the names of sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="fairway-"))
    control = ControlServer(folder / "lines")
    server = await asyncio.start_unix_server(control._serve, control.path, limit=2**24)
    try:
        yield control
    finally:
        server.close()
        shutil.rmtree(folder)


class ControlClient:
    """The connection of a program to its test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        # So that ``flush`` waits until everything is sent.
        writer.transport.set_write_buffer_limits(high=0)

    @classmethod
    async def connect(cls, path: str, *, name: str) -> "ControlClient":
        reader, writer = await asyncio.open_unix_connection(path)
        client = cls(reader, writer)
        client.send(name=name)
        return client

    def send(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def flush(self) -> None:
        await self._writer.drain()

    async def receive(self) -> Message:
        line: Message = json.loads(await self._reader.readline())
        return line
