"""A queue in which owners take turns.

With one order of arrival, an owner with thousands of items delays all others by all of them. Here, an item waits for at
most one item of each other owner, and for those of its own owner that arrived before.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Turns(Generic[T]):
    """One item of each owner in turn; of one owner, in order of arrival."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Hashable, dict[T, None]] = OrderedDict()
        """The items of each owner; the first owner is next."""
        self._owners: dict[T, Hashable] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def push(self, item: T, *, owner: Hashable) -> None:
        """Add an item that is not queued."""
        self._owners[item] = owner
        self._lines.setdefault(owner, {})[item] = None

    def pop(self) -> T:
        """Remove and return the next item. Raises KeyError if there is no item."""
        owner, line = self._lines.popitem(last=False)
        item = next(iter(line))
        del line[item], self._owners[item]
        if line:
            self._lines[owner] = line
        return item

    def discard(self, item: T) -> None:
        if item not in self._owners:
            return
        owner = self._owners.pop(item)
        line = self._lines[owner]
        del line[item]
        if not line:
            del self._lines[owner]
