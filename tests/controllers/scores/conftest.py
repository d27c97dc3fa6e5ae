"""What a test made on a hub that others use, too, is gone afterwards."""

from collections.abc import AsyncIterator

import pytest

from controllers.clustersets.stage import clear
from fairway.kube import Client


@pytest.fixture
async def client(client: Client) -> AsyncIterator[Client]:
    yield client
    await clear(client)
