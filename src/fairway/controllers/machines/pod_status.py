"""What users see of the scheduling of a pod: the condition PodScheduled, and events as kube-scheduler writes them.

Events are recorded at once. Conditions are written by the workers of the controller, the newest one of each pod, and
only if the hub shows another.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.event import NORMAL, WARNING
from fairway.api.meta import FALSE, format_time
from fairway.api.pod import Pod, PodCondition
from fairway.controllers.machines.hub_access import PodAccess
from fairway.controllers.reconciler import Key
from fairway.engine.workload import WorkloadKey
from fairway.kube import Clock, Conflict, Informer, NotFound, Recorder

POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

SCHEDULED: Final = "Scheduled"
FAILED_SCHEDULING: Final = "FailedScheduling"
ASSIGNED: Final = "Successfully assigned {pod} to {node}"
BINDING: Final = "Binding"
SCHEDULING: Final = "Scheduling"
LONGEST_NOTE: Final = 1024
"""Characters of an event's note that the API server accepts."""
CUT: Final = " ..."


@dataclass(frozen=True, slots=True)
class PendingStatus:
    """A condition that is to be written."""

    key: WorkloadKey
    reason: str
    message: str


class PodReporter:
    """``recorders`` are those of the profiles, by name; ``wake`` queues a pod for ``write``."""

    def __init__(
        self,
        *,
        pods: Informer[Pod],
        recorders: Mapping[str, Recorder],
        hub: PodAccess,
        wake: Callable[[Key], None],
        clock: Clock,
    ) -> None:
        self._pods, self._recorders, self._hub, self._wake, self._clock = pods, recorders, hub, wake, clock
        self._pending: dict[Key, PendingStatus] = {}

    def bound(self, key: WorkloadKey, node: str) -> None:
        self.forget(key)
        pod = self._find(key)
        if pod is not None:
            message = ASSIGNED.format(pod=key, node=node)
            self._recorders[pod.spec.schedulerName].event(
                pod, reason=SCHEDULED, message=message, type_=NORMAL, action=BINDING
            )

    def failed(self, key: WorkloadKey, reason: str, message: str) -> None:
        """Report an attempt that failed; the reason is Unschedulable or SchedulerError."""
        pod = self._find(key)
        if pod is None or pod.spec.nodeName:
            return
        self._recorders[pod.spec.schedulerName].event(
            pod, reason=FAILED_SCHEDULING, message=truncate(message), type_=WARNING, action=SCHEDULING
        )
        status = PendingStatus(key, reason, message)
        if _patch(pod, status, now="") is None:
            self.forget(key)
        else:
            self._pending[key.namespace, key.name] = status
            self._wake((key.namespace, key.name))

    def forget(self, key: WorkloadKey) -> None:
        """Write nothing about a pod that is bound or deleted."""
        found = self._pending.get((key.namespace, key.name))
        if found is not None and found.key == key:
            del self._pending[key.namespace, key.name]

    async def write(self, name: Key) -> None:
        """Write the pending status of a pod."""
        status = self._pending.get(name)
        pod = None if status is None else self._find(status.key)
        if status is None or pod is None or pod.spec.nodeName:
            self._pending.pop(name, None)
            return
        patch = _patch(pod, status, now=format_time(self._clock.wall()))
        if patch is not None:
            with suppress(Conflict, NotFound):  # deleted or recreated; the watch will show it
                self._pods.observe(await self._hub.patch_status(status.key, patch))
        if self._pending.get(name) is status:
            del self._pending[name]

    def _find(self, key: WorkloadKey) -> Pod | None:
        pod = self._pods.get(key.name, namespace=key.namespace)
        return pod if pod is not None and pod.metadata.uid == key.uid else None


def truncate(note: str) -> str:
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - len(CUT)]}{CUT}"


def condition_of(pod: Pod) -> PodCondition | None:
    return next((each for each in pod.status.conditions if each.type == POD_SCHEDULED), None)


def _patch(pod: Pod, status: PendingStatus, *, now: str) -> dict[str, Any] | None:
    """Return the status to merge; None if the pod has it."""
    old = condition_of(pod)
    wanted = PodCondition(type=POD_SCHEDULED, status=FALSE, reason=status.reason, message=status.message)
    if old == wanted:
        return None
    condition: dict[str, Any] = {
        "type": POD_SCHEDULED,
        "status": FALSE,
        "reason": status.reason,
        "message": status.message,
    }
    if old is None or old.status != FALSE:
        condition |= {"lastProbeTime": None, "lastTransitionTime": now}
    return {"conditions": [condition]}
