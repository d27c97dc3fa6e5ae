"""A cluster to read, embedded or real. Each test cleans up after itself: the cluster serves all of a session."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from fairway.api.resources import NODES, PODS
from fairway.providers.provider import Reading
from fairway.providers.usage import ResourceUsage, UsageOptions
from fairway.testing.hub import hub_in_thread
from kubewire.client import Client, Connection, Patch, load
from providers.usage.objects import Document
from rigs.kubernetes import background, real_hub

NAMESPACE: Final = "default"
PATIENCE: Final = 120.0


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def administrator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    folder = tmp_path_factory.mktemp("cluster")
    if request.param == "real":
        # One of its own: what others leave behind would count.
        with background(real_hub(request.getfixturevalue("kube_tools"), folder=folder)) as real:
            yield load(real.kubeconfig).context()
        return
    with hub_in_thread(folder=folder) as hub:
        yield load(hub.kubeconfig).context()


@dataclass
class Cluster:
    """Nodes and pods of a test, as its client made them."""

    client: Client
    made: list[tuple[str, str]] = field(default_factory=list)

    async def node(self, document: Document) -> None:
        """Made, or changed to this; whatever admission adds to it is taken off."""
        name = document["metadata"]["name"]
        if ("node", name) not in self.made:
            self.made.append(("node", name))
            await self.client.create(NODES, {"metadata": {"name": name}})
        spec = {"metadata": {"labels": document["metadata"]["labels"]}, "spec": document["spec"]}
        await self.client.patch(NODES, name, spec, kind=Patch.MERGE)
        status: Mapping[str, Any] = {"status": {"capacity": None, "allocatable": None}}
        await self.client.patch(NODES, name, status, kind=Patch.MERGE, subresource="status")
        await self.client.patch(
            NODES, name, {"status": document["status"]}, kind=Patch.MERGE, subresource="status"
        )

    async def no_node(self, name: str) -> None:
        self.made.remove(("node", name))
        await self.client.delete(NODES, name)

    async def pod(self, document: Document) -> None:
        name = document["metadata"]["name"]
        self.made.append(("pod", name))
        body = {"metadata": {"name": name}, "spec": {**document["spec"], "terminationGracePeriodSeconds": 0}}
        await self.client.create(PODS, body, namespace=NAMESPACE)
        await self.phase(name, document["status"]["phase"])

    async def phase(self, name: str, phase: str) -> None:
        status = {"status": {"phase": phase}}
        await self.client.patch(
            PODS, name, status, kind=Patch.MERGE, subresource="status", namespace=NAMESPACE
        )

    async def no_pod(self, name: str) -> None:
        self.made.remove(("pod", name))
        await self.client.delete(PODS, name, namespace=NAMESPACE, grace_period=0)

    async def clear(self) -> None:
        for kind, name in reversed(list(self.made)):
            await (self.no_node(name) if kind == "node" else self.no_pod(name))


@pytest.fixture
async def cluster(administrator: Connection) -> AsyncIterator[Cluster]:
    async with Client(administrator, field_manager="somebody") as client:
        made = Cluster(client)
        yield made
        await made.clear()


@dataclass
class Watched:
    provider: ResourceUsage
    woken: asyncio.Event

    async def until(self, **values: float) -> Reading:
        """The first reading that has these values; only what wakes the provider is waited for."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.woken.clear()
                reading = await self.provider.read()
                if all(reading.values.get(name) == value for name, value in values.items()):
                    return reading
                await self.woken.wait()


@asynccontextmanager
async def watched(client: Client, **options: Any) -> AsyncIterator[Watched]:
    provider = ResourceUsage(client, UsageOptions.read(options, environment={}))
    woken = asyncio.Event()
    async with provider.running(woken.set):
        yield Watched(provider, woken)
