"""Providers on a hub: on the embedded one, and in the tier ``kube`` on a real kube-apiserver.

The hub serves all tests of a session; every test has clusters of its own on it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from controllers.hubs import HubUnderTest, hub_of
from fairway.kube import Client
from providers.sdk.hub_fleet import HubFleet
from rigs.kubernetes import Tools


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    if request.param == "real":
        yield request.getfixturevalue("real_ocm_hub")
        return
    with hub_of("embedded", folder=tmp_path_factory.mktemp("hub"), tools=Tools.find) as made:
        yield made


@pytest.fixture
async def client(hub: HubUnderTest) -> AsyncIterator[Client]:
    """The administrator's."""
    async with Client(hub.administrator, field_manager="somebody") as opened:
        yield opened


@pytest.fixture
async def fleet(client: Client) -> AsyncIterator[HubFleet]:
    async with asyncio.timeout(240):
        async with HubFleet(client, suffix=uuid4().hex[:8]) as made:
            yield made
