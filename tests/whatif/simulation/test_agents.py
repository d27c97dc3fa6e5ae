"""A fleet on an embedded hub: made, made again, moved, stopped and started."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.kinds import encode
from fairway.api.lease import Lease
from fairway.api.meta import Condition, find_condition, set_condition
from fairway.api.score import AddOnPlacementScore
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    SYSTEM_CLOCK,
    Client,
    Informer,
    Patch,
    Resource,
    TransportError,
)
from fairway.kube.kubeconfig import load
from fairway.kube.lease import LEASES
from fairway.kube.resource import KubeStruct, T
from fairway.testing.hub import HubAddress
from fairway.whatif.simulation.agents import (
    AGENT,
    LEASE,
    LEASE_SECONDS,
    MISSED,
    STOPPED,
    Motion,
    create,
    moving,
)
from fairway.whatif.simulation.objects import BOUND_SETS, NAMESPACE, SCORE, SYNTHETIC, members
from fairway.whatif.synthetic import BASE_TIME
from rigs.processes import POLL

PATIENCE = 120.0
QUICK = Motion(clusters=4, seed=5, period=0.05, rate=1000.0)


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


async def heard(holds: Callable[[], bool]) -> None:
    """Until the agents know, by a watch of their own. Another watch does not tell when."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(POLL)


async def versions(client: Client) -> dict[str, str]:
    clusters = (await client.list(MANAGED_CLUSTERS)).items
    scores = (await client.list(ADD_ON_PLACEMENT_SCORES)).items
    found: list[KubeStruct] = [*clusters, *scores]
    return {
        f"{each.metadata.namespace}/{each.metadata.name}": each.metadata.resourceVersion for each in found
    }


class TestObjects:
    def test_every_cluster_is_joined_available_and_scored(self) -> None:
        for member in members(clusters=300, seed=1, now=BASE_TIME):
            conditions = {each["type"]: each["status"] for each in member.status["conditions"]}
            assert conditions[CONDITION_AVAILABLE] == conditions["ManagedClusterJoined"] == "True"
            assert conditions["HubAcceptedManagedCluster"] == "True"
            taints = [each["key"] for each in member.manifest["spec"].get("taints", ())]
            assert not [key for key in taints if key.endswith(("/unreachable", "/unavailable"))]
            assert {"cpuAvailable", "memAvailable"} <= set(member.scores[0].values)
            assert member.scores[0].name == SCORE
            assert set(member.manifest["metadata"]) == {"name", "labels"}

    def test_the_same_seed_makes_the_same_fleet_whenever_it_is_made(self) -> None:
        later = BASE_TIME + timedelta(days=40)
        first = [(each.name, each.scores) for each in members(clusters=40, seed=3, now=BASE_TIME)]
        again = [(each.name, each.scores) for each in members(clusters=40, seed=3, now=later)]
        assert first == again
        assert first[:10] == [(each.name, each.scores) for each in members(clusters=10, seed=3, now=later)]

    @pytest.mark.parametrize(("clusters", "seconds"), [(12, 300.0), (1000, 300.0), (60_000, 3000.0)])
    def test_scores_outlast_missed_periods_also_where_the_rate_is_too_low(
        self, clusters: int, seconds: float
    ) -> None:
        assert Motion(period=60.0, rate=200.0).validity(clusters) == seconds
        assert seconds >= MISSED * 60.0


