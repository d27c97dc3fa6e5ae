"""Length and seed of the chaos tests.

``FAIRWAY_CHAOS=10`` makes them ten times as long, and ``FAIRWAY_CHAOS_SEED`` repeats the decisions of an earlier run,
but not its timing.
"""

import os
import random
from collections.abc import Iterator

import pytest
from clients import boat_crd

from chaos.blocking import Hub
from fairway.testing.hub import hub_in_thread
from kubehub import controllers


@pytest.fixture
def chance() -> random.Random:
    """Random decisions, except in CI; a failure prints the seed."""
    given = os.environ.get("FAIRWAY_CHAOS_SEED") or (
        0 if os.environ.get("CI") else random.randrange(1_000_000)
    )
    print(f"FAIRWAY_CHAOS_SEED={given}")
    return random.Random(int(given))


@pytest.fixture(scope="session")
def length() -> int:
    """Factor of the length of tests."""
    return int(os.environ.get("FAIRWAY_CHAOS", "1"))


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    if request.param == "real":
        real = Hub(request.getfixturevalue("real_hub").kubeconfig)
        define(real)
        yield real
        real.close()
        return
    folder = tmp_path_factory.mktemp("model")
    # Only this test writes into its namespaces.
    alone = frozenset({controllers.DEFINITIONS})
    with hub_in_thread(folder=folder, data=folder / "data", definitions=(), controllers=alone) as embedded:
        made = Hub(embedded.kubeconfig)
        define(made)
        yield made
        made.close()


def define(hub: Hub) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert hub.call("POST", path, boat_crd.DEFINITION).code in (201, 409)
    # A kind is served a moment after its definition was accepted.
    while hub.call("GET", f"/apis/{boat_crd.API_VERSION}/{boat_crd.PLURAL}").code != 200:
        hub.call("GET", f"{path}/{boat_crd.DEFINITION_NAME}")
