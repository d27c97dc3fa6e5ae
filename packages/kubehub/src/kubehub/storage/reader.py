"""Committed objects, decoded for the other packages of the hub."""

from collections.abc import Iterator

from kubehub.json_decoder import decode_object as _decode
from kubehub.resource import Document
from kubehub.storage.store import Store, TooOld


class StoreReader:
    """Implements ``object_reader.ObjectReader`` on the store."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    def documents(self, resource: str, namespace: str | None = None) -> Iterator[Document]:
        for item in self._store.items(resource, namespace=namespace).items:
            yield _decode(item.raw)

    def document(self, resource: str, namespace: str, name: str) -> Document | None:
        item = self._store.get((resource, namespace, name))
        return None if item is None else _decode(item.raw)

    def last_revision(self, resource: str) -> int:
        return self._store.last_revision(resource)

    def changed_since(self, resource: str, since: int) -> set[tuple[str, str]] | None:
        try:
            return self._store.changed_since(resource, since=since)
        except TooOld:
            return None
