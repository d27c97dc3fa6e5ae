"""The hub's controllers, seen through the API."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from answers import definition

from fairway.testing.hub import embedded_hub
from kubehub import controllers
from kubehub.controllers.controller import Controller
from kubehub.controllers.event_expiry import LIFETIME
from kubehub.controllers.garbage_collector import GarbageCollector
from kubehub.controllers.namespaces import NamespaceController
from kubehub.controllers.role_aggregation import RoleAggregation
from kubehub.crd.kind import DEFINITIONS
from kubehub.hub import Hub
from kubehub.options import BACKGROUND, FOREGROUND, ORPHAN, Deletion, Write
from kubehub.resource import Document, Resource
from kubehub.serialization import representation
from kubehub.storage.store import Item, Key, Listing, Store
from kubehub.user import MASTERS, User
from kubehub.write_request import MERGE_PATCH, Patch, WriteRequest

USER = User(name="test", groups=(MASTERS,))
REQUEST = WriteRequest(user=USER, options=Write(manager="test"))
HOLD = "fairway.dev/hold"


class HubHarness:
    """A hub, with short methods for what tests do to it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._changed = asyncio.Event()
        hub.store.listen(lambda _: self._changed.set())

    def resource(self, key: str) -> Resource:
        resource = self.hub.registry.of_key(key)
        assert resource is not None
        return resource

    async def make(
        self,
        key: str,
        name: str,
        *,
        namespace: str = "default",
        owners: tuple[Document, ...] = (),
        **more: Any,
    ) -> Document:
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": True,
            }
            for owner in owners
        ]
        metadata = {"name": name, "ownerReferences": references, **more.pop("metadata", {})}
        resource = self.resource(key)
        made = await self.hub.writer.create(resource, namespace, {"metadata": metadata, **more}, REQUEST)
        return representation.decode(resource, made.raw)

    async def remove(self, key: str, name: str, policy: str = BACKGROUND, namespace: str = "default") -> None:
        options = Deletion(propagation=policy)
        await self.hub.writer.delete(self.resource(key), namespace, name, options, user=USER)

    async def merge(self, key: str, name: str, patch: Document, namespace: str = "default") -> None:
        wanted = Patch(media=MERGE_PATCH, body=patch)
        await self.hub.writer.patch(self.resource(key), namespace, name, wanted, REQUEST)

    def find(self, key: str, name: str, namespace: str = "default") -> Document | None:
        resource = self.resource(key)
        item = self.hub.store.get((key, namespace if resource.namespaced else "", name))
        return None if item is None else representation.decode(resource, item.raw)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(120):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
async def harness() -> AsyncIterator[HubHarness]:
    async with embedded_hub(definitions=()) as hub:
        yield HubHarness(hub)


async def collected_so_far(harness: HubHarness) -> None:
    """Wait until the garbage collector has processed all changes so far."""
    nobody = {"metadata": {"name": "nobody", "uid": "nobody"}}
    for _ in range(2):
        await harness.make("secrets", "marker", owners=(nobody,))
        await harness.until(lambda: harness.find("secrets", "marker") is None)


async def test_dependents_are_deleted_after_their_owner(harness: HubHarness) -> None:
    owner = await harness.make("configmaps", "owner")
    await harness.make("secrets", "child", owners=(owner,))
    await harness.remove("configmaps", "owner")
    await harness.until(lambda: harness.find("secrets", "child") is None)


async def test_dependent_with_another_owner_loses_only_the_missing_reference(harness: HubHarness) -> None:
    one, two = await harness.make("configmaps", "one"), await harness.make("configmaps", "two")
    await harness.make("secrets", "child", owners=(one, two))
    await harness.remove("configmaps", "one")

    def owners() -> list[str]:
        child = harness.find("secrets", "child")
        return [] if child is None else [r["name"] for r in child["metadata"]["ownerReferences"]]

    await harness.until(lambda: owners() == ["two"])


async def test_dependent_of_a_nonexistent_owner_is_deleted(harness: HubHarness) -> None:
    nobody = {"metadata": {"name": "nobody", "uid": "00000000-0000-0000-0000-000000000000"}}
    await harness.make("secrets", "child", owners=(nobody,))
    await harness.until(lambda: harness.find("secrets", "child") is None)


