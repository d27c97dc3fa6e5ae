"""A hub, two hosting clusters with work agents, and the hosting controller with exactly its rights."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from msgspec import Struct

from controllers.hosting.hosting_hub import DEFAULT_SCHEDULING
from controllers.hubs import HubUnderTest, hub_of
from controllers.running import limited
from fairway.api.hosted_request import CONFIRMED, UNSCHEDULABLE, HostedClusterRequest
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from fairway.cli.client.objects import HOSTING, read_hub
from fairway.cli.hosting.adopt import adopt_all
from fairway.controllers.hosting import RULES, HostingController
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.hosts.instant import to_micros
from fairway.klusterlet.works import WorkAgent
from fairway.observe.meters import Meters
from fairway.workloads.hosting import AdoptionPlan, HostingState, plan_adoption
from fairway.workloads.hosting.planning.adoption import in_works, on_host
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace
from fairway.workloads.hosting.workload import MOVE_TO, RECOVER_FROM, loss_of
from kubewire.api.meta import ObjectMeta, find_condition, format_time
from kubewire.client import Client, Connection, NotFound, Patch, Recorder, Resource
from kubewire.client.rbac import Rule
from kubewire.client.transport import Response
from rigs.fake_hub import reported_condition
from rigs.hypershift import KINDS, POOL, SMALLEST, definition
from rigs.kubernetes import Tools
from rigs.waiting import edit, fresh, until, until_deleted

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "hosting.md"
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
        for plural in KINDS:
            await client.request("POST", DEFINITIONS, body=definition(plural))


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
        self.on_host = derived_namespace(self.namespace)
        self.hosts = [fresh("host"), fresh("host")]
        self._agents: dict[int, asyncio.Task[None]] = {}

    def start_agent(self, number: int) -> None:
        agent = WorkAgent(self.client, self.spokes[number], self.hosts[number])
        self._agents[number] = asyncio.create_task(agent.run())

    async def stop_agent(self, number: int) -> None:
        task = self._agents.pop(number)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def stop_agents(self) -> None:
        for number in tuple(self._agents):
            await self.stop_agent(number)

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
        await self.mark(name, "True")
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

    async def mark(self, name: str, available: str) -> None:
        """Report that a hosting cluster is available, or that it has not been for years."""
        claims = [{"name": "hostingcluster.hypershift.openshift.io", "value": "true"}]
        conditions = [reported_condition("ManagedClusterConditionAvailable", available)]
        status = {"status": {"conditions": conditions, "clusterClaims": claims}}
        await self.client.patch(MANAGED_CLUSTERS, name, status, kind=Patch.MERGE, subresource="status")

    async def ask(self, **fields: Any) -> str:
        name = fresh("web")
        spec = {
            "hostedCluster": {"spec": SMALLEST},
            "nodePools": [{"name": f"{name}-workers", "spec": POOL}],
            "secrets": [{"name": "pull"}],
            "constraints": {"selector": {}},
            **fields,
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
            lambda request: request.status.phase == CONFIRMED,
            namespace=self.namespace,
        )

    async def report(self, name: str, *conditions: dict[str, str]) -> None:
        """Replace the conditions of a HostedCluster, as HyperShift's operator does."""
        await self.spokes[0].patch(
            HOSTED_CLUSTERS,
            name,
            {"status": {"conditions": [*conditions]}},
            kind=Patch.MERGE,
            namespace=self.on_host,
            subresource="status",
        )

    async def is_available(self, name: str, *wanted: str) -> str:
        """Return the status of the request's condition Available, once it is as wanted."""

        def status(request: HostedClusterRequest) -> str:
            condition = find_condition(request.status.conditions, "Available")
            return "" if condition is None else condition.status

        return status(
            await until(
                self.client,
                HOSTED_CLUSTER_REQUESTS,
                name,
                lambda request: not wanted or status(request) in wanted,
                namespace=self.namespace,
            )
        )

    async def create_otherwise(self, *, in_work: bool) -> str:
        """Create a hosted cluster without a request on the first host, by a ManifestWork or on the host itself."""
        name = fresh("other")
        meta = {"name": name, "namespace": self.on_host}
        identity = {"apiVersion": HOSTED_CLUSTERS.api_version, "kind": HOSTED_CLUSTERS.kind}
        hosted = {**identity, "metadata": meta, "spec": SMALLEST}
        if not in_work:
            await self.spokes[0].create(HOSTED_CLUSTERS, hosted, namespace=self.on_host)
            return name
        pool = {
            "apiVersion": HOSTED_CLUSTERS.api_version,
            "kind": "NodePool",
            "metadata": {**meta, "name": f"{name}-workers"},
            "spec": {**POOL, "clusterName": name},
        }
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.on_host}}
        spec = {"workload": {"manifests": [space, hosted, pool]}}
        await self.client.create(
            MANIFEST_WORKS, {"metadata": {"name": name}, "spec": spec}, namespace=self.hosts[0]
        )
        await until(
            self.client,
            MANIFEST_WORKS,
            name,
            lambda work: len(work.status.resourceStatus.manifests) == 3,
            namespace=self.hosts[0],
        )
        return name

    async def adoptions(self, read_on_host: Sequence[dict[str, Any]] = ()) -> AdoptionPlan:
        objects = [loaded.object for loaded in await read_hub(self.client, HOSTING)]
        state = HostingState()
        state.load(objects, now=to_micros(datetime.now(UTC)))
        works = (await self.client.list(MANIFEST_WORKS, namespace=self.hosts[0])).items
        return plan_adoption(
            state,
            [thing for thing in objects if isinstance(thing, HostedClusterRequest)],
            [*in_works(works), *on_host(self.hosts[0], read_on_host)],
            [self.hosts[0]],
            namespace=self.namespace,
            policy="default",
        )

    async def works(self) -> list[str]:
        works = await self.client.list(MANIFEST_WORKS, namespace=self.hosts[0])
        return sorted(work.metadata.name for work in works.items)

    async def delete(self, name: str) -> None:
        with suppress(NotFound):
            await self.client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=self.namespace)
        await until_deleted(self.client, HOSTED_CLUSTER_REQUESTS, name, namespace=self.namespace)

    async def delete_requests(self) -> None:
        """Delete what is left without a controller: requests take room on the hosts of other tests."""
        for request in (await self.client.list(HOSTED_CLUSTER_REQUESTS, namespace=self.namespace)).items:
            name = request.metadata.name
            with suppress(NotFound):
                await edit(
                    self.client,
                    HOSTED_CLUSTER_REQUESTS,
                    name,
                    {"metadata": {"finalizers": None}},
                    namespace=self.namespace,
                )
            await self.delete(name)

    async def hosted(self, name: str) -> list[int]:
        """Return the hosting clusters, by number, that have the HostedCluster."""
        spokes: list[int] = []
        for number, spoke in enumerate(self.spokes):
            with suppress(NotFound):
                await spoke.get(HOSTED_CLUSTERS, name, namespace=self.on_host)
                spokes.append(number)
        return spokes

    @asynccontextmanager
    async def controller(self, killed: Killed | None = None) -> AsyncIterator[None]:
        async with Client(self._connection) as client:
            if killed is not None:
                killed.install(client)
            recorder = cast("Recorder", SimpleNamespace(event=lambda *_, **__: True))
            controller = HostingController(
                client, meters=Meters(), recorder=recorder, scheduling=DEFAULT_SCHEDULING
            )
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
        spokes = [await stack.enter_async_context(Client(cluster)) for cluster in clusters]
        made = HostingHarness(client, connection, spokes)
        await made.build()
        for number in range(len(spokes)):
            made.start_agent(number)
        try:
            yield made
        finally:
            await made.stop_agents()
            await made.delete_requests()
            for name in made.hosts:
                await client.delete(MANAGED_CLUSTERS, name)


