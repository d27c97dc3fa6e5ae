"""The state of one evaluation, and its charges.

Two values are counted. **Cost** is that of the reference, whose numbers are part of the compatible behaviour and say
little about time. **Work** is our processor time: one unit is one plain step, such as reading a variable, about a
quarter of a microsecond. A plain step is one of both, so one addition and one comparison count both: ``limit`` is the
smaller of the cost limit and of ``fuse``, the cost at which the work limit is reached. A step whose work differs from
its cost moves the fuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from kubecel.errors import Overrun

Step = Callable[["Frame"], object]
Order = Callable[[Sequence[object]], Sequence[object]]
T = TypeVar("T")

UNLIMITED: Final = 1 << 62
NO_PATTERNS: Final[Mapping[str, Any]] = {}
BATCH: Final = 32
"""Elements per charge of ``walk``."""


class Meter:
    """Counts cost and work. Work without cost lowers ``fuse``, cost without work raises it."""

    __slots__ = ("cap", "cost", "fuse", "limit", "work_limit")

    def __init__(self, *, cost_limit: float = UNLIMITED, work_limit: int = UNLIMITED) -> None:
        self.cap = cost_limit
        self.work_limit = self.fuse = work_limit
        self.limit = min(cost_limit, work_limit)
        self.cost = 0

    @property
    def work(self) -> int:
        """The work so far."""
        return self.work_limit - self.fuse + self.cost


class Frame(Meter):
    """The state of one evaluation.

    ``slots`` are the variables of comprehensions; ``order`` reorders the keys of a map before an iteration.
    ``patterns`` are the constant regular expressions of the program, ``computed_patterns`` those compiled since.
    """

    __slots__ = ("computed_patterns", "context", "order", "patterns", "slots", "variables")

    def __init__(
        self,
        variables: Mapping[str, object],
        context: object,
        limit: float,
        slots: int,
        patterns: Mapping[str, Any] = NO_PATTERNS,
        order: Order | None = None,
        work_limit: int = UNLIMITED,
    ) -> None:
        self.cap = limit
        self.work_limit = self.fuse = work_limit
        self.limit = limit if limit < work_limit else work_limit
        self.cost = 0
        self.variables = variables
        self.context = context
        self.slots: list[object] = [None] * slots
        self.order = order
        self.patterns = patterns
        self.computed_patterns: dict[str, Any] | None = None


def charge_units(meter: Meter, count: int) -> None:
    """Charge ``count`` steps of cost 1 each; at the limit, the cost is one above it."""
    total = meter.cost + count
    if total > meter.limit:
        # The reference stops at the first step over the limit, and users see its count: what these steps would cost is
        # not added.
        meter.cost = int(meter.limit) + 1
        raise Overrun
    meter.cost = total


def charge(meter: Meter, amount: int) -> None:
    """Charge one step of this cost, and as much work."""
    total = meter.cost = meter.cost + amount
    if total > meter.limit:
        raise Overrun


def charge_work(meter: Meter, work: int) -> None:
    """Charge work without cost."""
    fuse = meter.fuse = meter.fuse - work
    if fuse < meter.limit:
        meter.limit = fuse
        if meter.cost > fuse:
            raise Overrun


def charge_call(meter: Meter, amount: int, work: int) -> None:
    """Charge one step of this cost and this work."""
    total = meter.cost = meter.cost + amount
    # Work that costs nothing brings the fuse nearer, and cost that is no work pushes it away: one comparison serves
    # both limits in the steps that have nothing but cost, which are nearly all.
    fuse = meter.fuse = meter.fuse + amount - work
    limit = meter.limit = fuse if fuse < meter.cap else meter.cap
    if total > limit:
        raise Overrun


def walk(meter: Meter, values: Iterable[T], count: int, price: int = 1) -> Iterator[T]:
    """Yield ``count`` values, and charge for each before."""
    source = iter(values)
    while count > 0:
        batch = min(count, BATCH)
        # Before the batch: a list of a million elements must not be walked before the charge stops it.
        charge_work(meter, batch * price)
        yield from islice(source, batch)
        count -= batch
