"""A hub, two hosting clusters with work agents, and the hosting controller with exactly its rights."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Struct

from controllers.hubs import HubUnderTest, hub_of
from controllers.running import limited
from fairway.api.hosted_request import CONFIRMED, HostedClusterRequest
from fairway.api.meta import ObjectMeta, format_time
from fairway.controllers.hosting import RULES, HostingController
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import ALONE
from fairway.klusterlet.works import WorkAgent
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    Client,
    Connection,
    NotFound,
    Patch,
    Recorder,
    Resource,
)
from fairway.kube.rbac import Rule
from fairway.kube.transport import Response
from fairway.observe.meters import Meters
from rigs.fake_hub import reported_condition
from rigs.kubernetes import Tools
from rigs.waiting import fresh, gone, until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MOST_WRITES = 20
SECRETS = Rule(groups=("",), resources=("secrets",), verbs=("get",))
"""Users grant it in the namespaces of requests."""


class HostedCluster(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


HOSTED_CLUSTERS: Resource[HostedCluster] = Resource(
    group="hypershift.openshift.io",
    version="v1beta1",
    plural="hostedclusters",
    kind="HostedCluster",
    namespaced=True,
    type=HostedCluster,
)


def definition(plural: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.hypershift.openshift.io"},
        "spec": {
            "group": "hypershift.openshift.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    """The API servers of two hosting clusters."""
    with (
        hub_of("embedded", folder=tmp_path_factory.mktemp("one"), tools=Tools.find) as one,
        hub_of("embedded", folder=tmp_path_factory.mktemp("two"), tools=Tools.find) as two,
    ):
        asyncio.run(_define(one.administrator))
        asyncio.run(_define(two.administrator))
        yield [one.administrator, two.administrator]


async def _define(connection: Connection) -> None:
    async with Client(connection) as client:
        for plural, kind in (("hostedclusters", "HostedCluster"), ("nodepools", "NodePool")):
            await client.request("POST", DEFINITIONS, body=definition(plural, kind))


@dataclass
class Killed:
    """A write at which a controller dies: it gets no answer, and nothing more is sent."""

    write: int
    carried_out: bool
    sent: int = 0
    event: asyncio.Event | None = None

    def install(self, client: Client) -> None:
        ask = client._transport.request
        self.event = event = asyncio.Event()

        async def request(method: str, path: str, **options: Any) -> Response:
            if event.is_set():
                await asyncio.Future()
            if method != "GET" and "events" not in path:
                self.sent += 1
                if self.sent == self.write:
                    event.set()
                    if self.carried_out:
                        await ask(method, path, **options)
                    await asyncio.Future()
            return await ask(method, path, **options)

        vars(client._transport)["request"] = request


class HostingHarness:
    def __init__(self, client: Client, connection: Connection, spokes: list[Client]) -> None:
        self.client, self._connection, self.spokes = client, connection, spokes
        self.namespace = fresh("tenant")
        self.hosts = [fresh("host"), fresh("host")]

    async def build(self) -> None:
        for namespace in (self.namespace, *self.hosts):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self.client.request("POST", "/api/v1/namespaces", body=body)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "pull"},
            "data": {"key": "c2VjcmV0"},
        }
        await self.client.request("POST", f"/api/v1/namespaces/{self.namespace}/secrets", body=secret)
        for number, name in enumerate(self.hosts):
            await self._host(name, count=3 * number)

    async def _host(self, name: str, *, count: int) -> None:
        await self.client.create(
            MANAGED_CLUSTERS, {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True}}
        )
        claims = [{"name": "hostingcluster.hypershift.openshift.io", "value": "true"}]
        conditions = [reported_condition("ManagedClusterConditionAvailable", "True")]
        status = {"status": {"conditions": conditions, "clusterClaims": claims}}
        await self.client.patch(MANAGED_CLUSTERS, name, status, kind=Patch.MERGE, subresource="status")
        meta = {"metadata": {"name": "hosted-clusters-score"}}
        await self.client.create(ADD_ON_PLACEMENT_SCORES, meta, namespace=name)
        load = {
            "status": {
                "scores": [{"name": "hostedClustersCount", "value": count}],
                "validUntil": format_time(datetime.now(UTC) + timedelta(hours=1)),
            }
        }
        await self.client.patch(
            ADD_ON_PLACEMENT_SCORES,
            "hosted-clusters-score",
            load,
            kind=Patch.MERGE,
            namespace=name,
            subresource="status",
        )

    async def ask(self) -> str:
        name = fresh("web")
        spec = {
            "hostedCluster": {"spec": {"platform": {"type": "None"}, "pullSecret": {"name": "pull"}}},
            "nodePools": [{"name": f"{name}-workers", "spec": {"replicas": 2}}],
            "secrets": [{"name": "pull"}],
            "constraints": {"selector": {}},
        }
        await self.client.create(
            HOSTED_CLUSTER_REQUESTS, {"metadata": {"name": name}, "spec": spec}, namespace=self.namespace
        )
        return name

    async def confirmed(self, name: str) -> HostedClusterRequest:
        return await until(
            self.client,
            HOSTED_CLUSTER_REQUESTS,
            name,
            lambda each: each.status.phase == CONFIRMED,
            namespace=self.namespace,
        )

    async def delete(self, name: str) -> None:
        with suppress(NotFound):
            await self.client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=self.namespace)
        await gone(self.client, HOSTED_CLUSTER_REQUESTS, name, namespace=self.namespace)

    async def hosted(self, name: str) -> list[int]:
        """Return the hosting clusters, by number, that have the HostedCluster."""
        found: list[int] = []
        for number, spoke in enumerate(self.spokes):
            with suppress(NotFound):
                await spoke.get(HOSTED_CLUSTERS, name, namespace="clusters")
                found.append(number)
        return found

    @asynccontextmanager
    async def controller(self, killed: Killed | None = None) -> AsyncIterator[None]:
        async with Client(self._connection) as client:
            if killed is not None:
                killed.install(client)
            recorder = cast("Recorder", SimpleNamespace(event=lambda *_, **__: True))
            controller = HostingController(client, meters=Meters(), recorder=recorder)
            informers = InformerFactory(client)
            controller.watch(informers)
            async with informers:
                await informers.synced()
                work = asyncio.create_task(controller.run(ALONE))
                try:
                    yield
                finally:
                    work.cancel()
                    with suppress(asyncio.CancelledError):
                        await work


@pytest.fixture
async def harness(
    hub: HubUnderTest, clusters: list[Connection], no_error_logs: None
) -> AsyncIterator[HostingHarness]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(hub.administrator))
        connection = await limited(client, hub.administrator, (*RULES, SECRETS))
        spokes = [await stack.enter_async_context(Client(each)) for each in clusters]
        made = HostingHarness(client, connection, spokes)
        await made.build()
        tasks = [
            asyncio.create_task(WorkAgent(client, spoke, name).run())
            for name, spoke in zip(made.hosts, spokes, strict=True)
        ]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            for name in made.hosts:
                await client.delete(MANAGED_CLUSTERS, name)


async def test_hosted_cluster_is_created_on_the_emptier_host_and_deleted_with_its_request(
    harness: HostingHarness,
) -> None:
    async with harness.controller():
        name = await harness.ask()
        found = await harness.confirmed(name)
        assert found.status.hostingCluster is not None
        assert found.status.hostingCluster.name == harness.hosts[0]
        assert await harness.hosted(name) == [0]
        pool = await harness.spokes[0].request(
            "GET", f"/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/nodepools/{name}-workers"
        )
        assert b'"clusterName"' in pool.body
        secret = await harness.spokes[0].request("GET", "/api/v1/namespaces/clusters/secrets/pull")
        assert b"c2VjcmV0" in secret.body
        await harness.delete(name)
        assert await harness.hosted(name) == []
        await harness.spokes[0].request("GET", "/api/v1/namespaces/clusters")  # it stays for others


async def test_controller_killed_at_every_write_converges_on_a_hub(harness: HostingHarness) -> None:
    """Before one write and after the next: test_crashes.py tries both for every write, in memory."""
    write, finished = 1, False
    while not finished:
        assert write < MOST_WRITES
        killed = Killed(write, bool(write % 2))
        name = await harness.ask()
        async with harness.controller(killed):
            assert killed.event is not None
            finished = not await _until_killed(harness, name, killed.event)
        async with harness.controller():
            with suppress(NotFound):
                meta = (
                    await harness.client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=harness.namespace)
                ).metadata
                if meta.deletionTimestamp is None:
                    await harness.confirmed(name)
                    assert await harness.hosted(name) == [0]
            await harness.delete(name)
        assert await harness.hosted(name) == []
        for host in harness.hosts:
            works = await harness.client.list(MANIFEST_WORKS, namespace=host)
            assert [each.metadata.name for each in works.items] == []
        write += 1


async def _until_killed(harness: HostingHarness, name: str, killed: asyncio.Event) -> bool:
    """Have a request confirmed and deleted; return whether the controller was killed before that."""

    async def life() -> None:
        await harness.confirmed(name)
        await harness.delete(name)

    living, dying = asyncio.create_task(life()), asyncio.create_task(killed.wait())
    done, rest = await asyncio.wait((living, dying), return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    if living in done:
        living.result()
    return living not in done
