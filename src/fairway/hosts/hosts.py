"""The row of each host, and the order of their names.

Rows are slots: a host keeps its row, and the row of a deleted host is reused by the next new one. Names are compared by
a rank: an integer per row, in name order, with gaps, so that a new host gets a number between its neighbours', and only
an exhausted gap causes a renumbering.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits

Host = TypeVar("Host")

GAP = 1 << 20
RANK_BITS = 44
"""Every rank is below 2**RANK_BITS: a million hosts at full gaps use 40 of them."""

FIRST_CAPACITY = 256


class Hosts(Generic[Host]):
    __slots__ = (
        "_free",
        "_order",
        "_size",
        "live",
        "names",
        "objects",
        "rank",
        "renumbered",
        "row_of",
        "stamp",
    )

    def __init__(self, *, capacity: int = FIRST_CAPACITY, stamp: int = 0) -> None:
        self.names: list[str] = []
        self.objects: list[Host | None] = []
        self.row_of: dict[str, int] = {}
        self.live: Bits = bitmap.empty(capacity)
        self.rank: npt.NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self.renumbered = 0
        """Number of renumberings; caches of ranks compare it."""
        self.stamp = stamp
        self._free: list[int] = []
        self._order: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def capacity(self) -> int:
        return len(self.rank)

    def room(self) -> bool:
        """Whether ``add`` has a free slot."""
        return bool(self._free) or self._size < len(self.rank)

    def add(self, name: str, host: Host) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
            self.objects[row] = host
        else:
            row = self._size
            self._size += 1
            self.names.append(name)
            self.objects.append(host)
        self.row_of[name] = row
        bitmap.put(self.live, row, True)
        self._insert(name, row)
        return row

    def add_all(self, hosts: Iterable[tuple[str, Host]]) -> None:
        """Fill an empty index; rows are assigned in the order of the input. There must be enough slots."""
        for row, (name, host) in enumerate(hosts):
            self.names.append(name)
            self.objects.append(host)
            self.row_of[name] = row
        self._size = len(self.names)
        mask = np.zeros(len(self.rank), dtype=np.bool_)
        mask[: self._size] = True
        self.live = bitmap.pack(mask)
        self._order = sorted(self.names)
        self._renumber()

    def remove(self, name: str) -> int:
        row = self.row_of.pop(name)
        self.names[row] = ""
        self.objects[row] = None
        bitmap.put(self.live, row, False)
        # Its rank stays: readers compare ranks of live rows only.
        self._free.append(row)
        del self._order[bisect_left(self._order, name)]
        return row

    def in_name_order(self) -> list[str]:
        """The caller must not modify it."""
        return self._order

    def _insert(self, name: str, row: int) -> None:
        order = self._order
        at = bisect_left(order, name)
        below = int(self.rank[self.row_of[order[at - 1]]]) if at else 0
        above = int(self.rank[self.row_of[order[at]]]) if at < len(order) else below + 2 * GAP
        order.insert(at, name)
        # Halving a gap of 2**20 leaves room for at least 20 names at one place. Most names are spread, or come in
        # order.
        middle = (below + above) // 2
        # The gap is used up, or names were appended until ranks would need more bits than a ranking key has for them.
        if middle == below or above >= 1 << RANK_BITS:
            self._renumber()
        else:
            self.rank[row] = middle

    def _renumber(self) -> None:
        rows = np.fromiter((self.row_of[name] for name in self._order), np.int64, len(self._order))
        gap = min(GAP, (1 << RANK_BITS) // (len(self._order) + 2))
        self.rank[rows] = np.arange(1, len(rows) + 1, dtype=np.int64) * gap
        self.renumbered += 1

    def fork(self) -> "Hosts[Host]":
        other: Hosts[Any] = Hosts(capacity=0)
        other.names = self.names.copy()
        other.objects = self.objects.copy()
        other.row_of = self.row_of.copy()
        other.live = self.live.copy()
        other.rank = self.rank.copy()
        other.renumbered = self.renumbered
        other._free = self._free.copy()
        other._order = self._order.copy()
        other._size = self._size
        return other

    def grow(self, capacity: int, /) -> None:
        rank = np.zeros(capacity, dtype=np.int64)
        rank[: len(self.rank)] = self.rank
        self.rank = rank
        self.live = bitmap.grown(self.live, capacity)
