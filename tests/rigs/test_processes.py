"""Child processes end with their parent, and a failed start has a reason."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import forked
from kubehub.testing.background import background
from rigs.processes import LOOPBACK, Port, Process, StartFailed, ready

PATIENCE = 120.0
PYTHON = Path(sys.executable)
FOREVER = "import signal; signal.pause()"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
)
STARTS_ONE = """\
import signal, sys
from pathlib import Path
from rigs.processes import Process
print(Process([sys.executable, "-c", "import signal; signal.pause()"], log=Path(sys.argv[1])).pid, flush=True)
signal.pause()
"""
SERVES = """\
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[2]))
        self.end_headers()
        self.wfile.write(b"so it is")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel doesn't kill orphans")


def program(code: str, *arguments: object, log: Path) -> Process:
    return Process([PYTHON, "-c", code, *map(str, arguments)], log=log)


@only_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_child_process_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path / "log")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.send_signal(number)
            ended, _, _ = select.select([child], [], [], PATIENCE)
            assert ended
        finally:
            os.close(child)


def test_processes_are_killed_if_their_block_fails() -> None:
    waiting = subprocess.list2cmdline(["exec", "sleep", "1000"])
    children: list[forked.Process | forked.Popen] = []
    for child in (forked.Process(["hub", "--port", "0"]), forked.Popen(["sh", "-c", waiting], text=True)):
        children.append(child)
        with pytest.raises(ZeroDivisionError), child:
            raise ZeroDivisionError
    assert [child.returncode for child in children] == [-signal.SIGKILL] * 2


@only_linux
async def test_child_process_is_the_program_itself(tmp_path: Path) -> None:
    """The pid is that of the program, not of a wrapper."""
    process = program(FOREVER, log=tmp_path / "log")
    try:
        assert process.alive
        assert process.resident() > 0
        assert os.getpgid(process.pid) == process.pid  # out of reach of the terminal's interrupts
    finally:
        await process.stop()


async def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    process = program(DEAF, log=tmp_path / "log")
    async with asyncio.timeout(PATIENCE):
        while "deaf" not in process.tail():
            await asyncio.sleep(0)
    await process.stop(grace=0.01)
    assert not process.alive
    assert process.status == -signal.SIGKILL


async def test_process_is_killed_when_stopping_is_cancelled(tmp_path: Path) -> None:
    process = program(DEAF, log=tmp_path / "log")
    async with asyncio.timeout(PATIENCE):
        while "deaf" not in process.tail():
            await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await process.stop(grace=600)
    assert not process.alive


async def test_process_that_ends_early_is_reported_with_its_log(tmp_path: Path) -> None:
    process = program("import sys; sys.exit('out of luck')", log=tmp_path / "log")
    with (
        pytest.raises(StartFailed, match=r"(?s)^python.* ended with status 1 before .*out of luck"),
        Port() as port,
    ):
        await ready(f"http://{LOOPBACK}:{port}", process)


async def test_dependency_that_ends_early_is_reported_with_its_log(tmp_path: Path) -> None:
    asked = program(FOREVER, log=tmp_path / "asked")
    needed = program("import sys; sys.exit('out of luck')", log=tmp_path / "needed")
    try:
        with pytest.raises(StartFailed, match="out of luck"), Port() as port:
            await ready(f"http://{LOOPBACK}:{port}", asked, needed)
    finally:
        await asked.stop()


async def test_process_that_is_never_ready_is_reported_with_its_last_answer(tmp_path: Path) -> None:
    with Port() as port:
        process = program(SERVES, port, 503, log=tmp_path / "log")
        try:
            # How long one response takes depends on the machine, so wait for it.
            async with asyncio.timeout(PATIENCE):
                while "GET" not in process.tail():
                    with pytest.raises(StartFailed) as failed:
                        await ready(f"http://{LOOPBACK}:{port}", process, deadline=0.2)
            assert "was not ready after 0.2 s" in str(failed.value)
        finally:
            await process.stop()


@only_linux
def test_reserved_port_stays_reserved_while_a_child_listens() -> None:
    with Port() as port, socket.socket() as child, socket.socket() as other:
        child.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        child.bind((LOOPBACK, port.number))
        child.listen()
        with pytest.raises(OSError, match="Address already in use"):
            other.bind((LOOPBACK, port.number))


@asynccontextmanager
async def noting(seen: list[str], *, fails: bool = False) -> AsyncIterator[str]:
    await asyncio.sleep(0)
    if fails:
        raise StartFailed("no")
    seen.append("entered")
    yield "value"
    await asyncio.sleep(0)
    seen.append("left")


async def test_background_context_runs_beside_another_loop() -> None:
    seen: list[str] = []
    with background(noting(seen)):
        pass
    assert seen == ["entered", "left"]
