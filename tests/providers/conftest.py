"""Providers on a hub: on the embedded one, and in the tier ``kube`` on a real kube-apiserver.

The hub serves all tests of a session; every test has clusters of its own on it.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from controllers.hubs import HubUnderTest, hub_of
from kubewire.client import Client
from providers.hub_fleet import HubFleet
from providers.tools.monitoring import Monitoring, Proxy, monitored
from rigs.kubernetes import Tools


def _ours(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith(f"{threading.main_thread().name}_")


@pytest.fixture(autouse=True)
def only_of_the_test(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Exclude log records of background servers of other tests."""
    caplog.handler.addFilter(_ours)
    yield
    caplog.handler.removeFilter(_ours)


@pytest.fixture(scope="session")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    with monitored(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture
async def proxy(monitoring: Monitoring) -> AsyncIterator[Proxy]:
    """In front of the Prometheus."""
    async with Proxy(monitoring.server.url).serving() as proxy:
        yield proxy


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
