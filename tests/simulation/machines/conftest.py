"""One hub with NeonVM's kinds for all tests of synthetic machines."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fairway.api import crds
from fairway.api.crd import machine_crds
from fairway.testing.hub import HubAddress, hub_in_thread
from simulation.machines.machine_hub import MachineHub, machine_hub


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    folder: Path = tmp_path_factory.mktemp("hub")
    with hub_in_thread(folder=folder, definitions=(*crds(), *machine_crds())) as hub_address:
        yield hub_address


@pytest.fixture
async def hub(address: HubAddress) -> AsyncIterator[MachineHub]:
    async with machine_hub(address) as running:
        yield running
