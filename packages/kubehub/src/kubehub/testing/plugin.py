"""Pytest plugin with the fixture ``kube_hub``: an empty hub for each test.

Enable it in a top-level ``conftest.py``: ``pytest_plugins = ["kubehub.testing.plugin"]``. The hub runs in a thread, so
that tests can block or run their own event loop.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kubehub.testing.hub import HubAddress


@pytest.fixture
def kube_hub(tmp_path: Path) -> "Iterator[HubAddress]":
    """A running hub: ``url``, ``kubeconfig`` and ``authority`` (a certificate file)."""
    # Imported here so that test runs that use no hub do not pay for it.
    from kubehub.testing.hub import hub_in_thread

    with hub_in_thread(folder=tmp_path) as hub:
        yield hub
