"""A part of a hub for one test: creates clusters, sets, scores and placements, and observes decisions.

Names of clusters, sets and namespaces have a prefix that is unique to the test. A test uses only the word after it:
``await fleet.cluster("a")``, then ``fleet.chosen("p") == ["a"]``.

Nothing here sleeps. ``eventually`` checks after every watch event; ``after`` waits until the controllers have observed
a write and have nothing left to do, which is when a test can assert that they did nothing.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import msgspec
import pytest
from msgspec import structs

from controllers.placement_view import PlacementView, Versions
from controllers.settling import DEADLINE, deletion_observed, observed, settled
from fairway.api.cluster import CLUSTER_SET_LABEL, ManagedCluster, Taint
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement, PlacementSpec
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.manager import Manager
from fairway.testing import builders
from kubewire.api.meta import ObjectMeta, format_time
from kubewire.api.resource import T
from kubewire.api.selector import LabelSelector
from kubewire.client import AlreadyExists, Client, NotFound, Patch, Resource
from kubewire.client.request_options import Propagation
from rigs.cleanup import delete_all

SET: Final = "s"
"""The default set of clusters, which is bound to the namespace."""
MARK: Final = "fairway.dev/test"
"""Label of cluster-scoped objects of a test."""
IN_VAIN: Final = "waited {seconds:g} s in vain. Last seen:\n{seen}"

_IN_NAMESPACES: Final[tuple[Resource[Any], ...]] = (
    PLACEMENTS,
    PLACEMENT_DECISIONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
)
_EVERYWHERE: Final[tuple[Resource[Any], ...]] = (MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS)


class HubFleet(PlacementView):
    """Use it in ``async with``. ``namespace`` exists, and an empty set is bound to it."""

    def __init__(self, client: Client, *, followers: Collection[Manager] = ()) -> None:
        """``followers`` observe every write here before the next one is made."""
        prefix = f"t{uuid.uuid4().hex[:8]}"
        super().__init__(client, prefix=prefix, namespace=f"{prefix}-ns")
        self.client = client
        self._followers = followers
        self._namespaces: set[str] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "HubFleet":
        await self.create_namespace("ns")
        await self._stack.enter_async_context(self.following())
        await self.cluster_set(SET)
        await self.bind(SET)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            async with asyncio.timeout(DEADLINE):
                await self._clear()
        finally:
            await self._stack.aclose()

    async def _clear(self) -> None:
        """Namespaces stay, because real hubs take long to delete them."""
        for resource in _IN_NAMESPACES:
            for namespace in self._namespaces:
                await delete_all(self.client, resource, namespace=namespace)
        for resource in _EVERYWHERE:
            await delete_all(self.client, resource, labels=f"{MARK}={self.prefix}")
        while left := [
            decision for decision in self.all_decisions() if decision.metadata.namespace in self._namespaces
        ]:
            self.news.clear()
            for decision in left:  # a controller may have been writing meanwhile
                with suppress(NotFound):
                    await self.client.delete(
                        PLACEMENT_DECISIONS, decision.metadata.name, namespace=decision.metadata.namespace
                    )
            await self.news.wait()

    # Making

    async def create_namespace(self, word: str) -> str:
        """A namespace; its full name."""
        name = self.name(word)
        if name not in self._namespaces:
            self._namespaces.add(name)
            with suppress(AlreadyExists):
                await self.client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        return name

    async def cluster(
        self,
        word: str,
        *,
        labels: Mapping[str, str] | None = None,
        claims: Mapping[str, str] | None = None,
        taints: Iterable[Taint] = (),
        allocatable: Mapping[str, str] | None = None,
        version: str = "",
        member_of: str = SET,
        finalizers: tuple[str, ...] = (),
    ) -> ManagedCluster:
        """``member_of``: the set; empty for none."""
        built = builders.cluster(
            self.name(word),
            labels={**(labels or {}), MARK: self.prefix},
            claims=claims,
            taints=tuple(taints),
            allocatable=allocatable,
            version=version,
            member_of=self.name(member_of) if member_of else "",
        )
        meta = structs.replace(built.metadata, finalizers=finalizers)
        made = await self.create(MANAGED_CLUSTERS, structs.replace(built, metadata=meta))
        status = msgspec.to_builtins(built.status)
        if status:
            made = await self.edit(MANAGED_CLUSTERS, built.metadata.name, {"status": status}, status=True)
        return made

    async def clusters(self, *words: str, labels: Mapping[str, str] | None = None) -> None:
        """Created in order, which decides between equal clusters."""
        for word in words:
            await self.cluster(word, labels=labels)

    async def change_cluster(
        self,
        word: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        taints: Iterable[Taint] | None = None,
        claims: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
        member_of: str | None = None,
    ) -> ManagedCluster:
        """Add labels, remove those with value None, and replace other fields."""
        name = self.name(word)
        labels = dict(labels or {})
        if member_of is not None:
            labels[CLUSTER_SET_LABEL] = self.name(member_of) if member_of else None
        body: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
        if taints is not None:
            body["spec"] = {"taints": msgspec.to_builtins(tuple(taints))}
        changed = await self.edit(MANAGED_CLUSTERS, name, body)
        status: dict[str, Any] = {}
        if claims is not None:
            status["clusterClaims"] = [{"name": key, "value": value} for key, value in claims.items()]
        if allocatable is not None:
            status |= {"allocatable": dict(allocatable), "capacity": dict(allocatable)}
        if status:
            changed = await self.edit(MANAGED_CLUSTERS, name, {"status": status}, status=True)
        return changed

    async def cluster_set(self, word: str, *, selector: LabelSelector | None = None) -> ManagedClusterSet:
        """By the exclusive label, or by a selector if one is given."""
        built = builders.cluster_set(self.name(word), selector=selector)
        meta = ObjectMeta(name=built.metadata.name, labels={MARK: self.prefix})
        return await self.create(MANAGED_CLUSTER_SETS, structs.replace(built, metadata=meta))

    async def bind(self, word: str, *, namespace: str = "") -> ManagedClusterSetBinding:
        namespace = namespace or self.namespace
        bound = builders.binding(self.name(word), namespace=namespace)
        return await self.create(MANAGED_CLUSTER_SET_BINDINGS, bound, namespace=namespace)

    async def score(
        self,
        word: str,
        values: Mapping[str, int],
        *,
        resource: str = "default",
        valid_until: datetime | None = None,
    ) -> AddOnPlacementScore:
        """Create or replace a score."""
        namespace = await self.create_namespace(word)
        with suppress(AlreadyExists):
            body = {"metadata": {"name": resource}}
            await self.create(ADD_ON_PLACEMENT_SCORES, body, namespace=namespace)
        status = {
            "scores": [{"name": key, "value": value} for key, value in values.items()],
            "validUntil": None if valid_until is None else format_time(valid_until),
        }
        return await self.edit(
            ADD_ON_PLACEMENT_SCORES, resource, {"status": status}, namespace=namespace, status=True
        )

    async def calculated(self, word: str, calculator: str, value: int) -> ManagedClusterScore:
        namespace = await self.create_namespace(word)
        name = managed_cluster_score_name(cluster=namespace, calculator=calculator)
        with suppress(AlreadyExists):
            await self.create(MANAGED_CLUSTER_SCORES, {"metadata": {"name": name}}, namespace=namespace)
        status = {"conditions": [], "score": value}
        return await self.edit(
            MANAGED_CLUSTER_SCORES, name, {"status": status}, namespace=namespace, status=True
        )

    async def place(
        self,
        name: str = "p",
        spec: PlacementSpec | None = None,
        *,
        namespace: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> Placement:
        """Sets in the spec are named by their words."""
        namespace = namespace or self.namespace
        spec = spec or PlacementSpec()
        spec = structs.replace(
            spec, clusterSets=tuple(self.name(cluster_set) for cluster_set in spec.clusterSets)
        )
        built = builders.placement(name, namespace=namespace, spec=spec, annotations=annotations)
        return await self.create(PLACEMENTS, built, namespace=namespace)

    async def replace(self, name: str, **spec: Any) -> Placement:
        """Replace fields of a placement's spec."""
        body = {"spec": msgspec.to_builtins(spec)}
        return await self.edit(PLACEMENTS, name, body, namespace=self.namespace)

    async def touch(self, name: str) -> Placement:
        """Change an annotation of a placement, so that it is reconciled again."""
        body = {"metadata": {"annotations": {"fairway.dev/touched": uuid.uuid4().hex}}}
        return await self.edit(PLACEMENTS, name, body, namespace=self.namespace)

    async def hold(self, name: str, *words: str, namespace: str = "") -> PlacementDecision:
        """Create a decision without labels, which belongs to no placement."""
        namespace = namespace or self.namespace
        built = builders.decision(name, (), namespace=namespace)
        await self.create(PLACEMENT_DECISIONS, built, namespace=namespace)
        return await self.overwrite(name, *words, namespace=namespace)

    async def overwrite(self, name: str, *words: str, namespace: str = "") -> PlacementDecision:
        """Overwrite the clusters of a page, as another client might."""
        chosen = [{"clusterName": self.name(word), "reason": ""} for word in words]
        return await self.edit(
            PLACEMENT_DECISIONS,
            name,
            {"status": {"decisions": chosen}},
            namespace=namespace or self.namespace,
            status=True,
        )

    async def edit(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        status: bool = False,
    ) -> T:
        """A merge patch without preconditions, as by kubectl."""
        written = await self.client.patch(
            resource,
            name,
            body,
            kind=Patch.MERGE,
            namespace=namespace,
            subresource="status" if status else None,
        )
        await self._observed(resource, written)
        return written

    async def create(
        self, resource: Resource[T], body: T | Mapping[str, Any], *, namespace: str | None = None
    ) -> T:
        written = await self.client.create(resource, body, namespace=namespace)
        await self._observed(resource, written)
        return written

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Delete an object, by default in the test's namespace if its kind is namespaced."""
        namespace = (namespace or self.namespace) if resource.namespaced else None
        deleted = await self.client.get(resource, name, namespace=namespace)
        await self.client.delete(resource, name, namespace=namespace, propagation=propagation)
        for manager in tuple(self._followers):
            await deletion_observed(manager, resource, deleted)

    async def _observed(self, resource: Resource[T], written: T) -> None:
        """Wait for the followers, because the watches of different kinds are not synchronized."""
        for manager in tuple(self._followers):
            await observed(manager, resource, written)

    # Waiting

    async def eventually(self, true: Callable[[], bool]) -> None:
        """Wait until the condition holds, checked after every change of a placement, decision or event."""
        try:
            async with asyncio.timeout(DEADLINE):
                while not true():
                    self.news.clear()
                    await self.news.wait()
                await self.catch_up()
        except TimeoutError:
            pytest.fail(IN_VAIN.format(seconds=DEADLINE, seen=self.describe()))

    async def chooses(self, name: str, *words: str, namespace: str = "") -> None:
        """Wait until a placement selects these clusters, in this order, and its status has their number."""

        def chosen() -> bool:
            status = self.status(name, namespace=namespace)
            return (
                self.chosen(name, namespace=namespace) == list(words)
                and status.numberOfSelectedClusters == len(words)
                and bool(status.conditions)
            )

        await self.eventually(chosen)

    async def after(self, manager: Manager, resource: Resource[T], written: T) -> None:
        """Wait until the controllers have observed a write and have nothing left to do, and this view is current."""
        await observed(manager, resource, written)
        await self.settled(manager)

    async def settled(self, manager: Manager) -> None:
        """Wait until the controllers have observed the whole hub and have nothing left to do, and all is seen here."""
        await settled(self.client, manager)
        await self.catch_up()

    async def versions(self) -> Versions:
        """Resource versions of all placements and decisions here, which change with every write."""
        placements = await self.client.list(PLACEMENTS)
        decisions = await self.client.list(PLACEMENT_DECISIONS)
        return self.versions_of((*placements.items, *decisions.items))
