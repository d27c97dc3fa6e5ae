"""Fixtures of both hubs; tests that need kubectl are in the tier ``kube``."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairway.api import RESOURCES, crds
from fairway.testing.hub import hub_in_thread
from kubewire.client import Client, Connection, NotFound, TooManyRequests
from kubewire.client.kubeconfig import load
from rigs.kubernetes import CONTROLLERS, background, real_hub
from rigs.processes import POLL

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def administrator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """The administrator of a hub with the CRDs of OCM and Fairway."""
    folder: Path = tmp_path_factory.mktemp(f"deploy-{request.param}")
    if request.param == "embedded":
        with hub_in_thread(folder=folder) as hub:
            yield load(hub.kubeconfig).context()
        return
    tools = request.getfixturevalue("kube_tools")
    with background(real_hub(tools, folder=folder, controllers=CONTROLLERS)) as real:
        connection = load(real.kubeconfig).context()
        asyncio.run(define(connection))
        yield connection


async def define(connection: Connection) -> None:
    async with Client(connection) as client:
        for definition in crds():
            await client.request("POST", DEFINITIONS, body=definition)
        for resource in RESOURCES:
            for version in resource.versions:
                path = f"/apis/{resource.group}/{version.name}/{resource.plural}"
                while True:  # a definition is established a moment after it was accepted
                    with suppress(NotFound, TooManyRequests):
                        await client.request("GET", path)
                        break
                    await asyncio.sleep(POLL)
