"""Controllers whose CustomResourceDefinitions are created while they run."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from cli.live_hub import put
from controllers.hubs import HubUnderTest, hub_of
from fairway.api import crds
from fairway.api.kinds import KubeObject
from fairway.api.placement import PlacementSpec
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
)
from fairway.api.score import managed_cluster_score_name
from fairway.controllers import controller_factory
from fairway.controllers.kinds import DEFINITIONS, NAMESPACES
from fairway.controllers.manager import Manager, running
from fairway.controllers.runtime.optional_kinds import definition_name
from fairway.controllers.settings import ADD_ONS, BRIDGE, CLUSTER_SETS, HOSTING, PLACEMENT, SCORES, Settings
from fairway.testing import builders
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from kubewire.api.meta import format_time
from kubewire.client import SYSTEM_CLOCK, Client, Patch, Resource
from kubewire.client.lease import LEASES, Timing
from rigs.fake_hub import reported_condition
from rigs.kubernetes import Tools
from rigs.processes import POLL
from rigs.restricted import NAMESPACE, restricted
from rigs.waiting import DEADLINE, until

LATE: dict[str, tuple[Resource[Any], ...]] = {
    HOSTING: (HOSTED_CLUSTER_REQUESTS, HOSTING_POLICIES),
    BRIDGE: (MANAGED_CLUSTER_SCORES,),
    ADD_ONS: (CLUSTER_MANAGEMENT_ADD_ONS,),
}
LATE_NAMES = {definition_name(kind) for kinds in LATE.values() for kind in kinds}

pytestmark = pytest.mark.usefixtures("no_error_logs")


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    """A hub that serves OCM's kinds, but not those of ``LATE``."""
    with hub_of(request.param, folder=tmp_path_factory.mktemp("hub"), tools=Tools.find, bare=True) as made:
        asyncio.run(install_others(made))
        yield made


async def install_others(hub: HubUnderTest) -> None:
    async with Client(hub.administrator) as client:
        for definition in crds():
            if definition["metadata"]["name"] not in LATE_NAMES:
                await client.create(DEFINITIONS, definition)


async def install(client: Client, kinds: Collection[Resource[Any]]) -> None:
    names = {definition_name(kind) for kind in kinds}
    for definition in crds():
        if definition["metadata"]["name"] in names:
            await client.create(DEFINITIONS, definition)


@asynccontextmanager
async def led(hub: HubUnderTest, controller: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Manager]:
    """Run one controller beside that of cluster sets, with their rights and Leases."""
    monkeypatch.setattr(controller_factory, "POLL_SECONDS", POLL)
    # Freezing the garbage collector's view must not happen in a process that runs tests.
    collector = SimpleNamespace(collect=lambda: 0, freeze=lambda: None)
    monkeypatch.setattr("fairway.controllers.manager.gc", collector)
    controllers = frozenset({controller, CLUSTER_SETS})
    connection = await restricted(hub.administrator, controllers=controllers)
    settings = Settings(
        controllers=controllers, election=Timing(lease=6, renew=5.0, retry=0.25), identity="me"
    )
    async with running(connection, settings) as manager:
        await manager.synced()
        end = asyncio.create_task(manager.over())
        try:
            yield manager
            if end.done():
                end.result()  # raises the manager's error
        finally:
            end.cancel()


