"""The shared hub; each test deletes the clusters of earlier ones."""

from collections.abc import AsyncIterator

import pytest

from controllers.running import clear
from fairway.api.resources import MANAGED_CLUSTERS
from kubewire.client import Client
from rigs.cleanup import delete_all


@pytest.fixture
async def empty(client: Client) -> AsyncIterator[None]:
    """Budgets are shares of all clusters there are: nothing may be left of other tests."""
    await delete_all(client, MANAGED_CLUSTERS)
    yield
    await clear(client)
    await delete_all(client, MANAGED_CLUSTERS)
