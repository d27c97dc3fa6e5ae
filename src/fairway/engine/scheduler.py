"""Schedule workloads: take the next one from the queue, run its profile's cycle, and start the commit. No I/O.

``Scheduler`` joins the parts of the framework for workloads that are bound once, such as hosted clusters and pods.
Events go in, and instructions for the caller come out (see ``commit.instructions``); what concerns the queue is carried
out here.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from fairway.engine.alike import AlikeMemory
from fairway.engine.commit import CommitMachine, CommitPlugins, perform
from fairway.engine.commit.instructions import ForCaller, Instruction
from fairway.engine.dependencies import Event
from fairway.engine.fault import Fault
from fairway.engine.outcome import Outcome
from fairway.engine.points import CommitContext, Reads
from fairway.engine.profile import Profile
from fairway.engine.queue import Rejection, SchedulingQueue, rejections_of
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot

UNKNOWN_PROFILE: Final = "profile {name!r} does not exist; write one of {known}"


class Scheduler:
    """``profile_name`` returns the profile that a workload asks for, ``host_key`` the identity of a host object."""

    def __init__(
        self,
        *,
        profiles: Iterable[Profile],
        profile_name: Callable[[Workload[Any]], str],
        host_key: Callable[[Any], HostKey],
        queue: SchedulingQueue | None = None,
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._machines = {
            name: CommitMachine(CommitPlugins.of(profile)) for name, profile in self._profiles.items()
        }
        self._profile_name, self._host_key = profile_name, host_key
        self._committing: dict[WorkloadKey, CommitMachine] = {}
        self._memory = AlikeMemory()
        self.queue = queue or SchedulingQueue()

    def __len__(self) -> int:
        """Return the number of commits under way."""
        return len(self._committing)

    def put(self, workload: Workload[Any], *, now: Micros) -> None:
        """Add or update a workload that is not bound."""
        self.queue.put(workload, now=now)

    def delete(self, key: WorkloadKey, *, now: Micros) -> list[ForCaller]:
        """Forget a deleted workload. What it had reserved is free again at once."""
        machine = self._committing.get(key)
        rest = [] if machine is None else self._perform(key, machine.delete(key), now=now)
        self.queue.delete(key)
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
        if key in self._committing:
            self.queue.done(key)
            return None, []
        name = self._profile_name(workload)
        profile = self._profiles.get(name)
        if profile is None:
            reason = UNKNOWN_PROFILE.format(name=name, known=", ".join(sorted(self._profiles)))
            self.queue.reject(key, (Rejection(plugin="", reads=Reads(), reasons=(reason,)),), now=now)
            return None, []
        outcome = self._memory.run(snapshot, workload, profile, now=now)
        if len(outcome.selected_rows) and not outcome.unscheduled and not outcome.status.aborts:
            return outcome, self._start(name, workload, outcome, now=now)
        if rejections := rejections_of(outcome):
            self.queue.reject(key, rejections, now=now)
        else:
            self.queue.fail(key, f"{outcome.status.plugin}: {outcome.status.message}", now=now)
        return outcome, []

    def _start(self, name: str, workload: Workload[Any], outcome: Outcome, *, now: Micros) -> list[ForCaller]:
        machine, objects = self._machines[name], outcome.snapshot.hosts.objects
        context = CommitContext(
            workload=workload,
            hosts=tuple(self._host_key(objects[row]) for row in outcome.selected_rows.tolist()),
            started=now,
            state=outcome.context.state.clone(),  # alike workloads share a cycle, but no commit
        )
        self._committing[workload.key] = machine
        return self._perform(workload.key, machine.start(context, now=now), now=now)

    # Results of instructions, and events from outside

    def finished(self, key: WorkloadKey, token: int, result: object, *, now: Micros) -> list[ForCaller]:
        return self._tell(key, lambda machine: machine.finished(key, token, result, now=now), now=now)

    def failed(self, key: WorkloadKey, token: int, error: Exception, *, now: Micros) -> list[ForCaller]:
        return self._tell(key, lambda machine: machine.failed(key, token, error), now=now)

    def read_back(
        self, key: WorkloadKey, token: int, hosts: tuple[HostKey, ...] | None, *, now: Micros
    ) -> list[ForCaller]:
        return self._tell(key, lambda machine: machine.read_back(key, token, hosts, now=now), now=now)

    def observed(self, key: WorkloadKey, hosts: tuple[HostKey, ...], *, now: Micros) -> list[ForCaller]:
        """Report that the hub shows the workload as bound."""
        if key not in self._committing:
            self.queue.done(key)
            return []
        return self._tell(key, lambda machine: machine.observed(key, hosts, now=now), now=now)

    def allow(self, key: WorkloadKey, plugin: str, *, now: Micros) -> list[ForCaller]:
        return self._tell(key, lambda machine: machine.allow(key, plugin, now=now), now=now)

    def deny(self, key: WorkloadKey, plugin: str, reason: str, *, now: Micros) -> list[ForCaller]:
        return self._tell(key, lambda machine: machine.deny(key, plugin, reason), now=now)

    def preempt(self, key: WorkloadKey, reason: str, *, now: Micros) -> list[ForCaller]:
        return self._tell(key, lambda machine: machine.preempt(key, reason), now=now)

    def advance(self, *, now: Micros) -> list[ForCaller]:
        """End the waits and back-offs that are over."""
        rest: list[ForCaller] = []
        for machine in self._machines.values():
            rest += perform(self.queue, machine.advance(now=now), now=now)
        self._forget_ended()
        self.queue.advance(now=now)
        return rest

    def next_deadline(self) -> Micros | None:
        deadlines = [self.queue.next_deadline(), *(each.next_deadline() for each in self._machines.values())]
        return min((each for each in deadlines if each is not None), default=None)

    def take_faults(self) -> list[Fault]:
        """Return the faults of plugins since the last call."""
        faults = self.queue.take_faults()
        for machine in self._machines.values():
            faults += machine.take_faults()
        return faults

    def _tell(
        self, key: WorkloadKey, event: Callable[[CommitMachine], list[Instruction]], *, now: Micros
    ) -> list[ForCaller]:
        machine = self._committing.get(key)
        return [] if machine is None else self._perform(key, event(machine), now=now)

    def _perform(self, key: WorkloadKey, instructions: list[Instruction], *, now: Micros) -> list[ForCaller]:
        machine = self._committing[key]
        if not machine.assumed(key):
            del self._committing[key]
        return perform(self.queue, instructions, now=now)

    def _forget_ended(self) -> None:
        for key in [key for key, machine in self._committing.items() if not machine.assumed(key)]:
            del self._committing[key]
