"""Hubs with objects, for tests of commands that connect to a hub, and such commands as processes."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import forked
from fairway.api.kinds import KubeObject
from fairway.cli.client.names import NAMESPACES
from fairway.cli.client.objects import HOSTING, LINTED
from fairway.cli.files.loader import load
from kubewire.api.encoding import encode
from kubewire.client import AlreadyExists, Client, Patch, Resource

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fleet"
RESOURCES: dict[str, Resource[Any]] = {resource.kind: resource for resource in (*LINTED, *HOSTING)}

R = TypeVar("R")


def act(kubeconfig: Path, work: Callable[[Client], Awaitable[R]]) -> R:
    """Run `work` with the administrator's client, from a test without an event loop."""

    async def inside() -> R:
        async with Client.from_kubeconfig(kubeconfig) as client:
            return await work(client)

    return asyncio.run(inside())


def fill(kubeconfig: Path, *objects: KubeObject, paths: Sequence[Path] = ()) -> None:
    """Create the objects, and those in files, with their status and namespaces."""
    loaded = [origin.object for origin in load([str(path) for path in paths])] if paths else []
    act(kubeconfig, lambda client: put(client, [*objects, *loaded]))


async def put(client: Client, objects: Iterable[KubeObject]) -> None:
    every = list(objects)
    await asyncio.gather(
        *(_namespace(client, name) for name in {thing.metadata.namespace for thing in every} - {""})
    )
    await asyncio.gather(*(_create(client, thing) for thing in every))


async def _namespace(client: Client, name: str) -> None:
    try:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return


async def _create(client: Client, thing: KubeObject) -> None:
    resource = RESOURCES[thing.kind]
    document = encode(thing)
    status = document.pop("status", None)
    namespace = thing.metadata.namespace or None
    await client.create(resource, document, namespace=namespace)
    if status:
        await write_status(client, thing, status)


async def write_status(client: Client, thing: KubeObject, status: object) -> None:
    await client.patch(
        RESOURCES[thing.kind],
        thing.metadata.name,
        {"status": status},
        kind=Patch.MERGE,
        namespace=thing.metadata.namespace or None,
        subresource="status",
    )


async def merge(client: Client, thing: KubeObject, patch: object) -> None:
    assert isinstance(patch, dict)
    meta = thing.metadata
    await client.patch(
        RESOURCES[thing.kind], meta.name, patch, kind=Patch.MERGE, namespace=meta.namespace or None
    )


async def remove(client: Client, thing: KubeObject) -> None:
    meta = thing.metadata
    await client.delete(RESOURCES[thing.kind], meta.name, namespace=meta.namespace or None)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """A command that does not end."""

    process: forked.Process
    errors: Path

    def line(self) -> str:
        """Wait for the next line and return it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        return line.rstrip("\n")

    def lines(self, count: int) -> list[str]:
        return [self.line() for _ in range(count)]

    def documents(self, count: int) -> list[dict[str, Any]]:
        """Return the next printed JSON documents."""
        items: list[dict[str, Any]] = []
        text = ""
        while len(items) < count:
            line = self.line()
            text += line
            if line == "}":
                items.append(json.loads(text))
                text = ""
        return items

    def interrupt(self) -> tuple[int, str]:
        """Send Ctrl-C and return the exit status and stderr."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(), self.errors.read_text()


@contextmanager
def watch(tmp_path: Path, kubeconfig: Path, *arguments: str) -> Iterator[Watch]:
    """Run `fairway` as a process that is killed at the end."""
    errors = tmp_path / "watch.stderr"
    with (
        errors.open("w") as stderr,
        forked.Process(
            [*arguments, "--kubeconfig", kubeconfig],
            stdout=forked.PIPE,
            stderr=stderr,
            env={**os.environ, "FAIRWAY_DEBUG": ""},
        ) as process,
    ):
        try:
            yield Watch(process=process, errors=errors)
        finally:
            process.kill()
