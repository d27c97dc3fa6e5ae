"""The cluster's status on the hub is true, and stays true."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import CLUSTER_CLAIMS, MANAGED_CLUSTERS, NODES
from fairway.klusterlet import names
from fairway.klusterlet.bootstrap import install
from fairway.klusterlet.membership import Membership
from fairway.klusterlet.status_reporter import UNAVAILABLE, StatusReporter
from klusterlet.clocks import ShiftedClock
from klusterlet.fleet import Joined, at_work
from kubewire.api.meta import find_condition
from kubewire.client import Client, Connection, Patch
from kubewire.client.transport import Retry
from rigs.waiting import fresh, until

QUICK = Retry(asked=0, failed=0, unsent=0)


@asynccontextmanager
async def reported(member: Joined, **options: Any) -> AsyncIterator[None]:
    await install(member.cluster, name=member.name)
    async with (
        Membership(member.hub, member.name) as membership,
        at_work(StatusReporter(member.hub, member.cluster, membership, **options).run()),
    ):
        yield


async def node(client: Client, name: str, **amounts: str) -> None:
    await client.create(NODES, {"metadata": {"name": name}})
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await client.patch(NODES, name, status, kind=Patch.MERGE, subresource="status")


async def until_reported(member: Joined, wanted: Any) -> ManagedCluster:
    return await until(member.admin, MANAGED_CLUSTERS, member.name, wanted)


def status_of(cluster: ManagedCluster, kind: str) -> str:
    condition = find_condition(cluster.status.conditions or (), kind)
    return "" if condition is None else condition.status


async def test_status_has_conditions_version_resources_and_claims(member: Joined) -> None:
    resource = f"example.com/{fresh('gpu')}"
    claim = fresh("claim")
    async with reported(member):
        cluster = await until_reported(
            member, lambda cluster: status_of(cluster, CONDITION_AVAILABLE) == "True"
        )
        assert status_of(cluster, names.JOINED) == "True"
        assert status_of(cluster, CONDITION_ACCEPTED) == "True"
        await until_reported(member, lambda cluster: cluster.status.version.kubernetes.startswith("v1."))

        one, other = fresh("node"), fresh("node")
        await node(member.cluster, one, **{resource: "2"})
        await node(member.cluster, other, **{resource: "3"})
        await until_reported(member, lambda cluster: cluster.status.capacity.get(resource) == "5")
        cordon = {"spec": {"unschedulable": True}}
        await member.cluster.patch(NODES, other, cordon, kind=Patch.MERGE)
        cluster = await until_reported(
            member, lambda cluster: cluster.status.allocatable.get(resource) == "2"
        )
        assert cluster.status.capacity[resource] == "5"

        await member.cluster.create(CLUSTER_CLAIMS, {"metadata": {"name": claim}, "spec": {"value": "v"}})
        await until_reported(
            member, lambda cluster: (claim, "v") in [(c.name, c.value) for c in cluster.status.clusterClaims]
        )
        await member.cluster.delete(CLUSTER_CLAIMS, claim)
        await until_reported(
            member, lambda cluster: claim not in [c.name for c in cluster.status.clusterClaims]
        )

        # Labels removed on the cluster are removed on the hub; those of other clients stay.
        foreign = {"status": {"capacity": {"somebody.dev/sockets": "2"}}}
        await member.admin.patch(
            MANAGED_CLUSTERS, member.name, foreign, kind=Patch.MERGE, subresource="status"
        )
        for node_name in (one, other):
            await member.cluster.delete(NODES, node_name)
        cluster = await until_reported(member, lambda cluster: resource not in cluster.status.capacity)
        assert cluster.status.capacity["somebody.dev/sockets"] == "2"
        assert resource not in cluster.status.allocatable


async def test_cordoned_and_emptied_cluster_are_reported(member: Joined) -> None:
    resource, name = f"example.com/{fresh('gpu')}", fresh("node")
    async with reported(member):
        await node(member.cluster, name, **{resource: "2"})
        await until_reported(member, lambda cluster: cluster.status.allocatable.get(resource) == "2")
        for listed in (await member.cluster.list(NODES)).items:
            cordon = {"spec": {"unschedulable": True}}
            await member.cluster.patch(NODES, listed.metadata.name, cordon, kind=Patch.MERGE)
        cluster = await until_reported(
            member, lambda cluster: cluster.status.allocatable.get(resource) == "0"
        )
        assert set(cluster.status.allocatable.values()) == {"0"}
        for listed in (await member.cluster.list(NODES)).items:
            await member.cluster.delete(NODES, listed.metadata.name)
        await until_reported(
            member, lambda cluster: not cluster.status.capacity and not cluster.status.allocatable
        )


async def test_overwritten_status_is_restored(member: Joined) -> None:
    async with reported(member):
        await until_reported(member, lambda cluster: cluster.status.version.kubernetes != "")
        wrong: dict[str, Any] = {"status": {"version": {"kubernetes": "v0.0.1"}, "conditions": []}}
        await member.admin.patch(MANAGED_CLUSTERS, member.name, wrong, kind=Patch.MERGE, subresource="status")
        await until_reported(
            member,
            lambda cluster: (
                cluster.status.version.kubernetes != "v0.0.1"
                and status_of(cluster, CONDITION_AVAILABLE) == "True"
            ),
        )


async def test_unchanged_cluster_writes_no_status(member: Joined) -> None:
    async with reported(member, health_seconds=0.1):
        first = f"example.com/{fresh('r')}"
        await node(member.cluster, fresh("node"), **{first: "1"})
        cluster = await until_reported(
            member,
            lambda cluster: (
                first in cluster.status.capacity and status_of(cluster, CONDITION_AVAILABLE) == "True"
            ),
        )
        told_since = [cluster.status]
        async with Client(member.admin.connection) as watching:
            # It looks ten times a second; a node that comes is seen after many looks, and is the next write.
            resource = f"example.com/{fresh('r')}"
            await node(member.cluster, fresh("node"), **{resource: "1"})
            async for event in watching.watch(
                MANAGED_CLUSTERS,
                fields=f"metadata.name={member.name}",
                resource_version=cluster.metadata.resourceVersion,
                bookmarks=False,
            ):
                if event.object.status != told_since[-1]:  # what else there is of it is written by others
                    told_since.append(event.object.status)
                if resource in event.object.status.capacity:
                    break
        assert len(told_since) == 2


async def test_unreachable_api_makes_cluster_unavailable(member: Joined) -> None:
    clock = ShiftedClock()
    await install(member.cluster, name=member.name)
    nowhere = Connection(server="http://127.0.0.1:9")
    async with Client(nowhere, retry=QUICK) as cluster, Membership(member.hub, member.name) as membership:
        reporting = StatusReporter(member.hub, cluster, membership, clock=clock)
        heard = asyncio.Event()
        membership.subscribe(heard.set)
        while not membership.accepted:
            await heard.wait()
            heard.clear()
        await reporting._sync()
        first = await member.admin.get(MANAGED_CLUSTERS, member.name)
        assert status_of(first, CONDITION_AVAILABLE) == ""
        clock.ahead = 30
        await reporting._sync()
        silent = await until_reported(
            member, lambda current: status_of(current, CONDITION_AVAILABLE) == "False"
        )
        condition = find_condition(silent.status.conditions or (), CONDITION_AVAILABLE)
        assert condition is not None
        assert condition.reason == UNAVAILABLE
        assert "127.0.0.1:9" in condition.message
