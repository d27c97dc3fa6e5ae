"""Ranges of sizes, for estimates; capped at 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

MOST: Final = (1 << 64) - 1


def capped(value: int) -> int:
    return min(value, MOST)


def scaled(size: int, factor: float) -> int:
    """Multiply as doubles and round up, as the reference does."""
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
