"""A hub with NeonVM's kinds, shared by tests that leave it empty."""

from collections.abc import Iterator

import pytest

from controllers.machines.machine_rig import machine_hub, real_machine_hub
from fairway.testing.hub import HubAddress


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def machine_hub_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HubAddress]:
    if request.param == "real":
        yield real_machine_hub(request.getfixturevalue("real_hub"))
        return
    with machine_hub(tmp_path_factory.mktemp("machines")) as address:
        yield address
