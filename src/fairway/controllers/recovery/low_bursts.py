"""How many clusters became low together, kept while clusters fall and recover."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIRST: Final = 64


class LowBursts:
    """The largest number of moments within one window, of those that were added and not removed.

    For each moment the class keeps how many others lie in the window that ends there. A removal changes the counts of
    the windows that end up to one window later: one addition on a slice of an array, 20 µs for 100,000 moments.
    """

    def __init__(self, *, window: float) -> None:
        self._window = window
        self._moments: NDArray[np.float64] = np.zeros(_FIRST)
        self._weights: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)
        """How often a moment was added and not removed."""
        self._counts: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)
        self._used = 0
        self._largest: int | None = 0

    @property
    def largest(self) -> int:
        if self._largest is None:
            # Also of windows that end at a removed moment: the last moment that is left in such a window ends one
            # with the same moments.
            self._largest = int(self._counts[: self._used].max(initial=0))
        return self._largest

    def add(self, moment: float) -> float:
        """Add a moment, and return it as ``remove`` needs it: never before the last one, because time runs forward."""
        # The arrays stay sorted without a search, because moments are only appended.
        last = self._used - 1
        if self._used and self._moments[last] >= moment:
            self._weights[last] += 1
            self._counts[last] += 1
            self._largest = max(self.largest, int(self._counts[last]))
            return float(self._moments[last])
        if self._used == len(self._moments):
            self._make_room()
        at = self._used
        begin = int(self._moments[:at].searchsorted(moment - self._window))
        self._moments[at], self._weights[at] = moment, 1
        self._counts[at] = self._weights[begin : at + 1].sum()
        self._used += 1
        if self._largest is not None:
            self._largest = max(self._largest, int(self._counts[at]))
        return moment

    def remove(self, moment: float) -> None:
        """Remove a moment that ``add`` returned."""
        moments = self._moments[: self._used]
        at = int(moments.searchsorted(moment))
        end = int(moments.searchsorted(moment + self._window, side="right"))
        # The moment itself stays until the next ``_make_room``: to close the gap would copy 100,000 numbers each time.
        self._weights[at] -= 1
        self._counts[at:end] -= 1
        self._largest = None

    def _make_room(self) -> None:
        """Drop removed moments, and double the space if most are left."""
        kept = self._weights[: self._used] > 0
        count = int(kept.sum())
        size = max(_FIRST, 2 * count)
        spare = np.zeros(size - count, dtype=np.int64)
        self._moments = np.concatenate((self._moments[: self._used][kept], spare.astype(np.float64)))
        self._weights = np.concatenate((self._weights[: self._used][kept], spare))
        self._counts = np.concatenate((self._counts[: self._used][kept], spare))
        self._used = count
