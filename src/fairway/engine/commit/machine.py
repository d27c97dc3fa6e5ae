"""The transitions of commits: events in, instructions out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from fairway.engine.commit.calls import Calls, CommitPlugins
from fairway.engine.commit.instructions import (
    Activate,
    BeginBinding,
    Bound,
    Broadcast,
    Cancel,
    Done,
    Fail,
    ForQueue,
    Instruction,
    ReadBack,
    Reject,
    Release,
    RunBind,
    RunPostBind,
    RunPreBind,
)
from fairway.engine.dependencies import Dependencies
from fairway.engine.fault import Fault, raised
from fairway.engine.points import CommitContext, CommitReader, Plugin
from fairway.engine.queue.heap import Heap
from fairway.engine.status import Code, Status, unschedulable
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import SECOND, Micros
from fairway.hosts.journal import NOTHING, Change

LONGEST_WAIT: Final[Micros] = 15 * 60 * SECOND
"""Longer waits of Permit plugins are shortened to this."""
LATE_BIND: Final[Micros] = 60 * SECOND
"""How long a Bind request whose reply was lost may still take effect: kube-apiserver ends requests after this time."""

TIMED_OUT: Final = "timed out after waiting {seconds} seconds"
NOT_BOUND: Final = "the hub does not show the workload as bound by {plugin}"
PARTLY_BOUND: Final = "the hub does not show {hosts} as bound by {plugin}"
ALL_SKIPPED: Final = "every Bind plugin skipped the workload"
ALREADY_STARTED: Final = "{key} is already being committed"

_CONTINUES = (Code.SUCCESS, Code.WARNING)
_BLAMES = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING, Code.MISCONFIGURED)


# The order of the phases is the order of a commit. Up to PRE_BIND the workload is certainly not bound, so that a
# commit can be given up. From BIND on only the hub knows the result, and from POST_BIND on nothing can be undone.
class Phase(Enum):
    PERMIT = "waiting for permits"
    PRE_BIND = "PreBind"
    BIND = "Bind"
    READ_BACK = "reading back the result of Bind"
    IN_DOUBT = "waiting until a lost Bind request can no longer take effect"
    POST_BIND = "PostBind"


_BIND_SENT = (Phase.BIND, Phase.READ_BACK, Phase.IN_DOUBT)


@dataclass(slots=True)
class Commit:
    """One workload on its way."""

    context: CommitContext
    since: Micros
    phase: Phase = Phase.PERMIT
    step: int = 0
    """Index of the plugin that runs."""
    token: int = 0
    waits: dict[str, Micros] = field(default_factory=dict)
    """Deadlines of the Permit plugins that have not approved yet, in the order of the profile."""
    reasons: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What these plugins wait for."""
    plugin: str = ""
    """The plugin that runs."""
    faulty: bool = False
    """Whether a Bind plugin raised or returned nonsense."""
    certain: bool = False
    """Whether a Bind request whose reply was lost can no longer take effect."""

    @property
    def key(self) -> WorkloadKey:
        return self.context.workload.key


