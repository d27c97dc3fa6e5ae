"""What one piece of work may use up, so that nobody can make it endless."""


class Exhausted(Exception):
    """There is more to do than is allowed."""


class Budget:
    """For work that is done in one go: renewed when it begins, spent as it goes on."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def renew(self) -> None:
        self._left = self._most

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise Exhausted
