"""`fairway hub` as a process."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from clients.talk import Talk, context

import forked
from cli.up_process import announced
from kubewire.client.session import abandon

COMMAND = (sys.executable, "-m", "fairway", "hub")


@dataclass(frozen=True, kw_only=True)
class Served:
    process: forked.Process
    url: str
    kubeconfig: Path
    errors: Path
    """The file with its stderr."""

    def talk(self) -> Talk:
        """Connect as the administrator."""
        url, tls, token = context(self.kubeconfig)
        return Talk(url=url, context=tls, token=token)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait()


@contextmanager
def served(tmp_path: Path, *arguments: object) -> Iterator[Served]:
    """Start a hub on a free port with the given options."""
    errors = tmp_path / "stderr"
    with (
        errors.open("w") as stderr,
        forked.Process(
            ["hub", "--port", "0", "-o", "json", *arguments],
            stdout=forked.PIPE,
            stderr=stderr,
            env={**os.environ, "FAIRWAY_DEBUG": ""},
        ) as process,
    ):
        try:
            told = announced(process, errors)
            assert told["pid"] == process.pid
            yield Served(process=process, url=told["url"], kubeconfig=Path(told["kubeconfig"]), errors=errors)
        finally:
            process.kill()


@asynccontextmanager
async def reading(talk: Talk, path: str) -> AsyncIterator[aiohttp.StreamReader]:
    """An endless response. Its connection is closed at once: a TLS shutdown would wait for the other side."""
    async with talk.open(path) as answer:
        try:
            yield answer.content
        finally:
            abandon(answer)


def refused(*arguments: object) -> str:
    """Return the error of a hub that does not start."""
    run = forked.run(["hub", *arguments], env={**os.environ, "FAIRWAY_DEBUG": ""})
    assert run.returncode == 2, run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    return run.stderr
