"""One attribute of all hosts, as an array.

A column is written cell by cell and read as a whole. ``write`` returns in which direction the cell changed.
``fork`` returns a private copy, which the table uses for a write while a snapshot shares the column.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.direction import ANY, DOWN, NONE, UP, Direction

Key = tuple[str, ...]
"""A column's name: its kind and what follows, such as ``("label", "env")`` or ``("score", "default", "cpu")``."""

MEMBERSHIP: Key = ("membership",)
"""A host was added or deleted. Never a column, only reported."""

NEVER = np.iinfo(np.int64).max
"""The expiry, in microseconds since 1970, of values that do not expire."""

FEW_CODES = 16
"""Bitmaps of at most this many codes are combined; more are looked up row by row, without caching."""

KEPT_BITMAPS = 1024
"""Maximum number of bitmaps of a column. A selector may name any value, and there may be as many values as hosts."""


class Column(Protocol):
    stamp: int
    """The table's generation when this copy of the column was created; see ``Table``."""

    def write(self, row: int, value: Any, /) -> Direction: ...
    def fork(self) -> "Column": ...
    def grow(self, capacity: int, /) -> None: ...


class CodeColumn:
    """Dictionary-encoded values: rows hold codes; code 0 means that the host has no value.

    Codes of values that no host has any more are reused, so caches by code must be cleared when ``epoch``
    changes. Bitmaps are created on demand, one per requested code, and updated by every later
    write.
    """

    __slots__ = ("_bitmaps", "_code_of", "_free", "_uses", "codes", "epoch", "stamp", "values")

    def __init__(self, *, capacity: int, stamp: int = 0) -> None:
        self.codes: npt.NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.values: list[Hashable | None] = [None]
        self.epoch = 0
        self.stamp = stamp
        self._code_of: dict[Hashable, int] = {}
        self._uses: list[int] = [0]
        self._free: list[int] = []
        self._bitmaps: dict[int, Bits] = {}

    def code(self, value: Hashable) -> int | None:
        """Return the code of a value; None if no host has it."""
        return self._code_of.get(value)

    def value(self, row: int) -> Hashable | None:
        return self.values[int(self.codes[row])]

    def items(self) -> list[tuple[Hashable, int]]:
        """Return every value that at least one host has, with its code."""
        return list(self._code_of.items())

    def uses(self, code: int) -> int:
        return self._uses[code]

    def bitmap(self, code: int) -> Bits:
        """Return the rows with this code. The caller must not modify it."""
        bits = self._bitmaps.get(code)
        if bits is None:
            if len(self._bitmaps) >= KEPT_BITMAPS:
                del self._bitmaps[next(iter(self._bitmaps))]
            bits = self._bitmaps[code] = bitmap.pack(self.codes == code)
        return bits

    def bitmap_of(self, codes: list[int]) -> Bits:
        """Return the rows with any of these codes. The caller must not modify it."""
        if len(codes) == 1:
            return self.bitmap(codes[0])
        if len(codes) > FEW_CODES:
            wanted = np.zeros(len(self.values), dtype=np.bool_)
            wanted[codes] = True
            return bitmap.pack(wanted[self.codes])
        bits = bitmap.empty(len(self.codes))
        for code in codes:
            bits |= self.bitmap(code)
        return bits

    def write(self, row: int, value: Any, /) -> Direction:
        old = int(self.codes[row])
        if self.values[old] == value:
            return NONE
        # Take the new code before releasing the old one: a freed code would be reused at once, and the bitmap of the
        # old value would count as that of the new one.
        new = 0 if value is None else self._take(value)
        self.codes[row] = new
        if old:
            self._release(old)
        bits = self._bitmaps
        if bits:
            if old in bits:
                bitmap.put(bits[old], row, False)
            if new in bits:
                bitmap.put(bits[new], row, True)
        return ANY

    def fill(self, values: list[Hashable | None]) -> None:
        """Write rows 0, 1, 2, … of an empty column at once."""
        for value in dict.fromkeys(values):
            if value is not None:
                self._code_of[value] = len(self.values)
                self.values.append(value)
                self._uses.append(0)
        codes = np.fromiter(map({**self._code_of, None: 0}.__getitem__, values), np.int32, len(values))
        self.codes[: len(values)] = codes
        for code, uses in enumerate(np.bincount(codes, minlength=len(self.values)).tolist()):
            self._uses[code] = uses
        self.epoch += 1

    def _take(self, value: Any) -> int:
        code = self._code_of.get(value)
        if code is None:
            self.epoch += 1
            if self._free:
                code = self._free.pop()
                self.values[code] = value
            else:
                code = len(self.values)
                self.values.append(value)
                self._uses.append(0)
            self._code_of[value] = code
        self._uses[code] += 1
        return int(code)

    def _release(self, code: int) -> None:
        self._uses[code] -= 1
        if not self._uses[code]:
            del self._code_of[self.values[code]]
            self.values[code] = None
            self._free.append(code)
            self._bitmaps.pop(code, None)

    def fork(self) -> "CodeColumn":
        other = CodeColumn(capacity=0)
        # Without the bitmaps: copying up to a thousand costs more than creating the few that are read again.
        other.codes = self.codes.copy()
        other.values = self.values.copy()
        other.epoch = self.epoch
        other._code_of = self._code_of.copy()
        other._uses = self._uses.copy()
        other._free = self._free.copy()
        return other

    def grow(self, capacity: int, /) -> None:
        codes = np.zeros(capacity, dtype=np.int32)
        codes[: len(self.codes)] = self.codes
        self.codes = codes
        self._bitmaps.clear()


