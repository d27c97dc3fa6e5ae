"""What users see of the scheduling of a pod: the condition PodScheduled, and events as kube-scheduler writes them.

Events are recorded at once. Conditions are written by the workers of the controller, the newest one of each pod, and
only if the hub shows another.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from fairway.api.pod import Pod, PodCondition
from fairway.controllers.pods import metrics
from fairway.controllers.pods.hub_access import PodAccess, find_pod
from fairway.controllers.pods.keys import StatusKey
from fairway.controllers.pods.metrics import PodMetrics
from fairway.engine.workload import WorkloadKey
from kubewire.api.event import NORMAL, WARNING
from kubewire.api.meta import FALSE, format_time
from kubewire.client import Clock, Conflict, Informer, NotFound, Recorder

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
_NEVER_PROBED: Final[Mapping[str, Any]] = {"lastProbeTime": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingStatus:
    """What is to be written; None where the hub's value is kept."""

    key: WorkloadKey
    condition: PodCondition | None = None
    node: str | None = None
    """The nominated node; empty to clear it."""

    def patch(self, pod: Pod, *, now: str) -> dict[str, Any]:
        """Return the status to merge; empty if the pod has it."""
        status: dict[str, Any] = {}
        if self.condition is not None and self.condition != (old := condition_of(pod)):
            condition = {**_NEVER_PROBED, **structs.asdict(self.condition)}
            if old is None or old.status != self.condition.status:
                condition["lastTransitionTime"] = now
            status["conditions"] = [condition | observed_generation(pod)]
        if self.node is not None and self.node != pod.status.nominatedNodeName:
            status["nominatedNodeName"] = self.node or None
        return status


class PodReporter:
    """``recorders`` are those of the profiles, by name; ``wake`` queues a pod for ``write``."""

    def __init__(
        self,
        *,
        pods: Informer[Pod],
        recorders: Mapping[str, Recorder],
        hub: PodAccess,
        metrics: PodMetrics,
        wake: Callable[[StatusKey], None],
        clock: Clock,
    ) -> None:
        self._pods, self._recorders, self._hub, self._wake, self._clock = pods, recorders, hub, wake, clock
        self._metrics = metrics
        self._pending: dict[StatusKey, PendingStatus] = {}

    def bound(self, key: WorkloadKey, node: str) -> None:
        self.forget(key)
        pod = find_pod(self._pods, key)
        if pod is not None:
            self._metrics.attempted(pod.spec.schedulerName, metrics.SCHEDULED)
            message = ASSIGNED.format(pod=key, node=node)
            self._recorders[pod.spec.schedulerName].event(
                pod, reason=SCHEDULED, message=message, type_=NORMAL, action=BINDING
            )

    def failed(self, key: WorkloadKey, reason: str, message: str, *, node: str | None = None) -> None:
        """Report an attempt that failed; the reason is Unschedulable or SchedulerError.

        ``node`` is the nominated node; empty to clear it, None to keep it.
        """
        pod = find_pod(self._pods, key)
        if pod is None or pod.spec.nodeName:
            return
        result = metrics.ERROR if reason == SCHEDULER_ERROR else metrics.UNSCHEDULABLE
        self._metrics.attempted(pod.spec.schedulerName, result)
        self._recorders[pod.spec.schedulerName].event(
            pod, reason=FAILED_SCHEDULING, message=truncate(message), type_=WARNING, action=SCHEDULING
        )
        condition = PodCondition(type=POD_SCHEDULED, status=FALSE, reason=reason, message=message)
        self._put(PendingStatus(key=key, condition=condition, node=node), pod)

    def nominate(self, key: WorkloadKey, node: str) -> None:
        pod = find_pod(self._pods, key)
        if pod is not None:
            self._put(PendingStatus(key=key, node=node), pod)

    def _put(self, status: PendingStatus, pod: Pod) -> None:
        name = _status_key(status.key)
        old = self._pending.get(name)
        if old is not None and old.key == status.key:
            condition = old.condition if status.condition is None else status.condition
            node = old.node if status.node is None else status.node
            status = PendingStatus(key=status.key, condition=condition, node=node)
        elif not status.patch(pod, now=""):
            return
        # A status that was being written may be on its way: what the hub shows is compared again after that.
        self._pending[name] = status
        self._wake(name)

    def forget(self, key: WorkloadKey) -> None:
        """Write nothing about a pod that is bound or deleted."""
        name = _status_key(key)
        pending = self._pending.get(name)
        if pending is not None and pending.key == key:
            del self._pending[name]

    async def write(self, name: StatusKey) -> None:
        """Write the pending status of a pod."""
        status = self._pending.get(name)
        pod = None if status is None else find_pod(self._pods, status.key)
        if status is None or pod is None or pod.spec.nodeName:
            self._pending.pop(name, None)
            return
        patch = status.patch(pod, now=format_time(self._clock.wall()))
        if patch:
            with suppress(Conflict, NotFound):  # deleted or recreated; the watch will show it
                self._pods.observe(await self._hub.patch_status(status.key, patch))
        if self._pending.get(name) is status:
            del self._pending[name]


def _status_key(key: WorkloadKey) -> StatusKey:
    return StatusKey(key.namespace, key.name)


def truncate(note: str) -> str:
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - len(CUT)]}{CUT}"


def observed_generation(pod: Pod) -> dict[str, Any]:
    """Return the field of a condition about this version of a pod; older API servers have no generations of pods."""
    generation = pod.metadata.generation
    return {"observedGeneration": generation} if generation else {}


def condition_of(pod: Pod) -> PodCondition | None:
    return next((condition for condition in pod.status.conditions if condition.type == POD_SCHEDULED), None)
