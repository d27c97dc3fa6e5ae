"""Each controller runs by itself, with its own part of the rights of ``deploy/``."""

import pytest

from controllers.conftest import Start
from fairway.controllers.settings import ALL, PLACEMENT, Settings


@pytest.mark.parametrize("name", sorted(ALL - {PLACEMENT}))
async def test_each_controller_runs_with_its_own_rights(start: Start, name: str) -> None:
    async with start(Settings(controllers=frozenset({name}), election=None)) as manager:
        assert list(manager.controllers) == [name]
        assert manager.unready() == []
