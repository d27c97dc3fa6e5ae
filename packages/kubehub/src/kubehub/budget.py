"""A budget of work units, so that no input makes a computation endless."""


class Exhausted(Exception):
    """The budget is used up."""


class Budget:
    """For work that doesn't await: renewed when it starts, spent while it runs."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def renew(self) -> None:
        self._left = self._most

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise Exhausted
