"""Fixtures. ``FAIRWAY_CHAOS`` and ``FAIRWAY_CHAOS_SEED`` are described in tests/chaos."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.conftest import chance, length
from chaos.servers import RealServer, Server, embedded_server
from fairway.api import crds
from fairway.controllers import manager
from fairway.controllers.runtime import reconciler
from forked import POLL
from kubewire.client import Backoff, Client, Informer, KubeError
from kubewire.client.transport import Retry
from rigs.kubernetes import CONTROLLERS, real_hub

__all__ = ["chance", "length"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUICK = Backoff(base=0.01, cap=0.2)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the longest back-off, and let caches expire."""
    defaults = Informer.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "backoff", QUICK)
    monkeypatch.setattr(reconciler, "BACKOFF", QUICK)
    monkeypatch.setattr(manager, "Client", partial(Client, retry=Retry(backoff=QUICK)))
    collector = SimpleNamespace(collect=lambda: 0, freeze=lambda: None)
    monkeypatch.setattr("fairway.controllers.manager.gc", collector)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """A hub with all kinds, for this test only."""
    if request.param == "real":
        tools = request.getfixturevalue("kube_tools")
        async with real_hub(tools, folder=tmp_path, controllers=CONTROLLERS) as hub:
            real = RealServer(hub)
            await define(real)
            yield real
        return
    async with embedded_server(folder=tmp_path) as embedded:
        await define(embedded)
        yield embedded


async def define(server: Server) -> None:
    async with Client.from_kubeconfig(server.kubeconfig) as client:
        for definition in crds():
            await client.request("POST", DEFINITIONS, body=definition)
        for definition in crds():
            spec = definition["spec"]
            for version in spec["versions"]:
                path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                await _served(client, path)


async def _served(client: Client, path: str) -> None:
    """Wait until a new definition is served."""
    while True:
        try:
            await client.request("GET", path)
        except KubeError:
            await asyncio.sleep(POLL)
        else:
            return
