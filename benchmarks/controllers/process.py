"""CPU and memory of processes, and child processes that report measurements.

A child reads one request per line from its standard input and answers with a line of JSON. It ends with its input, so
that none outlives the benchmark. Times are of the monotonic clock, which all processes of a machine share.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from glob import glob
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
LINE_LIMIT = 2**20


class Ended(Exception):
    """A child process ended unexpectedly."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in user and kernel mode, without its children."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    fields = after_name.split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> tuple[int, int]:
    """Return the current and the maximum memory of a process in bytes."""
    memory = {"VmRSS": 0, "VmHWM": 0}
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in memory:
            memory[name] = int(value.split()[0]) * 1024
    return memory["VmRSS"], memory["VmHWM"]


class Child:
    """A running child process; see ``child``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        return cpu_seconds(self.pid)

    async def ask(self, question: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(question.encode() + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        except ConnectionError:
            line = b""
        if not line:
            raise Ended(f"process {self.pid} ended; see its output above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def child(module: str, *arguments: str, tree: str = "") -> AsyncIterator[Child]:
    """Run ``python -m module`` within the block. It logs to our standard error.

    ``tree`` is the folder of another version of the sources.
    """
    environment = dict(os.environ)
    if tree:
        packages = glob(os.path.join(tree, "packages/*/src"))
        before = environment.get("PYTHONPATH", "")
        paths = [os.path.join(tree, "src"), *packages, os.path.join(tree, "tests"), before]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=tree or None,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT,
    )
    try:
        yield Child(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def questions() -> AsyncIterator[str]:
    """Yield the requests to a child, until its input ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


def answer(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)
