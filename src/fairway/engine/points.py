"""The extension points, as narrow protocols. A plugin is any object with a name and some of these methods.

Twelve points are those of kube-scheduler. Three more serve Fairway: PreEnqueue keeps workloads out of the queue,
Prioritize selects the Score plugins of one workload, and Choose picks among the ranked hosts. The other protocols are
optional *forms* of a point, which ``forms`` finds when a profile is built.

Filter, Score and NormalizeScore have two forms. The per-host form evaluates one row with a reason;
every plugin has it. The whole-fleet form evaluates all candidates with array operations; a plugin adds it for large
fleets. Both must agree.

The points up to Choose are pure: they read the context and return values. Reserve and Permit change only
the plugin's own state. PreBind, Bind and PostBind may do I/O and are therefore coroutines. From Reserve on, plugins get
hosts by name and uid and no snapshot: by then its rows may belong to other hosts.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairway.engine.state import CycleState
from fairway.engine.status import Status
from fairway.engine.workload import HostKey, Workload
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.column import NEVER, Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot

Amounts = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Scores = npt.NDArray[np.int64]


class CycleWorkload(Protocol):
    """What a scheduling cycle reads of a workload."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def wanted(self) -> int | None:
        """Number of hosts; None for all feasible ones."""


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a pure extension point."""

    snapshot: Snapshot[Any]
    workload: CycleWorkload
    now: Micros
    state: CycleState = field(default_factory=CycleState)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """The input of the extension points from Reserve on."""

    workload: Workload[Any]
    hosts: tuple[HostKey, ...]
    """The selected hosts, best first; of a workload whose hosts may change, those that it does not have yet."""
    started: Micros
    """When the commit began."""
    removed: tuple[HostKey, ...] = ()
    """Hosts that the workload gives up once this commit is bound."""
    state: CycleState = field(default_factory=CycleState)
    """What the plugins of the cycle wrote. What one step leaves for a later one is in here, too: it ends with the
    commit, whereas an index by workload would have to be emptied."""


NEVER_CHANGES: Micros = int(NEVER)


class Raw(NamedTuple):
    """Raw scores of a plugin; ``present`` is False where a host has none, and None if all have one."""

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
    """What a plugin's results depend on besides the workload."""

    cells: frozenset[Key] = frozenset()
    """Columns whose cell of a host affects the result for that host."""
    shared: frozenset[Key] = frozenset()
    """Keys whose change affects the results for all hosts."""
    anything: bool = False
    """Whether any change may affect a result, whatever the column."""
    helps: Mapping[Key, Direction] | None = None
    """Directions in which a change of a column may turn a rejection into an approval; any, where not listed."""


@runtime_checkable
class Reader(Plugin, Protocol):
    """A plugin whose results can be cached between cycles. Other plugins run in every cycle."""

    def reads(self, context: Context, /) -> Reads: ...

    def basis(self, context: Context, /) -> object:
        """Shared input of all results, such as a maximum; an equal basis means equal results."""

    def until(self, context: Context, rows: Rows, /) -> Micros:
        """The first time at which the result for one of these rows changes without a change of the fleet."""


class Timeless:
    """A plugin whose results are independent between hosts and of time."""

    def basis(self, _context: Context, /) -> object:
        return None

    def until(self, _context: Context, _rows: Rows, /) -> Micros:
        return NEVER_CHANGES


def is_timeless(kind: type[Any]) -> bool:
    """Return whether the plugin class inherits ``until`` of Timeless."""
    return getattr(kind, "until", None) is Timeless.until


@runtime_checkable
class SharedReader(Reader, Protocol):
    """A plugin that keeps sums over many hosts in the CycleState, such as the pods of each zone, and can update them
    instead of counting again."""

    def update_shared(self, context: Context, generation: int, /) -> Sequence[int] | None:
        """Write the CycleState again, after columns that the plugin reads as shared changed since a generation.

        Return the rows for which its results may be different now; None if they may be for all. Values in the state
        must be replaced, not modified.
        """


@runtime_checkable
class FullCycles(Plugin, Protocol):
    """A plugin whose results for one host cost as much as those for all: no cycle is an incremental one."""

    def full_cycles(self) -> bool:
        """Return True; the presence of the method counts."""


@runtime_checkable
class Signer(Plugin, Protocol):
    """A plugin that says what its results depend on of a workload, so that alike workloads share them."""

    def signature(self, workload: CycleWorkload, /) -> Hashable | None:
        """Workloads with equal signatures get equal results and equal values in the CycleState.

        None if the results of this workload cannot be shared: each of its cycles is a full one.
        """


