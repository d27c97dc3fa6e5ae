"""The objects of one resource, by key and in order.

Writes must not pay for the order: a put of an existing object only replaces a dict entry. Added and removed keys
are recorded, and the next listing updates the sorted keys.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kubehub.storage.entry import Item, Key, Listing

# Up to this number, single insertions are cheaper than sorting again, which costs one pass over all keys.
MAX_INSERTIONS: Final = 64


def update_keys(keys: list[Key], moved: Collection[Key], present: Callable[[Key], bool]) -> list[Key]:
    """Add each of ``moved`` to ``keys`` or remove it, depending on ``present``. A few keys are changed in place."""
    if len(moved) > MAX_INSERTIONS:
        gone = set(moved)
        return sorted([k for k in keys if k not in gone] + [k for k in gone if present(k)])
    for key in moved:
        at = bisect_left(keys, key)
        there = at < len(keys) and keys[at] == key
        if present(key) != there:
            if there:
                del keys[at]
            else:
                insort(keys, key)
    return keys


class ResourceIndex:
    """``last_revision`` is the last revision that changed an object here; it never decreases."""

    __slots__ = ("_keys", "_moved", "items", "last_revision", "resource")

    def __init__(self, resource: str, *, last_revision: int) -> None:
        self.resource, self.last_revision = resource, last_revision
        self.items: dict[Key, Item] = {}
        self._keys: list[Key] = []
        self._moved: set[Key] = set()

    def put(self, item: Item) -> None:
        if item.key not in self.items:
            self._moved.add(item.key)
        self.items[item.key] = item
        self.last_revision = max(self.last_revision, item.revision)

    def drop(self, key: Key, *, revision: int) -> None:
        if self.items.pop(key, None) is not None:
            self._moved.add(key)
        self.last_revision = max(self.last_revision, revision)

    def keys(self) -> list[Key]:
        if self._moved:
            self._keys = update_keys(self._keys, self._moved, self.items.__contains__)
            self._moved.clear()
        return self._keys

    def page(
        self,
        *,
        revision: int,
        namespace: str | None,
        after: tuple[str, str] | None,
        limit: int | None,
        past: Mapping[Key, Item | None],
    ) -> Listing:
        """List one page. ``past`` has the objects that were different at ``revision``, None for those that didn't
        exist."""
        keys = self.keys()
        start, end = 0, len(keys)
        if namespace is not None:
            start = bisect_left(keys, (self.resource, namespace, ""))
            # The smallest string after the namespace, so that all of its keys come before it.
            end = bisect_left(keys, (self.resource, namespace + "\0", ""))
        if past:
            moved = [key for key, item in past.items() if (item is None) == (key in self.items)]
            keys = update_keys(keys[start:end], moved, lambda key: past[key] is not None)
            start, end = 0, len(keys)
        if after is not None:
            start = max(start, bisect_right(keys, (self.resource, *after)))
        stop = end if limit is None else min(end, start + limit)
        now = self.items
        if past:
            then = [past[key] if key in past else now[key] for key in keys[start:stop]]
            items = [item for item in then if item is not None]
        else:
            items = [now[key] for key in keys[start:stop]]
        return Listing(items=items, revision=revision, remaining=max(0, end - stop))
