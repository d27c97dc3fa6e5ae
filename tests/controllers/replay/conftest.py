"""A hub of its own: scenarios have clusters and sets of the same names, and every cluster there is counts."""

from collections.abc import Iterator

import pytest

from controllers.hubs import HubUnderTest, hub_of


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    folder = tmp_path_factory.mktemp(f"replay-{request.param}")
    with hub_of(request.param, folder=folder, tools=lambda: request.getfixturevalue("kube_tools")) as made:
        yield made