async def test_hosted_cluster_is_created_on_the_emptier_host_and_deleted_with_its_request(
    harness: HostingHarness,
) -> None:
    async with harness.controller():
        name = await harness.ask()
        confirmed = await harness.confirmed(name)
        assert confirmed.status.hostingCluster is not None
        assert confirmed.status.hostingCluster.name == harness.hosts[0]
        assert await harness.hosted(name) == [0]
        pool = await harness.spokes[0].request(
            "GET",
            f"/apis/hypershift.openshift.io/v1beta1/namespaces/{harness.on_host}/nodepools/{name}-workers",
        )
        assert b'"clusterName"' in pool.body
        secret = await harness.spokes[0].request("GET", f"/api/v1/namespaces/{harness.on_host}/secrets/pull")
        assert b"c2VjcmV0" in secret.body
        await harness.delete(name)
        assert await harness.hosted(name) == []
        await harness.spokes[0].request("GET", f"/api/v1/namespaces/{harness.on_host}")  # it stays for others


async def test_request_follows_the_availability_that_the_hosted_cluster_reports(
    harness: HostingHarness,
) -> None:
    async with harness.controller():
        name = await harness.ask()
        await harness.confirmed(name)
        assert await harness.is_available(name) == "False", "HyperShift has not reported anything yet"
        for status in ("True", "False", "True"):
            await harness.report(name, reported_condition("Available", status))
            await harness.is_available(name, status)
        await harness.report(name, reported_condition("Degraded", "True"))
        await harness.is_available(name, "False")
        await harness.delete(name)


