"""How a cell changed."""

from enum import IntEnum


class Direction(IntEnum):
    """A label that got another value, or a new cell, changed in any direction.

    ``direction & other`` is true where both have a direction in common. Not a Flag, whose operators are twenty times
    slower.
    """

    NONE = 0
    UP = 1
    DOWN = 2
    ANY = 3

    def __or__(self, other: int) -> "Direction":
        return _DIRECTIONS[int(self) | int(other)]


_DIRECTIONS = tuple(Direction)

NONE, UP, DOWN, ANY = Direction
"""The members, for code that runs for every cell: Python looks up members of an enumeration slowly."""
