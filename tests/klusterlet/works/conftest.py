"""Two Kubernetes APIs, one as the hub and one as the managed cluster, and a world of its own for every test."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from controllers.hubs import hub_of
from fairway.kube import Connection
from klusterlet.works.world import World


@dataclass(frozen=True, kw_only=True)
class Pair:
    hub: Connection
    cluster: Connection


def pair_of(kind: str, request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        found = [
            stack.enter_context(
                hub_of(
                    kind,
                    folder=factory.mktemp(f"{role}-{kind}"),
                    tools=lambda: request.getfixturevalue("kube_tools"),
                )
            )
            for role in ("hub", "cluster")
        ]
        yield Pair(hub=found[0].administrator, cluster=found[1].administrator)


@pytest.fixture(scope="session")
def embedded_pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from pair_of("embedded", request, tmp_path_factory)


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if request.param == "embedded":
        yield request.getfixturevalue("embedded_pair")
    else:
        yield from pair_of("real", request, tmp_path_factory)


@pytest.fixture
async def world(pair: Pair, complaints: None) -> AsyncIterator[World]:
    async with World(pair.hub, pair.cluster) as made:
        yield made


@pytest.fixture
async def small_world(embedded_pair: Pair, complaints: None) -> AsyncIterator[World]:
    """For what does not depend on the API server."""
    async with World(embedded_pair.hub, embedded_pair.cluster) as made:
        yield made
