"""What these tests share, and how long they take.

By default they are as long as everybody can bear all the time. ``FAIRWAY_CHAOS=10`` makes them ten times as long, and
``FAIRWAY_CHAOS_SEED`` repeats the decisions of an earlier run, though not its timing.
"""

import os
import random
import sys
from collections.abc import Iterator

import pytest

from chaos.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    if sys.platform != "linux":
        pytest.skip("processes that die with their parent, and limits set from outside, are Linux's")
    with Nursery() as made:
        yield made


@pytest.fixture
def chance() -> random.Random:
    """Other decisions every time, but in CI; the seed is printed with a failure."""
    given = os.environ.get("FAIRWAY_CHAOS_SEED") or (
        0 if os.environ.get("CI") else random.randrange(1_000_000)
    )
    print(f"FAIRWAY_CHAOS_SEED={given}")
    return random.Random(int(given))


@pytest.fixture(scope="session")
def length() -> int:
    """How many times longer than usual."""
    return int(os.environ.get("FAIRWAY_CHAOS", "1"))
