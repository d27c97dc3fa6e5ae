"""Ready workloads whose owners take turns.

With one order, an owner with thousands of workloads delays all others by as many cycles. Priorities come first:
a place goes to the most urgent workload that waits for it. Among owners with workloads of the same priority, the one
whose last turn is the longest ago is next. A priority alone must not keep an owner waiting forever, so each
owner gets a turn after a bounded number of others.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from fairway.engine.points import SortKey
from fairway.engine.queue.heap import Heap

ItemT = TypeVar("ItemT", bound=Hashable)

MOST_AHEAD = 32
"""Turns that priorities may take from the owner whose last turn is the longest ago."""


class TurnHeap(Generic[ItemT]):
    """The first part of a sort key is the class: the lowest one first, and owners in turn within it.

    Of one owner, the lowest key is first; among equal keys, the first pushed.
    """

    def __init__(self) -> None:
        self._heaps: dict[Hashable, Heap[ItemT]] = {}
        self._owners: dict[ItemT, Hashable] = {}
        self._turns: dict[Hashable, int] = {}
        """Number of the last turn of each owner that waits; of a new one, when it began to wait."""
        self._classes: dict[Hashable, SortKey] = {}
        """The class of the first item of each owner."""
        self._by_class: Heap[Hashable] = Heap()
        self._by_turn: Heap[Hashable] = Heap()
        self._turn = 0
        self._ahead = 0

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[ItemT]:
        """In no order."""
        return iter(self._owners)

    def push(self, item: ItemT, key: SortKey, *, owner: Hashable) -> None:
        """Add an item, or change its key and owner. An owner that keeps the item keeps its turn."""
        known = item in self._owners
        if known and self._owners[item] != owner:
            self.discard(item)
            known = False
        self._owners[item] = owner
        heap = self._heaps.get(owner)
        if heap is None:
            # A new owner goes to the end. At the front, an owner that submits its workloads one by one would always
            # be next.
            heap = self._heaps[owner] = Heap()
            self._queue_owner(owner)
        heap.push(item, key)
        # The default is longer than the class, and therefore larger: a new owner is always sorted in. A key that is
        # not below the class of its owner changes neither heap.
        if known or key[:1] < self._classes.get(owner, (*key[:1], 0)):
            self._sort(owner)

    def discard(self, item: ItemT) -> None:
        if item in self._owners:
            owner = self._owners.pop(item)
            self._heaps[owner].discard(item)
            self._sort(owner)

    def pop(self) -> ItemT | None:
        chosen, oldest = self._by_class.peek(), self._by_turn.peek()
        if chosen is None or oldest is None:
            return None
        owner = chosen[1]
        # The owner of the most urgent workload gets the turn, while the one that waited longest is passed over. Only
        # so many turns in a row may go past it.
        if owner != oldest[1]:
            self._ahead += 1
            if self._ahead > MOST_AHEAD:
                owner, self._ahead = oldest[1], 0
        item = self._heaps[owner].pop()
        assert item is not None
        del self._owners[item]
        self._queue_owner(owner)
        self._sort(owner)
        return item

    def _queue_owner(self, owner: Hashable) -> None:
        self._turn += 1
        self._turns[owner] = self._turn
        self._by_turn.push(owner, (self._turn,))

    def _sort(self, owner: Hashable) -> None:
        """Follow a change of an owner's items."""
        first = self._heaps[owner].peek()
        if first is None:
            del self._heaps[owner], self._turns[owner], self._classes[owner]
            self._by_class.discard(owner)
            self._by_turn.discard(owner)
        else:
            self._classes[owner] = first[0][:1]
            self._by_class.push(owner, (*first[0][:1], self._turns[owner]))