class NumberColumn:
    """Amounts; NaN means that the host does not report the resource."""

    __slots__ = ("stamp", "values")

    def __init__(self, *, capacity: int, stamp: int = 0) -> None:
        self.values: npt.NDArray[np.float64] = np.full(capacity, np.nan)
        self.stamp = stamp

    def write(self, row: int, value: Any, /) -> Direction:
        number = np.nan if value is None else float(value)
        old = self.values[row]
        if old == number or (old != old and number != number):
            return NONE
        self.values[row] = number
        return UP if old < number else DOWN if old > number else ANY

    def fill(self, values: list[float | None]) -> None:
        """Write rows 0, 1, 2, … of an empty column at once."""
        self.values[: len(values)] = np.array(values, dtype=np.float64)

    def fork(self) -> "NumberColumn":
        other = NumberColumn(capacity=0)
        other.values = self.values.copy()
        return other

    def grow(self, capacity: int, /) -> None:
        values = np.full(capacity, np.nan)
        values[: len(self.values)] = self.values
        self.values = values


class ScoreColumn:
    """Published scores with their expiry; the value is 0 where there is none."""

    __slots__ = ("_earliest", "expires", "present", "stamp", "values")

    def __init__(self, *, capacity: int, stamp: int = 0) -> None:
        self.values: npt.NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self.expires: npt.NDArray[np.int64] = np.full(capacity, NEVER, dtype=np.int64)
        self.present: npt.NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)
        self.stamp = stamp
        self._earliest: int | None = None

    def earliest(self) -> int:
        """Return the first expiry of any host; cached until a write may have changed it."""
        if self._earliest is None:
            self._earliest = int(self.expires.min(initial=NEVER))
        return self._earliest

    def write(self, row: int, value: Any, /) -> Direction:
        """The value is a pair (score or None when the object lacks this score, expiry), or None."""
        if value is None:
            score, expires, present = 0, NEVER, False
        else:
            score_or_none, expires = value
            score, present = (0, False) if score_or_none is None else (score_or_none, True)
        old = self.values[row]
        same = bool(self.expires[row] == expires and self.present[row] == present)
        if same and old == score:
            return NONE
        self.values[row] = score
        # Only a write to the row with the earliest expiry can raise it. Finding the next one takes a pass over all
        # rows, so that waits for a reader.
        if self._earliest is not None:
            self._earliest = None if self.expires[row] == self._earliest else min(self._earliest, expires)
        self.expires[row] = expires
        self.present[row] = present
        if same:
            return UP if old < score else DOWN
        # A score that expires later may be valid where the last one was not.
        return ANY

    def fill(self, cells: Iterable[tuple[int, tuple[int | None, int]]]) -> None:
        """Write rows of an empty column at once, as pairs of row and value of ``write``."""
        entries = list(cells)
        if not entries:
            return
        rows = np.array([row for row, _ in entries], dtype=np.int64)
        self._earliest = None
        self.expires[rows] = [expires for _, (_, expires) in entries]
        self.values[rows] = [value or 0 for _, (value, _) in entries]
        self.present[rows] = [value is not None for _, (value, _) in entries]

    def fork(self) -> "ScoreColumn":
        other = ScoreColumn(capacity=0)
        other.values = self.values.copy()
        other.expires = self.expires.copy()
        other.present = self.present.copy()
        return other

    def grow(self, capacity: int, /) -> None:
        wider = ScoreColumn(capacity=capacity)
        size = len(self.values)
        wider.values[:size] = self.values
        wider.expires[:size] = self.expires
        wider.present[:size] = self.present
        self.values, self.expires, self.present = wider.values, wider.expires, wider.present


class CountColumn:
    """A count for each host."""

    __slots__ = ("stamp", "values")

    def __init__(self, *, capacity: int, stamp: int = 0) -> None:
        self.values: npt.NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self.stamp = stamp

    def write(self, row: int, value: Any, /) -> Direction:
        """None counts 0."""
        count = value or 0
        old = self.values[row]
        if old == count:
            return NONE
        self.values[row] = count
        return UP if old < count else DOWN

    def fill(self, values: list[int | None]) -> None:
        """Write rows 0, 1, 2, … of an empty column at once."""
        self.values[: len(values)] = [value or 0 for value in values]

    def fork(self) -> "CountColumn":
        other = CountColumn(capacity=0)
        other.values = self.values.copy()
        return other

    def grow(self, capacity: int, /) -> None:
        values = np.zeros(capacity, dtype=np.int64)
        values[: len(self.values)] = self.values
        self.values = values
