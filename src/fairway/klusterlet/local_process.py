"""A child process that is restarted when it exits, and that ends with the klusterlet, however that ends."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairway.klusterlet.atomic_directory import make_private, replace_private
from fairway.kube import Backoff

log: Final = logging.getLogger(__name__)

GRACE_SECONDS: Final = 10.0
"""To end in order; then it is killed."""
STEADY_SECONDS: Final = 30.0
"""Who ran for so long begins anew with short pauses."""
LONGEST_LOG: Final = 10_000_000
"""Bytes, after which the log is begun anew; what was in it is kept once, beside it."""
LOG_SECONDS: Final = 30.0
"""Between looks at how long it is."""

STARTED: Final = "agent %s runs as process %d; its log is %s"
NOT_STARTED: Final = "cannot start agent %s (%s); retrying in %.1f s"
ENDED: Final = "agent %s exited with status %s; restarting in %.1f s"

_BACKOFF: Final = Backoff(base=0.5, cap=60.0)

# prctl(PR_SET_PDEATHSIG, SIGKILL): the kernel ends the child when the klusterlet is gone, be it killed. If it went
# before that was asked for, nobody will send the signal any more. Elsewhere than on Linux only an orderly end stops it.
_LEASHED: Final = """\
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class LocalProcess:
    """Of Fairway itself. ``changed`` is called when it starts and when it ends."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        variables: Mapping[str, str],
        folder: Path,
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self._arguments, self._variables = tuple(arguments), dict(variables)
        self._log, self._pid_file = folder / "log", folder / "pid"
        self._changed = changed
        self._child: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def run(self) -> None:
        """Until cancelled; then it is ended."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                child = await self._start()
            except (OSError, ValueError) as error:
                pause = _BACKOFF.delay(failures)
                failures += 1
                log.warning(NOT_STARTED, self.name, error, pause)
                await asyncio.sleep(pause)
                continue
            try:
                status = await self._over(child)
            except asyncio.CancelledError:
                await self._end(child)
                raise
            finally:
                self._pid_file.unlink(missing_ok=True)
            self._changed()
            if loop.time() - began >= STEADY_SECONDS:
                failures = 0
            pause = _BACKOFF.delay(failures)
            failures += 1
            log.warning(ENDED, self.name, status, pause)
            await asyncio.sleep(pause)

    async def _over(self, child: asyncio.subprocess.Process) -> int:
        """Its status, once it has ended. Meanwhile its log is kept short."""
        while True:
            try:
                async with asyncio.timeout(LOG_SECONDS):
                    return await child.wait()
            except TimeoutError:
                with suppress(OSError):
                    self.trim_log()

    def trim_log(self) -> None:
        """The process goes on writing to the same file, at its end, wherever that is. Raises OSError."""
        if self._log.stat().st_size > LONGEST_LOG:
            with open(self._log, "rb") as written:
                written.seek(-LONGEST_LOG, os.SEEK_END)
                replace_private(self._log.with_name("log.old"), written.read(LONGEST_LOG))
            os.truncate(self._log, 0)

    async def _start(self) -> asyncio.subprocess.Process:
        make_private(self._log.parent)
        with suppress(FileNotFoundError):
            self.trim_log()
        environment = {**_inherited(), **self._variables}
        appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with open(os.open(self._log, appending, 0o600), "ab") as output:
            self._child = child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                "-c",
                _LEASHED,
                str(os.getpid()),
                sys.executable,
                "-P",  # a module in the folder this was started in is nobody's
                "-m",
                "fairway",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                # Ctrl-C at the terminal is for the klusterlet, which ends its agents in order.
                start_new_session=True,
            )
        replace_private(self._pid_file, f"{child.pid}\n".encode())
        log.info(STARTED, self.name, child.pid, self._log)
        self._changed()
        return child

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await child.wait()
                    return
            child.kill()
            await child.wait()


def _inherited() -> dict[str, str]:
    """What any program needs, and nothing that says how to reach a cluster."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE")
    return {name: value for name in kept if (value := os.environ.get(name)) is not None}
