"""The pytest plugin: ``fairway_hub`` is an embedded hub of the test's own, with nothing in it yet.

It runs in a thread, so that tests may block or have a loop of their own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairway.testing.hub import HubAddress


@pytest.fixture
def fairway_hub(tmp_path: Path) -> "Iterator[HubAddress]":
    """A running hub: ``url``, ``kubeconfig`` and ``authority`` (a certificate file)."""
    # Imported here because pytest loads plugins in every run, also those that need no hub.
    from fairway.testing.hub import hub_in_thread

    with hub_in_thread(folder=tmp_path) as hub:
        yield hub
