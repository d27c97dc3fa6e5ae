"""The last step of a write: encode the document as it is stored and hand it to the store."""

from typing import Final

import msgspec

from kubehub import status
from kubehub.json_decoder import decode_object as _decode
from kubehub.resource import Document, Resource
from kubehub.serialization import body, representation
from kubehub.storage.store import Item, Store

MAX_CUSTOM_RESOURCE_BYTES: Final = 1536 * 1024
"""etcd's limit. Built-in kinds are stored there as protobuf, which is smaller, so they meet the request limit first."""
TOO_LARGE: Final = "etcdserver: request is too large"

_encode = msgspec.json.Encoder().encode


class Committer:
    def __init__(self, *, store: Store) -> None:
        self._store = store

    def _order_fields(self, resource: Resource, document: Document) -> Document:
        """Put apiVersion, kind and metadata first; ``representation.prefix`` relies on that."""
        ordered: Document = {
            "apiVersion": f"{resource.group}/{representation.storage_version(resource)}"
            if resource.group
            else representation.storage_version(resource),
            "kind": resource.kind,
            "metadata": document["metadata"],
        }
        return ordered | {k: v for k, v in document.items() if k not in ordered}

    def encode(self, resource: Resource, document: Document) -> bytes:
        return _encode(self._order_fields(resource, document))

    def head(self, resource: Resource, namespace: str, name: str) -> tuple[Item, Document]:
        """Return the newest state, also one that isn't on disk yet. Raises a 404."""
        item = self._store.head((resource.key, namespace if resource.namespaced else "", name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, name)
        return item, _decode(item.raw)

    async def return_unchanged(self, item: Item) -> bytes:
        """Answer a write that changes nothing, once the state it was compared with is on disk."""
        await self._store.wait_for_commits()
        return item.raw

    async def commit(self, resource: Resource, document: Document, *, expect: int, dry_run: bool) -> bytes:
        metadata = document["metadata"]
        ordered = self._order_fields(resource, document)
        raw = _encode(ordered)
        if len(raw) > (MAX_CUSTOM_RESOURCE_BYTES if resource.custom else body.LIMIT):
            raise status.Refusal(code=500, reason="", message=TOO_LARGE)
        body.check_shape(raw, kept=True)
        if dry_run:
            await self._store.wait_for_commits()
            return raw
        key = (resource.key, metadata.get("namespace", ""), metadata["name"])
        item = await self._store.put(key, ordered, expect=expect)
        return item.raw

    async def delete(self, resource: Resource, document: Document, item: Item, *, dry_run: bool) -> bytes:
        ordered = self._order_fields(resource, document)
        if dry_run:
            await self._store.wait_for_commits()
            return _encode(ordered)
        gone = await self._store.delete(item.key, ordered, expect=item.revision)
        return gone.raw
