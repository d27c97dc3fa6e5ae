"""Controllers on a hub: on the embedded one, and in the tier ``kube`` on a real kube-apiserver.

The hub serves all tests of a session. Each test runs its own controllers in its event loop, with exactly the rights
that ``deploy/`` grants. A test creates objects through its ``fleet``, which also waits for the controllers.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Protocol

import pytest

from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest, hub_of
from fairway.controllers.manager import Manager, running
from fairway.controllers.settings import PLACEMENT, Settings
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Connection
from rigs.kubernetes import Tools
from rigs.restricted import restricted

Rights = dict[frozenset[str], Connection]


class Start(Protocol):
    """Runs controllers, which are synced when the block begins."""

    def __call__(
        self, settings: Settings = ..., *, clock: Clock = ...
    ) -> AbstractAsyncContextManager[Manager]: ...


ALONE = Settings(controllers=frozenset({PLACEMENT}), election=None, event_updates=0)


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    if request.param == "real":
        yield request.getfixturevalue("real_ocm_hub")
        return
    with hub_of("embedded", folder=tmp_path_factory.mktemp("hub"), tools=Tools.find) as made:
        yield made


@pytest.fixture(scope="session")
def rights(hub: HubUnderTest) -> Rights:
    """Connections by the set of controllers, created on first use."""
    return {}


@pytest.fixture
async def client(hub: HubUnderTest) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with Client(hub.administrator, field_manager="somebody") as opened:
        yield opened


@pytest.fixture
def running_managers() -> list[Manager]:
    return []


@pytest.fixture
def start(
    hub: HubUnderTest,
    rights: Rights,
    running_managers: list[Manager],
    no_error_logs: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Start:
    # A manager freezes the garbage collector's view, which must not happen in a process that runs tests.
    collector = SimpleNamespace(collect=lambda: 0, freeze=lambda: None)
    monkeypatch.setattr("fairway.controllers.manager.gc", collector)

    @asynccontextmanager
    async def started(settings: Settings = ALONE, *, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[Manager]:
        known = rights.get(settings.controllers)
        if known is None:
            known = await restricted(hub.administrator, controllers=settings.controllers)
            rights[settings.controllers] = known
        async with running(known, settings, clock=clock) as manager:
            await manager.synced()
            end = asyncio.create_task(manager.over())
            running_managers.append(manager)
            try:
                yield manager
                if end.done():
                    end.result()  # raises the manager's error
            finally:
                running_managers.remove(manager)
                end.cancel()

    return started


@pytest.fixture
async def manager(start: Start) -> AsyncIterator[Manager]:
    """The placement controller, without election."""
    async with start() as made:
        yield made


@pytest.fixture
async def fleet(client: Client, running_managers: list[Manager]) -> AsyncIterator[HubFleet]:
    """A part of the hub with unique names, which is cleared after the test."""
    async with HubFleet(client, followers=running_managers) as made:
        yield made
