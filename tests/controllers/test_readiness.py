"""Readiness messages name the cause."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairway.controllers.manager import NOT_LISTED, NOT_WATCHED, STALE_SECONDS, Manager
from fairway.controllers.settings import Settings
from fairway.observe.meters import Meters
from kubewire.client import SYSTEM_CLOCK, Client

PLACEMENTS = "placements.cluster.open-cluster-management.io"
LEASES = "leases.coordination.k8s.io"


def unready_reasons(lag: dict[str, float]) -> list[str]:
    waiting = [kind for kind, seconds in lag.items() if math.isinf(seconds)]
    informers: Any = SimpleNamespace(waiting=lambda: waiting, lag=lambda: lag)
    nobody = cast("Client", None)
    manager = Manager(
        Settings(),
        informers=informers,
        controllers={},
        meters=Meters(),
        client=nobody,
        leases=None,
        clock=SYSTEM_CLOCK,
    )
    return manager.unready()


@pytest.mark.parametrize("seconds", [0.0, STALE_SECONDS])
def test_reopened_watch_does_not_affect_readiness(seconds: float) -> None:
    assert unready_reasons({PLACEMENTS: seconds, LEASES: 0.0}) == []


def test_readiness_names_unlisted_kinds() -> None:
    assert unready_reasons({PLACEMENTS: math.inf, LEASES: 0.0}) == [NOT_LISTED.format(kind=PLACEMENTS)]


def test_readiness_names_only_the_forbidden_kind() -> None:
    assert unready_reasons({PLACEMENTS: 0.0, LEASES: 90.0}) == [NOT_WATCHED.format(kind=LEASES, seconds=90.0)]