async def test_dependent_of_an_unknown_kind_is_kept(harness: HubHarness) -> None:
    reference = {"apiVersion": "no.such/v1", "kind": "Thing", "name": "x", "uid": "u"}
    await harness.make("secrets", "child", metadata={"ownerReferences": [reference]})
    await harness.make("configmaps", "marker")
    await harness.remove("configmaps", "marker")
    await harness.until(lambda: harness.find("configmaps", "marker") is None)
    assert harness.find("secrets", "child") is not None


async def test_missing_owner_beside_an_unknown_kind_deletes_nothing(harness: HubHarness) -> None:
    unknown = {"apiVersion": "no.such/v1", "kind": "Thing", "name": "x", "uid": "u"}
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "v"}
    await harness.make("secrets", "child", metadata={"ownerReferences": [unknown, lost]})
    await collected_so_far(harness)
    child = harness.find("secrets", "child")
    assert child is not None
    assert len(child["metadata"]["ownerReferences"]) == 2


async def test_cluster_scoped_dependent_of_a_namespaced_owner_is_never_collected(harness: HubHarness) -> None:
    """As in Kubernetes since 1.20: the hub can't look up the owner that the reference names."""
    owner = await harness.make("configmaps", "owner")
    roles = "clusterroles.rbac.authorization.k8s.io"
    role = await harness.make(roles, "role", namespace="", owners=(owner,))

    def reported() -> list[Document]:
        events = (
            representation.decode(harness.resource("events"), i.raw)
            for i in harness.hub.store.items("events").items
        )
        return [event for event in events if event["involvedObject"]["uid"] == role["metadata"]["uid"]]

    await harness.until(reported)
    (event,) = reported()
    uid = owner["metadata"]["uid"]
    assert (event["reason"], event["type"]) == ("OwnerRefInvalidNamespace", "Warning")
    assert event["metadata"]["namespace"] == "default"
    assert event["message"] == (
        f'ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {uid}] does not exist in namespace ""'
    )
    await harness.merge(roles, "role", {"metadata": {"labels": {"a": "b"}}}, namespace="")
    await harness.remove("configmaps", "owner")
    await collected_so_far(harness)
    assert harness.find(roles, "role", namespace="") is not None
    assert len(reported()) == 1


async def test_owners_in_a_circle_are_deleted_in_the_foreground(harness: HubHarness) -> None:
    one = await harness.make("configmaps", "one")
    two = await harness.make("configmaps", "two", owners=(one,))
    reference = {**two["metadata"]["ownerReferences"][0], "name": "two", "uid": two["metadata"]["uid"]}
    await harness.merge("configmaps", "one", {"metadata": {"ownerReferences": [reference]}})
    await harness.remove("configmaps", "one", FOREGROUND)
    await harness.until(
        lambda: not harness.find("configmaps", "one") and not harness.find("configmaps", "two")
    )


async def test_foreground_deletion_waits_for_dependents(harness: HubHarness) -> None:
    owner = await harness.make("configmaps", "owner")
    await harness.make("secrets", "child", owners=(owner,), metadata={"finalizers": [HOLD]})
    await harness.remove("configmaps", "owner", FOREGROUND)
    await harness.until(lambda: (harness.find("secrets", "child") or {})["metadata"].get("deletionTimestamp"))
    waiting = harness.find("configmaps", "owner")
    assert waiting is not None
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    await harness.merge("secrets", "child", {"metadata": {"finalizers": None}})
    await harness.until(lambda: harness.find("configmaps", "owner") is None)


async def test_orphans_lose_their_owner_and_stay(harness: HubHarness) -> None:
    owner = await harness.make("configmaps", "owner")
    await harness.make("secrets", "child", owners=(owner,))
    await harness.remove("configmaps", "owner", ORPHAN)
    await harness.until(lambda: harness.find("configmaps", "owner") is None)
    child = harness.find("secrets", "child")
    assert child is not None
    assert "ownerReferences" not in child["metadata"]


