"""The smallest and largest value of every calculator in the fleet, updated incrementally."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping


class ValueRanges(Mapping[str, tuple[int, int]]):
    """By calculator. A change scans all values only if the smallest or largest one changed."""

    def __init__(self) -> None:
        self._values: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._ends: dict[str, tuple[int, int]] = {}

    def __getitem__(self, calculator: str) -> tuple[int, int]:
        return self._ends[calculator]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ends)

    def __len__(self) -> int:
        return len(self._ends)

    def clusters(self, calculator: str) -> Iterable[str]:
        return tuple(self._values.get(calculator, ()))

    def put(self, calculator: str, cluster: str, value: int | None) -> bool:
        """Set a value; None removes it. Return whether an end of the range has moved."""
        values, before = self._values[calculator], self._ends.get(calculator)
        old = values.pop(cluster, None)
        if value is not None:
            values[cluster] = value
        # Most changes are inside the range, and neither came from an end: then both ends stay, without a scan.
        inside = before is not None and value is not None and before[0] <= value <= before[1]
        if inside and before is not None and (old is None or before[0] < old < before[1] or old == value):
            return False
        if not values:
            del self._values[calculator]
            self._ends.pop(calculator, None)
            return before is not None
        now = (min(values.values()), max(values.values()))
        self._ends[calculator] = now
        return now != before
