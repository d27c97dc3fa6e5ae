"""Run kubectl commands, whose output must be the same on every hub.

Values that differ are replaced by others of the same width, so that an expected text looks as on a terminal: the
namespace is called ``suite-of-tests``, every age is ``0s``.
"""

import asyncio
import re
import shlex
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from clients.exchanges import ADDRESS, TIME, UID

DEADLINE = 120
"""Seconds after which a line that shows nothing has failed."""
NAMESPACE = "suite-of-tests"
AGE = re.compile(r"(?<!\S)\d{1,2}s(?=[\s),]|$)( *)", re.MULTILINE)
DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
VERSION = re.compile(r"(resourceVersion: |Resource Version: +)\"?\d+\"?")
BLANKS = re.compile(r"[ \t]+$", re.MULTILINE)
LOG = re.compile(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\.go:\d+\] .*\n", re.MULTILINE)
"""Messages of the client library itself, such as about a watch that was closed early."""
UNSEEN = "unable to sync caches"
"""How a wait ends that was over before the hub had answered for the first time."""
FAILED = "kubectl {line}\nended with status {status}\n{errors}{output}"


@dataclass(frozen=True, slots=True)
class Shown:
    status: int
    output: str
    errors: str


def page(text: str) -> str:
    """An expected text, written between triple quotes and indented like the code around it."""
    return dedent(text).removeprefix("\n")


class Screen:
    """What a kubectl that keeps running shows, line by line."""

    def __init__(self, process: Process, *, namespace: str) -> None:
        self._process, self._namespace = process, namespace

    async def lines(self, count: int) -> str:
        shown = [await self._line() for _ in range(count)]
        return steady("".join(shown), namespace=self._namespace)

    async def _line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            return (await self._process.stdout.readline()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Runs kubectl in one folder, for one user of one hub."""

    kubectl: Path
    kubeconfig: Path
    home: Path
    """For kubectl's caches."""
    folder: Path
    namespace: str
    """The one of the kubeconfig."""

    async def __call__(self, line: str, *, given: str = "", env: Mapping[str, str] | None = None) -> str:
        """What is shown by a line that must succeed without complaint."""
        shown = await self.run(line, given=given, env=env)
        assert (shown.status, shown.errors) == (0, ""), FAILED.format(
            line=line, status=shown.status, errors=shown.errors, output=shown.output
        )
        return shown.output

    async def refused(self, line: str, *, given: str = "") -> str:
        """The complaint about a line that must fail and show nothing else."""
        shown = await self.run(line, given=given)
        assert (shown.status, shown.output) == (1, ""), FAILED.format(
            line=line, status=shown.status, errors=shown.errors, output=shown.output
        )
        return shown.errors

    async def granted(self, question: str) -> None:
        """Wait until the hub allows it: a real one applies new rights a moment later."""
        async with asyncio.timeout(DEADLINE):
            while (await self.run(f"auth can-i -q {question}")).status:
                pass

    async def in_vain(self, line: str) -> str:
        """The complaint about a wait that must not come to its end, but must have begun to look."""
        seconds = 0.5
        while UNSEEN in (told := await self.refused(f"{line} --timeout={seconds}s")):
            seconds *= 4
        return told

    async def exactly(self, line: str) -> str:
        """What is shown, as it is: for values that go into other lines."""
        status, output, errors = await self._run(line, given="", env={})
        assert status == 0, FAILED.format(line=line, status=status, errors=errors, output=output)
        return output

    async def run(self, line: str, *, given: str = "", env: Mapping[str, str] | None = None) -> Shown:
        status, output, errors = await self._run(line, given=given, env=env or {})
        told = LOG.sub("", errors)
        return Shown(status, steady(output, namespace=self.namespace), steady(told, namespace=self.namespace))

    async def _run(self, line: str, *, given: str, env: Mapping[str, str]) -> tuple[int, str, str]:
        process = await self._start(line, env=env)
        try:
            async with asyncio.timeout(DEADLINE):
                output, errors = await process.communicate(dedent(given).encode())
        finally:
            await _end(process)
        return process.returncode or 0, output.decode(), errors.decode()

    @asynccontextmanager
    async def running(self, line: str) -> AsyncIterator[Screen]:
        process = await self._start(line, env={})
        try:
            yield Screen(process, namespace=self.namespace)
        finally:
            await _end(process)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")

    async def _start(self, line: str, *, env: Mapping[str, str]) -> Process:
        return await asyncio.create_subprocess_exec(
            self.kubectl,
            f"--kubeconfig={self.kubeconfig}",
            *shlex.split(line),
            cwd=self.folder,
            env={
                "HOME": str(self.home),
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "KUBECACHEDIR": str(self.home / "cache"),
                "KUBECTL_KUBERC": "false",
                **env,
            },
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )


async def served(shell: Shell, kind: str) -> None:
    """Until a kind can be used that was defined a moment ago.

    `kubectl wait` is no way to know: it fails at once where a definition has no conditions yet, and discovery may be
    behind the condition it waits for.
    """
    async with asyncio.timeout(DEADLINE):
        while (await shell.run(f"get {kind}")).status:
            await asyncio.sleep(0.05)


def steady(text: str, *, namespace: str) -> str:
    text = UID.sub("<uid>", text)
    text = DATE.sub("<time>", TIME.sub("<time>", text))
    text = ADDRESS.sub("<address>", text)
    text = VERSION.sub(r"\1<version>", text)
    text = AGE.sub(lambda match: "0s".ljust(len(match[0])) if match[1] else "0s", text)
    return BLANKS.sub("", text.replace(namespace, NAMESPACE))


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
