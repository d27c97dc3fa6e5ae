"""A simulated fleet on an embedded hub: creation, agents, stop and restart."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.hosted_request import REQUEST_UID_LABEL
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from fairway.api.score import AddOnPlacementScore
from fairway.simulation.agents import AGENT, LEASE, STOPPED, running_agents
from fairway.simulation.creation import LEASE_SECONDS, PERIODS_VALID, SimulationOptions, create
from fairway.simulation.objects import BOUND_SETS, NAMESPACE, SCORE, SYNTHETIC, simulated_clusters
from fairway.simulation.synthetic import BASE_TIME
from fairway.simulation.synthetic.scores import HOSTED
from fairway.testing.hub import HubAddress
from fairway.workloads.hosting.requests.work import REQUEST_ANNOTATION
from kubewire.api.encoding import encode
from kubewire.api.lease import Lease
from kubewire.api.meta import Condition, find_condition, set_condition
from kubewire.api.resource import KubeStruct, T
from kubewire.client import SYSTEM_CLOCK, Client, Informer, Patch, Resource, TransportError
from kubewire.client.kubeconfig import load
from kubewire.client.lease import LEASES
from rigs.processes import POLL

TIMEOUT = 120.0
FAST = SimulationOptions(clusters=4, seed=5, period=0.05, rate=1000.0)


@pytest.fixture
async def client(fairway_hub: HubAddress) -> AsyncIterator[Client]:
    async with Client(load(fairway_hub.kubeconfig).context()) as made:
        yield made


async def until(
    client: Client,
    resource: Resource[T],
    holds: Callable[[Informer[T]], bool],
    *,
    namespace: str | None = None,
) -> None:
    async with Informer(client, resource, namespace=namespace) as informer:
        await informer.synced.wait()
        changed = asyncio.Event()
        informer.subscribe(lambda _: changed.set())
        while not holds(informer):
            await changed.wait()
            changed.clear()


async def observed(holds: Callable[[], bool]) -> None:
    """Wait until the agents observed a change, which another watch cannot show."""
    async with asyncio.timeout(TIMEOUT):
        while not holds():
            await asyncio.sleep(POLL)


async def versions(client: Client) -> dict[str, str]:
    clusters = (await client.list(MANAGED_CLUSTERS)).items
    scores = (await client.list(ADD_ON_PLACEMENT_SCORES)).items
    objects: list[KubeStruct] = [*clusters, *scores]
    return {f"{obj.metadata.namespace}/{obj.metadata.name}": obj.metadata.resourceVersion for obj in objects}


class TestObjects:
    def test_every_simulated_cluster_is_joined_available_and_scored(self) -> None:
        for cluster in simulated_clusters(clusters=300, seed=1, now=BASE_TIME):
            conditions = {status["type"]: status["status"] for status in cluster.status["conditions"]}
            assert conditions[CONDITION_AVAILABLE] == conditions["ManagedClusterJoined"] == "True"
            assert conditions["HubAcceptedManagedCluster"] == "True"
            taints = [taint["key"] for taint in cluster.manifest["spec"].get("taints", ())]
            assert not [key for key in taints if key.endswith(("/unreachable", "/unavailable"))]
            assert {"cpuAvailable", "memAvailable"} <= set(cluster.scores[0].values)
            assert cluster.scores[0].name == SCORE
            assert set(cluster.manifest["metadata"]) == {"name", "labels"}

    def test_same_seed_creates_same_fleet_at_any_time(self) -> None:
        later = BASE_TIME + timedelta(days=40)
        first = [
            (cluster.name, cluster.scores)
            for cluster in simulated_clusters(clusters=40, seed=3, now=BASE_TIME)
        ]
        again = [
            (cluster.name, cluster.scores) for cluster in simulated_clusters(clusters=40, seed=3, now=later)
        ]
        assert first == again
        assert first[:10] == [
            (cluster.name, cluster.scores) for cluster in simulated_clusters(clusters=10, seed=3, now=later)
        ]

    @pytest.mark.parametrize(("clusters", "seconds"), [(12, 300.0), (1000, 300.0), (60_000, 3000.0)])
    def test_scores_are_valid_for_five_periods_even_at_a_low_rate(
        self, clusters: int, seconds: float
    ) -> None:
        assert SimulationOptions(period=60.0, rate=200.0).validity(clusters) == seconds
        assert seconds >= PERIODS_VALID * 60.0


class TestCreation:
    async def test_created_clusters_have_status_labels_and_scores(self, client: Client) -> None:
        steps: list[float] = []
        await create(client, FAST, advance=steps.append)
        assert steps == [1] * FAST.clusters
        clusters = (await client.list(MANAGED_CLUSTERS)).items
        names = [
            cluster.name
            for cluster in simulated_clusters(clusters=FAST.clusters, seed=FAST.seed, now=BASE_TIME)
        ]
        assert sorted(cluster.metadata.name for cluster in clusters) == sorted(names)
        now = SYSTEM_CLOCK.wall()
        for cluster in clusters:
            assert cluster.spec.hubAcceptsClient
            assert cluster.status.allocatable["cpu"]
            assert cluster.status.version.kubernetes.startswith("v1.")
            assert cluster.status.clusterClaims
            assert cluster.metadata.labels[SYNTHETIC] == "true"
            score = await client.get(ADD_ON_PLACEMENT_SCORES, SCORE, namespace=cluster.metadata.name)
            assert {item.name for item in score.status.scores} >= {"cpuAvailable", "memAvailable"}
            assert score.status.validUntil is not None
            assert abs((score.status.validUntil - now).total_seconds()) < 60

    async def test_creation_binds_sets_to_the_default_namespace(self, client: Client) -> None:
        await create(client, FAST)
        sets = {item.metadata.name for item in (await client.list(MANAGED_CLUSTER_SETS)).items}
        assert {"default", "global", "prod", "dev"} <= sets
        bindings = (await client.list(MANAGED_CLUSTER_SET_BINDINGS, namespace=NAMESPACE)).items
        assert {binding.spec.clusterSet for binding in bindings} == set(BOUND_SETS)

    async def test_second_creation_keeps_existing_objects(self, client: Client) -> None:
        await create(client, FAST)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        labels = {"metadata": {"labels": {"mine": "yes"}}}
        await client.patch(MANAGED_CLUSTERS, name, labels, kind=Patch.MERGE)
        before = await versions(client)
        await create(client, FAST)
        assert await versions(client) == before

    async def test_larger_creation_adds_clusters(self, client: Client) -> None:
        await create(client, FAST)
        before = await versions(client)
        await create(client, SimulationOptions(clusters=6, seed=FAST.seed))
        after = await versions(client)
        assert before.items() <= after.items()
        assert len((await client.list(MANAGED_CLUSTERS)).items) == 6

    async def test_creation_completes_after_interruption_at_any_request(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        transport = client._transport
        request = transport.request
        left = 0

        async def limited(method: str, path: str, **options: Any) -> Any:
            nonlocal left
            if method != "GET":
                left -= 1
            if left < 0:
                raise TransportError("the process ended")
            return await request(method, path, **options)

        monkeypatch.setattr(transport, "request", limited)
        for done in range(100):
            options = SimulationOptions(clusters=done + 1, seed=1)  # one more than before
            left = done
            try:
                await create(client, options)
            except TransportError:
                left = 1000
                await create(client, options)
            else:
                break
        assert done > 8
        clusters = (await client.list(MANAGED_CLUSTERS)).items
        assert len(clusters) == done + 1
        assert all(cluster.status.allocatable for cluster in clusters)
        scores = [
            score for score in (await client.list(ADD_ON_PLACEMENT_SCORES)).items if score.status.scores
        ]
        assert {score.metadata.namespace for score in scores} == {
            cluster.metadata.name for cluster in clusters
        }


class TestAgents:
    async def test_agents_renew_leases_and_publish_new_scores(self, client: Client) -> None:
        await create(client, FAST)
        first = {
            score.metadata.namespace: score.status.scores
            for score in (await client.list(ADD_ON_PLACEMENT_SCORES)).items
            if score.metadata.name == SCORE
        }

        def moved(scores: Informer[AddOnPlacementScore]) -> bool:
            moved_scores = {key: score for key, score in scores.store.items() if key[1] == SCORE}
            return all(
                score.status.scores != first[namespace] for (namespace, _), score in moved_scores.items()
            )

        async with running_agents(client, FAST) as agents:
            assert agents.names == set(first)
            await until(client, ADD_ON_PLACEMENT_SCORES, moved)
            await until(client, LEASES, lambda leases: set(leases.store) >= held(first))
        lease = await client.get(LEASES, LEASE, namespace=min(first))
        assert lease.spec.leaseDurationSeconds == LEASE_SECONDS
        assert lease.spec.renewTime

    async def test_agent_reports_unavailable_cluster_as_available(self, client: Client) -> None:
        await create(client, FAST)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with running_agents(client, FAST):
            await mark_unavailable(client, name)
            await until(client, MANAGED_CLUSTERS, lambda clusters: status_of(clusters, name) == "True")
        cluster = await client.get(MANAGED_CLUSTERS, name)
        # Other controllers own the other conditions.
        assert {condition.type for condition in cluster.status.conditions or ()} >= {
            "ManagedClusterJoined",
            CONDITION_AVAILABLE,
        }

    async def test_agents_of_all_clusters_start_again_after_restart(self, client: Client) -> None:
        await create(client, FAST)
        names = [cluster.metadata.name for cluster in (await client.list(MANAGED_CLUSTERS)).items]
        for name in names:
            await mark_unavailable(client, name)

        def back(clusters: Informer[ManagedCluster]) -> bool:
            return all(status_of(clusters, name) == "True" for name in names)

        # The number of clusters is not an option of the restart.
        async with running_agents(client, SimulationOptions(period=60.0)) as agents:
            assert agents.names == set(names)
            await until(client, MANAGED_CLUSTERS, back)

    async def test_label_stops_agent_and_its_removal_starts_it(self, client: Client) -> None:
        await create(client, FAST)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with running_agents(client, FAST) as agents:
            await label_agent(client, name, STOPPED)
            await observed(lambda: name not in agents.names)
            await mark_unavailable(client, name)
            others = agents.names
            assert len(others) == FAST.clusters - 1
            await label_agent(client, name, None)
            await until(client, MANAGED_CLUSTERS, lambda clusters: status_of(clusters, name) == "True")
            assert name in agents.names

    async def test_paused_agent_publishes_given_scores_once_it_runs_again(self, client: Client) -> None:
        steady = replace(FAST, walks=False)
        await create(client, steady)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with running_agents(client, steady) as agents:
            agents.pause(name)
            assert name not in agents.names
            agents.publish(name, {"cpuAvailable": 1})
            agents.resume(name)
            assert name in agents.names
            agents.publish(name, {"cpuAvailable": 2})
            await observed(lambda: agents.values(name) == {"cpuAvailable": 2})

    async def test_agent_uses_lease_duration_of_its_cluster(self, client: Client) -> None:
        await create(client, FAST)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with running_agents(client, SimulationOptions(period=60.0)):
            body = {"spec": {"leaseDurationSeconds": 1}}
            await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE)
            seen: set[str] = set()

            def renewed(leases: Informer[Lease]) -> bool:
                lease = leases.get(LEASE, namespace=name)
                seen.add(lease.spec.renewTime if lease else "")
                return len(seen) > 4

            await until(client, LEASES, renewed)

    async def test_agent_stops_and_starts_with_its_cluster(self, client: Client) -> None:
        await create(client, FAST)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with running_agents(client, FAST) as agents:
            await client.delete(MANAGED_CLUSTERS, name)
            await observed(lambda: name not in agents.names)
            await create(client, FAST)
            await observed(lambda: name in agents.names)

    async def test_clusters_without_the_label_have_no_agent(self, client: Client) -> None:
        await client.create(
            MANAGED_CLUSTERS, {"metadata": {"name": "real"}, "spec": {"hubAcceptsClient": True}}
        )
        async with running_agents(client, FAST) as agents:
            assert agents.names == set()

    async def test_agent_publishes_deleted_score_again(self, client: Client) -> None:
        await create(client, FAST)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with running_agents(client, FAST):
            await client.delete(ADD_ON_PLACEMENT_SCORES, SCORE, namespace=name)
            await until(
                client, ADD_ON_PLACEMENT_SCORES, lambda scores: bool(scores.get(SCORE, namespace=name))
            )


def held(names: Iterable[str]) -> set[tuple[str, str]]:
    return {(name, LEASE) for name in names}


def status_of(clusters: Informer[ManagedCluster], name: str) -> str:
    cluster = clusters.get(name)
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE) if cluster else None
    return condition.status if condition else "missing"


async def mark_unavailable(client: Client, name: str) -> None:
    """Mark the cluster as the hub does when its lease expires."""
    cluster = await client.get(MANAGED_CLUSTERS, name)
    lost = Condition(
        type=CONDITION_AVAILABLE, status="Unknown", reason="ManagedClusterLeaseUpdateStopped", message=""
    )
    conditions = set_condition(cluster.status.conditions or (), lost, now=SYSTEM_CLOCK.wall())
    body = {"status": {"conditions": [encode(condition) for condition in conditions]}}
    await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE, subresource="status")


async def label_agent(client: Client, name: str, agent: str | None) -> None:
    body = {"metadata": {"labels": {AGENT: agent}}}
    await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE)


class TestHostedClusters:
    async def test_hosted_cluster_of_a_request_takes_its_room_from_the_published_slots(
        self, client: Client
    ) -> None:
        """What is placed lowers what the next request finds, as on a cluster with the provider."""
        await create(client, FAST)
        scores = await client.list(ADD_ON_PLACEMENT_SCORES)
        (before,) = (score for score in scores.items if score.metadata.name == HOSTED)
        host = before.metadata.namespace
        body = {"spec": {"size": "large", "hostedCluster": {"spec": {"platform": {"type": "None"}}}}}
        await client.create(
            HOSTED_CLUSTER_REQUESTS, {"metadata": {"name": "large"}, **body}, namespace=NAMESPACE
        )
        amounts = {"cpu": "24", "memory": "86Gi", "pods": "78"}
        reserved = {"reservation": {"amounts": amounts, "since": "2026-01-01T00:00:00Z"}}
        await client.patch(
            HOSTED_CLUSTER_REQUESTS,
            "large",
            {"status": reserved},
            kind=Patch.MERGE,
            namespace=NAMESPACE,
            subresource="status",
        )
        async with running_agents(client, FAST):
            work = {
                "metadata": {
                    "name": "hosted-1",
                    "labels": {REQUEST_UID_LABEL: "1"},
                    "annotations": {REQUEST_ANNOTATION: f"{NAMESPACE}/large"},
                },
                "spec": {"workload": {"manifests": []}},
            }
            await client.create(MANIFEST_WORKS, work, namespace=host)
            wanted = values_of(before) | {"hostedClustersCount": 12, "hcpSlotsLarge": 6, "hcpSlotsSmall": 31}
            await until(client, ADD_ON_PLACEMENT_SCORES, lambda seen: has(seen, host, wanted))
            await client.delete(MANIFEST_WORKS, "hosted-1", namespace=host)
            await until(client, ADD_ON_PLACEMENT_SCORES, lambda seen: has(seen, host, values_of(before)))


def values_of(score: AddOnPlacementScore) -> dict[str, int]:
    return {item.name: item.value for item in score.status.scores}


def has(scores: Informer[AddOnPlacementScore], host: str, wanted: dict[str, int]) -> bool:
    score = scores.get(HOSTED, namespace=host)
    names = ("hostedClustersCount", "hcpSlotsLarge", "hcpSlotsSmall")
    return score is not None and all(values_of(score)[name] == wanted[name] for name in names)