@runtime_checkable
class Waker(Plugin, Protocol):
    def wake(self, context: Context, /) -> Micros | None:
        """When a host of the workload stops being feasible by time alone."""


SortKey = tuple[int, ...]


@runtime_checkable
class QueueSort(Plugin, Protocol):
    def sort_key(self, workload: Workload[Any], queued: Micros, /) -> SortKey:
        """Return the key by which active workloads are ordered, lowest first.

        ``queued`` is the time of the last failed attempt, or of the first arrival. The result must not depend on
        anything else: it is computed once.
        """


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    def pre_enqueue(self, workload: Workload[Any], /) -> Status:
        """Return whether the workload may be tried at all; any status but Success keeps it out of the queue."""


@runtime_checkable
class GateReader(PreEnqueue, Protocol):
    """A PreEnqueue plugin that is only called again when a column that it reads changed."""

    def gate_reads(self, workload: Workload[Any], /) -> Reads: ...


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        """Return the rows to consider; None for all.

        Skip leaves out the plugin's Filter, too. It must depend on the workload only.
        """


@runtime_checkable
class RowPreFilter(PreFilter, Protocol):
    """A PreFilter plugin that gives a reason for each row. Without it, a workload has only full cycles."""

    def admits(self, context: Context, row: int, /) -> Status:
        """Return the result of ``pre_filter`` for one row."""


@runtime_checkable
class Filter(Plugin, Protocol):
    def filter(self, context: Context, row: int, /) -> Status: ...


@runtime_checkable
class FleetFilter(Filter, Protocol):
    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        """Return the candidates that pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """Hosts on which a PostFilter plugin can make room, and how."""

    rows: Sequence[int]
    plan: object = None
    """What the plugin's controller carries out, for example the workloads to evict."""


NOMINATION: Final = "fairway.dev/nomination"
"""Key of the cycle state under which a PostFilter plugin writes its ``Nomination`` before it returns Success."""


@runtime_checkable
class GroupedFilter(FleetFilter, Protocol):
    """A filter that explains the rejections of a whole fleet at once."""

    def group_rejections(self, context: Context, rows: Rows, /) -> Sequence[tuple[Status, Rows]]:
        """Divide rows that the filter rejects by their status, which must be that of ``filter``."""


@runtime_checkable
class PostFilter(Plugin, Protocol):
    def post_filter(self, context: Context, rejections: Mapping[int, Status], /) -> Status:
        """Called when no host is left. Success means that room can be made; the workload then waits for it.

        It changes nothing itself, because a what-if calls it, too. What is to be done is written to the cycle state as
        a ``Nomination``; the scheduler returns it to its caller, which keeps the room for the workload by an earmark in
        the ledger.

        ``rejections`` are ``fairway.engine.rejections.Rejections``, which also answer what-ifs.
        """


@runtime_checkable
class PreScore(Plugin, Protocol):
    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        """Prepare scoring, for example by counting; may warn. ``rows`` are the candidates, ascending.

        Skip leaves out the plugin's Score. A Reader skips for as long as the workload, the columns that it reads as
        shared and its basis are the same.
        """


@runtime_checkable
class HostWarnings(PreScore, Protocol):
    """A plugin that warns only about single hosts, so that warnings can be updated host by host."""

    def warned_rows(self, context: Context, rows: Rows, /) -> Rows:
        """Return the rows to warn about."""

    def warning(self, context: Context, rows: Rows, /) -> Status:
        """Return the status of ``pre_score`` for warnings about these rows."""


@runtime_checkable
class FilterWarnings(Filter, Protocol):
    """A filter that warns about some of the hosts it rejects."""

    def warned_rows(self, context: Context, rows: Rows, /) -> Rows:
        """Return the rows to warn about, among these rejected ones."""

    def warning(self, context: Context, rows: Rows, /) -> Status:
        """Return the warning about these rows, if any."""


@runtime_checkable
class Remarks(Plugin, Protocol):
    """A prioritizer that annotates scores."""

    def remark(self, context: Context, row: int, /) -> str:
        """Return a note about this host's score; empty for none."""

    def knows(self, context: Context, rows: Rows, /) -> Mask:
        """Return which hosts have a valid score. The default counts for the others."""


@runtime_checkable
class Score(Plugin, Protocol):
    def score(self, context: Context, row: int, /) -> int | float | None:
        """Return a raw score; None if the host has none."""


