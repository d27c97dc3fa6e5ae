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
from kubewire.client import Backoff

log: Final = logging.getLogger(__name__)

GRACE_SECONDS: Final = 10.0
"""Time to exit after SIGTERM, before SIGKILL."""
STEADY_SECONDS: Final = 30.0
"""Run time after which the backoff is reset."""
LONGEST_LOG: Final = 10_000_000
"""Size in bytes at which the log is truncated; its content is kept once as ``log.old``."""
LOG_SECONDS: Final = 30.0
"""Interval of checks of the log's size."""

STARTED: Final = "agent %s runs as process %d; its log is %s"
NOT_STARTED: Final = "cannot start agent %s (%s); retrying in %.1f s"
ENDED: Final = "agent %s exited with status %s; restarting in %.1f s"

_BACKOFF: Final = Backoff(base=0.5, cap=60.0)

# prctl(PR_SET_PDEATHSIG, SIGKILL): the kernel kills the child when the klusterlet dies. The child checks its parent,
# which may have died before. On other systems only an orderly exit stops the child.
_DIE_WITH_PARENT: Final = """\
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class LocalProcess:
    """A process of Fairway. Calls ``changed`` when it starts and when it exits."""

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
        """Run until cancelled; then stop the process."""
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
                status = await self._wait(child)
            except asyncio.CancelledError:
                await self._stop(child)
                raise
            finally:
                # Process ids are reused: a file that outlives its process would name a stranger's.
                self._pid_file.unlink(missing_ok=True)
            self._changed()
            # Only a process that ran for a while resets the delay; one that crashes at its start would otherwise
            # restart forever at full speed.
            if loop.time() - began >= STEADY_SECONDS:
                failures = 0
            pause = _BACKOFF.delay(failures)
            failures += 1
            log.warning(ENDED, self.name, status, pause)
            await asyncio.sleep(pause)

    async def _wait(self, child: asyncio.subprocess.Process) -> int:
        """Return the exit status. Truncates the log meanwhile."""
        while True:
            try:
                async with asyncio.timeout(LOG_SECONDS):
                    return await child.wait()
            except TimeoutError:
                with suppress(OSError):
                    self.trim_log()

    def trim_log(self) -> None:
        """Truncate the log, which the process keeps open for appending. Raises OSError."""
        if self._log.stat().st_size > LONGEST_LOG:
            with open(self._log, "rb") as written:
                written.seek(-LONGEST_LOG, os.SEEK_END)
                replace_private(self._log.with_name("log.old"), written.read(LONGEST_LOG))
            # The process appends to the open file, so it continues at the new end. Renaming the file would take its log
            # away.
            os.truncate(self._log, 0)

    async def _start(self) -> asyncio.subprocess.Process:
        make_private(self._log.parent)
        with suppress(FileNotFoundError):
            self.trim_log()
        environment = {**_inherited_variables(), **self._variables}
        appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with open(os.open(self._log, appending, 0o600), "ab") as output:
            self._child = child = await asyncio.create_subprocess_exec(
                sys.executable,
                # An interpreter of its own instead of ``preexec_fn``, which may deadlock in a process with threads.
                "-I",
                "-S",
                "-c",
                _DIE_WITH_PARENT,
                str(os.getpid()),
                sys.executable,
                "-P",  #  do not import modules from the current directory
                "-m",
                "fairway",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                # Ctrl-C is for the klusterlet, which stops its agents in order.
                start_new_session=True,
            )
        replace_private(self._pid_file, f"{child.pid}\n".encode())
        log.info(STARTED, self.name, child.pid, self._log)
        self._changed()
        return child

    async def _stop(self, child: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await child.wait()
                    return
            child.kill()
            await child.wait()


def _inherited_variables() -> dict[str, str]:
    """Variables that any program needs, without credentials of a cluster."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE")
    return {name: value for name in kept if (value := os.environ.get(name)) is not None}
