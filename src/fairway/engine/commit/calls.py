"""Calls of Reserve, Unreserve and Permit plugins, so that a fault of one is charged to it and contained."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from fairway.engine.dependencies import Event, event_of
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
from fairway.engine.queue.plugins import EVERYTHING
from fairway.engine.status import OK, Code, Status, failed
from fairway.engine.workload import WorkloadKey
from fairway.hosts.direction import Direction
from fairway.hosts.journal import NOTHING, Change

ACTIVATE: Final = "fairway.dev/activate"
"""Key of the cycle state under which plugins write a frozenset of workloads to activate when this one is placed."""
NO_BINDER: Final = "profile {name}: at least one Bind plugin is required"
TOOK: Final = "{key} took a place on {hosts}"
GAVE_BACK: Final = "{key} gave back its place on {hosts}"
MOST_FAULTS: Final = 1000

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
    """``changes`` returns what changed in the table of hosts since its last call."""

    def __init__(self, plugins: CommitPlugins, changes: Callable[[], Change] = lambda: NOTHING) -> None:
        self._plugins = plugins
        self._changes = changes
        # Bounded: a plugin that fails in every commit must not fill the memory if its faults are not collected.
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
        # As in kube-scheduler, also those whose Reserve was not called: a plugin that failed may have done half of
        # its work.
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

    def has_pre_bind(self, plugin: PreBind, context: CommitContext) -> bool:
        # Checking a protocol takes several microseconds, for each workload.
        has_pre_bind = getattr(plugin, "has_pre_bind", None)
        if has_pre_bind is None:
            return True
        try:
            return bool(has_pre_bind(context))
        except Exception as error:
            self.charge(raised(plugin.name, "PreBind", error))
            return True

    def checked(self, plugin: Plugin, point: str, result: object) -> Status:
        if isinstance(result, Status):
            return result
        return self.charge(nonsense(plugin.name, point, result, expected="a Status"))

    def rejection(self, plugin: Plugin, context: CommitContext, status: Status) -> Rejection:
        return Rejection(
            plugin=plugin.name,
            # No change of a host repairs a configuration. Only an update of the workload, or the flush, tries it
            # again.
            reads=Reads() if status.code is Code.MISCONFIGURED else self.reads(plugin, context),
            reasons=status.reasons,
            pending=status.code is Code.PENDING,
        )

    def reads(self, plugin: Plugin, context: CommitContext) -> Reads:
        """Return what a rejection depends on; everything if the plugin does not declare it, or fails to."""
        if not isinstance(plugin, CommitReader):
            return EVERYTHING
        return self._contained(plugin, Reads, lambda: plugin.commit_reads(context)) or EVERYTHING

    def taken(self, context: CommitContext) -> Event | None:
        """Return the event of what the Reserve plugins changed in the table; None if they changed nothing there. Others
        may wait for it, such as pods with affinity to this one."""
        change = self._changes()
        if not change.columns and not change.added:
            return None
        label = _label(TOOK, context)
        return replace(event_of(change, label=label), excluded=context.workload.key)

    def released(self, context: CommitContext, *, excluded: WorkloadKey | None) -> Event:
        """Return the event of giving back what the Reserve plugins hold: what they changed in the table, and the
        columns that they name; anything, unless all name theirs."""
        change = self._changes()
        columns = dict(change.columns)
        # Without Reserve plugins the place that is free again is not a column, so nothing says which workloads wait
        # for it.
        wildcard = not self._plugins.reserves
        for plugin in self._plugins.reserves:
            named = self._released_columns(plugin, context)
            wildcard = wildcard or named is None
            for key, direction in (named or {}).items():
                columns[key] = columns.get(key, Direction.NONE) | direction
        return Event(
            label=_label(GAVE_BACK, context),
            # A Reserve plugin may keep its promises outside of the table: then no host changed there, but these have
            # room again.
            hosts=frozenset([*change.hosts, *(host.name for host in context.hosts)]),
            columns=columns,
            added=change.added,
            wildcard=wildcard,
            excluded=excluded,
        )

    def _released_columns(self, plugin: Reserve, context: CommitContext) -> dict[Any, Any] | None:
        if not isinstance(plugin, Releases):
            return None
        return self._contained(plugin, dict, lambda: dict(plugin.releases(context)))

    def activations(self, context: CommitContext) -> frozenset[WorkloadKey]:
        keys = context.state.find(ACTIVATE, object)
        return keys if isinstance(keys, frozenset) else frozenset()

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


def _label(text: str, context: CommitContext) -> str:
    hosts = ", ".join(sorted(host.name for host in context.hosts))
    return text.format(key=context.workload.key, hosts=hosts)
