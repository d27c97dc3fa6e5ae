"""The pytest plugin: ``fairway_hub`` is an embedded hub with nothing in it, of the test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairway.testing.hub import HubProcess


@pytest.fixture
def fairway_hub(tmp_path: Path) -> "Iterator[HubProcess]":
    # Imported here because pytest loads plugins in every run, also those that need no hub.
    from fairway.testing.hub import hub_in_thread

    with hub_in_thread(folder=tmp_path) as hub:
        yield hub
