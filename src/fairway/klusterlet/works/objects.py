"""Objects of any kind on the managed cluster, as plain JSON, so that no field is lost."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from fairway.api.meta import ObjectMeta
from fairway.kube import Client, NotFound, Patch, Resource

Object = dict[str, Any]

MANAGER: Final = "work-agent"
"""Under whose name fields are booked, unless a work asks for another."""


class ObjectVersion(Struct, frozen=True, kw_only=True, gc=False):
    """As much of an object as is needed to know that it changed."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectId:
    """Which object, whatever version of its group it was written in."""

    group: str
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an object is served. ``namespace`` is empty for one that lives in none."""

    resource: Resource[ObjectVersion]
    namespace: str
    name: str

    @property
    def identity(self) -> ObjectId:
        return ObjectId(
            group=self.resource.group,
            resource=self.resource.plural,
            namespace=self.namespace,
            name=self.name,
        )

    @property
    def path(self) -> str:
        return self.resource.path(namespace=self.namespace or None, name=self.name)

    @property
    def collection(self) -> str:
        return self.resource.path(namespace=self.namespace or None)

    def __str__(self) -> str:
        return f"{self.resource.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


class ObjectLocks:
    """One lock per object: reading its owners and writing them must not interleave with another work's."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[ObjectId, asyncio.Lock] = WeakValueDictionary()

    def of(self, identity: ObjectId) -> asyncio.Lock:
        return self._locks.setdefault(identity, asyncio.Lock())


class Objects:
    """Reads and writes. Whatever goes wrong is a KubeError of the cluster's own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.locks = ObjectLocks()

    async def get(self, target: Target) -> Object | None:
        try:
            return _decoded((await self._client.request("GET", target.path)).body)
        except NotFound:
            return None

    async def create(self, target: Target, body: Mapping[str, Any], *, manager: str = MANAGER) -> Object:
        response = await self._client.request(
            "POST", target.collection, query=(("fieldManager", manager),), body=body
        )
        return _decoded(response.body)

    async def apply(
        self, target: Target, body: Mapping[str, Any], *, manager: str = MANAGER, force: bool
    ) -> Object:
        query = [("fieldManager", manager), ("force", "true" if force else "false")]
        response = await self._client.request(
            "PATCH",
            target.path,
            query=query,
            body=body,
            content_type=Patch.APPLY.value,
            repeatable=True,
        )
        return _decoded(response.body)

    async def merge(self, target: Target, seen: Mapping[str, Any], body: Mapping[str, Any]) -> Object:
        """Into the very object that was seen; Conflict if it is another by now."""
        meta = seen["metadata"]
        given = {**body.get("metadata", {}), "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        response = await self._client.request(
            "PATCH",
            target.path,
            query=(("fieldManager", MANAGER),),
            body={**body, "metadata": given},
            content_type=Patch.MERGE.value,
            repeatable=True,
        )
        return _decoded(response.body)

    async def delete(self, target: Target, *, uid: str) -> None:
        await self._client.delete(
            target.resource,
            target.name,
            namespace=target.namespace or None,
            uid=uid,
            propagation="Background",
        )


def owners_of(live: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = live["metadata"].get("ownerReferences")
    return found if isinstance(found, list) else ()


def _decoded(body: bytes) -> Object:
    found: Object = msgspec.json.decode(body, type=dict[str, Any])
    return found