class CommitMachine:
    """All commits of one profile. A workload is *assumed* from ``start`` until it is bound or given back.

    ``late_bind`` is how long a Bind request whose reply was lost may still take effect. Its place is kept until then:
    another workload in this place would overcommit the host. Use 0 if reading back makes lost requests fail, for
    example by a write that changes the resourceVersion which they name.

    ``changes`` returns what changed in the table of hosts since its last call. What Reserve and Unreserve plugins
    change there is broadcast, but does not wake the workload that they are called for.
    """

    def __init__(
        self,
        plugins: CommitPlugins,
        *,
        late_bind: Micros = LATE_BIND,
        changes: Callable[[], Change] = lambda: NOTHING,
    ) -> None:
        self._plugins = plugins
        self._late_bind = late_bind
        self._calls = Calls(plugins, changes)
        self._commits: dict[WorkloadKey, Commit] = {}
        self._deadlines: Heap[WorkloadKey] = Heap()
        """Of the shortest wait of each commit that waits for permits, and of those in doubt."""
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._commits)

    def assumed(self, key: WorkloadKey) -> bool:
        return key in self._commits

    def find(self, key: WorkloadKey) -> Commit | None:
        """Return the state of a commit, for explanations. The caller must not change it."""
        return self._commits.get(key)

    def take_faults(self) -> list[Fault]:
        return self._calls.take_faults()

    def next_deadline(self) -> Micros | None:
        """Return when the first wait ends."""
        first = self._deadlines.peek()
        return None if first is None else first[0][0]

    def start(self, context: CommitContext, *, now: Micros) -> list[Instruction]:
        """Assume the workload on its hosts, reserve, and ask for permits."""
        commit = self._add(context, now)
        for reserver in self._plugins.reserves:
            status = self._calls.reserve(reserver, context)
            if status.code not in _CONTINUES:
                return self._refused(commit, reserver, status)
        for permitter in self._plugins.permits:
            status, wait = self._calls.permit(permitter, context)
            if status.code is Code.WAIT:
                # A negative wait is a fault of the plugin; as 0 it times out at once instead of in the past. Without
                # an upper bound, a plugin that never answers would keep the room of its workload forever.
                longest = LONGEST_WAIT if wait is None else max(0, int(wait.total_seconds() * SECOND))
                commit.waits[permitter.name] = now + min(longest, LONGEST_WAIT)
                commit.reasons[permitter.name] = status.reasons
            elif status.code not in _CONTINUES:
                return self._refused(commit, permitter, status)
        # Only after all plugins agreed: what was reserved by then and given back again would wake
        # workloads for nothing.
        taken = self._calls.taken(context)
        broadcast = [] if taken is None else [Broadcast(taken)]
        if commit.waits:
            self._deadlines.push(commit.key, (min(commit.waits.values()),))
            return [*broadcast, *self._activations(commit)]
        return [*broadcast, *self._activations(commit), *self._begin_binding(commit, now)]

    def start_binding(self, context: CommitContext, *, now: Micros) -> list[Instruction]:
        """Commit a change that takes no host: there is nothing to reserve, to permit or to prepare."""
        commit = self._add(context, now)
        return [BeginBinding(commit.key), *self._next_bind(commit, 0)]

    def reserve(self, context: CommitContext) -> list[Status]:
        """Call Reserve for hosts that the hub shows as bound already, as after a crash. Return refusals: they undo
        nothing."""
        statuses = (self._calls.reserve(reserver, context) for reserver in self._plugins.reserves)
        return [status for status in statuses if status.code not in _CONTINUES]

    def unreserve(self, context: CommitContext) -> Broadcast:
        """Give back hosts of a workload that is bound."""
        self._calls.unreserve_all(context)
        return Broadcast(self._calls.released(context, excluded=context.workload.key))

    def clear(self) -> None:
        """Give up all commits at the end of a term."""
        for key in tuple(self._commits):
            self.give_up(key)

    def give_up(self, key: WorkloadKey) -> None:
        """Forget a commit, whatever runs. Its hosts are unreserved, unless they are bound."""
        commit = self._commits.pop(key, None)
        self._deadlines.discard(key)
        # In PostBind the workload is bound, so its hosts belong to it whatever happens here.
        if commit is not None and commit.phase is not Phase.POST_BIND:
            self._calls.unreserve_all(commit.context)

    def waits_for(self, key: WorkloadKey) -> Dependencies:
        """Return the changes after which the Permit plugins that wait are to be asked again, as far as they declare
        them."""
        commit = self._waiting(key)
        permits = () if commit is None else self._plugins.permits
        return Dependencies.of(
            self._calls.reads(permitter, commit.context)
            for permitter in permits
            if commit is not None and permitter.name in commit.waits and isinstance(permitter, CommitReader)
        )

    def ask_again(self, key: WorkloadKey, *, now: Micros) -> list[Instruction]:
        """Call the Permit plugins that have not approved yet again. Their deadlines stay."""
        commit = self._waiting(key)
        if commit is None:
            return []
        # The deadline decides, even if the approval arrives before ``advance`` is called for it.
        if min(commit.waits.values()) <= now:
            return self._timed_out(commit)
        for permitter in self._plugins.permits:
            if permitter.name not in commit.waits:
                continue
            status, _ = self._calls.permit(permitter, commit.context)
            if status.code is Code.WAIT:
                commit.reasons[permitter.name] = status.reasons
            elif status.code in _CONTINUES:
                del commit.waits[permitter.name]
            else:
                return self._refused(commit, permitter, status)
        if not commit.waits:
            return self._begin_binding(commit, now)
        self._deadlines.push(key, (min(commit.waits.values()),))
        return []

    def allow(self, key: WorkloadKey, plugin: str, *, now: Micros) -> list[Instruction]:
        """Approve on behalf of a Permit plugin; the last approval starts binding."""
        commit = self._waiting(key)
        if commit is None:
            return []
        if min(commit.waits.values()) <= now:
            return self._timed_out(commit)
        commit.waits.pop(plugin, None)
        if not commit.waits:
            return self._begin_binding(commit, now)
        self._deadlines.push(key, (min(commit.waits.values()),))
        return []

    def deny(self, key: WorkloadKey, plugin: str, reason: str) -> list[Instruction]:
        """Deny on behalf of a Permit plugin: the workload was rejected."""
        commit = self._waiting(key)
        return [] if commit is None else self._denied(commit, plugin, reason)

    def preempt(self, key: WorkloadKey, reason: str) -> list[Instruction]:
        """Give up a commit for another workload; it is retried. No effect once Bind runs."""
        commit = self._commits.get(key)
        if commit is None or commit.phase not in (Phase.PERMIT, Phase.PRE_BIND):
            return []
        return self._unwind(commit, Fail(key, reason))

    def abandon(self, key: WorkloadKey) -> list[Instruction]:
        """Give up a commit whose workload changed; it is tried again at once. No effect once Bind runs."""
        commit = self._commits.get(key)
        if commit is None or commit.phase not in (Phase.PERMIT, Phase.PRE_BIND):
            return []
        return self._unwind(commit, Release(key))

    def remove_host(self, host: HostKey) -> list[Instruction]:
        """Abandon the commits on a deleted host. Where Bind runs already, its result decides."""
        keys = [key for key, commit in self._commits.items() if host in commit.context.hosts]
        return [instruction for key in keys for instruction in self.abandon(key)]

    def delete(self, key: WorkloadKey) -> list[Instruction]:
        """The workload is deleted: give back its place at once. No effect once it is bound."""
        commit = self._commits.get(key)
        if commit is None or commit.phase is Phase.POST_BIND:
            return []
        return self._unwind(commit, Done(key))

    def advance(self, *, now: Micros) -> list[Instruction]:
        """Reject the workloads whose shortest wait is over, and read back those in doubt a last time."""
        instructions: list[Instruction] = []
        # Ends, because each branch removes the deadline: the first here, the second when it unwinds the commit.
        while (first := self._deadlines.peek()) is not None and first[0][0] <= now:
            commit = self._commits[first[1]]
            if commit.phase is Phase.IN_DOUBT:
                self._deadlines.discard(commit.key)
                # The request can no longer take effect: what is read now is the result.
                commit.certain = True
                instructions += self._read_back(commit)
            else:
                instructions += self._timed_out(commit)
        return instructions

    def finished(self, key: WorkloadKey, token: int, result: object, *, now: Micros) -> list[Instruction]:
        """Report the result of the plugin that ran under this token. Other tokens are ignored."""
        commit = self._running(key, token)
        if commit is None:
            return []
        if commit.phase is Phase.POST_BIND:
            return self._next_post_bind(commit, commit.step + 1)
        plugin = self._plugin(commit)
        status = self._calls.checked(plugin, commit.phase.value, result)
        if commit.phase is Phase.PRE_BIND:
            if status.code in (*_CONTINUES, Code.SKIP):
                return self._next_pre_bind(commit, commit.step + 1)
        # Only for Bind: a PreBind plugin may be repeated, but a host may be bound to already, whatever this one
        # returned.
        elif not isinstance(result, Status):
            commit.faulty = True
            return self._read_back(commit)  # nonsense says nothing about what happened on the hub
        elif status.code in _CONTINUES:
            return self._bound(commit, now)
        elif status.code is Code.SKIP:
            return self._next_bind(commit, commit.step + 1)
        return self._unwind(commit, Fail(key, f"{plugin.name}: {status.message}"))

    def failed(self, key: WorkloadKey, token: int, error: Exception) -> list[Instruction]:
        """Report what the plugin that ran under this token raised. What Bind did is then unknown."""
        commit = self._running(key, token)
        if commit is None:
            return []
        plugin = self._plugin(commit)
        status = self._calls.charge(raised(plugin.name, commit.phase.value, error))
        if commit.phase is Phase.POST_BIND:
            return self._next_post_bind(commit, commit.step + 1)
        if commit.phase is Phase.BIND:
            commit.faulty = True
            return self._read_back(commit)
        if self._calls.skips:
            return self._next_pre_bind(commit, commit.step + 1)
        return self._unwind(commit, Fail(key, f"{plugin.name}: {status.message}"))

    def observed(self, key: WorkloadKey, hosts: tuple[HostKey, ...], *, now: Micros) -> list[Instruction]:
        """Report that the hub shows the workload as bound to these hosts.

        A Bind whose reply was lost is complete when the hub shows it. A workload that was given back meanwhile must not
        be queued, and one that another actor bound elsewhere is given back.
        """
        commit = self._commits.get(key)
        if commit is None:
            return [Done(key)]
        if commit.phase is Phase.POST_BIND:
            return []
        # Our own Bind, observed before its reply. Its reply then has an old token and is ignored.
        # As sets: the hub may list the hosts in another order than the decision.
        if commit.phase in _BIND_SENT and set(hosts) == set(commit.context.hosts):
            return self._bound(commit, now)
        return self._unwind(commit, Done(key))

    def read_back(
        self, key: WorkloadKey, token: int, hosts: tuple[HostKey, ...] | None, *, now: Micros
    ) -> list[Instruction]:
        """Report what was read back under this token; None if the workload is not bound, not even to some of its hosts.

        Only this ends a Bind with an unknown result: a cache may show the workload as it was before. The place of a
        workload that is not bound is kept until the request can no longer take effect, and it is then read back again.
        """
        commit = self._running(key, token)
        if commit is None:
            return []
        missing = () if hosts is None else tuple(host for host in commit.context.hosts if host not in hosts)
        # Bound to all of its hosts, or to others by another actor: both are what the watch would show, too.
        if hosts is not None and len(missing) in (0, len(commit.context.hosts)):
            return self.observed(key, hosts, now=now)
        # kube-apiserver may still carry out a request whose reply was lost. If the place were given back now, the
        # next workload would take it, and the host would be overcommitted.
        if self._late_bind and not commit.certain:
            self._enter(commit, Phase.IN_DOUBT, commit.step, commit.plugin)
            self._deadlines.push(key, (now + self._late_bind,))
            return []
        # Not bound for certain, so the next Bind plugin may try without binding twice.
        if commit.faulty and self._calls.skips and commit.step + 1 < len(self._plugins.binds):
            return self._next_bind(commit, commit.step + 1)
        if missing:
            commit.context = replace(commit.context, hosts=missing)  # the others stay reserved
            names = ", ".join(host.name for host in missing)
            return self._unwind(commit, Fail(key, PARTLY_BOUND.format(hosts=names, plugin=commit.plugin)))
        return self._unwind(commit, Fail(key, NOT_BOUND.format(plugin=commit.plugin)))

    def _add(self, context: CommitContext, now: Micros) -> Commit:
        commit = Commit(context, since=now)
        if commit.key in self._commits:
            raise ValueError(ALREADY_STARTED.format(key=commit.key))
        self._commits[commit.key] = commit
        return commit

    def _waiting(self, key: WorkloadKey) -> Commit | None:
        commit = self._commits.get(key)
        return None if commit is None or commit.phase is not Phase.PERMIT or not commit.waits else commit

    def _running(self, key: WorkloadKey, token: int) -> Commit | None:
        commit = self._commits.get(key)
        return None if commit is None or commit.token != token else commit

    def _plugin(self, commit: Commit) -> Plugin:
        plugins: dict[Phase, tuple[Plugin, ...]] = {
            Phase.PRE_BIND: self._plugins.pre_binds,
            Phase.BIND: self._plugins.binds,
            Phase.POST_BIND: self._plugins.post_binds,
        }
        return plugins[commit.phase][commit.step]

    def _refused(self, commit: Commit, plugin: Plugin, status: Status) -> list[Instruction]:
        """Unwind after Reserve or Permit: a rejection blames the plugin, anything else is an error."""
        if status.code in _BLAMES:
            rejection = self._calls.rejection(plugin, commit.context, status)
            return self._unwind(commit, Reject(commit.key, (rejection,)))
        message = status.message or f"returned {status.code.value}"
        return self._unwind(commit, Fail(commit.key, f"{plugin.name}: {message}"))

    def _denied(self, commit: Commit, name: str, reason: str) -> list[Instruction]:
        status = unschedulable(reason, plugin=name)
        plugin = next((permitter for permitter in self._plugins.permits if permitter.name == name), None)
        if plugin is None:
            return self._unwind(commit, Fail(commit.key, f"{name}: {reason}"))
        return self._refused(commit, plugin, status)

    def _timed_out(self, commit: Commit) -> list[Instruction]:
        """The shortest wait decides; among equal ones, the first in the profile."""
        name = min(commit.waits, key=commit.waits.__getitem__)
        seconds = (commit.waits[name] - commit.since) // SECOND
        reasons = (TIMED_OUT.format(seconds=seconds), *commit.reasons.get(name, ()))
        return self._denied(commit, name, ": ".join(reasons))

    def _unwind(self, commit: Commit, outcome: ForQueue) -> list[Instruction]:
        """Give back everything, wake others, and return the workload to the queue."""
        # Before the event, which has what Unreserve changes in the table, and before the workload is in the queue
        # again: its next cycle must see the room that it gives back.
        self._calls.unreserve_all(commit.context)
        del self._commits[commit.key]
        self._deadlines.discard(commit.key)
        # A rejected workload waits for events of others: what it gives back itself was there when it was rejected.
        excluded = commit.key if isinstance(outcome, Reject) else None
        event = self._calls.released(commit.context, excluded=excluded)
        # The plugin that runs is cancelled. A result that arrives nevertheless has a token that no commit
        # has any more.
        cancel = [Cancel(commit.key, commit.token)] if commit.token else []
        return [*cancel, Broadcast(event), outcome]

    def _activations(self, commit: Commit) -> list[Instruction]:
        keys = self._calls.activations(commit.context)
        return [Activate(keys)] if keys else []

    def _enter(self, commit: Commit, phase: Phase, step: int, name: str) -> int:
        """Begin a step; return its token."""
        # Counted for all commits together, never per commit: the result of a plugin that was cancelled may arrive
        # when the same workload is committed for the second time, and must not be taken for that of the new one.
        self._tokens += 1
        commit.phase, commit.step, commit.plugin, commit.token = phase, step, name, self._tokens
        return self._tokens

    def _begin_binding(self, commit: Commit, now: Micros) -> list[Instruction]:
        commit.since = now
        self._deadlines.discard(commit.key)
        return [BeginBinding(commit.key), *self._next_pre_bind(commit, 0)]

    def _next_pre_bind(self, commit: Commit, step: int) -> list[Instruction]:
        pre_binds = self._plugins.pre_binds
        while step < len(pre_binds) and not self._calls.has_pre_bind(pre_binds[step], commit.context):
            step += 1
        if step == len(pre_binds):
            return self._next_bind(commit, 0)
        plugin = pre_binds[step]
        token = self._enter(commit, Phase.PRE_BIND, step, plugin.name)
        return [RunPreBind(commit.key, token, plugin, commit.context)]

    def _next_bind(self, commit: Commit, step: int) -> list[Instruction]:
        if step == len(self._plugins.binds):
            return self._unwind(commit, Fail(commit.key, ALL_SKIPPED))
        plugin = self._plugins.binds[step]
        token = self._enter(commit, Phase.BIND, step, plugin.name)
        return [RunBind(commit.key, token, plugin, commit.context)]

    def _read_back(self, commit: Commit) -> list[Instruction]:
        token = self._enter(commit, Phase.READ_BACK, commit.step, commit.plugin)
        return [ReadBack(commit.key, token)]

    def _bound(self, commit: Commit, now: Micros) -> list[Instruction]:
        commit.since = now
        self._deadlines.discard(commit.key)
        return [
            # The queue forgets the workload before PostBind: from here on nothing can take its place away.
            Done(commit.key),
            Bound(commit.key, commit.context.hosts),
            *self._activations(commit),
            *self._next_post_bind(commit, 0),
        ]

    def _next_post_bind(self, commit: Commit, step: int) -> list[Instruction]:
        if step == len(self._plugins.post_binds):
            # Kept until here, although it is bound: no second commit of this key starts while its PostBind plugins
            # run.
            del self._commits[commit.key]
            return []
        plugin = self._plugins.post_binds[step]
        token = self._enter(commit, Phase.POST_BIND, step, plugin.name)
        return [RunPostBind(commit.key, token, plugin, commit.context)]
