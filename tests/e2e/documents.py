"""Run the commands of documentation pages in one shell, and compare their output with the pages."""

import asyncio
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2e.harness import environment
from rigs.processes import LEASH, POLL, Process

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "\x1e"
"""Stands in the output before what each block prints."""
SECONDS = 600.0
"""For a whole page, on a machine that has other things to do."""

NORMAL = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r'resourceVersion: "\d+"', "resourceVersion: VERSION"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\bv1\.\d+\.\d+\S*", "KUBERNETES"),
    (r"(certificate request \w+)-[a-z0-9]{5}\b", r"\1-RANDOM"),
    (r"\b(\d+[hm])?\d+s( \(x\d+ over (\d+[hm])?\d+s\))?(?=\s|$)", "AGE"),
    (r"(?<=\S) {2,}", "  "),  # columns are as wide as what stands in them
    (r"-{3,}", "---"),
    (r"^\S+: line \d+: +\d+ (Killed|Terminated) .*\n?", ""),  # messages of the shell about jobs
)
"""What differs from one time to the next."""


@dataclass(frozen=True, slots=True)
class Step:
    """One block of commands, and the output that the page shows, if any."""

    commands: str
    shown: str | None


def steps(page: str) -> list[Step]:
    steps: list[Step] = []
    for kind, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "sh":
            steps.append(Step(text, None))
        else:
            last = steps.pop()
            assert last.shown is None, f"{page} shows twice what these print:\n{last.commands}"
            steps.append(Step(last.commands, text))
    return steps


def normal(text: str) -> str:
    for pattern, instead in NORMAL:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text.rstrip()


class Terminal:
    """One bash in a folder of its own, in which ``fairway`` and ``kubectl`` are found, and no hub is configured."""

    def __init__(self, folder: Path, *, kubectl: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        (programs / "kubectl").symlink_to(kubectl)
        fairway = programs / "fairway"
        # Ends with the shell, also if it is killed, which would leave its background processes.
        fairway.write_text(
            f"#!/bin/sh\nexec '{sys.executable}' -I -S -c '{LEASH}' $PPID '{sys.executable}' -m fairway \"$@\"\n"
        )
        fairway.chmod(fairway.stat().st_mode | stat.S_IXUSR)
        self._environment = {**environment(), "HOME": str(folder), "COLUMNS": "120"}
        self._environment["PATH"] = os.pathsep.join([str(programs), os.environ["PATH"]])

    async def run(self, page: list[Step], *, files: Mapping[str, Path] | None = None) -> list[str]:
        """Return the output of each step. Fails with the first command that fails, and if a process keeps running.

        ``files`` are in the folder from the beginning, by their names there.
        """
        work = self.folder / "work"
        work.mkdir()
        for name, file in (files or {}).items():
            (work / name).symlink_to(file)
        script = self.folder / "page.sh"
        script.write_text("".join(_script(work, page)), encoding="utf-8")
        log = self.folder / "printed"
        shell = Process(["/bin/bash", "-e", "-u", "-o", "pipefail", script], log=log, env=self._environment)
        try:
            await _ended(shell)
            printed = log.read_text(encoding="utf-8").split(MARK)[1:]
            assert shell.status == 0, self._failure(page[len(printed) - 1], printed[-1], shell.status)
            assert not _lives(shell.pid), "the page leaves processes behind"
            return printed
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            await shell.stop(grace=0)

    def _failure(self, step: Step, printed: str, status: int | None) -> str:
        logs = [
            f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("work/**/*log"))
        ]
        how = "did not end" if status is None else f"ended with status {status}"
        return "\n".join([f"{how}:\n{step.commands}", printed, *logs])


def _script(folder: Path, page: list[Step]) -> Iterator[str]:
    yield f"exec 2>&1\ncd '{folder}'\n"
    for step in page:
        yield f"printf '\\036'\n{step.commands}"


async def _ended(shell: Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while shell.alive:
                await asyncio.sleep(POLL)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
