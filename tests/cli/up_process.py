"""`fairway up` and `fairway run` as processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
from kubewire.api.resource import T
from kubewire.client import Client, Informer, Resource
from kubewire.client.kubeconfig import load

ROOT = Path(__file__).parents[2]
FAIRWAY = (sys.executable, "-m", "fairway")


def environment(**more: str) -> dict[str, str]:
    """The environment without variables of the developer's shell or of a pod."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FAIRWAY_")
        and name not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "POD_NAME")
    }
    return {**kept, **more}


@dataclass(frozen=True, kw_only=True)
class Up:
    process: forked.Process
    announcement: Mapping[str, Any]
    errors: Path

    @property
    def kubeconfig(self) -> Path:
        return Path(self.announcement["kubeconfig"])

    def client(self) -> Client:
        return Client(load(self.kubeconfig).context())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait()


def announced(process: forked.Process, errors: Path) -> Mapping[str, Any]:
    """Return the document printed with `-o json` when it is ready; ``errors`` has the reason if it fails."""
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, errors.read_text()
        text += line
    announcement: Mapping[str, Any] = json.loads(text)
    return announcement


@contextmanager
def up(tmp_path: Path, *arguments: object) -> Iterator[Up]:
    """Start `fairway up` on a free port with the given options."""
    errors = tmp_path / "stderr"
    command = ["up", "--port", "0", "-o", "json", *arguments]
    with (
        errors.open("w") as stderr,
        forked.Process(command, stdout=forked.PIPE, stderr=stderr, env=environment(), cwd=ROOT) as process,
    ):
        try:
            yield Up(process=process, announcement=announced(process, errors), errors=errors)
        finally:
            process.kill()


@dataclass(frozen=True, kw_only=True)
class Running:
    process: forked.Process
    lines: list[dict[str, Any]]
    """Of its log, as far as it was read."""

    def read_until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert self.process.stderr is not None
        while line := self.process.stderr.readline():
            event: dict[str, Any] = json.loads(line)
            self.lines.append(event)
            if holds(event):
                return event
        raise AssertionError(f"ended with {self.process.wait()}: {self.lines}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        assert self.process.stderr is not None
        self.lines.extend(json.loads(line) for line in self.process.stderr)
        return self.process.wait()


@contextmanager
def logging(*arguments: object, **variables: str) -> Iterator[Running]:
    """A command that writes its log as JSON."""
    command = [*arguments, "--log-format", "json"]
    with forked.Process(command, stderr=forked.PIPE, env=environment(**variables)) as process:
        try:
            yield Running(process=process, lines=[])
        finally:
            process.kill()


@contextmanager
def running(*arguments: object, **variables: str) -> Iterator[Running]:
    """Start `fairway run` and wait until it is connected."""
    with logging("run", *arguments, **variables) as process:
        process.read_until(lambda line: " on hub " in line["msg"])
        yield process


def fairway(*arguments: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that ends."""
    return forked.run(arguments, env=environment(**variables), cwd=ROOT)


async def until(client: Client, resource: Resource[T], holds: Callable[[Mapping[Any, T]], bool]) -> None:
    """Watch the resource until the condition holds."""
    async with Informer(client, resource) as informer:
        await informer.synced.wait()
        changed = asyncio.Event()
        informer.subscribe(lambda _: changed.set())
        while not holds(informer.store):
            await changed.wait()
            changed.clear()
