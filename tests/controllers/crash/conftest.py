"""Programs that are there in a moment, to be killed in a moment."""

import sys
from collections.abc import Iterator

import pytest

from chaos.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    if sys.platform != "linux":
        pytest.skip("processes that die with their parent are Linux's")
    with Nursery() as made:
        yield made