async def test_namespace_is_removed_when_empty(harness: HubHarness) -> None:
    await harness.make("namespaces", "ns", namespace="")
    await harness.make("configmaps", "free", namespace="ns")
    await harness.make("configmaps", "held", namespace="ns", metadata={"finalizers": [HOLD]})
    await harness.remove("namespaces", "ns", namespace="")

    def reported() -> str:
        namespace = harness.find("namespaces", "ns") or {}
        conditions = (namespace.get("status") or {}).get("conditions") or []
        return " ".join(c["message"] for c in conditions if c["type"] == "NamespaceFinalizersRemaining")

    await harness.until(lambda: HOLD in reported())
    assert harness.find("configmaps", "free", "ns") is None
    with pytest.raises(Exception, match="because it is being terminated"):
        await harness.make("configmaps", "late", namespace="ns")
    await harness.merge("configmaps", "held", {"metadata": {"finalizers": None}}, "ns")
    await harness.until(lambda: harness.find("namespaces", "ns") is None)


async def test_every_namespace_has_an_account_and_the_authority(harness: HubHarness) -> None:
    await harness.make("namespaces", "ns", namespace="")
    await harness.until(lambda: harness.find("serviceaccounts", "default", "ns"))
    await harness.until(lambda: harness.find("configmaps", "kube-root-ca.crt", "ns"))
    await harness.remove("serviceaccounts", "default", namespace="ns")
    await harness.until(lambda: harness.find("serviceaccounts", "default", "ns"))
    await harness.merge("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "forged"}}, "ns")
    await harness.until(
        lambda: (harness.find("configmaps", "kube-root-ca.crt", "ns") or {})["data"]["ca.crt"] != "forged"
    )


async def test_token_secret_is_filled_and_deleted_with_its_account(harness: HubHarness) -> None:
    await harness.make("serviceaccounts", "bot")
    note = {"annotations": {"kubernetes.io/service-account.name": "bot"}}
    await harness.make("secrets", "token", type="kubernetes.io/service-account-token", metadata=note)
    await harness.until(lambda: (harness.find("secrets", "token") or {}).get("data", {}).get("token"))
    await harness.remove("serviceaccounts", "bot")
    await harness.until(lambda: harness.find("secrets", "token") is None)


async def test_aggregated_role_has_the_rules_of_selected_roles(harness: HubHarness) -> None:
    roles = "clusterroles.rbac.authorization.k8s.io"
    selectors = [{"matchLabels": {"part": "yes"}}]
    await harness.make(roles, "whole", namespace="", aggregationRule={"clusterRoleSelectors": selectors})
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    await harness.make(roles, "part", namespace="", metadata={"labels": {"part": "yes"}}, rules=[rule])
    await harness.until(lambda: (harness.find(roles, "whole") or {})["rules"] == [rule])
    await harness.remove(roles, "part", namespace="")
    await harness.until(lambda: not (harness.find(roles, "whole") or {})["rules"])


async def test_hub_controllers_can_be_disabled() -> None:
    async with embedded_hub(
        definitions=(), controllers=controllers.ALL - {controllers.COLLECTOR, controllers.ACCOUNTS}
    ) as hub:
        harness = HubHarness(hub)
        owner = await harness.make("configmaps", "owner")
        await harness.make("secrets", "child", owners=(owner,))
        await harness.remove("configmaps", "owner")
        await harness.make("namespaces", "ns", namespace="")
        await harness.until(lambda: harness.find("configmaps", "kube-root-ca.crt", "ns"))
        assert harness.find("secrets", "child") is not None
        assert harness.find("serviceaccounts", "default", "ns") is None


async def test_deleted_crd_stays_until_its_last_object_is_deleted(harness: HubHarness) -> None:
    async def define(kind: str) -> str:
        plural = f"{kind.lower()}s"
        made = definition()
        made["spec"]["names"] = {"kind": kind, "plural": plural}
        await harness.make(DEFINITIONS, f"{plural}.sea.example", namespace="", spec=made["spec"])
        return f"{plural}.sea.example"

    boats, rafts = await define("Boat"), await define("Raft")
    await harness.make(
        boats, "held", metadata={"finalizers": [HOLD]}, kind="Boat", apiVersion="sea.example/v1"
    )
    await harness.remove(DEFINITIONS, boats, namespace="")
    await harness.remove(DEFINITIONS, rafts, namespace="")
    await harness.until(lambda: harness.find(DEFINITIONS, rafts) is None)
    held = harness.find(boats, "held")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    await harness.merge(boats, "held", {"metadata": {"finalizers": None}})
    await harness.until(lambda: harness.find(DEFINITIONS, boats) is None)


@pytest.mark.looptime
async def test_event_is_deleted_an_hour_after_its_last_write(looptime: object) -> None:
    async with embedded_hub(definitions=()) as hub:
        harness = HubHarness(hub)
        about = {"kind": "ConfigMap", "name": "a", "namespace": "default"}
        await harness.make("events", "e", involvedObject=about, reason="R", message="m", type="Normal")
        await harness.make("events", "f", involvedObject=about, reason="R", message="m", type="Normal")
        await asyncio.sleep(LIFETIME / 2)
        await harness.merge("events", "e", {"count": 2})
        await asyncio.sleep(LIFETIME / 2 + 10)
        assert harness.find("events", "f") is None
        assert harness.find("events", "e") is not None
        await asyncio.sleep(LIFETIME / 2)
        assert harness.find("events", "e") is None


class Counted:
    """A store that counts the objects which a controller reads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: Key) -> Item | None:
        self.reads += 1
        return self._store.get(key)

    def items(self, resource: str, **options: Any) -> Listing:
        listing = self._store.items(resource, **options)
        self.reads += len(listing.items)
        return listing


def counted(harness: HubHarness, controller: type[Controller[Any]]) -> Counted:
    (running,) = (candidate for candidate in harness.hub._controllers if isinstance(candidate, controller))
    counting = Counted(harness.hub.store)
    running.store = counting  # type: ignore[assignment]  # counts reads, and delegates them
    return counting


async def test_change_in_an_ending_namespace_reads_none_of_its_other_objects(harness: HubHarness) -> None:
    namespaces, many = "namespaces", 60
    await harness.make(namespaces, "ending", namespace="")
    for number in range(many):
        await harness.make(
            "configmaps", f"held-{number}", namespace="ending", metadata={"finalizers": [HOLD]}
        )
    await harness.remove(namespaces, "ending", namespace="")

    def remaining() -> str:
        namespace = harness.find(namespaces, "ending", namespace="")
        conditions = (namespace or {}).get("status", {}).get("conditions") or ()
        reported = {condition["type"]: condition["message"] for condition in conditions}
        return str(reported.get("NamespaceContentRemaining", ""))

    await harness.until(lambda: remaining().endswith(f"configmaps. has {many} resource instances"))
    counting = counted(harness, NamespaceController)
    await harness.merge("configmaps", "held-0", {"metadata": {"finalizers": None}}, namespace="ending")
    await harness.until(lambda: remaining().endswith(f"configmaps. has {many - 1} resource instances"))
    assert 0 < counting.reads < 10
    for number in range(1, many):
        await harness.merge(
            "configmaps", f"held-{number}", {"metadata": {"finalizers": None}}, namespace="ending"
        )
    await harness.until(lambda: harness.find(namespaces, "ending", namespace="") is None)
    assert counting.reads < 10 * many


async def test_released_dependent_makes_its_waiting_owner_read_no_other(harness: HubHarness) -> None:
    many = 60
    owner = await harness.make("configmaps", "owner")
    for number in range(many):
        held = {"finalizers": [HOLD]}
        await harness.make("secrets", f"held-{number}", owners=(owner,), metadata=held)
    await harness.remove("configmaps", "owner", FOREGROUND)
    await harness.until(
        lambda: all(
            "deletionTimestamp" in (harness.find("secrets", f"held-{number}") or {})["metadata"]
            for number in range(many)
        )
    )
    await collected_so_far(harness)
    counting = counted(harness, GarbageCollector)
    await harness.merge("secrets", "held-0", {"metadata": {"finalizers": None}})
    await collected_so_far(harness)
    assert 0 < counting.reads < many / 2
    for number in range(1, many):
        await harness.merge("secrets", f"held-{number}", {"metadata": {"finalizers": None}})
    await harness.until(lambda: harness.find("configmaps", "owner") is None)


async def test_unrelated_cluster_role_makes_the_aggregation_read_nothing(harness: HubHarness) -> None:
    roles = "clusterroles.rbac.authorization.k8s.io"
    await harness.make(roles, "settled", namespace="", metadata={"labels": {"a": "b"}})
    await collected_so_far(harness)
    counting = counted(harness, RoleAggregation)
    await harness.make(roles, "unrelated", namespace="", metadata={"labels": {"a": "b"}})
    await harness.merge(roles, "unrelated", {"metadata": {"labels": {"a": "c"}}}, namespace="")
    await collected_so_far(harness)
    assert counting.reads == 0
