"""One worker: starts its process, exchanges messages with it within a deadline, and kills it.

An exchange is a generator that yields what to send and how long to wait for the reply, so that it can be driven by a
command, which waits, and by an event loop, which does something else meanwhile.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from fairway.hosts.snapshot import Snapshot
from fairway.scheduling.guard import START_SECONDS
from fairway.scheduling.isolation.shipping import Shipped
from fairway.scheduling.isolation.wire import (
    HEADER,
    LARGEST_ANSWER,
    Answer,
    Ask,
    Describe,
    Described,
    Failed,
    Load,
    Need,
    Ready,
    Refused,
    Reply,
    WireError,
    decode_reply,
    frame,
    unpack,
)

SLOW_START: Final = "could not be started within {limit:g} seconds; its process was killed"
SLOW: Final = "did not return within {limit:g} seconds; its process was killed"
CRASHED: Final = "ended {how}"
GARBAGE: Final = "sent what is no message: {error}; its process was killed"
REFUSED: Final = "cannot be started: {reason}"
BY_SIGNAL: Final = "by {signal}"
WITH_STATUS: Final = "with exit status {status}"
TOO_LARGE: Final = "a message of {size} bytes"
UNEXPECTED: Final = "{kind} at the wrong time"
MESSAGE_SECONDS: Final = 0.0003
"""What an exchange of messages takes at least."""
GRACE_SECONDS: Final = 1.0
"""More time for an answer that began to arrive: the event loop may have been busy when the time was over."""
REAP_SECONDS: Final = 0.02
"""How long to wait for the exit status of a process that closed its pipe."""

FOREVER: Final = float("inf")

_Transfers = Generator[tuple[bytes, float], bytes, Any]


class WorkerError(Exception):
    """The process did not answer and was ended. The message describes what its plugin did."""


class PluginError(Exception):
    """The plugin has a fault; its process runs on."""

    def __init__(self, point: str, reason: str) -> None:
        super().__init__(reason)
        self.point = point


class StartError(Exception):
    """The plugin cannot be loaded or created."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


class _Process(NamedTuple):
    process: subprocess.Popen[bytes]
    connection: socket.socket