async def until_leading(manager: Manager, lease: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while not manager.leading.get(lease):
            await asyncio.sleep(POLL)


async def test_hosting_starts_when_its_kinds_are_defined(
    hub: HubUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fairway.controllers")
    async with Client(hub.administrator) as client, led(hub, HOSTING, monkeypatch) as manager:
        await until_leading(manager, "fairway-controllers")
        assert not manager.unready()
        assert "fairway-hosting" not in manager.leading
        assert "controller hosting waits for it. Apply the missing definitions: fairway crds |" in caplog.text
        # The controller needs both.
        await install(client, LATE[HOSTING][:1])
        await install(client, LATE[HOSTING][1:])
        await until_leading(manager, "fairway-hosting")
        assert not manager.unready()
        assert manager.leading["fairway-controllers"]
        lease = await client.get(LEASES, "fairway-hosting", namespace=NAMESPACE)
        assert lease.spec.holderIdentity == "me"
        await client.create(HOSTING_POLICIES, {"metadata": {"name": "default"}, "spec": {}})
        body = {"metadata": {"name": "shop"}, "spec": {"hostedCluster": {"spec": {}}}}
        await client.create(HOSTED_CLUSTER_REQUESTS, body, namespace="default")
        await until(
            client,
            HOSTED_CLUSTER_REQUESTS,
            "shop",
            lambda request: bool(request.status.conditions),
            namespace="default",
        )


async def test_bridge_starts_when_its_kind_is_defined(
    hub: HubUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(hub.administrator) as client, led(hub, BRIDGE, monkeypatch) as manager:
        await until_leading(manager, "fairway-controllers")
        assert not manager.unready()
        assert "fairway-bridge" not in manager.leading
        await install(client, LATE[BRIDGE])
        await until_leading(manager, "fairway-bridge")
        await client.create(NAMESPACES, {"metadata": {"name": "c1"}})
        name = managed_cluster_score_name(cluster="c1", calculator="cpu")
        await client.create(MANAGED_CLUSTER_SCORES, {"metadata": {"name": name}}, namespace="c1")
        moment = format_time(SYSTEM_CLOCK.wall())
        condition = {
            "lastTransitionTime": moment,
            "lastUpdateTime": moment,
            "message": "updated",
            "reason": "ManagedClusterScoreUpdated",
            "status": "True",
            "type": "ManagedClusterScoreUpdated",
        }
        await client.patch(
            MANAGED_CLUSTER_SCORES,
            name,
            {"status": {"conditions": [condition], "score": 60_000}},
            kind=Patch.MERGE,
            namespace="c1",
            subresource="status",
        )
        await until(
            client,
            ADD_ON_PLACEMENT_SCORES,
            "managed-cluster-scores",
            lambda score: [item.name for item in score.status.scores] == ["cpu"],
            namespace="c1",
        )


async def test_add_ons_join_the_term_of_the_default_controllers(
    hub: HubUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(hub.administrator) as client, led(hub, ADD_ONS, monkeypatch) as manager:
        await until_leading(manager, "fairway-controllers")
        assert ADD_ONS not in manager.controllers
        before = await client.get(LEASES, "fairway-controllers", namespace=NAMESPACE)
        await install(client, LATE[ADD_ONS])
        async with asyncio.timeout(DEADLINE):
            while ADD_ONS not in manager.controllers:
                await asyncio.sleep(POLL)
        await manager.synced()
        await client.create(NAMESPACES, {"metadata": {"name": "c1"}})
        accepted = {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}}
        await client.create(MANAGED_CLUSTERS, accepted)
        status = {"status": {"conditions": [reported_condition("HubAcceptedManagedCluster", "True")]}}
        await client.patch(MANAGED_CLUSTERS, "c1", status, kind=Patch.MERGE, subresource="status")
        templates = {"group": CLUSTER_MANAGEMENT_ADD_ONS.group, "resource": "addontemplates"}
        spec = {
            "supportedConfigs": [{**templates, "defaultConfig": {"name": "shop"}}],
            "installStrategy": {"type": "Manual"},
        }
        await client.create(CLUSTER_MANAGEMENT_ADD_ONS, {"metadata": {"name": "shop"}, "spec": spec})
        await client.create(
            MANAGED_CLUSTER_ADD_ONS, {"metadata": {"name": "shop"}, "spec": {}}, namespace="c1"
        )
        await until(
            client,
            MANAGED_CLUSTER_ADD_ONS,
            "shop",
            lambda add_on: [owner.name for owner in add_on.metadata.ownerReferences] == ["shop"],
            namespace="c1",
        )
        after = await client.get(LEASES, "fairway-controllers", namespace=NAMESPACE)
        assert after.spec.leaseTransitions == before.spec.leaseTransitions
        assert after.spec.acquireTime == before.spec.acquireTime
        assert not manager.unready()


async def test_requests_count_in_decisions_when_their_kind_is_defined(
    hub: HubUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(hub.administrator) as client, led(hub, PLACEMENT, monkeypatch) as manager:
        await until_leading(manager, "fairway-placement")
        by_count = builders.addon("hostedClustersCount", -1, resource="hosted-clusters-score")
        spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=builders.policy(by_count, mode="Exact"))
        debits = {SCORE_DEBITS: "hosted-clusters-score/hostedClustersCount=+1"}
        things: list[KubeObject] = [
            builders.binding("global"),
            *(builders.cluster(name) for name in ("c1", "c2")),
            *(
                builders.score(name, {"hostedClustersCount": count}, name="hosted-clusters-score")
                for name, count in (("c1", 1), ("c2", 2))
            ),
        ]
        await put(client, things)
        await install(client, LATE[HOSTING][:1])
        await until_served(manager, HOSTED_CLUSTER_REQUESTS)
        cluster = await client.get(MANAGED_CLUSTERS, "c1")
        status = {"phase": "Bound", "hostingCluster": {"name": "c1", "uid": cluster.metadata.uid}}
        for name in ("one", "two"):
            body = {"metadata": {"name": name}, "spec": {"hostedCluster": {"spec": {}}}}
            await client.create(HOSTED_CLUSTER_REQUESTS, body, namespace="ns1")
            await client.patch(
                HOSTED_CLUSTER_REQUESTS,
                name,
                {"status": status},
                kind=Patch.MERGE,
                namespace="ns1",
                subresource="status",
            )
        requests = manager.informers.of(HOSTED_CLUSTER_REQUESTS)
        async with asyncio.timeout(DEADLINE):
            while sum(request.status.phase == "Bound" for request in requests.store.values()) < 2:
                await asyncio.sleep(POLL)
        await put(client, [builders.placement("web", spec=spec, annotations=debits)])
        await until(
            client,
            PLACEMENT_DECISIONS,
            "web-decision-1",
            lambda decision: [chosen.clusterName for chosen in decision.status.decisions] == ["c2"],
            namespace="ns1",
        )


async def test_calculators_count_when_their_kind_is_defined(
    hub: HubUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(hub.administrator) as client, led(hub, SCORES, monkeypatch) as manager:
        await until_leading(manager, "fairway-controllers")
        await install(client, LATE[BRIDGE])
        await until_served(manager, MANAGED_CLUSTER_SCORES)
        assert not manager.unready()


async def until_served(manager: Manager, kind: Resource[Any]) -> None:
    """Wait until an informer of the kind has listed it."""
    async with asyncio.timeout(DEADLINE):
        while str(kind) not in manager.informers.lag() or str(kind) in manager.informers.waiting():
            await asyncio.sleep(POLL)
