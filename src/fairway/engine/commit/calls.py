"""Calls of Reserve, Unreserve and Permit plugins, so that a fault of one is charged to it and contained."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from fairway.engine.dependencies import Event
from fairway.engine.fault import Fault, nonsense, raised
from fairway.engine.points import (
    Bind,
    CommitContext,
    CommitReader,
    Permit,
    Plugin,
    PostBind,
    PreBind,
    Reads,
    Releases,
    Reserve,
)
from fairway.engine.profile import OnFault, Profile
from fairway.engine.queue import Rejection
from fairway.engine.status import OK, Code, Status, failed
from fairway.engine.workload import WorkloadKey
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction

ACTIVATE: Final = "fairway.dev/activate"
"""Key of the cycle state under which plugins write a frozenset of workloads to activate when this one is placed."""
NO_BINDER: Final = "profile {name}: at least one Bind plugin is required"
GAVE_BACK: Final = "{key} gave back its place on {hosts}"
MOST_FAULTS: Final = 1000
EVERYTHING = Reads(anything=True)

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class CommitPlugins:
    """The plugins of a profile from Reserve on, in order."""

    binds: tuple[Bind, ...]
    reserves: tuple[Reserve, ...] = ()
    permits: tuple[Permit, ...] = ()
    pre_binds: tuple[PreBind, ...] = ()
    post_binds: tuple[PostBind, ...] = ()
    profile: str = ""
    on_fault: OnFault = OnFault.FAIL

    def __post_init__(self) -> None:
        if not self.binds:
            raise ValueError(NO_BINDER.format(name=self.profile))

    @classmethod
    def of(cls, profile: Profile) -> "CommitPlugins":
        return cls(
            binds=profile.binds,
            reserves=profile.reserves,
            permits=profile.permits,
            pre_binds=profile.pre_binds,
            post_binds=profile.post_binds,
            profile=profile.name,
            on_fault=profile.on_fault,
        )


class Calls:
    def __init__(self, plugins: CommitPlugins) -> None:
        self._plugins = plugins
        self._faults: deque[Fault] = deque(maxlen=MOST_FAULTS)

    def take_faults(self) -> list[Fault]:
        faults = list(self._faults)
        self._faults.clear()
        return faults

    @property
    def skips(self) -> bool:
        """Whether a commit continues without a faulty plugin."""
        return self._plugins.on_fault is OnFault.SKIP

    def charge(self, fault: Fault) -> Status:
        """Record a fault. Return an error, or OK if the commit continues without the plugin."""
        self._faults.append(fault)
        return OK if self.skips else failed(fault.reason, plugin=fault.plugin)

    def reserve(self, plugin: Reserve, context: CommitContext) -> Status:
        try:
            return self.checked(plugin, "Reserve", plugin.reserve(context))
        except Exception as error:
            return self.charge(raised(plugin.name, "Reserve", error))

    def unreserve_all(self, context: CommitContext) -> None:
        """Call Unreserve of all plugins in exact reverse order, whether or not their Reserve was called."""
        for plugin in reversed(self._plugins.reserves):
            try:
                plugin.unreserve(context)
            except Exception as error:
                self.charge(raised(plugin.name, "Unreserve", error))

    def permit(self, plugin: Permit, context: CommitContext) -> tuple[Status, timedelta | None]:
        try:
            result: object = plugin.permit(context)
        except Exception as error:
            return self.charge(raised(plugin.name, "Permit", error)), None
        match result:
            case (Status() as status, (None | timedelta()) as wait):
                return status, wait
        return self.charge(nonsense(plugin.name, "Permit", result, expected="a Status and a time")), None

    def checked(self, plugin: Plugin, point: str, result: object) -> Status:
        if isinstance(result, Status):
            return result
        return self.charge(nonsense(plugin.name, point, result, expected="a Status"))

    def rejection(self, plugin: Plugin, context: CommitContext, status: Status) -> Rejection:
        return Rejection(
            plugin=plugin.name,
            reads=Reads() if status.code is Code.MISCONFIGURED else self.reads(plugin, context),
            reasons=status.reasons,
            pending=status.code is Code.PENDING,
        )

    def reads(self, plugin: Plugin, context: CommitContext) -> Reads:
        """Return what a rejection depends on; everything if the plugin does not say, or fails to."""
        if not isinstance(plugin, CommitReader):
            return EVERYTHING
        return self._contained(plugin, Reads, lambda: plugin.commit_reads(context)) or EVERYTHING

    def released(self, context: CommitContext, *, excluded: WorkloadKey | None) -> Event:
        """Return the event of giving back what the Reserve plugins hold; anything, unless all name their columns."""
        columns: dict[Key, Direction] = {}
        wildcard = not self._plugins.reserves
        for plugin in self._plugins.reserves:
            named = self._released_columns(plugin, context)
            wildcard = wildcard or named is None
            columns.update(named or {})
        names = frozenset(host.name for host in context.hosts)
        label = GAVE_BACK.format(key=context.workload.key, hosts=", ".join(sorted(names)))
        return Event(label=label, hosts=names, columns=columns, wildcard=wildcard, excluded=excluded)

    def _released_columns(self, plugin: Reserve, context: CommitContext) -> dict[Any, Any] | None:
        if not isinstance(plugin, Releases):
            return None
        return self._contained(plugin, dict, lambda: dict(plugin.releases(context)))

    def activations(self, context: CommitContext) -> frozenset[WorkloadKey]:
        found = context.state.find(ACTIVATE, object)
        return found if isinstance(found, frozenset) else frozenset()

    def _contained(self, plugin: Plugin, kind: type[ResultT], call: Callable[[], object]) -> ResultT | None:
        try:
            result = call()
        except Exception as error:
            self.charge(raised(plugin.name, "Reserve", error))
            return None
        if isinstance(result, kind):
            return result
        self.charge(nonsense(plugin.name, "Reserve", result, expected=kind.__name__))
        return None