async def test_smallest_request_of_the_docs_is_accepted_with_the_template_of_the_docs(
    harness: HostingHarness,
) -> None:
    asked, policy = documents_of_the_docs()
    name = fresh("policy")
    await harness.client.create(HOSTING_POLICIES, {"metadata": {"name": name}, "spec": policy["spec"]})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull-secret"},
        "data": {"key": "eA=="},
    }
    await harness.client.request("POST", f"/api/v1/namespaces/{harness.namespace}/secrets", body=secret)
    async with harness.controller():
        pools = [{"name": "workers", "spec": {"replicas": 1}}]
        for spec in (asked["spec"], {**asked["spec"], "nodePools": pools}):
            body = {"metadata": {"name": fresh("shop")}, "spec": {**spec, "policy": name}}
            made = await harness.client.create(HOSTED_CLUSTER_REQUESTS, body, namespace=harness.namespace)
            await until(
                harness.client,
                HOSTED_CLUSTER_REQUESTS,
                made.metadata.name,
                lambda request: is_true(request, "Applied"),
                namespace=harness.namespace,
            )
            await harness.delete(made.metadata.name)
    await harness.client.delete(HOSTING_POLICIES, name)


async def test_request_that_the_definition_refuses_gives_its_place_up(harness: HostingHarness) -> None:
    """Without a template, the smallest request lacks fields that HyperShift requires."""
    asked, _ = documents_of_the_docs()
    async with harness.controller():
        name = fresh("shop")
        body = {"metadata": {"name": name}, "spec": asked["spec"]}
        await harness.client.create(HOSTED_CLUSTER_REQUESTS, body, namespace=harness.namespace)
        refused = await until(
            harness.client,
            HOSTED_CLUSTER_REQUESTS,
            name,
            lambda request: request.status.phase == UNSCHEDULABLE,
            namespace=harness.namespace,
        )
        condition = find_condition(refused.status.conditions, "Scheduled")
        assert condition is not None
        assert condition.reason == "Misconfigured"
        assert "spec.release: Required value" in condition.message
        assert (refused.status.hostingCluster, refused.status.reservation) == (None, None)
        assert [refusal.cause for refusal in refused.status.refusals] == ["Object"]
        fixed = {"spec": {"hostedCluster": {"spec": SMALLEST}}}
        await harness.client.patch(
            HOSTED_CLUSTER_REQUESTS, name, fixed, kind=Patch.MERGE, namespace=harness.namespace
        )
        await harness.confirmed(name)
        await harness.delete(name)


