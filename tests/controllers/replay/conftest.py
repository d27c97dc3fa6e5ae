"""A separate hub, because scenarios share names and every cluster counts."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from controllers.hubs import HubUnderTest, hub_of
from controllers.replay.hub_state import HubState
from controllers.replay.live import Live, live
from fairway.controllers.settings import PLACEMENT
from kubewire.client import Client, Connection
from rigs.restricted import restricted


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    folder = tmp_path_factory.mktemp(f"replay-{request.param}")
    with hub_of(request.param, folder=folder, tools=lambda: request.getfixturevalue("kube_tools")) as made:
        yield made


@pytest.fixture(scope="session")
def connection(hub: HubUnderTest) -> Connection:
    """With the rights that ``deploy/`` grants the placement controller, and no others."""
    return asyncio.run(restricted(hub.administrator, controllers={PLACEMENT}))


@pytest.fixture
async def hub_state(client: Client) -> AsyncIterator[HubState]:
    made = HubState(client)
    yield made
    await made.set_up(())


@pytest.fixture
async def controller(connection: Connection, no_error_logs: None) -> AsyncIterator[Live]:
    async with live(connection) as made:
        yield made
