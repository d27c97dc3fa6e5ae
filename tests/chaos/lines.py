"""Lines of JSON between a test and its programs, over a socket in the file system."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from forked import PATIENCE

Line = dict[str, Any]


class Party:
    """One program, and everything it has said."""

    def __init__(self, writer: asyncio.StreamWriter, name: str) -> None:
        self.name = name
        self.said: list[Line] = []
        self._writer = writer
        self._news = asyncio.Event()
        self._over = asyncio.Event()

    def hear(self, line: Line) -> None:
        self.said.append(line)
        self._news.set()

    def tell(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def says(self, holds: Callable[[Line], bool], *, after: int = 0) -> Line:
        """The first such line, ``after`` so many."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for line in self.said[after:]:
                    if holds(line):
                        return line
                after = len(self.said)
                self._news.clear()
                await self._news.wait()

    def hang_up(self) -> None:
        self._over.set()

    async def over(self) -> None:
        """Until it will say nothing more, because it has ended: what it said last may be on its way for longer."""
        async with asyncio.timeout(PATIENCE):
            await self._over.wait()


class Switchboard:
    """Programs introduce themselves with their name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parties: dict[str, asyncio.Future[Party]] = {}

    async def party(self, name: str) -> Party:
        async with asyncio.timeout(PATIENCE):
            return await self._expected(name)

    def _expected(self, name: str) -> "asyncio.Future[Party]":
        return self._parties.setdefault(name, asyncio.get_running_loop().create_future())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = json.loads(await reader.readline())
        party = Party(writer, first["name"])
        self._expected(party.name).set_result(party)
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                party.hear(json.loads(line))
        except ConnectionResetError:
            pass  # it was killed
        finally:
            party.hang_up()
            writer.close()


@asynccontextmanager
async def switchboard() -> AsyncIterator[Switchboard]:
    # Not below the test's own folder: the names of sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="fairway-"))
    board = Switchboard(folder / "lines")
    server = await asyncio.start_unix_server(board._serve, board.path, limit=2**24)
    try:
        yield board
    finally:
        server.close()
        shutil.rmtree(folder)


class Caller:
    """The program's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        # Who waits for room in the buffer then waits until all of it is sent.
        writer.transport.set_write_buffer_limits(high=0)

    @classmethod
    async def introduced(cls, path: str, *, name: str) -> "Caller":
        reader, writer = await asyncio.open_unix_connection(path)
        caller = cls(reader, writer)
        caller.tell(name=name)
        return caller

    def tell(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def flush(self) -> None:
        await self._writer.drain()

    async def hear(self) -> Line:
        line: Line = json.loads(await self._reader.readline())
        return line