class Worker:
    """``limit`` returns how long an answer may take, in seconds. The process starts with the first exchange."""

    def __init__(self, load: Load | None = None, *, limit: Callable[[], float] = lambda: FOREVER) -> None:
        self._load, self._limit = load, limit
        self._shipped = Shipped()
        self._running: _Process | None = None
        self._end: Any = None
        self.turn = asyncio.Lock()
        """Held by the task that calls ``ask_soon``."""
        self._is_starting = False

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._running is None else self._running.process.pid

    def start(self) -> None:
        """Load the plugin. Raises StartError."""
        try:
            self._drive(self._start())
        except WorkerError as error:
            raise StartError(str(error)) from None

    def describe(self, request: Describe) -> Described:
        """Return the plugins of a file or a package. Raises StartError."""
        try:
            described: Described = self._drive(self._describe(request))
        except WorkerError as error:
            raise StartError(str(error)) from None
        return described

    def ask(self, request: Ask, snapshot: Snapshot[Any]) -> Any:
        """Return the answer; ``request`` is completed with the updates. Raises WorkerError and PluginError."""
        return self._drive(self._ask(request, snapshot))

    async def ask_soon(self, request: Ask, snapshot: Snapshot[Any]) -> Any:
        """Like ``ask``, without blocking the event loop."""
        return await self._drive_soon(self._ask(request, snapshot))

    def stop(self) -> None:
        """Kill the process, and its children."""
        self._running = None
        self._shipped.forget()
        if self._end is not None:
            self._end()

    # Exchanges

    def _start(self) -> _Transfers:
        self._spawn()
        if self._load is None:
            return
        match decode_reply((yield frame(self._load), START_SECONDS)):
            case Ready():
                return
            case Refused(reason=reason, remedy=remedy):
                self.stop()
                raise StartError(reason, remedy)
            case reply:
                raise WireError(UNEXPECTED.format(kind=type(reply).__name__))

    def _describe(self, request: Describe) -> _Transfers:
        self._spawn()
        match decode_reply((yield frame(request), START_SECONDS)):
            case Described() as described:
                return described
            case Refused(reason=reason, remedy=remedy):
                raise StartError(reason, remedy)
            case reply:
                raise WireError(UNEXPECTED.format(kind=type(reply).__name__))

    def _ask(self, request: Ask, snapshot: Snapshot[Any]) -> _Transfers:
        # A process that ended since the last question is no fault of this one: start another.
        if self._running is None or self._running.process.poll() is not None:
            self.stop()
            try:
                yield from self._start()
            except StartError as error:
                raise WorkerError(REFUSED.format(reason=error)) from None
        # What the process has is known exactly: it got nothing but the parts it asked for and these changes.
        request = replace(request, updates=self._shipped.advance(snapshot))
        self._is_starting = False
        message, left = frame(request), self._limit()
        while True:
            began = time.monotonic()
            reply: Reply = decode_reply((yield message, left))
            took = time.monotonic() - began
            match reply:
                case Need(part=part, piece=piece, seconds=seconds):
                    # The plugin does not pay for a busy event loop, only for a usual message. Free messages could be
                    # requested forever.
                    left -= min(took, max(seconds, MESSAGE_SECONDS))
                    message = frame(self._shipped.part(part, piece))
                case Answer(value=value):
                    return unpack(value)
                case Failed(point=point, reason=reason, fatal=fatal):
                    if fatal:
                        self.stop()
                        raise WorkerError(reason)
                    raise PluginError(point, reason)
                case _:
                    raise WireError(UNEXPECTED.format(kind=type(reply).__name__))

    # The process

    def _spawn(self) -> None:
        # A socket pair, because a plugin may write to its standard output.
        ours, theirs = socket.socketpair()
        main_thread = threading.current_thread() is threading.main_thread()
        command = (sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()))
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with theirs:
            process = subprocess.Popen(
                (*command, paths, "1" if main_thread else ""),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=_stderr(),
                start_new_session=True,  # no Ctrl-C of the terminal, and children end with it
                env={**os.environ, **_ONE_THREAD},
            )
        self._shipped.forget()
        self._is_starting = True
        self._running = _Process(process, ours)
        self._end = weakref.finalize(self, _kill, process, ours)

    def _drive(self, transfers: _Transfers) -> Any:
        data: bytes | None = None
        while True:
            try:
                message, limit = next(transfers) if data is None else transfers.send(data)
            except StopIteration as end:
                return end.value
            except WireError as error:
                raise self._broken(GARBAGE.format(error=error)) from None
            try:
                data = self._transfer(message, limit)
            except TimeoutError:
                raise self._broken(self._slow(limit)) from None
            except OSError:
                raise self._crashed() from None
            except WireError as error:
                raise self._broken(GARBAGE.format(error=error)) from None
            except BaseException:
                self.stop()  # interrupted: the next answer would be that of this question
                raise

    async def _drive_soon(self, transfers: _Transfers) -> Any:
        data: bytes | None = None
        while True:
            try:
                message, limit = next(transfers) if data is None else transfers.send(data)
            except StopIteration as end:
                return end.value
            except WireError as error:
                raise self._broken(GARBAGE.format(error=error)) from None
            try:
                data = await self._transfer_soon(message, limit)
            except TimeoutError:
                raise self._broken(self._slow(limit)) from None
            except OSError:
                raise self._crashed() from None
            except WireError as error:
                raise self._broken(GARBAGE.format(error=error)) from None
            except BaseException:
                self.stop()
                raise

    def _slow(self, limit: float) -> str:
        return SLOW_START.format(limit=limit) if self._is_starting else SLOW.format(limit=self._limit())

    def _transfer(self, message: bytes, limit: float) -> bytes:
        connection = self._connection()
        connection.setblocking(True)
        due = time.monotonic() + limit

        def wait() -> None:
            left = due - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(None if left == FOREVER else left)

        wait()
        connection.sendall(message)
        received = bytearray()
        size = HEADER.size
        while len(received) < size:
            wait()
            received += _received(connection.recv(min(size - len(received), 1 << 20)))
            if len(received) == HEADER.size == size:
                size += _size_of(received)
        return bytes(received[HEADER.size :])

    async def _transfer_soon(self, message: bytes, limit: float) -> bytes:
        loop, connection = asyncio.get_running_loop(), self._connection()
        connection.setblocking(False)
        received = bytearray()

        async def transfer() -> None:
            if not sent:
                await loop.sock_sendall(connection, message)
                sent.append(True)
            while len(received) < HEADER.size:
                received.extend(_received(await loop.sock_recv(connection, HEADER.size - len(received))))
            size = HEADER.size + _size_of(received)
            while len(received) < size:
                received.extend(
                    _received(await loop.sock_recv(connection, min(size - len(received), 1 << 20)))
                )

        sent: list[bool] = []
        try:
            async with asyncio.timeout(None if limit == FOREVER else max(limit, 0)):
                await transfer()
        except TimeoutError:
            # The answer may have arrived in time while other tasks held the event loop. That must not be
            # the plugin's fault.
            if not sent or not (received or select.select([connection], [], [], 0)[0]):
                raise
            async with asyncio.timeout(GRACE_SECONDS):
                await transfer()
        return bytes(received[HEADER.size :])

    def _connection(self) -> socket.socket:
        if self._running is None:
            raise OSError
        return self._running.connection

    def _broken(self, reason: str) -> WorkerError:
        self.stop()
        return WorkerError(reason)

    def _crashed(self) -> WorkerError:
        status = None
        if self._running is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._running.process.wait(REAP_SECONDS)
        self.stop()
        if status is None:
            return WorkerError(CRASHED.format(how="without a word"))
        if status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
            return WorkerError(CRASHED.format(how=BY_SIGNAL.format(signal=name)))
        return WorkerError(CRASHED.format(how=WITH_STATUS.format(status=status)))


_PROGRAM: Final = (
    "import os, sys; sys.path[:] = sys.argv[3].split(os.pathsep); "
    "from fairway.scheduling.isolation.serving import main; main(*sys.argv[1:])"
)
_ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads of numeric libraries reserve address space, which counts for the memory limit."""


def _stderr() -> int:
    """Return where plugins print: not where commands print their results."""
    try:
        return subprocess.DEVNULL if sys.__stderr__ is None else sys.__stderr__.fileno()
    except (OSError, ValueError):
        return subprocess.DEVNULL


def _received(data: bytes) -> bytes:
    if not data:
        raise ConnectionResetError
    return data


def _size_of(header: bytearray) -> int:
    size: int = HEADER.unpack(header)[0]
    if size > LARGEST_ANSWER:
        raise WireError(TOO_LARGE.format(size=size))
    return size


def _kill(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # A process that releases much memory takes longer to end; a later one reaps it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(REAP_SECONDS)
    _dying[:] = [child for child in (*_dying, process) if child.poll() is None]


_dying: Final[list[subprocess.Popen[bytes]]] = []
"""Killed, but not ended yet."""
