"""Objects of any kind on the managed cluster, as plain JSON, so that no field is lost."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from kubewire.api.meta import ObjectMeta
from kubewire.client import Client, NotFound, Patch, Resource

Object = dict[str, Any]

MANAGER: Final = "work-agent"
"""Default field manager."""


class ObjectVersion(Struct, frozen=True, kw_only=True, gc=False):
    """The part of an object that shows a change."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectId:
    """Identity of an object, in any API version."""

    group: str
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Endpoint of an object. ``namespace`` is empty for cluster-scoped objects."""

    resource: Resource[ObjectVersion]
    namespace: str
    name: str

    @property
    def identity(self) -> ObjectId:
        return ObjectId(
            group=self.resource.group, resource=self.resource.plural, namespace=self.namespace, name=self.name
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
    """One lock per object, so that works do not interleave reads and writes of its owners."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[ObjectId, asyncio.Lock] = WeakValueDictionary()

    def of(self, identity: ObjectId) -> asyncio.Lock:
        return self._locks.setdefault(identity, asyncio.Lock())


class Objects:
    """Reads and writes objects. Raises KubeErrors."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.locks = ObjectLocks()

    async def get(self, target: Target) -> Object | None:
        try:
            return _decode((await self._client.request("GET", target.path)).body)
        except NotFound:
            return None

    async def create(self, target: Target, body: Mapping[str, Any]) -> Object:
        response = await self._client.request(
            "POST", target.collection, query=(("fieldManager", MANAGER),), body=body
        )
        return _decode(response.body)

    async def apply(
        self, target: Target, body: Mapping[str, Any], *, manager: str = MANAGER, force: bool
    ) -> Object:
        query = [("fieldManager", manager), ("force", "true" if force else "false")]
        response = await self._client.request(
            "PATCH", target.path, query=query, body=body, content_type=Patch.APPLY.value, repeatable=True
        )
        return _decode(response.body)

    async def merge(self, target: Target, seen: Mapping[str, Any], body: Mapping[str, Any]) -> Object:
        """Patch the object that was read. Raises Conflict if it changed."""
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
        return _decode(response.body)

    async def delete(self, target: Target, *, uid: str) -> None:
        await self._client.delete(
            target.resource,
            target.name,
            namespace=target.namespace or None,
            uid=uid,
            propagation="Background",
        )


def owners_of(live: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    references = live["metadata"].get("ownerReferences")
    return references if isinstance(references, list) else ()


def _decode(body: bytes) -> Object:
    decoded: Object = msgspec.json.decode(body, type=dict[str, Any])
    return decoded
