"""Deleted clusters: their add-ons, works and rights are deleted in this order, whatever happens meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import NOON, Stopped
from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work, limited
from fairway.api import ManagedCluster
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from fairway.controllers.acceptance import RULES, AcceptanceController, cleanup, ocm_detection
from fairway.controllers.acceptance.cleanup import PRIORITY, Remaining, priority_of
from fairway.controllers.acceptance.conditions import (
    DELETING,
    NO_RESOURCE,
    NO_RESOURCE_MESSAGE,
    RESOURCE_REMAINING,
)
from fairway.controllers.acceptance.controller import FINALIZERS
from fairway.controllers.cluster_names import PREFIX
from fairway.controllers.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
)
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.observe.meters import Meters
from kubewire.api.lease import format_micro_time
from kubewire.api.meta import ObjectMeta, find_condition
from kubewire.client import Client, NotFound, Resource
from kubewire.client.fence import Lost
from kubewire.client.lease import LEASES
from rigs.waiting import edit, fresh, until, until_deleted

pytestmark = pytest.mark.embedded

HELD = "example.com/held"


def usual(client: Client) -> AcceptanceController:
    return AcceptanceController(client, meters=Meters())


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(hub, usual, rules=RULES) as begun:
        yield begun


def accepted(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return condition is not None and condition.status == "True"


def deleting(cluster: ManagedCluster) -> tuple[str, str, str] | None:
    condition = find_condition(cluster.status.conditions or (), DELETING)
    return None if condition is None else (condition.status, condition.reason, condition.message)


def remaining(plural: str, count: int, held: int) -> tuple[str, str, str]:
    return (
        "False",
        RESOURCE_REMAINING,
        f"The resource {plural} is remaning, the remaining count is {count}, the finalizer pending count is {held}",
    )


@dataclass(frozen=True)
class Member:
    """A cluster with what it has on the hub."""

    client: Client
    name: str

    async def join(self) -> None:
        body = {"metadata": {"name": self.name, "labels": MARK}, "spec": {"hubAcceptsClient": True}}
        await self.client.create(MANAGED_CLUSTERS, body)
        await until(self.client, MANAGED_CLUSTERS, self.name, accepted)

    async def add_on(self, name: str, *, held: bool = True) -> None:
        metadata = {"name": name, "finalizers": [HELD] if held else []}
        body = {"metadata": metadata, "spec": {}}
        await self.client.create(MANAGED_CLUSTER_ADD_ONS, body, namespace=self.name)

    async def work(self, name: str, *, priority: str = "", held: bool = True) -> None:
        annotations = {PRIORITY: priority} if priority else {}
        metadata = {"name": name, "annotations": annotations, "finalizers": [HELD] if held else []}
        body = {"metadata": metadata, "spec": {"workload": {"manifests": []}}}
        await self.client.create(MANIFEST_WORKS, body, namespace=self.name)

    async def delete(self) -> None:
        await self.client.delete(MANAGED_CLUSTERS, self.name)

    async def until_deleting(self, wanted: tuple[str, str, str]) -> None:
        await until(self.client, MANAGED_CLUSTERS, self.name, lambda cluster: deleting(cluster) == wanted)

    async def until_ending(self, resource: Resource[Any], name: str) -> None:
        await until(
            self.client,
            resource,
            name,
            lambda obj: obj.metadata.deletionTimestamp is not None,
            namespace=self.name,
        )

    async def release(self, resource: Resource[Any], name: str) -> None:
        """As the owner of the finalizer, and wait until the object is deleted."""
        body = {"metadata": {"finalizers": None}}
        with suppress(NotFound):
            await edit(self.client, resource, name, body, namespace=self.name)
        await until_deleted(self.client, resource, name, namespace=self.name)

    async def ending_works(self) -> list[str]:
        works = (await self.client.list(MANIFEST_WORKS, namespace=self.name)).items
        return [work.metadata.name for work in works if work.metadata.deletionTimestamp is not None]

    def rights(self) -> list[tuple[Resource[Any], str, str | None]]:
        return [
            (CLUSTER_ROLES, f"{PREFIX}{self.name}", None),
            (CLUSTER_ROLE_BINDINGS, f"{PREFIX}{self.name}", None),
            (ROLE_BINDINGS, f"{PREFIX}{self.name}:registration", self.name),
            (ROLE_BINDINGS, f"{PREFIX}{self.name}:work", self.name),
        ]

    async def check_rights(self) -> None:
        for resource, name, namespace in self.rights():
            await self.client.get(resource, name, namespace=namespace)

    async def until_removed(self) -> None:
        await until_deleted(self.client, MANAGED_CLUSTERS, self.name)
        for resource, name, namespace in self.rights():
            await until_deleted(self.client, resource, name, namespace=namespace)
        assert (await self.client.list(MANIFEST_WORKS, namespace=self.name)).items == ()
        assert (await self.client.list(MANAGED_CLUSTER_ADD_ONS, namespace=self.name)).items == ()
        assert (await self.client.get(NAMESPACES, self.name)).metadata.deletionTimestamp is None


@pytest.fixture
def member(client: Client) -> Member:
    return Member(client, fresh("c"))


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_add_ons_are_deleted_before_works_and_works_by_priority(member: Member) -> None:
    await member.join()
    await member.add_on("first")
    await member.work("usual")
    await member.work("last", priority="100")
    await member.work("middle", priority="20")
    await member.delete()

    await member.until_ending(MANAGED_CLUSTER_ADD_ONS, "first")
    await member.until_deleting(remaining("managedclusteraddons", 1, 1))
    assert await member.ending_works() == []

    await member.release(MANAGED_CLUSTER_ADD_ONS, "first")
    for index, name in enumerate(["usual", "middle", "last"]):
        await member.until_ending(MANIFEST_WORKS, name)
        await member.until_deleting(remaining("manifestworks", 3 - index, 3 - index))
        assert await member.ending_works() == [name]
        await member.check_rights()
        await member.release(MANIFEST_WORKS, name)
    await member.until_removed()


@pytest.mark.usefixtures("running")
async def test_cluster_without_add_ons_and_works_is_deleted_at_once(member: Member) -> None:
    await member.join()
    await member.delete()
    await member.until_removed()


@pytest.mark.usefixtures("running")
async def test_finalizer_of_another_controller_keeps_only_the_cluster(member: Member) -> None:
    await member.join()
    await edit(
        member.client, MANAGED_CLUSTERS, member.name, {"metadata": {"finalizers": [*FINALIZERS, HELD]}}
    )
    await member.delete()
    await member.until_deleting(("True", NO_RESOURCE, NO_RESOURCE_MESSAGE))
    left = await until(
        member.client, MANAGED_CLUSTERS, member.name, lambda cluster: cluster.metadata.finalizers == (HELD,)
    )
    assert left.metadata.deletionTimestamp is not None
    for resource, name, namespace in member.rights():
        await until_deleted(member.client, resource, name, namespace=namespace)


async def test_deletion_waits_for_a_controller(hub: HubUnderTest, member: Member) -> None:
    async with at_work(hub, usual, rules=RULES):
        await member.join()
    await member.work("app", held=False)
    await member.delete()
    waiting = await member.client.get(MANAGED_CLUSTERS, member.name)
    assert waiting.metadata.finalizers == FINALIZERS
    assert await member.ending_works() == []
    async with at_work(hub, usual, rules=RULES):
        await member.until_removed()


@pytest.mark.usefixtures("running")
async def test_more_objects_than_a_step_deletes_are_deleted(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "DELETED_AT_ONCE", 3)
    await member.join()
    for index in range(8):
        await member.add_on(f"a{index}", held=False)
        await member.work(f"w{index}", held=False)
    await member.delete()
    await member.until_removed()


@pytest.mark.usefixtures("running")
async def test_objects_of_a_cluster_deleted_without_finalizers_are_deleted(member: Member) -> None:
    await member.join()
    await member.add_on("first", held=False)
    await member.work("app", held=False)
    await edit(
        member.client,
        MANAGED_CLUSTERS,
        member.name,
        {"metadata": {"finalizers": None}, "spec": {"hubAcceptsClient": False}},
    )
    await member.delete()
    # Without a finalizer nothing holds the cluster, and denying it already withdrew rights, so neither says that the
    # clean-up is over.
    await until_deleted(member.client, MANAGED_CLUSTER_ADD_ONS, "first", namespace=member.name)
    await until_deleted(member.client, MANIFEST_WORKS, "app", namespace=member.name)
    await member.until_removed()


@pytest.mark.usefixtures("running")
async def test_namespace_of_another_owner_is_not_cleaned_up(client: Client, member: Member) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": member.name, "labels": {"team": "blue"}}})
    await member.work("app", held=False)
    body = {
        "metadata": {"name": member.name, "labels": MARK, "finalizers": [HELD]},
        "spec": {"hubAcceptsClient": True},
    }
    await client.create(MANAGED_CLUSTERS, body)
    await member.delete()
    await member.until_deleting(("True", NO_RESOURCE, NO_RESOURCE_MESSAGE))
    assert await member.ending_works() == []
    assert len((await client.list(MANIFEST_WORKS, namespace=member.name)).items) == 1


class Dying:
    """Leadership of a process that is killed before one of its writes."""

    def __init__(self, writes: int) -> None:
        self._left = writes

    def batch(self) -> Any:
        return ALONE.batch()

    def ensure(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Lost("killed")


async def test_removal_continues_after_a_kill_at_any_write(hub: HubUnderTest, member: Member) -> None:
    async with at_work(hub, usual, rules=RULES):
        await member.join()
    for index in range(2):
        await member.add_on(f"a{index}", held=False)
        await member.work(f"w{index}", held=False, priority=str(index))
    await member.delete()
    connection = await limited(member.client, hub.administrator, RULES)
    async with Client(connection) as client:
        lives = 0
        while await _exists(member):
            lives += 1
            controller = AcceptanceController(client, meters=Meters())
            informers = InformerFactory(client)
            controller.watch(informers)
            async with informers:
                await informers.synced()
                life = asyncio.create_task(controller.run(Dying(1)))
                watched = asyncio.create_task(until_deleted(member.client, MANAGED_CLUSTERS, member.name))
                await asyncio.wait((life, watched), return_when=asyncio.FIRST_COMPLETED)
                for task in (life, watched):
                    task.cancel()
                    with suppress(asyncio.CancelledError, Lost):
                        await task
    # Each life writes once: 4 deletions, the conditions between them, 4 rights, the finalizers.
    assert lives > 8
    await member.until_removed()


async def _exists(member: Member) -> bool:
    try:
        await member.client.get(MANAGED_CLUSTERS, member.name)
    except NotFound:
        return False
    return True


async def test_clusters_are_left_to_ocm_while_its_controller_runs(
    hub: HubUnderTest, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    place = fresh("ns")
    await client.create(NAMESPACES, {"metadata": {"name": place}})
    held = {"holderIdentity": "ocm", "leaseDurationSeconds": 137, "renewTime": format_micro_time(NOON)}
    await client.create(LEASES, {"metadata": {"name": ocm_detection.LEASE}, "spec": held}, namespace=place)
    name = fresh("c")
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": True}}
    clock = Stopped(NOON + timedelta(seconds=30))
    made = await client.create(MANAGED_CLUSTERS, body)
    async with at_work(
        hub,
        lambda client: AcceptanceController(client, meters=Meters(), ocm_namespace=place, clock=clock),
        rules=RULES,
    ) as running:
        await running.settled()
        assert (await client.get(MANAGED_CLUSTERS, name)).metadata == made.metadata
        assert "OCM's registration controller runs on this hub (ocm holds" in caplog.text
        await edit(client, LEASES, ocm_detection.LEASE, {"spec": {"holderIdentity": ""}}, namespace=place)
        await until(client, MANAGED_CLUSTERS, name, accepted)


def meta(name: str, priority: str | None = None, **fields: Any) -> ObjectMeta:
    annotations = {} if priority is None else {PRIORITY: priority}
    return ObjectMeta(name=name, annotations=annotations, **fields)


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        (None, 0),
        ("", 0),
        ("20", 20),
        ("100", 100),
        ("007", 7),
        ("+5", 5),
        ("101", 0),
        ("-1", 0),
        ("1e1", 0),
        ("٣", 0),
        ("9" * 5000, 0),
    ],
)
def test_priority_outside_of_0_to_100_counts_as_0(text: str | None, priority: int) -> None:
    assert priority_of(meta("w", text)) == priority


def test_lowest_priority_is_next_while_any_object_of_it_is_left() -> None:
    left = Remaining(MANIFEST_WORKS)
    left.add([meta("late", "50"), meta("early", "5")])
    left.add([meta("early-too", "5", finalizers=(HELD,)), meta("later", "90")])
    assert ([meta.name for meta in left.next], left.count, left.held) == (["early", "early-too"], 4, 1)
    left = Remaining(MANIFEST_WORKS)
    left.add([meta("late", "50"), meta("early", "5", deletionTimestamp=NOON, finalizers=(HELD,))])
    assert (left.next, left.undeleted) == ([], 1), "the late one waits until the early one is deleted"


def test_step_over_thousands_of_objects_keeps_a_limited_number() -> None:
    left = Remaining(MANIFEST_WORKS)
    for page in range(10):
        left.add(meta(f"w{page}-{index}") for index in range(500))
    assert (left.count, len(left.next)) == (5000, cleanup.DELETED_AT_ONCE)
