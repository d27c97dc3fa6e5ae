"""Coscheduling: the pods of a group start together, or none of them does.

A pod belongs to the group that its label names. It enters the queue once the group has enough pods, and waits at Permit
on its node until enough of them have one. If that takes too long, or one of them gives its node back, all that wait do.
Groups that hold nodes while no node is left for the rest of their pods would block each other until then: of these, the
one with the highest priority keeps its nodes, the oldest of equal ones. All others give theirs back at once, and wait
until it has started or gives up. A group that gave up comes last.

The plugin decides, the caller acts: ``settle`` passes the decisions to the scheduler after each event.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from fairway.api.pod import Pod
from fairway.engine.commit.instructions import ForCaller
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext, Reads
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import Micros
from fairway.hosts.nodes.pods import PodKey
from fairway.workloads.pods.workload import info_of_workload

NAME = "Coscheduling"
GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label of the PodGroup API; its value is the name of a group in the pod's namespace."""
DEFAULT_TIMEOUT: Final = timedelta(minutes=5)

NO_GROUP = "pod group {group} does not exist"
TOO_FEW_PODS = "pod group {group} has {known} of {needed} pods"
WAITS = "{placed} of {needed} pods of group {group} have a node"
BAD_WAIT = "permitWaitingTimeSeconds must be at least 1; got {given!r}"
GAVE_UP = "pod {pod} of group {group} gave its node back"
YIELDS = "pod group {group} waits, so that pod group {first} can start"
MAY_START = "pod group may start"


@dataclass(slots=True)
class _Group:
    needed: int | None = None
    """Smallest number of pods that start together; None while the PodGroup does not exist."""
    timeout: timedelta = DEFAULT_TIMEOUT
    pods: set[PodKey] = field(default_factory=set)
    placed: set[PodKey] = field(default_factory=set)
    """Pods that are bound, or may be."""
    waiting: dict[PodKey, Workload[Any]] = field(default_factory=dict)
    """Pods that wait for others on their node."""
    rejected: set[PodKey] = field(default_factory=set)
    """Pods that no node took in their last cycle."""
    failures: int = 0
    """How often its pods waited in vain since it last started."""

    @property
    def rank(self) -> tuple[int, int, Micros]:
        """The order of groups that wait: by failures, so that one that never fits does not stop others, then by
        priority and age."""
        pods = self.waiting.values()
        return self.failures, -max(pod.priority for pod in pods), min(pod.created for pod in pods)


class Coscheduling:
    name = NAME

    def __init__(self, *, permit_waiting_time_seconds: int | None = None) -> None:
        """``permit_waiting_time_seconds`` is the timeout of groups that have none."""
        seconds = permit_waiting_time_seconds
        if seconds is not None and seconds < 1:
            raise ValueError(BAD_WAIT.format(given=seconds))
        self._timeout = DEFAULT_TIMEOUT if seconds is None else timedelta(seconds=seconds)
        self._groups: dict[PodKey, _Group] = {}
        # Decisions wait for ``settle``: the plugin is called within a transition of the scheduler, in which none of
        # another workload may begin.
        self._decisions: deque[tuple[WorkloadKey, str]] = deque()
        """Workloads to allow, or with a reason to deny."""
        self._yielding: dict[PodKey, PodKey] = {}
        """Groups that wait for another one, which they blocked."""

    # What exists. The results are the columns that changed, for an event

    def upsert_group(
        self, namespace: str, name: str, *, min_member: int, timeout: timedelta | None = None
    ) -> Mapping[Key, Direction]:
        group = self._group((namespace, name))
        group.needed, group.timeout = min_member, timeout or self._timeout
        self._release(group)
        return {group_key(namespace, name): Direction.ANY}

    def delete_group(self, namespace: str, name: str) -> Mapping[Key, Direction]:
        group = self._group((namespace, name))
        group.needed = None
        self._forget_empty((namespace, name))
        return {group_key(namespace, name): Direction.DOWN}

    def upsert_pod(self, pod: Pod) -> Mapping[Key, Direction]:
        """Count a pod of a group: a new one before it is queued, a bound one when it is observed."""
        name = group_of(pod)
        if name is None:
            return {}
        group, key = self._group(name), _key_of(pod)
        if pod.finished:
            return self.delete_pod(pod)
        if pod.spec.nodeName:
            group.placed.add(key)
            group.waiting.pop(key, None)
        if key in group.pods:
            return {}
        group.pods.add(key)
        return {group_key(*name): Direction.UP}

    def delete_pod(self, pod: Pod) -> Mapping[Key, Direction]:
        name = group_of(pod)
        if name is None or name not in self._groups:
            return {}
        group, key = self._groups[name], _key_of(pod)
        known = key in group.pods
        group.pods.discard(key)
        group.placed.discard(key)
        group.rejected.discard(key)
        self._forget_empty(name)
        return {group_key(*name): Direction.DOWN} if known else {}

    def reject_pod(self, pod: Pod) -> None:
        """Count a pod that no node takes. If groups block each other, all but the first of them give up."""
        name = group_of(pod)
        group = None if name is None else self._groups.get(name)
        if group is None:
            return
        group.rejected.add(_key_of(pod))
        if not group.waiting:
            return
        stuck = [(group.rank, key) for key, group in self._groups.items() if group.waiting and group.rejected]
        (_, first), *others = sorted(stuck)
        for _, key in others:
            self._yielding[key] = first
            self._deny_all(self._groups[key], self._yields(key))
            # The group counts as stuck again once another attempt fails: by then there may be room for all its pods.
            self._groups[key].rejected.clear()

    # Extension points

    def pre_enqueue(self, workload: Workload[Any], /) -> Status:
        name = group_of(info_of_workload(workload).pod)
        if name is None:
            return OK
        group = self._group(name)
        if group.needed is None:
            return _rejected(NO_GROUP.format(group="/".join(name)))
        known = len(group.pods | {_workload_pod(workload.key)})
        if known < group.needed:
            words = TOO_FEW_PODS.format(group="/".join(name), known=known, needed=group.needed)
            return _rejected(words)
        return _rejected(self._yields(name)) if name in self._yielding else OK

    def gate_reads(self, workload: Workload[Any], /) -> Reads:
        name = group_of(info_of_workload(workload).pod)
        return Reads() if name is None else Reads(cells=frozenset({group_key(*name)}))

    def reserve(self, _context: CommitContext, /) -> Status:
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        """Give up the place of the pod, and the places of pods that wait for it."""
        name = group_of(info_of_workload(context.workload).pod)
        group = None if name is None else self._groups.get(name)
        if name is None or group is None:
            return
        key = _workload_pod(context.workload.key)
        counted = key in group.placed or key in group.waiting
        group.placed.discard(key)
        group.waiting.pop(key, None)
        if counted:
            reason = GAVE_UP.format(pod=context.workload.key, group="/".join(name))
            group.failures += 1
            self._deny_all(group, reason)

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        name = group_of(info_of_workload(context.workload).pod)
        if name is None:
            return OK, None
        if name in self._yielding:  # the pod was queued before
            return _rejected(self._yields(name)), None
        group, key = self._group(name), _workload_pod(context.workload.key)
        needed = group.needed if group.needed is not None else len(group.pods) + 1
        group.rejected.discard(key)
        group.waiting[key] = context.workload
        placed = len(group.placed | group.waiting.keys())
        if placed < needed:
            words = WAITS.format(placed=placed, needed=needed, group="/".join(name))
            return Status(Code.WAIT, (words,), plugin=NAME), group.timeout
        del group.waiting[key]
        group.placed.add(key)
        self._release(group)
        return OK, None

    def commit_reads(self, context: CommitContext, /) -> Reads:
        """A group that gave up is tried again when it changes, or when any node does."""
        name = group_of(info_of_workload(context.workload).pod)
        return Reads(cells=frozenset(() if name is None else {group_key(*name)}), anything=True)

    # Decisions

    def settle(self, scheduler: Scheduler, *, now: Micros) -> list[ForCaller]:
        """Pass all decisions to the scheduler. Return what its caller must do."""
        rest: list[ForCaller] = []
        while self._decisions:
            key, reason = self._decisions.popleft()
            if reason:
                rest += scheduler.deny(key, NAME, reason, now=now)
            else:
                rest += scheduler.allow(key, NAME, now=now)
        for name, first in list(self._yielding.items()):
            group = self._groups.get(first)
            if group is None or not group.waiting:
                del self._yielding[name]
                scheduler.on_event(Event(label=MAY_START, columns={group_key(*name): Direction.UP}), now=now)
        return rest

    def _release(self, group: _Group) -> None:
        """Allow the pods that wait, if there are enough."""
        if group.needed is None or len(group.placed | group.waiting.keys()) < group.needed:
            return
        group.failures = 0
        for pod, workload in group.waiting.items():
            group.placed.add(pod)
            self._decisions.append((workload.key, ""))
        group.waiting.clear()

    def _yields(self, name: PodKey) -> str:
        return YIELDS.format(group="/".join(name), first="/".join(self._yielding[name]))

    def _deny_all(self, group: _Group, reason: str) -> None:
        """Let all pods that wait give their nodes back."""
        for workload in group.waiting.values():
            self._decisions.append((workload.key, reason))
        group.waiting.clear()

    def _group(self, name: PodKey) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _forget_empty(self, name: PodKey) -> None:
        group = self._groups[name]
        if group.needed is None and not (group.pods or group.placed or group.waiting):
            del self._groups[name]


def group_key(namespace: str, name: str) -> Key:
    """Return the column by which changes of a group are reported."""
    return ("pod-group-members", namespace, name)


def group_of(pod: Pod) -> PodKey | None:
    name = pod.metadata.labels.get(GROUP_LABEL)
    return (pod.metadata.namespace, name) if name else None


def _key_of(pod: Pod) -> PodKey:
    return pod.metadata.namespace, pod.metadata.name


def _workload_pod(key: WorkloadKey) -> PodKey:
    return key.namespace, key.name


def _rejected(words: str) -> Status:
    return Status(Code.UNSCHEDULABLE, (words,), plugin=NAME)
