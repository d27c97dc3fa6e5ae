"""Schedule workloads: take the next one from the queue, run its profile's cycle, and start the commit. No I/O.

``Scheduler`` joins the parts of the framework for workloads that are bound once, such as hosted clusters and pods.
Events go in, and instructions for the caller come out (see ``commit.instructions``); what concerns the queue is carried
out here.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from fairway.engine import cycle
from fairway.engine.alike import AlikeMemory
from fairway.engine.commit import LATE_BIND, CommitMachine, CommitPlugins, Phase, perform
from fairway.engine.commit.instructions import Bound, ForCaller, Instruction, Nominate, Returned
from fairway.engine.dependencies import Event
from fairway.engine.fault import raised
from fairway.engine.outcome import Outcome
from fairway.engine.points import (
    DECISION,
    NOMINATION,
    CommitContext,
    Nomination,
    PreEnqueue,
    QueueSort,
    Reads,
)
from fairway.engine.profile import Profile
from fairway.engine.queue import FLUSH_AFTER, Backoff, Rejection, SchedulingQueue, rejections_of
from fairway.engine.queue.heap import Heap
from fairway.engine.refused_alike import Alike, RefusedAlike
from fairway.engine.status import Code
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.instant import SECOND, Micros
from fairway.hosts.journal import NOTHING, Change
from fairway.hosts.snapshot import Snapshot

UNKNOWN_PROFILE: Final = "profile {name!r} does not exist; write one of {known}"
SEVERAL_SORTS: Final = (
    "profiles {profiles} have different QueueSort plugins, and a queue has one order: "
    "enable the same one in each"
)
STILL_RUNNING: Final = "PostBind of the last attempt is still running"
STALE_FOR: Final[Micros] = 60 * SECOND
"""How long the watch may show a workload as it was before this scheduler bound it."""


class Scheduler:
    """``profile_name`` returns the profile that a workload asks for, ``host_key`` the identity of a host object.

    The queue has the QueueSort plugin of the profiles, and for each workload the PreEnqueue plugins of its profile.
    ``late_bind`` and ``changes`` are described at ``CommitMachine``. ``decision_of`` returns what the commit has in its
    state as ``DECISION``: from Reserve on, plugins get no outcome. Workloads of different owners (``owner_of``) take
    turns among those of equal priority. Those that are ``alike`` are rejected by one cycle.
    """

    def __init__(
        self,
        *,
        profiles: Iterable[Profile],
        profile_name: Callable[[Workload[Any]], str],
        host_key: Callable[[Any], HostKey],
        backoff: Backoff | None = None,
        flush_after: Micros = FLUSH_AFTER,
        late_bind: Micros = LATE_BIND,
        changes: Callable[[], Change] = lambda: NOTHING,
        owner_of: Callable[[Workload[Any]], Hashable] | None = None,
        alike: Alike | None = None,
        decision_of: Callable[[Outcome, WorkloadKey], object] | None = None,
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._machines = {
            name: CommitMachine(CommitPlugins.of(profile), late_bind=late_bind, changes=changes)
            for name, profile in self._profiles.items()
        }
        self._profile_name, self._host_key, self._decision_of = profile_name, host_key, decision_of
        self._committing: dict[WorkloadKey, CommitMachine] = {}
        self._unobserved: dict[WorkloadKey, Workload[Any] | None] = {}
        """Bound by this scheduler, but not observed yet, with the newest update since: probably an older version."""
        self._stale_until: Heap[WorkloadKey] = Heap()
        """When such an update counts as true: the workload lost its host before it was observed."""
        self._memory = AlikeMemory()
        sort = _common_sort(self._profiles.values())
        self.refused = RefusedAlike(alike)
        self.queue = SchedulingQueue(
            sort=sort,
            gates=self._gates if any(profile.pre_enqueues for profile in self._profiles.values()) else (),
            backoff=backoff,
            flush_after=flush_after,
            owner_of=owner_of,
            on_event=self.refused.on_event,
        )

    def __len__(self) -> int:
        """Return the number of commits under way."""
        return len(self._committing)

    def holds(self, key: WorkloadKey) -> bool:
        """Return whether a workload is being committed, or was bound and is not observed yet."""
        return key in self._committing or key in self._unobserved

    def put(self, workload: Workload[Any], *, now: Micros) -> list[ForCaller]:
        """Add or update a workload that is not bound.

        If it changed while its commit waits, or was recreated, the commit is abandoned. An update of a workload that
        this scheduler bound has no effect for a minute, unless ``observed`` comes before: the watch shows an older
        version.
        """
        key = workload.key
        # The watch may still show the workload as it was before its Bind: queued now, it would be bound twice.
        if key in self._unobserved:
            self._unobserved[key] = workload
            return []
        current = self.queue.find_key(key.namespace, key.name)
        rest: list[ForCaller] = []
        if current is not None and current != key:
            rest = self.delete(current, now=now)
        machine = self._committing.get(key)
        commit = None if machine is None else machine.find(key)
        self.queue.put(workload, now=now)
        if machine is not None and commit is not None and commit.context.workload != workload:
            rest += self._perform(key, machine.abandon(key), now=now)
        return rest

    def delete(self, key: WorkloadKey, *, now: Micros) -> list[ForCaller]:
        """Forget a deleted workload. What it had reserved is free again at once."""
        self._observe(key)
        machine = self._committing.get(key)
        rest = [] if machine is None else self._perform(key, machine.delete(key), now=now)
        self.queue.delete(key)
        return rest

    def remove_host(self, host: HostKey, *, now: Micros) -> list[ForCaller]:
        """Try the workloads again that are being committed to a deleted host. A recreated host has another uid."""
        rest: list[ForCaller] = []
        for machine in self._machines.values():
            rest += perform(self.queue, machine.remove_host(host), now=now)
        self._forget_ended()
        return rest

    def on_event(self, event: Event, *, now: Micros) -> None:
        self.queue.on_event(event, now=now)

    def schedule_one(
        self, snapshot: Snapshot[Any], *, now: Micros
    ) -> tuple[Outcome | None, list[ForCaller]] | None:
        """Try the next workload; None if none is due.

        ``snapshot`` must be of the same fleet as earlier ones, and show what earlier calls reserved. The outcome is
        None if no cycle ran.
        """
        workload = self.queue.pop(now=now)
        if workload is None:
            return None
        key = workload.key
        # Put back while a commit of it is not over: a second commit would reserve twice.
        if key in self._committing:
            self._hold(key, now=now)
            return None, []
        profile = self._profile(workload)
        if isinstance(profile, Rejection):
            self.queue.reject(key, (profile,), now=now)
            return None, []
        # A rejection that an equal workload got holds until an event that may help; that event also wakes
        # this workload.
        if (refused := self.refused.find(workload, now=now)) is not None:
            outcome, rejections = refused
            self.queue.reject(key, rejections, now=now)
            return outcome, []
        try:
            outcome = self._memory.run(snapshot, workload, profile, now=now)
        except Exception as error:
            fault = raised(profile.name, "cycle", error)
            self.queue.fail(key, str(fault), now=now)
            return None, [Returned(key, error=str(fault))]
        # All hosts or none: a workload that is bound once cannot get the others later.
        if len(outcome.selected_rows) and not outcome.unscheduled and not outcome.status.aborts:
            return outcome, self._start(profile, workload, outcome, now=now)
        if rejections := rejections_of(outcome):
            self.refused.keep(workload, outcome, rejections, now=now)
            self.queue.reject(key, rejections, now=now)
        else:
            self.queue.fail(key, f"{outcome.status.plugin}: {outcome.status.message}", now=now)
        return outcome, self._nominations(workload, outcome)

    def _hold(self, key: WorkloadKey, *, now: Micros) -> None:
        """Keep a workload out of the queue while it is being committed."""
        commit = self._committing[key].find(key)
        if commit is not None and commit.phase is Phase.POST_BIND:
            self.queue.fail(key, STILL_RUNNING, now=now)
        else:
            self.queue.bind(key)

    def preview(self, workload: Workload[Any], snapshot: Snapshot[Any], *, now: Micros) -> Outcome | None:
        """Return what a cycle of this workload would decide, without PostFilter plugins, and change nothing; None if
        its profile does not exist."""
        profile = self._profile(workload)
        if isinstance(profile, Rejection):
            return None
        # A search for victims is the longest part of a cycle, and no answer needs it.
        return cycle.run(snapshot, workload, replace(profile, post_filters=()), now=now)

    def _profile(self, workload: Workload[Any]) -> Profile | Rejection:
        name = self._profile_name(workload)
        profile = self._profiles.get(name)
        if profile is not None:
            return profile
        reason = UNKNOWN_PROFILE.format(name=name, known=", ".join(sorted(self._profiles)))
        return Rejection(plugin="", reads=Reads(), reasons=(reason,))

    def _gates(self, workload: Workload[Any]) -> Sequence[PreEnqueue]:
        profile = self._profile(workload)
        return () if isinstance(profile, Rejection) else profile.pre_enqueues

    def _start(
        self, profile: Profile, workload: Workload[Any], outcome: Outcome, *, now: Micros
    ) -> list[ForCaller]:
        machine = self._machines[profile.name]
        state = outcome.context.state.clone()  # alike workloads share a cycle, but no commit
        if self._decision_of is not None:
            state.write(DECISION, self._decision_of(outcome, workload.key))
        context = CommitContext(
            workload=workload,
            hosts=self._host_keys(outcome, outcome.selected_rows.tolist()),
            started=now,
            state=state,
        )
        self._committing[workload.key] = machine
        return self._perform(workload.key, machine.start(context, now=now), now=now)

    def _nominations(self, workload: Workload[Any], outcome: Outcome) -> list[ForCaller]:
        """Return what a PostFilter plugin wants to be done to make room."""
        if outcome.relief is None or outcome.relief.code is not Code.SUCCESS:
            return []
        nomination = outcome.context.state.find(NOMINATION, Nomination)
        if nomination is None:
            return []
        hosts = self._host_keys(outcome, nomination.rows)
        return [Nominate(workload.key, hosts, outcome.relief.plugin, nomination.plan)]

    def _host_keys(self, outcome: Outcome, rows: Iterable[int]) -> tuple[HostKey, ...]:
        objects = outcome.snapshot.hosts.objects
        return tuple(self._host_key(objects[row]) for row in rows)

    # Results of instructions, and events from outside

    def finished(self, key: WorkloadKey, token: int, result: object, *, now: Micros) -> list[ForCaller]:
        return self._commit_event(key, lambda machine: machine.finished(key, token, result, now=now), now=now)

    def failed(self, key: WorkloadKey, token: int, error: Exception, *, now: Micros) -> list[ForCaller]:
        return self._commit_event(key, lambda machine: machine.failed(key, token, error), now=now)

    def read_back(
        self, key: WorkloadKey, token: int, hosts: tuple[HostKey, ...] | None, *, now: Micros
    ) -> list[ForCaller]:
        return self._commit_event(key, lambda machine: machine.read_back(key, token, hosts, now=now), now=now)

    def observed(self, key: WorkloadKey, hosts: tuple[HostKey, ...], *, now: Micros) -> list[ForCaller]:
        """Report that the hub shows the workload as bound."""
        self._observe(key)
        if key not in self._committing:
            self.queue.done(key)
            return []
        return self._commit_event(key, lambda machine: machine.observed(key, hosts, now=now), now=now)

    def allow(self, key: WorkloadKey, plugin: str, *, now: Micros) -> list[ForCaller]:
        return self._commit_event(key, lambda machine: machine.allow(key, plugin, now=now), now=now)

    def deny(self, key: WorkloadKey, plugin: str, reason: str, *, now: Micros) -> list[ForCaller]:
        return self._commit_event(key, lambda machine: machine.deny(key, plugin, reason), now=now)

    def preempt(self, key: WorkloadKey, reason: str, *, now: Micros) -> list[ForCaller]:
        return self._commit_event(key, lambda machine: machine.preempt(key, reason), now=now)

    def advance(self, *, now: Micros) -> list[ForCaller]:
        """End the waits and back-offs that are over."""
        rest: list[ForCaller] = []
        while (first := self._stale_until.peek()) is not None and first[0][0] <= now:
            workload = self._unobserved.pop(first[1])
            self._stale_until.pop()
            if workload is not None:
                rest += self.put(workload, now=now)
        for machine in self._machines.values():
            rest += perform(self.queue, machine.advance(now=now), now=now)
        self._forget_ended()
        self.queue.advance(now=now)
        return rest

    def next_deadline(self) -> Micros | None:
        stale = self._stale_until.peek()
        deadlines = [
            None if stale is None else stale[0][0],
            self.queue.next_deadline(),
            *(machine.next_deadline() for machine in self._machines.values()),
        ]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _commit_event(
        self, key: WorkloadKey, event: Callable[[CommitMachine], list[Instruction]], *, now: Micros
    ) -> list[ForCaller]:
        machine = self._committing.get(key)
        return [] if machine is None else self._perform(key, event(machine), now=now)

    def _perform(self, key: WorkloadKey, instructions: list[Instruction], *, now: Micros) -> list[ForCaller]:
        machine = self._committing[key]
        if not machine.assumed(key):
            del self._committing[key]
        if any(isinstance(instruction, Bound) for instruction in instructions):
            self._unobserved[key] = None
            self._stale_until.push(key, (now + STALE_FOR,))
        return perform(self.queue, instructions, now=now)

    def _observe(self, key: WorkloadKey) -> None:
        self._unobserved.pop(key, None)
        self._stale_until.discard(key)

    def _forget_ended(self) -> None:
        # Here the instructions of many commits are mixed, so that which ones ended is only visible in the machines.
        for key in [key for key, machine in self._committing.items() if not machine.assumed(key)]:
            del self._committing[key]


def _common_sort(profiles: Iterable[Profile]) -> QueueSort | None:
    """Return the QueueSort plugin of the profiles, which must be the same in each."""
    sorts = {
        profile.name: "" if profile.queue_sort is None else profile.queue_sort.name for profile in profiles
    }
    if len(set(sorts.values())) > 1:
        raise ValueError(SEVERAL_SORTS.format(profiles=" and ".join(sorted(sorts))))
    return next((profile.queue_sort for profile in profiles), None)
