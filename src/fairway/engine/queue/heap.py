"""A priority queue whose items can be removed and replaced by name."""

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from fairway.engine.points import SortKey

ItemT = TypeVar("ItemT", bound=Hashable)

MOST_STALE = 64
"""Removed items stay in the list until they are more than this many and more than half of it."""


class Heap(Generic[ItemT]):
    """Lowest key first; among equal keys, the first pushed."""

    def __init__(self) -> None:
        self._list: list[tuple[SortKey, int, ItemT]] = []
        self._live: dict[ItemT, tuple[SortKey, int]] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[ItemT]:
        """In no order."""
        return iter(self._live)

    def push(self, item: ItemT, key: SortKey) -> None:
        """Add an item, or change its key."""
        self._pushed += 1
        self._live[item] = (key, self._pushed)
        # The number makes entries with equal keys first in, first out, and comparisons never reach the item, which
        # may have no order. An item that is pushed again leaves its old entry behind, which ``peek`` recognises by
        # the number.
        heapq.heappush(self._list, (key, self._pushed, item))
        self._compact()

    def discard(self, item: ItemT) -> None:
        if self._live.pop(item, None) is not None:
            self._compact()

    def peek(self) -> tuple[SortKey, ItemT] | None:
        while self._list:
            key, number, item = self._list[0]
            if self._live.get(item) == (key, number):
                return key, item
            heapq.heappop(self._list)
        return None

    def pop(self) -> ItemT | None:
        first = self.peek()
        if first is None:
            return None
        heapq.heappop(self._list)
        del self._live[first[1]]
        return first[1]

    def _compact(self) -> None:
        stale = len(self._list) - len(self._live)
        if stale > MOST_STALE and stale > len(self._live):
            # At least half of the list is dropped, so each removal pays for a constant number of entries. Without it,
            # a workload that is woken and parked forever, as most are, would grow the list without end.
            self._list = [(key, number, item) for item, (key, number) in self._live.items()]
            heapq.heapify(self._list)
