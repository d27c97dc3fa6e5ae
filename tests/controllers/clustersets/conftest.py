"""Every test of a controller at work runs twice: on the embedded hub, and on a real kube-apiserver."""

from collections.abc import AsyncIterator, Iterator

import pytest

from controllers.clustersets.stage import HubUnderTest, hub_of
from fairway.kube import Client


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    folder = tmp_path_factory.mktemp(f"hub-{request.param}")
    with hub_of(request.param, folder=folder, tools=lambda: request.getfixturevalue("kube_tools")) as made:
        yield made


@pytest.fixture
async def client(hub: HubUnderTest) -> AsyncIterator[Client]:
    """The administrator's."""
    async with Client.from_kubeconfig(hub.kubeconfig) as opened:
        yield opened
