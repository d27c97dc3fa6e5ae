"""Objects of a test on the shared hub are deleted afterwards."""

from collections.abc import AsyncIterator

import pytest

from controllers.addons.harness import AddOnHarness
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, at_work, cleared_client
from fairway.controllers.addons import RULES, AddOnController
from fairway.observe.meters import Meters
from kubewire.client import Client
from rigs.waiting import fresh

__all__ = ["cleared_client"]


@pytest.fixture
async def harness(client: Client) -> AsyncIterator[AddOnHarness]:
    namespace = fresh("ns")
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    made = AddOnHarness(client, fresh("a"), namespace)
    await made.role()
    yield made
    await made.clear()


@pytest.fixture
async def running(
    hub: HubUnderTest, harness: AddOnHarness, no_error_logs: None
) -> AsyncIterator[RunningController]:
    async with at_work(hub, lambda client: AddOnController(client, meters=Meters()), rules=RULES) as begun:
        yield begun
