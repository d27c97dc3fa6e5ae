"""The hub of the suite serves whoever runs here; clusters are those of one test, so the fleet is, too."""

from collections.abc import AsyncIterator

import pytest

from controllers.running import clear
from fairway.kube import MANAGED_CLUSTERS, Client
from rigs.cleanup import delete_all


@pytest.fixture
async def empty(client: Client) -> AsyncIterator[None]:
    """Budgets are shares of all clusters there are: nothing may be left of other tests."""
    await delete_all(client, MANAGED_CLUSTERS)
    yield
    await clear(client)
    await delete_all(client, MANAGED_CLUSTERS)
