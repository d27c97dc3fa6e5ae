"""The hub sends no response before the state it depends on is committed."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from chaos.token_objects import CONFIG_MAPS, TokenObject, body
from fairway.testing.hub import embedded_hub
from kubehub.storage.log import Log
from kubehub.storage.store import Store
from kubewire.client import kubeconfig
from kubewire.client.errors import AlreadyExists, Conflict, KubeError, NotFound, ServerError
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client
from kubewire.client.transport import Retry
from rigs.cleanup import delete_all


class Gate:
    """Delays the hub's commits, and can make them fail."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.error: Exception | None = None
        self.reached = threading.Event()
        self.awaited = asyncio.Event()
        """Whether an answer waits for a commit that is not its own."""

    @contextmanager
    def holding(self) -> Iterator[None]:
        append, settled = Log.append, Store.wait_for_commits

        def held(log: Log, rows: Any) -> None:
            self.reached.set()
            self.open.wait()
            if self.error is not None:
                raise self.error
            append(log, rows)

        async def awaiting(store: Store) -> None:
            self.awaited.set()
            await settled(store)

        with mock.patch.object(Log, "append", held), mock.patch.object(Store, "wait_for_commits", awaiting):
            try:
                yield
            finally:
                self.open.set()


@asynccontextmanager
async def single_hub(folder: Path) -> AsyncIterator[Client]:
    async with embedded_hub(folder=folder / "data", definitions=(), controllers=frozenset()) as hub:
        file = folder / "kubeconfig"
        hub.certificates.write_kubeconfig(file, server=hub.url)
        once = Retry(asked=0, failed=0, unsent=0)
        async with Client(kubeconfig.load(file).context(None), retry=once) as client:
            yield client


def make(client: Client, token: str) -> Coroutine[Any, Any, TokenObject]:
    return client.create(CONFIG_MAPS, body(CONFIG_MAPS, "it", token), namespace="default")


def set_token(client: Client, token: str, **more: Any) -> Coroutine[Any, Any, TokenObject]:
    document = {"metadata": {"labels": {"token": token}, **more}}
    return client.patch(CONFIG_MAPS, "it", document, kind=Patch.MERGE, namespace="default")


async def answered_while_held(
    gate: Gate, first: Any, second: Any
) -> tuple[asyncio.Task[Any], asyncio.Task[Any]]:
    """Send ``second`` while the commit of ``first`` is delayed; neither may have a response yet."""
    one = asyncio.create_task(first)
    await asyncio.to_thread(gate.reached.wait)
    gate.awaited.clear()
    two = asyncio.create_task(second)
    waits = asyncio.create_task(gate.awaited.wait())
    await asyncio.wait({two, waits}, return_when=asyncio.FIRST_COMPLETED)
    waits.cancel()
    return one, two


async def settled(client: Client) -> None:
    """Wait until possible responses were sent: these reads are served after earlier work of the hub."""
    for _ in range(3):
        await client.request("GET", "/livez")


CASES: dict[str, Any] = {
    "a creation of what is being created": (
        None,
        lambda client, _: make(client, "one"),
        lambda client, _: make(client, "two"),
        AlreadyExists,
    ),
    "an update of what is being updated": (
        "there",
        lambda client, _: set_token(client, "one"),
        lambda client, made: set_token(client, "two", resourceVersion=made.metadata.resourceVersion),
        Conflict,
    ),
    "a change of what is being deleted": (
        "there",
        lambda client, _: client.delete(CONFIG_MAPS, "it", namespace="default"),
        lambda client, _: set_token(client, "two"),
        NotFound,
    ),
    "a deletion of what is being deleted": (
        "there",
        lambda client, _: client.delete(CONFIG_MAPS, "it", namespace="default"),
        lambda client, _: client.delete(CONFIG_MAPS, "it", namespace="default"),
        NotFound,
    ),
    "a conditional deletion of what is being changed": (
        "there",
        lambda client, _: set_token(client, "one"),
        lambda client, made: client.delete(
            CONFIG_MAPS, "it", namespace="default", resource_version=made.metadata.resourceVersion
        ),
        Conflict,
    ),
    "a change that changes nothing": (
        "there",
        lambda client, _: set_token(client, "one"),
        lambda client, _: set_token(client, "one"),
        None,
    ),
    "a change on trial": (
        "there",
        lambda client, _: set_token(client, "one"),
        lambda client, _: client.patch(
            CONFIG_MAPS, "it", {"data": {"x": "y"}}, kind=Patch.MERGE, namespace="default", dry_run=True
        ),
        None,
    ),
    "a deletion of everything": (
        "there",
        lambda client, _: client.delete(CONFIG_MAPS, "it", namespace="default"),
        lambda client, _: delete_all(client, CONFIG_MAPS, namespace="default"),
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fate", ["committed", "failed"])
async def test_response_waits_for_the_commit_it_depends_on(tmp_path: Path, case: str, fate: str) -> None:
    there, first, second, refusal = CASES[case]
    gate = Gate()
    async with single_hub(tmp_path) as client:
        made = await make(client, there) if there else None
        with gate.holding():
            one, two = await answered_while_held(gate, first(client, made), second(client, made))
            await settled(client)
            assert not one.done()
            assert not two.done()
            if fate == "failed":
                gate.error = sqlite3.OperationalError("database or disk is full")
            gate.open.set()
            outcomes = await asyncio.gather(one, two, return_exceptions=True)
        if fate == "failed":
            for outcome in outcomes:
                assert isinstance(outcome, ServerError)
                assert (outcome.code, outcome.reason) == (503, "ServiceUnavailable")
                assert "database or disk is full" in outcome.message
        else:
            assert not isinstance(outcomes[0], KubeError)
            assert type(outcomes[1]) is refusal if refusal else not isinstance(outcomes[1], KubeError)
