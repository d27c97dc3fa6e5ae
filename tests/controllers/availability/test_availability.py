"""Availability on a hub: the lease, the condition and the taints, as others see them.

Time is that of the machine here, and short; when exactly things happen is for ``test_silence``.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work
from fairway.api import ManagedCluster
from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, TAINT_UNAVAILABLE, TAINT_UNREACHABLE
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.availability import RULES, AvailabilityController
from fairway.controllers.availability.controller import STOPPED, STOPPED_MESSAGE
from fairway.controllers.availability.heartbeats import LEASE
from fairway.controllers.kinds import CLUSTER_NAME_LABEL, NAMESPACES
from fairway.observe.meters import Meters
from kubewire.api.meta import find_condition
from kubewire.client import Client
from kubewire.client.lease import LEASES
from rigs.waiting import edit, fresh, until

pytestmark = pytest.mark.embedded

LONG = 3600
"""Seconds between renewals, of clusters that shall not fall silent in a test."""


def usual(client: Client) -> AvailabilityController:
    """A cluster that should renew every second is silent after a fifth of it."""
    return AvailabilityController(client, meters=Meters(), grace=0.2)


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(hub, usual, rules=RULES) as begun:
        yield begun


def condition(type_: str, status: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": "Said",
        "message": "by the test",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }


async def join(
    client: Client, name: str, *, available: str | None = "True", accepted: bool = True, **spec: Any
) -> ManagedCluster:
    """A cluster with its namespace and conditions."""
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": True, **spec}}
    await client.create(MANAGED_CLUSTERS, body)
    conditions = [condition(CONDITION_ACCEPTED, "True")] if accepted else []
    conditions += [condition(CONDITION_AVAILABLE, available)] if available else []
    return await say(client, name, *conditions)


async def say(client: Client, name: str, *conditions: dict[str, str]) -> ManagedCluster:
    body = {"status": {"conditions": list(conditions)}}
    return await edit(client, MANAGED_CLUSTERS, name, body, subresource="status")


def tainted(*keys: str) -> Callable[[ManagedCluster], bool]:
    """By exactly these, and each with its time."""

    def wanted(cluster: ManagedCluster) -> bool:
        taints = cluster.spec.taints
        return [one.key for one in taints] == [*keys] and all(one.timeAdded is not None for one in taints)

    return wanted


def silent(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    return condition is not None and (condition.status, condition.reason, condition.message) == (
        "Unknown",
        STOPPED,
        STOPPED_MESSAGE,
    )


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_accepted_cluster_gets_a_lease(client: Client) -> None:
    name = fresh("c")
    await join(client, name, leaseDurationSeconds=LONG)
    lease = await until(client, LEASES, LEASE, lambda lease: lease.spec.renewTime != "", namespace=name)
    assert lease.metadata.labels == {CLUSTER_NAME_LABEL: name}
    assert lease.spec.holderIdentity == LEASE


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_cluster_with_a_stale_lease_becomes_unknown_and_is_tainted(client: Client) -> None:
    name = fresh("c")
    await join(client, name, leaseDurationSeconds=1)
    cluster = await until(client, MANAGED_CLUSTERS, name, silent)
    assert [condition.type for condition in cluster.status.conditions or ()] == [
        CONDITION_ACCEPTED,
        CONDITION_AVAILABLE,
    ]
    tainted_ = await until(client, MANAGED_CLUSTERS, name, tainted(TAINT_UNREACHABLE))
    assert tainted_.spec.taints[0].effect == "NoSelect"


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_other_taints_stay_and_get_a_missing_time(client: Client) -> None:
    name = fresh("c")
    mine = [
        {"key": "gpu", "value": "only", "effect": "NoSelect", "timeAdded": "2020-01-01T00:00:00Z"},
        {
            "key": TAINT_UNREACHABLE,
            "value": "by me",
            "effect": "NoSelectIfNew",
            "timeAdded": "2020-01-01T00:00:00Z",
        },
        {"key": "slow", "effect": "PreferNoSelect"},
    ]
    await join(client, name, available="False", leaseDurationSeconds=LONG, taints=mine)
    cluster = await until(
        client, MANAGED_CLUSTERS, name, tainted("gpu", TAINT_UNREACHABLE, "slow", TAINT_UNAVAILABLE)
    )
    assert [(taint.value, taint.effect) for taint in cluster.spec.taints[:3]] == [
        ("only", "NoSelect"),
        ("by me", "NoSelectIfNew"),
        ("", "PreferNoSelect"),
    ]
    years = [taint.timeAdded.year for taint in cluster.spec.taints if taint.timeAdded is not None]
    assert years[:2] == [2020, 2020]
    await say(client, name, condition(CONDITION_ACCEPTED, "True"), condition(CONDITION_AVAILABLE, "True"))
    after = await until(client, MANAGED_CLUSTERS, name, tainted("gpu", TAINT_UNREACHABLE, "slow"))
    assert after.spec.taints == cluster.spec.taints[:3]


@pytest.mark.usefixtures("running")
async def test_removed_unreachable_taint_is_added_again(client: Client) -> None:
    name = fresh("c")
    await join(client, name, available="False", leaseDurationSeconds=LONG)
    await until(client, MANAGED_CLUSTERS, name, tainted(TAINT_UNAVAILABLE))
    await edit(client, MANAGED_CLUSTERS, name, {"spec": {"taints": [{"key": "mine", "effect": "NoSelect"}]}})
    await until(client, MANAGED_CLUSTERS, name, tainted("mine", TAINT_UNAVAILABLE))


@pytest.mark.both_hubs
async def test_availability_without_changes_writes_nothing(hub: HubUnderTest, client: Client) -> None:
    name = fresh("c")
    await join(client, name, available="False", leaseDurationSeconds=LONG)
    async with at_work(hub, usual, rules=RULES) as running:
        done = await until(client, MANAGED_CLUSTERS, name, tainted(TAINT_UNAVAILABLE))
    async with at_work(hub, usual, rules=RULES) as running:
        await running.settled()
    assert (await client.get(MANAGED_CLUSTERS, name)).metadata == done.metadata
