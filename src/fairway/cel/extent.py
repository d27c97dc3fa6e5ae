"""Ranges of sizes, for estimates. Beyond 64 bits everything is as large."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

MOST: Final = (1 << 64) - 1


def capped(value: int) -> int:
    return min(value, MOST)


def scaled(size: int, factor: float) -> int:
    """Rounded up, in doubles as the reference does it."""
    product = float(size) * factor
    return MOST if product >= 2.0**64 else capped(ceil(product))


@dataclass(frozen=True, slots=True)
class Extent:
    least: int
    most: int

    def union(self, other: Extent) -> Extent:
        return Extent(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: Extent) -> Extent:
        return Extent(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Extent) -> Extent:
        return Extent(capped(self.least * other.least), capped(self.most * other.most))


def fixed(size: int) -> Extent:
    return Extent(size, size)


UNKNOWN: Final = Extent(0, MOST)
