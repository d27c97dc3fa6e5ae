"""The state of one evaluation, and how it is charged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fairway.cel.errors import Overrun

Step = Callable[["Frame"], object]
Order = Callable[[Sequence[object]], Sequence[object]]


class Frame:
    """``slots`` holds the variables of comprehensions; ``order`` may rearrange the keys of a map about to be
    iterated, None leaves them as they are."""

    __slots__ = ("context", "cost", "limit", "order", "slots", "variables")

    def __init__(
        self,
        variables: Mapping[str, object],
        context: object,
        limit: float,
        slots: int,
        order: Order | None = None,
    ) -> None:
        self.variables = variables
        self.context = context
        self.limit = limit
        self.cost = 0
        self.slots: list[object] = [None] * slots
        self.order = order


def charge_units(frame: Frame, count: int) -> None:
    """``count`` steps of cost 1 each: the limit is passed by exactly one."""
    total = frame.cost + count
    if total > frame.limit:
        frame.cost = int(frame.limit) + 1
        raise Overrun
    frame.cost = total


def charge(frame: Frame, amount: int) -> None:
    """One step of this cost."""
    total = frame.cost = frame.cost + amount
    if total > frame.limit:
        raise Overrun
