"""Commit changes of decisions with the plugins from Reserve on. No I/O.

A decision changes again and again, so what is committed is a change: the clusters that the Placement does not have yet
are reserved and permitted, and those that it gives up are unreserved once the new decision is written. A change that
only gives up clusters is not delayed: it begins with Bind. Until a change is written, the earlier decision stays.

The hub has the decisions, so that reservations are not persisted: at the start of a term the plugins reserve what the
hub shows.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.engine.commit import CommitMachine, CommitPlugins, Phase
from fairway.engine.commit.instructions import (
    Activate,
    Bound,
    Broadcast,
    Fail,
    Instruction,
    ReadBack,
    Reject,
    RunBind,
    RunPostBind,
    RunPreBind,
)
from fairway.engine.commit.machine import Commit
from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.fault import Fault
from fairway.engine.points import Bind, CommitContext
from fairway.engine.profile import Profile
from fairway.engine.queue import Rejection
from fairway.engine.status import Status
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import SECOND, Micros, from_micros
from fairway.workloads.placement.selection import Selection
from fairway.workloads.placement.workload import PlacementWorkload
from kubewire.api.meta import format_time

CAUSE: Final = "fairway.dev/bind-fault"
"""Key of the commit's state under which a Bind plugin whose result is unknown leaves its fault."""
ACTIVATED: Final = "activated by a plugin"
WAITING: Final = "waiting until {time} for the permit of plugin {plugin} for {clusters}{reasons}"
REJECTED: Final = "plugin {plugin} rejects {clusters}{reasons}; the last decision is kept"
FAILED: Final = "{error}; the last decision is kept"
SHORTEST_WAIT: Final[Micros] = SECOND
"""A permit that waits for less is asked again after this time."""
CLUSTERS_NAMED: Final = 10
"""Clusters that a message names."""