async def test_refused_node_pool_shows_on_a_request_whose_hosted_cluster_exists(
    harness: HostingHarness,
) -> None:
    async with harness.controller():
        name = fresh("web")
        pools = [{"name": f"{name}-workers", "spec": {"replicas": 1}}]
        spec = {"hostedCluster": {"spec": SMALLEST}, "nodePools": pools}
        await harness.client.create(
            HOSTED_CLUSTER_REQUESTS, {"metadata": {"name": name}, "spec": spec}, namespace=harness.namespace
        )
        edited = await until(
            harness.client,
            HOSTED_CLUSTER_REQUESTS,
            name,
            lambda request: (
                request.status.phase == CONFIRMED and not is_true(request, "Applied", unknown=True)
            ),
            namespace=harness.namespace,
        )
        condition = find_condition(edited.status.conditions, "Applied")
        assert condition is not None
        assert condition.reason == "NotApplied"
        assert f"NodePool {harness.on_host}/{name}-workers" in condition.message
        assert "spec.release: Required value" in condition.message
        await harness.delete(name)


def is_true(request: HostedClusterRequest, type_: str, *, unknown: bool = False) -> bool:
    condition = find_condition(request.status.conditions, type_)
    return unknown if condition is None else condition.status == "True"


def documents_of_the_docs() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the smallest request, and the policy with a template."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    request, policy = map(yaml.safe_load, blocks[:2])
    assert (request["kind"], policy["kind"]) == ("HostedClusterRequest", "HostingPolicy")
    return request, policy


async def test_recovered_hosted_cluster_is_removed_by_the_agent_of_a_host_that_returns(
    harness: HostingHarness,
) -> None:
    policy = fresh("policy")
    spec = {"hostLoss": {"recreate": "Approved"}}
    await harness.client.create(HOSTING_POLICIES, {"metadata": {"name": policy}, "spec": spec})
    async with harness.controller():
        name = await harness.ask(policy=policy)
        await harness.confirmed(name)
        await harness.stop_agent(0)
        await harness.mark(harness.hosts[0], "Unknown")
        lost = await until(
            harness.client,
            HOSTED_CLUSTER_REQUESTS,
            name,
            lambda request: bool(loss_of(request)),
            namespace=harness.namespace,
        )
        annotations = {MOVE_TO: harness.hosts[1], RECOVER_FROM: loss_of(lost)}
        await harness.client.patch(
            HOSTED_CLUSTER_REQUESTS,
            name,
            {"metadata": {"annotations": annotations}},
            kind=Patch.MERGE,
            namespace=harness.namespace,
        )
        await until(
            harness.client,
            HOSTED_CLUSTER_REQUESTS,
            name,
            lambda request: request.status.phase == CONFIRMED and not loss_of(request),
            namespace=harness.namespace,
        )
        assert await harness.hosted(name) == [0, 1], "nothing on the lost host has changed yet"
        await harness.mark(harness.hosts[0], "True")
        harness.start_agent(0)
        await until_deleted(
            harness.client, MANIFEST_WORKS, f"hosted-{lost.metadata.uid}", namespace=harness.hosts[0]
        )
        assert await harness.hosted(name) == [1]
        await harness.delete(name)
        assert await harness.hosted(name) == []
    await harness.client.delete(HOSTING_POLICIES, policy)


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
            assert [work.metadata.name for work in works.items] == []
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


