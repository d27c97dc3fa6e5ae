"""A hub that misbehaves on demand, and a client of it that does not wait long."""

from collections.abc import AsyncIterator

import pytest

from kubewire.client.clock import Backoff
from kubewire.client.connection import Connection
from kubewire.client.rest import Client
from kubewire.client.transport import Retry
from rigs.fake_server import FakeServer

QUICK = Retry(backoff=Backoff(base=0.001, cap=0.002), longest=0.002)


@pytest.fixture
async def hub() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


@pytest.fixture
async def client(hub: FakeServer) -> AsyncIterator[Client]:
    async with Client(Connection(server=hub.url), retry=QUICK) as opened:
        yield opened
