"""A valid placement beside the invalid objects, which must stay up to date."""

from collections.abc import AsyncIterator

import pytest

from controllers.hub_fleet import HubFleet
from fairway.controllers.manager import Manager


class Bystander:
    def __init__(self, fleet: HubFleet) -> None:
        self._world = fleet

    async def unharmed(self) -> None:
        """Check that the valid placement still follows changes."""
        await self._world.cluster("z-new")
        await self._world.eventually(lambda: "z-new" in self._world.chosen("bystander"))


@pytest.fixture
async def bystander(manager: Manager, fleet: HubFleet) -> AsyncIterator[Bystander]:
    """With the clusters ``a`` and ``b``."""
    await fleet.clusters("a", "b")
    await fleet.place("bystander")
    await fleet.chooses("bystander", "a", "b")
    made = Bystander(fleet)
    yield made
    await made.unharmed()