Owner = tuple[str, str]
Run = RunPreBind | RunBind | RunPostBind | ReadBack
"""What the caller carries out next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Permit plugins wait. They are asked again when the placement is decided again, at the latest at the deadline."""

    message: str
    deadline: Micros
    depends: Dependencies
    """Changes after which the plugins are to be asked again."""
    new: bool
    """Whether the wait begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Reserve or Permit plugins rejected the change."""

    message: str
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The commit ended with an error, which is retried."""

    message: str


Step = Run | Waiting | Rejected | Failed
"""The next step of a commit."""


def is_committed(profile: Profile) -> bool:
    """Whether a profile has plugins from Reserve on."""
    return any((profile.reserves, profile.permits, profile.pre_binds, profile.binds, profile.post_binds))


class PlacementCommits:
    """``binder`` writes decisions unless a Bind plugin of the profile does.

    ``broadcast`` gets an event when clusters are given back whose columns the Reserve plugins name. If they name none,
    ``wake`` gets the placements that were rejected, and the reason; it also gets those that plugins want to be decided.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        binder: Bind,
        broadcast: Callable[[Event], None],
        wake: Callable[[Iterable[Owner], str], None],
    ) -> None:
        plugins = CommitPlugins.of(replace(profile, binds=(*profile.binds, binder)))
        self._binder, self._reserves = binder, bool(profile.reserves)
        self._broadcast, self._wake = broadcast, wake
        # A late write is observed like any other: the clusters that it names are then reserved.
        self._machine = CommitMachine(plugins, late_bind=0)
        self._held: dict[Owner, dict[str, HostKey]] = {}
        """Reserved clusters by name, of each placement."""
        self._workloads: dict[Owner, PlacementWorkload] = {}
        """Last committed, or reserved for."""
        self._rejected: set[Owner] = set()
        self._faults: list[Fault] = []

    # Terms

    def begin(
        self, placed: Mapping[PlacementWorkload, tuple[HostKey, ...]], *, now: Micros
    ) -> dict[Owner, list[Status]]:
        """Start a term: reserve what the hub shows. Return the refusals, which change nothing."""
        refusals = {
            workload.owner: self._adopt(workload, hosts, now=now)
            for workload, hosts in placed.items()
            if hosts
        }
        return {owner: statuses for owner, statuses in refusals.items() if statuses}

    def end(self) -> None:
        """End a term: give up everything. The next leader reserves what the hub shows."""
        self._machine.clear()
        for owner in tuple(self._held):
            self._release(owner)
        self._workloads.clear()
        self._rejected.clear()

    # Decisions

    def review(self, selection: Selection, *, clusters_on_hub: Collection[str], now: Micros) -> Step | None:
        """Start, continue or give up the commit of a decision; None if nothing is to be committed.

        ``clusters_on_hub`` are the clusters of the placement's decisions on the hub.
        """
        workload, owner = selection.workload, selection.workload.owner
        held = self._held.get(owner, {})
        # The hub shows clusters that the plugins do not hold: a write whose reply was lost took effect, or another
        # process wrote the decision. They run already, so they are reserved without asking for permits.
        late = tuple(
            host for host in selection.hosts if host.name in clusters_on_hub and host.name not in held
        )
        if late:
            self._adopt(workload, late, now=now)
            held = self._held.get(owner, {})
        wanted = {host.name: host for host in selection.hosts}
        # A plugin that refuses clusters which the hub shows is asked again, and delays no other change.
        added = tuple(
            host for host in selection.hosts if held.get(host.name, host if host in late else None) != host
        )
        removed = tuple(host for host in held.values() if wanted.get(host.name) != host)
        commit = self._find(owner)
        self._rejected.discard(owner)
        self._workloads[owner] = workload
        if commit is not None:
            # A placement is decided again while its permits wait, because a waiting cluster may fail. Only if the
            # result is the same do the permits and their deadlines remain.
            if commit.phase is Phase.PERMIT and _is_same(commit, workload, added, removed):
                return self._next(commit, self._machine.ask_again(workload.key, now=now), new=False)
            self._abandon(commit)
        if not added and not removed:
            return None
        context = CommitContext(
            workload=workload, hosts=added, removed=removed, started=now, state=selection.state
        )
        # Removals need no permit: a cluster that failed, or that a taint evicts from, must leave at once.
        start = self._machine.start if added else self._machine.start_binding
        instructions = start(context, now=now)
        # Nothing else was decided since the plugins reserved, so the release wakes no placement.
        if isinstance(instructions[-1] if instructions else None, Reject | Fail):
            instructions = [
                instruction for instruction in instructions if not isinstance(instruction, Broadcast)
            ]
        return self._next(Commit(context, since=now), instructions, new=True)

    def abandon(self, owner: Owner) -> None:
        """Give up the commit of a placement that is not decided any more."""
        commit = self._find(owner)
        if commit is not None:
            self._abandon(commit)

    def delete(self, owner: Owner) -> None:
        """Give back everything that a deleted placement has."""
        self.abandon(owner)
        self._rejected.discard(owner)
        if owner in self._held:
            self._give_back(self._release(owner), owner)
        self._workloads.pop(owner, None)

    def _find(self, owner: Owner) -> Commit | None:
        workload = self._workloads.get(owner)
        return None if workload is None else self._machine.find(workload.key)

    def _abandon(self, commit: Commit) -> None:
        key = commit.context.workload.key
        self._perform(commit, self._machine.abandon(key))
        self._machine.give_up(key)  # a Bind that runs

    # Results of steps

    def finished(self, run: Run, result: object, *, now: Micros) -> Step | None:
        """Report the result of a step. Return the next one; None if the commit is complete, or was given up."""
        commit = self._machine.find(run.key)
        return self._next(commit, self._machine.finished(run.key, run.token, result, now=now))

    def failed(self, run: Run, error: Exception) -> Step | None:
        """Report that a step raised."""
        commit = self._machine.find(run.key)
        step = self._next(commit, self._machine.failed(run.key, run.token, error))
        if (
            isinstance(step, ReadBack)
            and commit is not None
            and self._faults
            and self._faults[-1].plugin != self._binder.name
        ):
            commit.context.state.write(CAUSE, self._faults[-1])
        return step

    def read_back(self, run: ReadBack, clusters_on_hub: Collection[str], *, now: Micros) -> Step | None:
        """Report which clusters the hub shows as decided."""
        commit = self._machine.find(run.key)
        if commit is None:
            return None
        cause = commit.context.state.find(CAUSE, Fault)
        commit.context.state.discard(CAUSE)
        added, removed = commit.context.hosts, commit.context.removed
        bound_hosts = tuple(host for host in added if host.name in clusters_on_hub)
        left = frozenset(host for host in removed if host.name in clusters_on_hub)
        # The write took effect if the hub shows an added cluster, or if none was added and all removed
        # ones are absent.
        bound = bound_hosts if bound_hosts or not (added or left) else None
        instructions = self._machine.read_back(run.key, run.token, bound, now=now)
        step = self._next(commit, instructions, left=left)
        if isinstance(step, Failed):
            self._hold(commit.context.workload).update((host.name, host) for host in bound_hosts)
            return step if cause is None else Failed(message=FAILED.format(error=cause))
        return step

    def give_up(self, key: WorkloadKey) -> None:
        """Forget a commit after an unexpected error."""
        self._machine.give_up(key)

    # For explanations

    def waiting(self, owner: Owner) -> tuple[str, ...]:
        """Return what a placement waits for."""
        commit = self._find(owner)
        return () if commit is None or commit.phase is not Phase.PERMIT else tuple(_waits(commit))

    def take_faults(self) -> tuple[Fault, ...]:
        """Return the faults of plugins since the last call."""
        self._collect()
        faults, self._faults = self._faults, []
        return tuple(fault for fault in faults if fault.plugin != self._binder.name)

    # Details

    def _collect(self) -> list[Fault]:
        faults = self._machine.take_faults()
        self._faults += faults
        return faults

    def _next(
        self,
        commit: Commit | None,
        instructions: list[Instruction],
        *,
        new: bool = False,
        left: frozenset[HostKey] = frozenset(),
    ) -> Step | None:
        """``left`` are clusters to give up that the hub still shows."""
        if commit is None:
            return None
        step = self._perform(commit, instructions, left=left)
        key = commit.context.workload.key
        waiting = self._machine.find(key)
        if step is not None or waiting is None or waiting.phase is not Phase.PERMIT or not waiting.waits:
            return step
        return Waiting(
            message="; ".join(_waits(waiting)),
            deadline=max(min(waiting.waits.values()), waiting.since + SHORTEST_WAIT),
            depends=self._machine.waits_for(key),
            new=new,
        )

    def _perform(
        self, commit: Commit, instructions: list[Instruction], *, left: frozenset[HostKey] = frozenset()
    ) -> Step | None:
        """Carry out what needs no I/O. Return what remains."""
        faults = self._collect()
        context: CommitContext = commit.context
        owner = (context.workload.namespace, context.workload.name)
        step: Step | None = None
        for instruction in instructions:
            match instruction:
                case Broadcast(event):
                    self._give_back(event, owner)
                case Activate(keys):
                    self._wake([(key.namespace, key.name) for key in sorted(keys)], ACTIVATED)
                case Bound():
                    self._bound(context, left)
                case Reject(_, rejections):
                    self._rejected.add(owner)
                    step = Rejected(message=_rejected(context, rejections), rejections=rejections)
                case Fail(_, error):
                    charged = (str(fault) for fault in faults if error == f"{fault.plugin}: {fault.reason}")
                    step = Failed(message=FAILED.format(error=next(charged, error)))
                case RunPreBind() | RunBind() | RunPostBind() | ReadBack():
                    step = instruction
                case _:
                    continue
        return step

    def _bound(self, context: CommitContext, left: frozenset[HostKey]) -> None:
        owner = (context.workload.namespace, context.workload.name)
        held = self._hold(context.workload)
        removed = tuple(host for host in context.removed if host not in left)
        for host in removed:
            del held[host.name]
        held.update((host.name, host) for host in context.hosts)
        if removed:
            given_back = self._machine.unreserve(replace(context, hosts=removed, removed=()))
            self._give_back(given_back.event, owner)

    def _give_back(self, event: Event, owner: Owner) -> None:
        """Wake placements that may use what was given back. A wildcard would have every placement decided again."""
        if not event.wildcard:
            self._broadcast(replace(event, excluded=WorkloadKey(*owner)))  # queued without uid
        elif self._reserves:
            self._wake(sorted(self._rejected - {owner}), event.label)

    def _hold(self, workload: Any) -> dict[str, HostKey]:
        self._workloads[workload.owner] = workload
        return self._held.setdefault(workload.owner, {})

    def _adopt(self, workload: PlacementWorkload, hosts: tuple[HostKey, ...], *, now: Micros) -> list[Status]:
        """Reserve clusters that the hub shows already, each on its own if a plugin refuses all. Return refusals."""
        context = CommitContext(workload=workload, hosts=hosts, started=now)
        refusals = self._machine.reserve(context)
        if not refusals:
            self._hold(workload).update((host.name, host) for host in hosts)
            return []
        # A plugin may have reserved some of them before it refused another: begin again, one by one.
        self._machine.unreserve(context)
        if len(hosts) == 1:
            return refusals
        return [status for host in hosts for status in self._adopt(workload, (host,), now=now)]

    def _release(self, owner: Owner) -> Event:
        held, workload = self._held.pop(owner), self._workloads[owner]
        context = CommitContext(workload=workload, hosts=tuple(held.values()), started=workload.created)
        return self._machine.unreserve(context).event