@pytest.mark.parametrize("carried_out", [False, True])
async def test_adoption_killed_at_every_write_is_finished_by_the_next_one(
    harness: HostingHarness, carried_out: bool
) -> None:
    write, finished = 1, False
    async with harness.controller():
        while not finished:
            assert write < MOST_WRITES
            name = await harness.create_otherwise(in_work=True)
            before = await harness.spokes[0].get(HOSTED_CLUSTERS, name, namespace=harness.on_host)
            killed = Killed(write, carried_out)
            plan = await harness.adoptions()
            async with Client(harness.client.connection) as client:
                killed.install(client)
                assert killed.event is not None
                adopting = asyncio.create_task(adopt_all(client, plan.adoptions))
                dying = asyncio.create_task(killed.event.wait())
                await asyncio.wait((adopting, dying), return_when=asyncio.FIRST_COMPLETED)
                finished = adopting.done()
                for task in (adopting, dying):
                    task.cancel()
                await asyncio.gather(adopting, dying, return_exceptions=True)
            assert await adopt_all(harness.client, (await harness.adoptions()).adoptions) == {}
            request = await harness.confirmed(name)
            assert request.status.accepted is not None
            assert request.status.accepted.adopted
            assert [pool.name for pool in request.spec.nodePools] == [f"{name}-workers"]
            plan = await harness.adoptions()
            assert (plan.adoptions, plan.refused, plan.adopted) == ((), (), write)
            after = await harness.spokes[0].get(HOSTED_CLUSTERS, name, namespace=harness.on_host)
            assert after.metadata.uid == before.metadata.uid
            assert after.metadata.generation == before.metadata.generation
            write += 1
        assert not any(work.startswith("hosted-") for work in await harness.works())


async def test_adopted_hosted_cluster_survives_edits_and_the_deletion_of_its_request(
    harness: HostingHarness,
) -> None:
    async with harness.controller():
        names = [await harness.create_otherwise(in_work=in_work) for in_work in (True, False)]
        path = HOSTED_CLUSTERS.path(namespace=harness.on_host)
        read = json.loads((await harness.spokes[0].request("GET", path)).body)
        plan = await harness.adoptions(read["items"])
        assert [adoption.existing.work is not None for adoption in plan.adoptions].count(True) == 1
        assert await adopt_all(harness.client, plan.adoptions) == {}
        for name in names:
            await harness.confirmed(name)
            changed = {"spec": {"hostedCluster": {"spec": {"release": {"image": "other"}}}}}
            edited = await harness.client.patch(
                HOSTED_CLUSTER_REQUESTS, name, changed, kind=Patch.MERGE, namespace=harness.namespace
            )
            assert edited.metadata.generation == 2
            await until(
                harness.client,
                HOSTED_CLUSTER_REQUESTS,
                name,
                lambda request: request.status.observedGeneration == 2,
                namespace=harness.namespace,
            )
            await harness.delete(name)
        # What follows a deletion is done when a request that came after it is confirmed.
        later = await harness.ask()
        await harness.confirmed(later)
        await harness.delete(later)
        for name in names:
            kept = await harness.spokes[0].get(HOSTED_CLUSTERS, name, namespace=harness.on_host)
            assert kept.spec["release"] == SMALLEST["release"]
        assert await harness.works() == [names[0]]


async def test_adopted_hosted_cluster_that_its_author_deletes_is_not_created_again(
    harness: HostingHarness,
) -> None:
    async with harness.controller():
        name = await harness.create_otherwise(in_work=True)
        assert await adopt_all(harness.client, (await harness.adoptions()).adoptions) == {}
        await harness.confirmed(name)
        await harness.client.delete(MANIFEST_WORKS, name, namespace=harness.hosts[0])
        gone = await until(
            harness.client,
            HOSTED_CLUSTER_REQUESTS,
            name,
            lambda request: not is_true(request, "Bound", unknown=True),
            namespace=harness.namespace,
        )
        condition = find_condition(gone.status.conditions, "Bound")
        assert condition is not None
        assert condition.reason == "ManifestWorkGone"
        await until_deleted(harness.client, MANIFEST_WORKS, name, namespace=harness.hosts[0])
        assert (await harness.hosted(name), await harness.works()) == ([], [])
