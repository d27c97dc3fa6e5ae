"""Two Kubernetes APIs, one as the hub and one as the managed cluster, and a harness of its own for every test."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from controllers.hubs import HubUnderTest, hub_of
from klusterlet.works.harness import WorksHarness
from kubewire.client import Connection
from rigs.kubernetes import Tools


@dataclass(frozen=True, kw_only=True)
class Pair:
    hub: Connection
    cluster: Connection


@pytest.fixture(scope="session")
def embedded_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with (
        hub_of("embedded", folder=tmp_path_factory.mktemp("hub"), tools=Tools.find) as hub,
        hub_of("embedded", folder=tmp_path_factory.mktemp("cluster"), tools=Tools.find) as cluster,
    ):
        yield Pair(hub=hub.administrator, cluster=cluster.administrator)


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if request.param == "embedded":
        yield request.getfixturevalue("embedded_pair")
        return
    folder, tools = tmp_path_factory.mktemp("cluster"), request.getfixturevalue("kube_tools")
    hub: HubUnderTest = request.getfixturevalue("real_ocm_hub")
    with hub_of("real", folder=folder, tools=lambda: tools) as cluster:
        yield Pair(hub=hub.administrator, cluster=cluster.administrator)


@pytest.fixture
async def harness(pair: Pair, no_error_logs: None) -> AsyncIterator[WorksHarness]:
    async with WorksHarness(pair.hub, pair.cluster) as made:
        yield made


@pytest.fixture
async def small_world(embedded_pair: Pair, no_error_logs: None) -> AsyncIterator[WorksHarness]:
    """For what does not depend on the API server."""
    async with WorksHarness(embedded_pair.hub, embedded_pair.cluster) as made:
        yield made
