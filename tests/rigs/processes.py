"""Servers as child processes, on free ports. A child never outlives its parent.

A killed test cannot clean up. So a child asks the kernel to be killed when its parent dies (Linux only): a few lines of
Python do that and then become the program, because `preexec_fn` may deadlock in a parent with threads. The kernel
regards the *thread* that started a child as its parent, so start children in a thread that lives as long as they do.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from ssl import SSLContext

import aiohttp

LOOPBACK = "127.0.0.1"
POLL = 0.02
"""Seconds between two checks of a process that is starting or ending."""
ENDED = "{name} ended with status {status} before it was ready"
NOT_READY = "{name} was not ready after {seconds:g} s; its last answer to {url}: {answer}"
LOG_TAIL = "last lines of {log}:\n{tail}"

# prctl(PR_SET_PDEATHSIG, SIGKILL); if the parent died before, no signal follows.
LEASH = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])
"""


class StartFailed(Exception):
    """Names the process, the reason, and the end of its log."""


class Port:
    """A free port of the loopback interface that stays reserved until closed, although a child listens on it.

    The kernel does not assign the port of a socket that is bound but does not listen. As both sides allow the reuse of
    addresses (Go's listeners do), the child can still listen there.
    """

    def __init__(self) -> None:
        self._holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((LOOPBACK, 0))
        self.number: int = self._holder.getsockname()[1]
        if sys.platform != "linux":  # others refuse a second socket; the port is then ours by luck alone
            self._holder.close()

    def __str__(self) -> str:
        return str(self.number)

    def __enter__(self) -> "Port":
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.close()


class Process:
    """A running program whose output goes to a log."""

    def __init__(
        self, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = Path(command[0]).name
        self.command = tuple(str(part) for part in command)
        self.log = log
        self._env = env
        self._child = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = list(self.command)
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid()), *command]
        with self.log.open("ab") as log:
            # In its own session: the test handles an interrupt at the terminal, and stops its children in order.
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    @property
    def status(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._child.poll()

    def resident(self) -> int:
        """Its memory in bytes. Linux only."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    async def stop(self, *, grace: float = 10) -> None:
        """Terminate the process, and kill it after this number of seconds; 0 kills it at once."""
        try:
            if grace and self.alive:
                self._child.send_signal(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        while self.alive:
                            await asyncio.sleep(POLL)
        finally:  # also for who is cancelled while waiting
            self._child.kill()
            self._child.wait()

    async def restart(self, *, grace: float = 10) -> None:
        """Stop it and start it again. The caller waits until it is ready."""
        await self.stop(grace=grace)
        self._child = self._start()


async def ready(
    url: str, *processes: Process, deadline: float = 180, tls: SSLContext | None = None, token: str = ""
) -> None:
    """Wait until the URL answers 200. The first process serves it; the others are those it needs."""
    asked = processes[0]
    answer = "none"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=5)
    try:
        async with (
            asyncio.timeout(deadline),
            aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=False) as session,
        ):
            while True:
                for process in processes:
                    if process.status is not None:
                        message = ENDED.format(name=process.name, status=process.status)
                        raise StartFailed(_explained(message, process))
                try:
                    async with session.get(url, ssl=tls or True) as response:
                        if response.status == 200:
                            return
                        answer = f"{response.status} {await response.text()}"
                except (aiohttp.ClientError, TimeoutError) as error:
                    answer = str(error) or type(error).__name__
                await asyncio.sleep(POLL)
    except TimeoutError:
        message = NOT_READY.format(name=asked.name, seconds=deadline, url=url, answer=answer)
        raise StartFailed(_explained(message, *processes)) from None


def _explained(message: str, *processes: Process) -> str:
    return "\n".join(
        [message, *(LOG_TAIL.format(log=process.log, tail=process.tail()) for process in processes)]
    )
