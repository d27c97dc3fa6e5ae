"""A hub with NeonVM's kinds, shared by tests that leave it empty."""

from collections.abc import Iterator

import pytest

from controllers.machines.machine_rig import machine_hub
from fairway.testing.hub import HubAddress


@pytest.fixture(scope="session")
def machine_hub_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    with machine_hub(tmp_path_factory.mktemp("machines")) as address:
        yield address
