"""Best first: by total, highest first, then by name.

One integer key per row combines the distance of its total from an upper bound with the rank of its name. Keys are
unique, so the lowest few can be selected without sorting the rest.
"""

from bisect import bisect_left, insort

import numpy as np

from fairway.engine.points import Scores
from fairway.hosts.bitmap import Mask, Rows
from fairway.hosts.hosts import RANK_BITS

# A key has 63 bits beside the sign. The distance of a total from the bound is less than twice the bound, and the rank
# takes the rest.
TOTAL_BOUND = 1 << (62 - RANK_BITS)
"""Totals beyond ±this do not fit a key and are sorted by a slower algorithm."""


ABSENT = int(np.iinfo(np.int64).max)
"""The key of an infeasible row, after all others."""


def fits(totals: Scores) -> bool:
    return not len(totals) or (int(totals.max()) < TOTAL_BOUND and int(totals.min()) > -TOTAL_BOUND)


def keys_of(totals: Scores, ranks: Scores) -> Scores:
    return ((TOTAL_BOUND - totals) << RANK_BITS) | ranks


def key_of(total: int, rank: int) -> int:
    return ((TOTAL_BOUND - total) << RANK_BITS) | rank


def best(rows: Rows, totals: Scores, ranks: Scores, *, wanted: int | None) -> Rows:
    """Return the best ``wanted`` rows (None for all), best first. ``ranks`` are those of ``rows``."""
    size = len(rows)
    count = size if wanted is None else max(0, min(wanted, size))
    if count == 0:
        return rows[:0]
    if not fits(totals):
        return rows[np.lexsort((ranks, -totals))[:count]]
    keys = keys_of(totals, ranks)
    if count == 1:
        at = int(keys.argmin())
        return rows[at : at + 1]
    if count < size:
        # Partition before sorting: a placement usually wants a few of 100,000 rows.
        front = np.argpartition(keys, count - 1)[:count]
        return rows[front[np.argsort(keys[front])]]
    return rows[np.argsort(keys)]


def better_than(row: int, rows: Rows, totals: Scores, ranks: Scores) -> Mask:
    """Return which of the rows, which are ascending, come before one of them."""
    at = int(np.searchsorted(rows, row))
    better: Mask = (totals > totals[at]) | ((totals == totals[at]) & (ranks < ranks[at]))
    return better


class Front:
    """The best rows in order, updated row by row.

    Contains every row whose key is at most ``_limit``, so it has the best ``wanted`` rows as long as it contains that
    many, or all rows.
    """

    __slots__ = ("_best", "_entries", "_limit", "_size", "wanted")

    SLACK = 64
    ENTRY = 128
    """Bytes that one row in order takes."""

    def __init__(self, rows: Rows, keys: Scores, *, wanted: int) -> None:
        self.wanted = wanted
        self._size = len(rows)
        # A row that leaves is not replaced, because the next best one is unknown. The slack is how many may leave
        # before a full cycle is needed.
        keep = min(len(rows), wanted + max(self.SLACK, wanted // 4))
        if keep < len(rows):
            front = np.argpartition(keys, keep - 1)[:keep]
            keys, rows = keys[front], rows[front]
            self._limit = int(keys.max())
        else:
            self._limit = ABSENT - 1
        order = np.argsort(keys)
        self._entries: list[tuple[int, int]] = list(
            zip(keys[order].tolist(), rows[order].tolist(), strict=True)
        )
        self._best: list[int] | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self._entries) * self.ENTRY

    def take(self) -> list[int] | None:
        """Return the best rows, best first; None if too many have left. The same list until a row among them moves."""
        if self._best is None:
            if len(self._entries) < min(self.wanted, self._size):
                return None
            self._best = [row for _, row in self._entries[: self.wanted]]
        return self._best

    def move(self, row: int, old: int, new: int) -> None:
        """Update the key of a row; ABSENT means infeasible."""
        if old == new:
            return
        # Rows beyond the limit are only counted: ``take`` must know whether rows are missing from the front.
        self._size += (new != ABSENT) - (old != ABSENT)
        if old <= self._limit:
            del self._entries[bisect_left(self._entries, (old, row))]
            self._best = None
        if new <= self._limit:
            insort(self._entries, (new, row))
            self._best = None
