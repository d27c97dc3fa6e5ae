"""Programs as processes of their own that are there in a moment.

A Python program of Fairway spends a second or two on importing before it does anything; a test that kills a hub a
dozen times can't wait for that a dozen times. So one process imports everything once, and a program is a fork of it:
from there on a process like any other, with its own memory, files and end. Run as a script this module is that
process; it is told what to do in lines of JSON.
"""

import asyncio
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

POLL: Final = 0.01
"""Seconds between looks at a process that is starting or ending."""
PATIENCE: Final = 120.0
"""Seconds after which what hasn't happened won't happen."""

PRELOADED: Final = (
    "fairway.cli.hub.command",
    "fairway.cli.hub.process",
    "fairway.kube.informer",
    "fairway.kube.leader",
)
_PR_SET_PDEATHSIG: Final = 1


class Child:
    """A running program."""

    def __init__(self, nursery: "Nursery", *, pid: int, log: Path) -> None:
        self.pid, self.log = pid, log
        self._nursery = nursery
        self._status: int | None = None

    @property
    def status(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        if self._status is None:
            ended, status = self._nursery.ask("poll", pid=self.pid)
            self._status = status if ended else None
        return self._status

    def signal(self, number: int) -> None:
        if self.status is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Returns when it is no more."""
        self.signal(signal.SIGKILL)
        if self._status is None:
            (self._status,) = self._nursery.ask("wait", pid=self.pid)

    async def end(self) -> int:
        """Waits until it ends by itself."""
        async with asyncio.timeout(PATIENCE):
            while self.status is None:
                await asyncio.sleep(POLL)
        assert self._status is not None
        return self._status

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


class Nursery:
    """Use it in ``with``: all that were started and still run are killed at the end."""

    def __init__(self) -> None:
        tests = Path(__file__).parent.parent
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(os.getpid()), str(tests)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # the children asked the kernel to go with it
        self._process.communicate()

    def ask(self, what: str, **order: Any) -> list[Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": what, **order}).encode() + b"\n")
        process.stdin.flush()
        answer: list[Any] = json.loads(process.stdout.readline())
        return answer

    def start(self, module: str, *arguments: str, log: Path, limits: dict[int, int] | None = None) -> Child:
        """``module`` has a ``main`` that reads ``sys.argv``. ``limits`` are numbered as in the module ``resource``."""
        (pid,) = self.ask(
            "start",
            module=module,
            arguments=arguments,
            log=str(log),
            limits=list((limits or {}).items()),
        )
        return Child(self, pid=pid, log=log)


# The process itself


def _leash(parent: int) -> None:
    """Die with the parent, also if it died before this was asked for."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _be(
    parent: int, module: str, arguments: Sequence[str], log: str, limits: Sequence[Sequence[int]]
) -> None:
    """In the child: become the program."""
    import resource

    os.setsid()
    _leash(parent)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(given, standard)
    for number, value in limits:
        resource.setrlimit(number, (value, resource.getrlimit(number)[1]))
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


def _serve() -> None:
    _leash(int(sys.argv[1]))
    sys.path.insert(0, sys.argv[2])
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin.buffer:
        order = json.loads(line)
        match order.pop("do"):
            case "start":
                parent = os.getpid()
                pid = os.fork()
                if not pid:
                    _run(parent, order)
                answer: list[Any] = [pid]
            case "poll":
                found, status = os.waitpid(order["pid"], os.WNOHANG)
                answer = [bool(found), os.waitstatus_to_exitcode(status) if found else None]
            case _:
                _, status = os.waitpid(order["pid"], 0)
                answer = [os.waitstatus_to_exitcode(status)]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _run(parent: int, order: dict[str, Any]) -> None:
    """Never returns: what is above it on the stack is the nursery's."""
    status = 1
    try:
        _be(parent, **order)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
