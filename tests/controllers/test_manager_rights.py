"""Each controller runs by itself, with its own part of the rights of ``deploy/``."""

import pytest

from controllers.conftest import Start
from fairway.controllers.manager import ALL, PLACEMENT, Settings


@pytest.mark.parametrize("name", sorted(ALL - {PLACEMENT}))
async def test_it_needs_no_right_of_the_others(start: Start, name: str) -> None:
    async with start(Settings(controllers=frozenset({name}), election=None)) as manager:
        assert list(manager.controllers) == [name]
        assert manager.unready() == []
