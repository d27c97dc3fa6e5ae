"""The twelve extension points, as narrow protocols. A plugin is any object with a name and some of these methods.

Filter, Score and NormalizeScore have two forms. The per-host form answers for one row and is the one that
explains itself; every plugin has it. The whole-fleet form answers for all candidates with array operations; a
plugin adds it where fleets are large. Both must agree.

The points up to NormalizeScore are pure: they read the context and return values. Reserve and Permit change only
the plugin's own books. PreBind, Bind and PostBind may do I/O and are therefore coroutines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairway.engine.state import CycleState
from fairway.engine.status import Status
from fairway.fleet.bitmap import Bits, Mask, Rows
from fairway.fleet.column import NEVER, Key
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot

Amounts = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Scores = npt.NDArray[np.int64]


class Workload(Protocol):
    """What is placed."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def wanted(self) -> int | None:
        """How many hosts; None for all that fit."""


@dataclass(frozen=True, slots=True)
class Context:
    """All a pure extension point may look at."""

    snapshot: Snapshot
    workload: Workload
    now: Micros
    state: CycleState = field(default_factory=CycleState)


NEVER_CHANGES: Micros = int(NEVER)


class Raw(NamedTuple):
    """One plugin's raw scores for some rows; where ``present`` is False the host has none. None: all have."""

    values: Amounts
    present: Mask | None = None


class Extent(NamedTuple):
    """Lowest and highest raw score among the candidates."""

    low: float
    high: float


@runtime_checkable
class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Reads:
    """What a plugin's answers depend on beside the workload."""

    cells: frozenset[Key] = frozenset()
    """Columns of which a host's answer reads that host's cell."""
    shared: frozenset[Key] = frozenset()
    """Things whose change means new answers for every host."""
    anything: bool = False
    """Whether any change of a host may mean a new answer for it, whatever the columns."""


@runtime_checkable
class Reader(Plugin, Protocol):
    """A plugin whose answers may be kept from one cycle to the next. Others are asked anew every time."""

    def reads(self, context: Context, /) -> Reads: ...

    def basis(self, context: Context, /) -> object:
        """What the answers for all hosts have in common, such as a maximum; equal basis, equal answers."""

    def until(self, context: Context, rows: Rows, /) -> Micros:
        """When an answer for one of these rows changes with nothing but time: the first moment it is different."""


class Timeless:
    """For readers whose answers have nothing in common between hosts and do not change with time."""

    def basis(self, _context: Context, /) -> object:
        return None

    def until(self, _context: Context, _rows: Rows, /) -> Micros:
        return NEVER_CHANGES


@runtime_checkable
class Waker(Plugin, Protocol):
    def wake(self, context: Context, /) -> Micros | None:
        """When a host that holds the workload loses the right to it by time alone."""


@runtime_checkable
class QueueSort(Plugin, Protocol):
    def less(self, first: Workload, second: Workload, /) -> bool:
        """Whether the first is to be placed before the second."""


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        """Which rows are worth looking at; None for all of them."""

    def admits(self, context: Context, row: int, /) -> Status:
        """The same for one row."""


@runtime_checkable
class Filter(Plugin, Protocol):
    def filter(self, context: Context, row: int, /) -> Status: ...


@runtime_checkable
class FleetFilter(Filter, Protocol):
    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        """The rows among the candidates that pass."""


@runtime_checkable
class PostFilter(Plugin, Protocol):
    def post_filter(self, context: Context, rejections: Mapping[int, Status], /) -> Status:
        """Called when no host is left: may make room. Success means: try again soon."""


@runtime_checkable
class PreScore(Plugin, Protocol):
    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        """Prepares scoring, for example by counting; may warn. ``rows`` are the candidates, ascending."""


@runtime_checkable
class Cautious(PreScore, Protocol):
    """A plugin whose only warnings are about single hosts, so that they can be followed host by host."""

    def doubtful(self, context: Context, rows: Rows, /) -> Rows:
        """Those of the rows that give reason to warn."""

    def caution(self, context: Context, rows: Rows, /) -> Status:
        """What ``pre_score`` answers when these are the doubtful ones."""


@runtime_checkable
class CautiousFilter(Filter, Protocol):
    """A filter that warns of some of those it turns away, host by host."""

    def doubtful(self, context: Context, rows: Rows, /) -> Rows:
        """Those of the rows, all of which it turned away, that give reason to warn."""

    def caution(self, context: Context, rows: Rows, /) -> Status:
        """The warning about these, if there are any."""


@runtime_checkable
class Remarks(Plugin, Protocol):
    """A prioritizer whose scores do not always speak for themselves."""

    def remark(self, context: Context, row: int, /) -> str:
        """What is to be said of this host's score; empty for nothing."""

    def knows(self, context: Context, rows: Rows, /) -> Mask:
        """Which hosts have a score that counts. For the others a default counts, whatever the number."""


@runtime_checkable
class Score(Plugin, Protocol):
    def score(self, context: Context, row: int, /) -> int | float | None:
        """A raw score; None when nothing is known of this host."""


@runtime_checkable
class FleetScore(Score, Protocol):
    def score_fleet(self, context: Context, rows: Rows, /) -> Raw: ...


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    """Turns raw scores into comparable ones. Without it raw scores are final and must be whole numbers."""

    def normalize(self, raw: float, extent: Extent, /) -> int: ...
    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores: ...


@runtime_checkable
class Reserve(Plugin, Protocol):
    def reserve(self, context: Context, row: int, /) -> Status: ...
    def unreserve(self, context: Context, row: int, /) -> None:
        """Must not fail, and must not mind being called when ``reserve`` never was."""


@runtime_checkable
class Permit(Plugin, Protocol):
    def permit(self, context: Context, row: int, /) -> tuple[Status, timedelta | None]:
        """Approve, deny, or wait for at most so long."""


@runtime_checkable
class PreBind(Plugin, Protocol):
    async def pre_bind(self, context: Context, hosts: Sequence[str], /) -> Status: ...


@runtime_checkable
class Bind(Plugin, Protocol):
    async def bind(self, context: Context, hosts: Sequence[str], /) -> Status:
        """The first plugin that does not answer Skip has bound the workload."""


@runtime_checkable
class PostBind(Plugin, Protocol):
    async def post_bind(self, context: Context, hosts: Sequence[str], /) -> None: ...


EXTENSION_POINTS: Mapping[str, type[Any]] = {
    point.__name__: point
    for point in (
        QueueSort,
        PreFilter,
        Filter,
        PostFilter,
        PreScore,
        Score,
        NormalizeScore,
        Reserve,
        Permit,
        PreBind,
        Bind,
        PostBind,
    )
}


_FORMS: tuple[type[Any], ...] = (
    *EXTENSION_POINTS.values(),
    FleetFilter,
    FleetScore,
    Cautious,
    CautiousFilter,
    Remarks,
    Reader,
    Waker,
)
_KNOWN: dict[type[Any], frozenset[str]] = {}


def points_of(kind: type[Any]) -> frozenset[str]:
    """Names of the extension points and forms a plugin class implements."""
    found = _KNOWN.get(kind)
    if found is None:
        found = _KNOWN[kind] = frozenset(
            form.__name__ for form in _FORMS if all(hasattr(kind, name) for name in _methods(form))
        )
    return found


def _methods(form: type[Any]) -> list[str]:
    return [
        name for base in form.__mro__ for name in vars(base) if not name.startswith("_") and name != "name"
    ]