def _is_same(
    commit: Commit, workload: PlacementWorkload, added: tuple[HostKey, ...], removed: tuple[HostKey, ...]
) -> bool:
    context = commit.context
    return (
        context.workload is workload
        and set(context.hosts) == set(added)
        and set(context.removed) == set(removed)
    )


def _waits(commit: Commit) -> Iterable[str]:
    for plugin, deadline in commit.waits.items():
        yield WAITING.format(
            time=format_time(from_micros(deadline).replace(microsecond=0)),
            plugin=plugin,
            clusters=_names(commit.context.hosts),
            reasons=_joined(commit.reasons.get(plugin, ())),
        )


def _rejected(context: CommitContext, rejections: tuple[Rejection, ...]) -> str:
    return "; ".join(
        REJECTED.format(
            plugin=rejection.plugin, clusters=_names(context.hosts), reasons=_joined(rejection.reasons)
        )
        for rejection in rejections
    )


def _joined(reasons: tuple[str, ...]) -> str:
    return f": {', '.join(reasons)}" if reasons else ""


def _names(hosts: tuple[HostKey, ...]) -> str:
    shown = ", ".join(sorted(host.name for host in hosts)[:CLUSTERS_NAMED])
    return f"{shown} and {len(hosts) - CLUSTERS_NAMED} more" if len(hosts) > CLUSTERS_NAMED else shown
