"""Run ``fairway`` commands and programs of the tests as forked processes, which start at once.

Importing Fairway takes about a second, most of the time of a short command. So one process per pytest worker imports
everything once, and every program is a fork of it, with its own memory, files, signals and exit status. Tests of the
start itself (imports, encodings, missing streams) use ``subprocess``.

As a script, this module is the process that forks.
"""

import asyncio
import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import fairway
import kubehub
import kubewire

PIPE: Final = subprocess.PIPE
POLL: Final = 0.01
"""Seconds between two checks of a process that is starting or ending."""
PATIENCE: Final = 120.0
"""Seconds after which a test stops waiting."""
COMMAND: Final = "fairway.cli.main"
LONGEST_ORDER: Final = 1 << 17
SKIPPED: Final = ("fairway.testing", "fairway.__main__", "kubehub.testing.plugin")
_PR_SET_PDEATHSIG: Final = 1


class Process:
    """A running program, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        module: str = COMMAND,
        limits: Mapping[int, int] | None = None,
    ) -> None:
        """Run the ``main`` of a module with ``arguments``. Streams are as for ``subprocess.Popen``.

        ``limits`` are soft limits, numbered as in the module ``resource``.
        """
        self.args = list(map(str, arguments))
        self.returncode: int | None = None
        theirs: list[int] = [os.open(os.devnull, os.O_RDONLY)]
        self.stdout, written = _stream(stdout, 1)
        theirs.append(written)
        self.stderr, written = _stream(stderr, 2)
        theirs.append(written)
        self._status, status = os.pipe()
        order = {
            "arguments": self.args,
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "module": module,
            "limits": list((limits or {}).items()),
        }
        try:
            socket.send_fds(_forkserver(), [json.dumps(order).encode()], [*theirs, status])
        finally:
            for descriptor in (*theirs, status):
                os.close(descriptor)
        self.pid = int(self._read_line())

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def _read_line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self._status, 1)
            if not read:
                raise RuntimeError(f"fairway {' '.join(self.args)}: the fork server ended")
            line += read
        return line.decode()

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._read_line())
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Popen(subprocess.Popen[str]):
    """A child process that is killed if its block fails, where the base class would wait for it forever."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


class Child:
    """A program of the tests, or a hub, that writes to a log and is killed or waited for."""

    def __init__(
        self, module: str, *arguments: object, log: Path, limits: Mapping[int, int] | None = None
    ) -> None:
        self.log = log
        with log.open("a", encoding="utf-8") as output:
            self._process = Process(arguments, stdout=output, stderr=output, module=module, limits=limits)
        self.pid = self._process.pid

    @property
    def status(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        self._process.kill()
        self._process.wait()

    async def end(self) -> int:
        """Wait until it ends by itself."""
        async with asyncio.timeout(PATIENCE):
            while self.status is None:
                await asyncio.sleep(POLL)
        return self._process.wait()

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def run(
    arguments: Sequence[object], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command until it ends, like ``subprocess.run`` with captured text."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with Process(arguments, stdout=output, stderr=errors, env=env, cwd=cwd) as process:
            status = process.wait()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(process.args, status, output.read(), errors.read())


def shell(command: str, *, env: Mapping[str, str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a line of a shell, with stderr in ``stdout``; one that only calls ``fairway`` is forked."""
    words = shlex.split(command)
    if words[:1] != ["fairway"] or set(command) & set("|&;<>()$`\\\n*?[]{}~#"):
        return subprocess.run(
            ["sh", "-c", f"{{ {command}\n}} 2>&1"], cwd=cwd, env=env, stdout=PIPE, text=True, check=False
        )
    with tempfile.TemporaryFile("w+") as output:
        with Process(words[1:], stdout=output, stderr=output, env=env, cwd=cwd) as process:
            status = process.wait()
        output.seek(0)
        return subprocess.CompletedProcess(words, status, output.read())


def _stream(given: int | IO[str] | None, standard: int) -> tuple[IO[str] | None, int]:
    """Return the end of a stream for the test, if any, and the one for the process."""
    if given is None:
        return None, os.dup(standard)
    if given == PIPE:
        read, write = os.pipe()
        return open(read, encoding="utf-8"), write
    if isinstance(given, int):
        return None, os.dup(given)
    return None, os.dup(given.fileno())


@cache
def _forkserver() -> socket.socket:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        process = subprocess.Popen(
            [sys.executable, __file__, str(there.fileno()), str(os.getpid())],
            pass_fds=[there.fileno()],
            # Programs of tests import modules beside the tests, those of packages, too.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


# The fork server


def _leash(parent: int) -> None:
    """Die with the parent, also if the parent already died."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _preload() -> None:
    for package in (fairway, kubehub, kubewire):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(SKIPPED):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _serve(orders: socket.socket) -> dict[str, Any]:
    """Serve requests; returns only in a forked process, which becomes the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 4)
        if not message:
            os._exit(0)
        parent = os.getpid()
        if not os.fork():
            _leash(parent)
            *streams, status = descriptors
            if not _supervise(status):
                orders.close()
                for given, standard in zip(streams, (0, 1, 2), strict=True):
                    os.dup2(given, standard)
                    os.close(given)
                os.close(status)
                order: dict[str, Any] = json.loads(message)
                return order
        for descriptor in descriptors:
            os.close(descriptor)


def _supervise(status: int) -> bool:
    """Fork again. Return False in the program; the parent reports the exit status and never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        _leash(parent)
        return False
    os.closerange(0, status)
    os.closerange(status + 1, status + 64)
    os.write(status, f"{pid}\n".encode())
    _, ended = os.waitpid(pid, 0)
    os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def _become(order: dict[str, Any]) -> None:
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    for number, value in order["limits"]:
        resource.setrlimit(number, (value, resource.getrlimit(number)[1]))
    sys.argv[:] = [str(Path(fairway.__file__).with_name("__main__.py")), *order["arguments"]]


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the tests handle Ctrl-C
    _leash(int(sys.argv[2]))
    _preload()
    order = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(order)
    importlib.import_module(order["module"]).main()


if __name__ == "__main__":
    _main()
