"""The hosted-clusters provider on a cluster with HostedClusters, nodes and pods: scores and claims."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from fairway.api import crds
from fairway.api.resources import CLUSTER_CLAIMS
from fairway.providers import informer_readiness
from fairway.providers.catalogue import Context
from fairway.providers.hosted import HostedClusters
from fairway.providers.hosted.capacity import API_HEADROOM, COUNT, HEADROOM, OF_REQUESTS, scores_of
from fairway.providers.hosted.claims import (
    ABOVE,
    FREE_CPU,
    FREE_MEMORY,
    FULL,
    HOSTING,
    MAXIMUM_COUNT,
    NOT_SERVED,
    ROLES,
    SCHEMA,
    ZERO,
    ZONES,
    Limits,
    claims_for,
    owned_rules,
    room_claims,
)
from fairway.providers.hosted.headroom import Headroom
from fairway.providers.hosted.hosts import Hosts
from fairway.providers.hosted.options import HostedOptions
from fairway.providers.hosted.provider import CANNOT_HOST, CLAIMS_NOT_WRITTEN, NO_HYPERSHIFT, hosted_clusters
from fairway.providers.provider import ProviderError
from fairway.providers.usage.objects import PodUse
from kubewire.client import Added, Batch, Change, Client, Deleted, Informer, Updated
from kubewire.client.rbac import Rule
from providers.hosted.hosting import DEFINITIONS, HOSTED_CLUSTER, Cluster, hosting, reading
from providers.usage.objects import as_pod, pod
from rights import grant

HOSTED_RULE = Rule(
    groups=("hypershift.openshift.io",), resources=("hostedclusters",), verbs=("get", "list", "watch")
)
ZONE = "topology.kubernetes.io/zone"
SET_ASIDE = "hypershift.openshift.io/control-plane"
NOT_HERE_YET = "cannot list HostedClusters of the cluster: the list is not complete"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with hosting(*crds(), HOSTED_CLUSTER) as made:
        yield made


async def test_empty_host_has_slots_for_every_size(cluster: Cluster) -> None:
    for zone in "abc":
        await cluster.node(f"n-{zone}", labels={ZONE: zone})
    measured = await reading(cluster)
    assert measured.values == {
        COUNT: 0,
        OF_REQUESTS: 0,
        HEADROOM: 1.0,
        API_HEADROOM: 1.0,
        "hcpSlotsSingle": 15,  # five in each zone
        "hcpSlotsSmall": 9,  # 16 cores a zone, a third of 5 each
        "hcpSlotsMedium": 3,
        "hcpSlotsLarge": 2,
    }
    assert measured.problem == ""
    claims = await cluster.claims()
    assert claims.pop(SCHEMA).endswith(" hostedclusters=")
    assert claims == {
        HOSTING: "true",
        FULL: "false",
        ABOVE: "false",
        ZERO: "true",
        MAXIMUM_COUNT: "80",
        FREE_CPU: "48",
        FREE_MEMORY: "192Gi",
        ZONES: "3",
    }


async def test_existing_hosted_clusters_reduce_slots(cluster: Cluster) -> None:
    for zone in "abc":
        await cluster.node(f"n-{zone}", labels={ZONE: zone})
        await cluster.pod(f"etcd-{zone}", node=f"n-{zone}", cpu="11")
    await cluster.hosted("h1")
    await cluster.hosted("h2", labels={"placement.fairway.dev/request-uid": "1"})
    measured = await reading(cluster, maximum=3, threshold=2)
    assert measured.values[OF_REQUESTS] == 1
    assert (measured.values[COUNT], measured.values["hcpSlotsSmall"], measured.values["hcpSlotsSingle"]) == (
        2,
        1,
        1,
    )
    assert measured.values[HEADROOM] == pytest.approx(1 / 3)
    claims = await cluster.claims()
    assert [claims[name] for name in (FULL, ABOVE, ZERO)] == ["false", "true", "false"]
    assert (claims[MAXIMUM_COUNT], claims[FREE_CPU]) == ("3", "15")


async def test_ignored_limits_are_noted_in_condition(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HC_MAX_NUMBER", "many")
    provider = HostedClusters(cluster.client, HostedOptions.read({}))
    async with provider.running(lambda: None):
        measured = await provider.read()
    assert measured.note == "HC_MAX_NUMBER='many' ignored; using the limits 80 and 60"


async def test_host_at_maximum_has_no_slots(cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.hosted("h1")
    measured = await reading(cluster, maximum=1, threshold=1)
    assert (measured.values["hcpSlotsSmall"], measured.values[HEADROOM], measured.values[API_HEADROOM]) == (
        0,
        0,
        0,
    )
    assert (await cluster.claims())[FULL] == "true"


async def test_only_reserved_nodes_count_and_their_taint_is_tolerated(cluster: Cluster) -> None:
    taint = [{"key": SET_ASIDE, "value": "true", "effect": "NoSchedule"}]
    await cluster.node("worker", cpu="64", memory="256Gi")
    await cluster.node("planes", labels={SET_ASIDE: "true"}, taints=taint)
    await cluster.node("taken", labels={SET_ASIDE: "true", "hypershift.openshift.io/cluster": "ns-h1"})
    await cluster.node("cordoned", labels={SET_ASIDE: "true"}, unschedulable=True)
    measured = await reading(cluster)
    assert measured.values["hcpSlotsSmall"] == 3
    assert (await cluster.claims())[FREE_CPU] == "16"


async def test_cluster_without_hypershift_publishes_nothing() -> None:
    async with hosting(*crds()) as cluster:
        await cluster.node("n1")
        with pytest.raises(ProviderError, match=CANNOT_HOST[:40]) as error:
            await reading(cluster)
        assert error.value.reason == NO_HYPERSHIFT
        assert await cluster.claims() == {}


async def test_hypershift_installed_later_is_detected() -> None:
    async with hosting(*crds()) as cluster:
        await cluster.node("n1")
        provider = HostedClusters(cluster.client)
        async with provider.running(lambda: None):
            with pytest.raises(ProviderError):
                await provider.read()
            await cluster.client.request("POST", DEFINITIONS, body=HOSTED_CLUSTER)
            assert (await provider.read()).values[COUNT] == 0


async def test_hosted_provider_restart_counts_nothing_twice(cluster: Cluster) -> None:
    """The runner starts it again after an unexpected error."""
    await cluster.node("n1")
    await cluster.pod("etcd", node="n1", cpu="5")
    await cluster.hosted("h1")
    provider = HostedClusters(cluster.client)
    for _ in range(2):
        async with provider.running(lambda: None):
            measured = await provider.read()
            assert (measured.values[COUNT], measured.values["hcpSlotsSmall"]) == (1, 2)
            claims = await cluster.claims()
            assert (claims[ZERO], claims[FREE_CPU], claims[ZONES]) == ("false", "11", "1")


async def test_hosted_provider_reports_missing_rights(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_readiness, "SYNC_SECONDS", 0.2)
    monkeypatch.setattr(informer_readiness, "ANSWER_SECONDS", 120.0)
    stranger = await grant(cluster.client, "stranger", (HOSTED_RULE,))
    async with Client(stranger) as client, asyncio.timeout(120):
        provider = HostedClusters(client)
        message = NOT_HERE_YET
        async with provider.running(lambda: None):
            while message.startswith(NOT_HERE_YET):  # on a slow machine, though it may list them
                with pytest.raises(ProviderError) as error:
                    await provider.read()
                message = str(error.value)
    assert re.match(r"^cannot list Nodes of the cluster: .*forbidden", message)
    assert error.value.reason == "NotListed"


def test_only_changed_pod_requests_wake_hosted_provider() -> None:
    def heard(*changes: Change[PodUse]) -> bool:
        return hosts.update_pods(Batch(changes=changes, epoch=0, listed=False, resource_version="1"))

    hosts = Hosts()
    bound, waiting = as_pod(pod("p", "n1", {"cpu": "1"})), as_pod(pod("p", requests={"cpu": "1"}))
    assert not heard(Added(waiting))
    assert heard(Updated(waiting, bound))
    assert not heard(Updated(bound, as_pod(pod("p", "n1", {"cpu": "1"}, phase="Pending"))))
    assert heard(Updated(bound, as_pod(pod("p", "n1", {"cpu": "2"}))))
    assert heard(Deleted(as_pod(pod("p", "n1", {"cpu": "2"}))))


async def test_failed_claims_do_not_affect_hosted_scores() -> None:
    async with hosting(HOSTED_CLUSTER) as cluster:
        await cluster.node("n1")
        measured = await reading(cluster)
        assert measured.values[COUNT] == 0
        assert (measured.reason, measured.problem) == (CLAIMS_NOT_WRITTEN, NOT_SERVED)
        assert (await reading(cluster, claims=False)).problem == ""


async def test_claims_are_written_only_on_change(cluster: Cluster) -> None:
    await cluster.node("n1")
    await reading(cluster)
    before = {claim.metadata.name: claim for claim in (await cluster.client.list(CLUSTER_CLAIMS)).items}
    await reading(cluster)
    await cluster.hosted("h1")
    await reading(cluster)
    after = {claim.metadata.name: claim for claim in (await cluster.client.list(CLUSTER_CLAIMS)).items}
    changed = {
        name
        for name in after
        if after[name].metadata.resourceVersion != before[name].metadata.resourceVersion
    }
    assert changed == {ZERO}
    assert after[ZERO].metadata.labels["velero.io/exclude-from-backup"] == "true"


async def test_claims_are_deleted_with_owning_cluster_role(cluster: Cluster) -> None:
    await cluster.node("n1")
    await reading(cluster)  # outside of an add-on: nothing owns the claims
    assert not any(
        claim.metadata.ownerReferences for claim in (await cluster.client.list(CLUSTER_CLAIMS)).items
    )
    await cluster.client.create(ROLES, {"metadata": {"name": "collect-agent"}})
    context = Context(name="hosted-clusters", local=cluster.client, owner="collect-agent", environment={})
    provider = hosted_clusters({}, context)
    async with provider.running(lambda: None), Informer(cluster.client, CLUSTER_CLAIMS) as known:
        assert (await provider.read()).problem == ""
        (owner,) = {
            claim.metadata.ownerReferences for claim in (await cluster.client.list(CLUSTER_CLAIMS)).items
        }
        assert [(reference.kind, reference.name) for reference in owner] == [("ClusterRole", "collect-agent")]
        await known.synced.wait()
        deleted = asyncio.Event()
        known.subscribe(lambda _: None if known.store else deleted.set())
        await cluster.client.delete(ROLES, "collect-agent")
        await asyncio.wait_for(deleted.wait(), 60)
        await provider.read()
        assert await cluster.claims() == {}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "false false true"),
        (1, "false false false"),
        (59, "false false false"),
        (60, "false true false"),
        (79, "false true false"),
        (80, "true true false"),
        (101, "true true false"),
    ],
)
def test_claims_at_the_default_limits(count: int, expected: str) -> None:
    claims = claims_for(count, Limits())
    assert " ".join(claims[name] for name in (FULL, ABOVE, ZERO)) == expected


def test_agent_may_own_every_claim_that_it_writes() -> None:
    """Clusters with OwnerReferencesPermissionEnforcement reject owners of claims that the agent may not delete."""
    (named,) = (rule.names for rule in owned_rules("collect-agent") if "delete" in rule.verbs)
    assert set(named) == {*claims_for(0, Limits()), *room_claims([]), SCHEMA}


GIB = 2**30


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [
        ([], "0 0Gi 1"),
        ([("", 1.999, 2 * GIB - 1)], "1 1Gi 1"),
        ([("", 0.1, GIB)] * 10, "1 10Gi 1"),  # ten tenths, added as floats, are less than 1
        ([("a", 4, GIB), ("a", -3, -GIB), ("b", 0, 0)], "4 1Gi 2"),
        ([("a", 1, GIB), ("", 1, GIB)], "2 2Gi 1"),
    ],
    ids=["no nodes", "rounded down", "fractions", "overcommitted node", "node without zone"],
)
def test_free_amounts_and_zones_of_eligible_nodes_are_claims(
    rooms: list[tuple[str, float, float]], expected: str
) -> None:
    claims = room_claims(Headroom(zone=zone, cpu=cpu, memory=memory, pods=9) for zone, cpu, memory in rooms)
    assert " ".join(claims[name] for name in (FREE_CPU, FREE_MEMORY, ZONES)) == expected


async def test_small_pods_do_not_change_the_claims(cluster: Cluster) -> None:
    await cluster.node("n1", cpu="15900m")
    await reading(cluster)
    before = await cluster.claims()
    await cluster.pod("small", node="n1", cpu="500m")
    await reading(cluster)
    assert await cluster.claims() == before
    assert before[FREE_CPU] == "15"


def test_last_slot_scores_above_zero() -> None:
    (scale,) = (score.scale for score in scores_of(HostedOptions()) if score.name == HEADROOM)
    assert [scale.score(value) for value in (0, 0.001, 0.5, 1)] == [0, 1, 50, 100]
