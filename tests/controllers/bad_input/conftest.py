"""A valid placement beside the invalid objects, which must stay up to date."""

from collections.abc import AsyncIterator

import pytest

from controllers.world import World
from fairway.controllers.manager import Manager


class Bystander:
    def __init__(self, world: World) -> None:
        self._world = world

    async def unharmed(self) -> None:
        """Check that the valid placement still follows changes."""
        await self._world.cluster("z-new")
        await self._world.eventually(lambda: "z-new" in self._world.chosen("bystander"))


@pytest.fixture
async def bystander(manager: Manager, world: World) -> AsyncIterator[Bystander]:
    """With the clusters ``a`` and ``b``."""
    await world.clusters("a", "b")
    await world.place("bystander")
    await world.chooses("bystander", "a", "b")
    made = Bystander(world)
    yield made
    await made.unharmed()
