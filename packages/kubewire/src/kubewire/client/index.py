"""An index of an informer's store, as client-go's Indexer: objects by values that follow from them."""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Generic

from kubewire.api.resource import Key, T, key_of
from kubewire.client.change import Batch, Deleted

Values = Callable[[T], Collection[Hashable]]


class Index(Generic[T]):
    """``values`` returns the values under which an object is found. It must depend on the object alone.

    ``Informer.index`` creates an index that follows the changes of the informer.
    """

    def __init__(self, values: Values[T], store: Mapping[Key, T]) -> None:
        self._values, self._store = values, store
        self._keys: dict[Hashable, dict[Key, None]] = {}
        self._indexed: dict[Key, tuple[Hashable, ...]] = {}
        """The values of each object that has some. The last state of a deleted object may have others."""
        for key, obj in store.items():
            if given := values(obj):
                self._put(key, given)

    def find(self, value: Hashable) -> list[T]:
        """Return the objects that have this value; the one that got it last is at the end."""
        # A full list is in the store at once, and reaches the index in parts.
        return [self._store[key] for key in self._keys.get(value, ()) if key in self._store]

    def count(self, value: Hashable) -> int:
        return len(self._keys.get(value, ()))

    def update(self, batch: Batch[Any]) -> None:
        for change in batch.changes:
            values = () if isinstance(change, Deleted) else self._values(change.object)
            self._put(key_of(change.object), values)

    def _put(self, key: Key, given: Collection[Hashable]) -> None:
        known = self._indexed.get(key, ())
        values = tuple(dict.fromkeys(given)) if given else ()
        if values == known:
            return
        for value in known:
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]
        for value in values:
            self._keys.setdefault(value, {})[key] = None
        if values:
            self._indexed[key] = values
        else:
            del self._indexed[key]