@runtime_checkable
class FleetScore(Score, Protocol):
    def score_fleet(self, context: Context, rows: Rows, /) -> Raw: ...


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    """Normalises raw scores. Without it raw scores are final and must be integers."""

    def normalize(self, raw: float, extent: Extent, /) -> int: ...
    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores: ...


class Weighted(NamedTuple):
    """A Score plugin and its weight."""

    plugin: Score
    weight: int = 1
    missing: int = 0
    """The score of hosts for which the plugin has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorers:
    """The Score plugins that a profile can use."""

    defaults: tuple[Weighted, ...] = ()
    """Those that the profile enables, with their weights."""
    registered: Mapping[str, Score] = field(default_factory=dict)
    """All Score plugins of the profile's registry, by name."""
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Why a registered Score plugin cannot be created, by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prioritization:
    """The Score plugins of one workload, with their weights."""

    scores: tuple[Weighted, ...] = ()
    refusal: Status | None = None
    """Why the workload cannot be scored. Reported once filters have run, before any score is computed."""
    calls: Any = field(default=None, init=False, repr=False)
    """A tuple of ``forms.ScoreCalls``, once the engine has prepared them."""


@runtime_checkable
class Prioritize(Plugin, Protocol):
    def prioritize(self, context: Context, scorers: Scorers, /) -> Prioritization:
        """Return which plugins score the workload. It must depend on the workload only.

        Called first in a cycle. Without such a plugin, the profile's own Score plugins score every workload. Return
        the same object for the same workload: the engine prepares the calls of each object once.
        """


@runtime_checkable
class Choose(Plugin, Protocol):
    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        """Pick among the feasible rows, which are ascending, by their totals. Return the picked rows, best first.

        None leaves the choice to the next plugin, at last to ``BestHosts``. It must depend on the workload only.
        """


@runtime_checkable
class ChoiceExplainer(Choose, Protocol):
    def explain_choice(
        self, context: Context, chosen: Rows, rows: Rows, totals: Scores, /
    ) -> Callable[[int], str | None]:
        """Return a function that says why the choice skipped a feasible row; None if its rank is the reason."""


@runtime_checkable
class Reserve(Plugin, Protocol):
    def reserve(self, context: CommitContext, /) -> Status: ...
    def unreserve(self, context: CommitContext, /) -> None:
        """Undo ``reserve``. It is also called when ``reserve`` was not, and more than once; it must not fail."""


@runtime_checkable
class Releases(Reserve, Protocol):
    """A Reserve plugin that names the columns which ``unreserve`` changes, so that only their readers wake."""

    def releases(self, context: CommitContext, /) -> Mapping[Key, Direction]: ...


@runtime_checkable
class CommitReader(Plugin, Protocol):
    """A Reserve or Permit plugin that declares what its rejections depend on. Without it, any change wakes."""

    def commit_reads(self, context: CommitContext, /) -> Reads: ...


@runtime_checkable
class Permit(Plugin, Protocol):
    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        """Approve, deny, or wait for at most the returned time; None for the longest wait."""


@runtime_checkable
class PreBind(Plugin, Protocol):
    async def pre_bind(self, context: CommitContext, /) -> Status: ...


@runtime_checkable
class LongPreBind(PreBind, Protocol):
    """A PreBind plugin that may wait for other programs, such as provisioners of volumes: it keeps no other workload
    from being bound meanwhile. It checks the leadership itself before each write, and ends when it is cancelled."""

    def has_pre_bind(self, context: CommitContext, /) -> bool:
        """Return whether ``pre_bind`` has anything to do. Otherwise it is not called."""


DECISION: Final = "fairway.dev/decision"
"""Key of the commit's state under which Bind plugins find the decision in the form that their kind of work writes."""


@runtime_checkable
class Bind(Plugin, Protocol):
    async def bind(self, context: CommitContext, /) -> Status:
        """Bind the workload. The first plugin that does not return Skip decides.

        Return a status only if it is certain. Raise if the request may have succeeded, as after a time-out: the hub is
        then read before anything is undone.
        """


@runtime_checkable
class PostBind(Plugin, Protocol):
    async def post_bind(self, context: CommitContext, /) -> None: ...


EXTENSION_POINTS: Mapping[str, type[Any]] = {
    point.__name__: point
    for point in (
        PreEnqueue,
        QueueSort,
        Prioritize,
        PreFilter,
        Filter,
        PostFilter,
        PreScore,
        Score,
        NormalizeScore,
        Choose,
        Reserve,
        Permit,
        PreBind,
        Bind,
        PostBind,
    )
}
"""By name, in the order in which they are called."""