class TestCreation:
    async def test_clusters_are_complete(self, client: Client) -> None:
        steps: list[float] = []
        await create(client, QUICK, advance=steps.append)
        assert steps == [1] * QUICK.clusters
        clusters = (await client.list(MANAGED_CLUSTERS)).items
        names = [each.name for each in members(clusters=QUICK.clusters, seed=QUICK.seed, now=BASE_TIME)]
        assert sorted(each.metadata.name for each in clusters) == sorted(names)
        now = SYSTEM_CLOCK.wall()
        for cluster in clusters:
            assert cluster.spec.hubAcceptsClient
            assert cluster.status.allocatable["cpu"]
            assert cluster.status.version.kubernetes.startswith("v1.")
            assert cluster.status.clusterClaims
            assert cluster.metadata.labels[SYNTHETIC] == "true"
            score = await client.get(ADD_ON_PLACEMENT_SCORES, SCORE, namespace=cluster.metadata.name)
            assert {each.name for each in score.status.scores} >= {"cpuAvailable", "memAvailable"}
            assert score.status.validUntil is not None
            assert abs((score.status.validUntil - now).total_seconds()) < 60

    async def test_placements_can_be_tried_at_once(self, client: Client) -> None:
        await create(client, QUICK)
        sets = {each.metadata.name for each in (await client.list(MANAGED_CLUSTER_SETS)).items}
        assert {"default", "global", "prod", "dev"} <= sets
        bindings = (await client.list(MANAGED_CLUSTER_SET_BINDINGS, namespace=NAMESPACE)).items
        assert {each.spec.clusterSet for each in bindings} == set(BOUND_SETS)

    async def test_what_is_there_stays_as_it_is(self, client: Client) -> None:
        await create(client, QUICK)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        labels = {"metadata": {"labels": {"mine": "yes"}}}
        await client.patch(MANAGED_CLUSTERS, name, labels, kind=Patch.MERGE)
        before = await versions(client)
        await create(client, QUICK)
        assert await versions(client) == before

    async def test_more_clusters_can_be_asked_for(self, client: Client) -> None:
        await create(client, QUICK)
        before = await versions(client)
        await create(client, Motion(clusters=6, seed=QUICK.seed))
        after = await versions(client)
        assert before.items() <= after.items()
        assert len((await client.list(MANAGED_CLUSTERS)).items) == 6

    async def test_a_creation_that_was_interrupted_is_finished(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At whichever of its requests."""
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
            motion = Motion(clusters=done + 1, seed=1)  # one more than before
            left = done
            try:
                await create(client, motion)
            except TransportError:
                left = 1000
                await create(client, motion)
            else:
                break
        assert done > 8
        clusters = (await client.list(MANAGED_CLUSTERS)).items
        assert len(clusters) == done + 1
        assert all(cluster.status.allocatable for cluster in clusters)
        scores = [each for each in (await client.list(ADD_ON_PLACEMENT_SCORES)).items if each.status.scores]
        assert {each.metadata.namespace for each in scores} == {each.metadata.name for each in clusters}


class TestMotion:
    async def test_leases_are_renewed_and_scores_move(self, client: Client) -> None:
        await create(client, QUICK)
        first = {
            each.metadata.namespace: each.status.scores
            for each in (await client.list(ADD_ON_PLACEMENT_SCORES)).items
            if each.metadata.name == SCORE
        }

        def moved(scores: Informer[AddOnPlacementScore]) -> bool:
            found = {key: each for key, each in scores.store.items() if key[1] == SCORE}
            return all(each.status.scores != first[namespace] for (namespace, _), each in found.items())

        async with moving(client, QUICK) as agents:
            assert agents.names == set(first)
            await until(client, ADD_ON_PLACEMENT_SCORES, moved)
            await until(client, LEASES, lambda leases: set(leases.store) >= held(first))
        lease = await client.get(LEASES, LEASE, namespace=min(first))
        assert lease.spec.leaseDurationSeconds == LEASE_SECONDS
        assert lease.spec.renewTime

    async def test_a_cluster_the_hub_lost_sight_of_comes_back(self, client: Client) -> None:
        await create(client, QUICK)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with moving(client, QUICK):
            await lose(client, name)
            await until(client, MANAGED_CLUSTERS, lambda clusters: status_of(clusters, name) == "True")
        cluster = await client.get(MANAGED_CLUSTERS, name)
        # The other conditions are somebody else's.
        assert {each.type for each in cluster.status.conditions or ()} >= {
            "ManagedClusterJoined",
            CONDITION_AVAILABLE,
        }

    async def test_after_a_restart_all_come_back(self, client: Client) -> None:
        await create(client, QUICK)
        names = [each.metadata.name for each in (await client.list(MANAGED_CLUSTERS)).items]
        for name in names:
            await lose(client, name)

        def back(clusters: Informer[ManagedCluster]) -> bool:
            return all(status_of(clusters, name) == "True" for name in names)

        # Whoever starts it again need not remember how many clusters there were.
        async with moving(client, Motion(period=60.0)) as agents:
            assert agents.names == set(names)
            await until(client, MANAGED_CLUSTERS, back)

    async def test_an_agent_stops_when_asked_and_starts_again(self, client: Client) -> None:
        await create(client, QUICK)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with moving(client, QUICK) as agents:
            await mark(client, name, STOPPED)
            await heard(lambda: name not in agents.names)
            await lose(client, name)
            others = agents.names
            assert len(others) == QUICK.clusters - 1
            await mark(client, name, None)
            await until(client, MANAGED_CLUSTERS, lambda clusters: status_of(clusters, name) == "True")
            assert name in agents.names

    async def test_an_agent_keeps_to_the_lease_it_is_told(self, client: Client) -> None:
        await create(client, QUICK)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with moving(client, Motion(period=60.0)):
            body = {"spec": {"leaseDurationSeconds": 1}}
            await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE)
            seen: set[str] = set()

            def renewed(leases: Informer[Lease]) -> bool:
                lease = leases.get(LEASE, namespace=name)
                seen.add(lease.spec.renewTime if lease else "")
                return len(seen) > 4

            await until(client, LEASES, renewed)

    async def test_agents_end_and_begin_with_their_clusters(self, client: Client) -> None:
        await create(client, QUICK)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with moving(client, QUICK) as agents:
            await client.delete(MANAGED_CLUSTERS, name)
            await heard(lambda: name not in agents.names)
            await create(client, QUICK)
            await heard(lambda: name in agents.names)

    async def test_other_clusters_are_left_alone(self, client: Client) -> None:
        await client.create(
            MANAGED_CLUSTERS, {"metadata": {"name": "real"}, "spec": {"hubAcceptsClient": True}}
        )
        async with moving(client, QUICK) as agents:
            assert agents.names == set()

    async def test_a_score_that_was_deleted_is_published_again(self, client: Client) -> None:
        await create(client, QUICK)
        name = (await client.list(MANAGED_CLUSTERS)).items[0].metadata.name
        async with moving(client, QUICK):
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


async def lose(client: Client, name: str) -> None:
    """As the hub does when no lease was renewed for a while."""
    cluster = await client.get(MANAGED_CLUSTERS, name)
    lost = Condition(
        type=CONDITION_AVAILABLE, status="Unknown", reason="ManagedClusterLeaseUpdateStopped", message=""
    )
    conditions = set_condition(cluster.status.conditions or (), lost, now=SYSTEM_CLOCK.wall())
    body = {"status": {"conditions": [encode(each) for each in conditions]}}
    await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE, subresource="status")


async def mark(client: Client, name: str, agent: str | None) -> None:
    body = {"metadata": {"labels": {AGENT: agent}}}
    await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE)
