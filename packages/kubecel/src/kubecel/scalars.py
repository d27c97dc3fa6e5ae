"""Scalar values that Python lacks, or whose Python type behaves differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final

from kubecel.types import DURATION, TIMESTAMP, TYPE, Type

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1


class Uint(int):
    """An unsigned 64-bit integer. It can equal an ``int``, but is another type."""

    __slots__ = ()


class Opaque(ABC):
    """Base of the value types of libraries. ``size`` determines the cost of equality and traversal."""

    __slots__ = ()
    cel_type: ClassVar[Type]

    def size(self) -> int:
        return 1

    def weight(self) -> int:
        """Units of work of a comparison."""
        return 4

    @abstractmethod
    def equals(self, other: object) -> bool:
        """Compare. Raise `Failure` if the reference has no result for this pair."""


class TypeValue(Opaque):
    """A type as a value: ``type(1)``, ``int``."""

    __slots__ = ("type",)
    cel_type = TYPE

    def __init__(self, type_: Type) -> None:
        self.type = type_

    def equals(self, other: object) -> bool:
        return isinstance(other, TypeValue) and other.type.name == self.type.name

    def __repr__(self) -> str:
        return self.type.name


class Timestamp(Opaque):
    """An instant. ``zone`` is its UTC offset in seconds, used only for formatting."""

    __slots__ = ("nanos", "seconds", "zone")
    cel_type = TIMESTAMP

    def __init__(self, seconds: int, nanos: int, zone: int = 0) -> None:
        self.seconds = seconds
        self.nanos = nanos
        self.zone = zone

    def equals(self, other: object) -> bool:
        return isinstance(other, Timestamp) and (self.seconds, self.nanos) == (other.seconds, other.nanos)


class Duration(Opaque):
    __slots__ = ("nanos",)
    cel_type = DURATION

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def equals(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos
