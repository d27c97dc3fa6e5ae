"""Coscheduling: the pods of a group start together, or none of them does.

A pod belongs to the group that its label names. It enters the queue once the group has enough pods, and waits at Permit
on its node until enough of them have one. If that takes too long, or one of them gives its node back, all that wait do.

The plugin decides, the caller acts: ``settle`` passes the decisions to the scheduler after each event.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from fairway.api.pod import Pod
from fairway.engine.commit.instructions import ForCaller
from fairway.engine.points import CommitContext, Reads
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import Workload, WorkloadKey
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction
from fairway.fleet.instant import Micros
from fairway.nodes.pods import PodKey
from fairway.plugins.pods.workload import info_of_workload

NAME = "Coscheduling"
GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The label of the PodGroup API; its value is the name of a group in the pod's namespace."""
DEFAULT_TIMEOUT: Final = timedelta(minutes=5)

NO_GROUP = "pod group {group} does not exist"
TOO_FEW_PODS = "pod group {group} has {known} of {needed} pods"
WAITS = "{placed} of {needed} pods of group {group} have a node"
BAD_WAIT = "permitWaitingTimeSeconds must be at least 1; got {given!r}"
GAVE_UP = "pod {pod} of group {group} gave its node back"


@dataclass(slots=True)
class _Group:
    needed: int | None = None
    """Smallest number of pods that start together; None while the PodGroup does not exist."""
    timeout: timedelta = DEFAULT_TIMEOUT
    pods: set[PodKey] = field(default_factory=set)
    placed: set[PodKey] = field(default_factory=set)
    """Pods that are bound, or may be."""
    waiting: dict[PodKey, WorkloadKey] = field(default_factory=dict)
    """Pods that wait for others on their node."""


class Coscheduling:
    name = NAME

    def __init__(self, *, permit_waiting_time_seconds: int | None = None) -> None:
        """``permit_waiting_time_seconds`` is the timeout of groups that have none."""
        seconds = permit_waiting_time_seconds
        if seconds is not None and seconds < 1:
            raise ValueError(BAD_WAIT.format(given=seconds))
        self._timeout = DEFAULT_TIMEOUT if seconds is None else timedelta(seconds=seconds)
        self._groups: dict[PodKey, _Group] = {}
        self._decisions: deque[tuple[WorkloadKey, str]] = deque()
        """Workloads to allow, or with a reason to deny."""

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
        self._forget_empty(name)
        return {group_key(*name): Direction.DOWN} if known else {}

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
        return OK

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
            for other in group.waiting.values():
                self._decisions.append((other, reason))
            group.waiting.clear()

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        name = group_of(info_of_workload(context.workload).pod)
        if name is None:
            return OK, None
        group, key = self._group(name), _workload_pod(context.workload.key)
        needed = group.needed if group.needed is not None else len(group.pods) + 1
        group.waiting[key] = context.workload.key
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
        return rest

    def _release(self, group: _Group) -> None:
        """Allow the pods that wait, if there are enough."""
        if group.needed is None or len(group.placed | group.waiting.keys()) < group.needed:
            return
        for pod, workload in group.waiting.items():
            group.placed.add(pod)
            self._decisions.append((workload, ""))
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
