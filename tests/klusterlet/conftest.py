"""One hub and one cluster serve all tests of a session; each joins the cluster under a name of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fairway.testing.hub import hub_in_thread
from klusterlet.fleet import Fleet, Joined, controllers, joined
from kubehub.testing.background import background


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with (
        hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as hub,
        hub_in_thread(folder=tmp_path_factory.mktemp("cluster"), definitions=()) as cluster,
        background(controllers(hub.kubeconfig)),
    ):
        yield Fleet(hub=hub.kubeconfig, cluster=cluster.kubeconfig)


@pytest.fixture
async def member(fleet: Fleet, tmp_path: Path) -> AsyncIterator[Joined]:
    async with joined(fleet, tmp_path) as made:
        yield made
