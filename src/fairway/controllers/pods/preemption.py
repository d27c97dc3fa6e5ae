"""Carry out preemptions: evict the victims, and clear nominations that have lost their room.

As kube-scheduler, this deletes the pods instead of asking for evictions: the plan prefers nodes where no
PodDisruptionBudget is violated, but a budget cannot keep a pod of higher priority waiting. Each victim has the
condition DisruptionTarget before it is deleted, so that Jobs can tell a preemption from a failure.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairway.api.pod import Pod
from fairway.controllers.pods.hub_access import PodAccess, find_pod
from fairway.controllers.pods.keys import EvictionKey
from fairway.controllers.pods.metrics import PodMetrics
from fairway.controllers.pods.status import PodReporter, observed_generation
from fairway.controllers.runtime.scheduling_loop import SchedulingLoop
from fairway.engine.commit.instructions import Nominate
from fairway.engine.workload import WorkloadKey
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods.plugins.default_preemption import DISRUPTION_TARGET, PREEMPTED, Preemption
from fairway.workloads.pods.plugins.vm_scaling import EarmarkPreemption
from kubewire.api.event import NORMAL
from kubewire.api.meta import TRUE, format_time
from kubewire.client import Clock, Conflict, Informer, NotFound, Recorder
from kubewire.client.events import reference_to

ACCOMMODATES: Final = "{scheduler}: preempting to accommodate a higher priority pod"
PREEMPTED_BY: Final = "Preempted by pod {uid} on node {node}"
PREEMPTED_EVENT: Final = "Preempted"
PREEMPTING: Final = "Preempting"


@dataclass(frozen=True, slots=True)
class Eviction:
    victim: WorkloadKey
    preemptor: Pod
    node: str


class Preemptor:
    """``wake`` queues a victim for ``evict``, ``report`` wakes pods after a change of nominations, and ``take_room``
    closes earmarks for a nominated pod."""

    def __init__(
        self,
        *,
        fleet: NodeFleet,
        pods: Informer[Pod],
        hub: PodAccess,
        reporter: PodReporter,
        recorders: Mapping[str, Recorder],
        metrics: PodMetrics,
        wake: Callable[[EvictionKey], None],
        report: Callable[[str], None],
        clock: Clock,
        take_room: Callable[[Pod, EarmarkPreemption], None] = lambda _pod, _plan: None,
    ) -> None:
        self._take_room = take_room
        self._fleet, self._pods, self._hub, self._reporter = fleet, pods, hub, reporter
        self._recorders, self._wake, self._report, self._clock = recorders, wake, report, clock
        self._metrics = metrics
        self._evictions: dict[EvictionKey, Eviction] = {}

    def carry_out(self, nominate: Nominate, loop: SchedulingLoop) -> None:
        """Begin a preemption: keep the room, and evict the victims."""
        plan, key = nominate.plan, nominate.key
        preemptor = find_pod(self._pods, key)
        if not isinstance(plan, Preemption | EarmarkPreemption) or preemptor is None:
            return
        self._clear_lower(plan.node, preemptor)
        # Before the evictions: other pods must not take the room that the victims leave.
        self._fleet.nominate(preemptor, plan.node)
        self._report("pod nominated")
        if isinstance(plan, EarmarkPreemption):
            self._take_room(preemptor, plan)
            return
        for pod in plan.victims:
            victim = WorkloadKey.of(pod.metadata)
            if not loop.preempt(victim, PREEMPTED_BY.format(uid=key.uid, node=plan.node)):
                eviction_key = EvictionKey(victim.namespace, victim.name)
                self._evictions[eviction_key] = Eviction(victim, preemptor, plan.node)
                # The hub shows the victim as terminating only after the write. Until then another cycle of the
                # preemptor would choose more victims.
                self._fleet.begin_eviction([(victim.namespace, victim.name)])
                self._wake(eviction_key)

    def _clear_lower(self, node: str, preemptor: Pod) -> None:
        """Clear the nominations of lower priority on a node: the room is not theirs any more."""
        priority = preemptor.spec.priority or 0
        lower = [info for info in self._fleet.nominated_to(node) if info.priority < priority]
        for info in lower:
            meta = info.pod.metadata
            self._fleet.nominate(info.pod, "")
            self._report("nomination cleared")
            self._reporter.nominate(WorkloadKey.of(meta), "")

    async def evict(self, key: EvictionKey) -> None:
        eviction = self._evictions.get(key)
        if eviction is None:
            return
        victim = find_pod(self._pods, eviction.victim)
        if victim is not None and not victim.terminating:
            await self._delete(victim, eviction)
        # Keys have no uid: the eviction of a pod that was recreated under this name may have replaced it meanwhile.
        if self._evictions.get(key) is eviction:
            del self._evictions[key]

    async def _delete(self, victim: Pod, eviction: Eviction) -> None:
        preemptor = eviction.preemptor
        condition = {
            "type": DISRUPTION_TARGET,
            "status": TRUE,
            "reason": PREEMPTED,
            "message": ACCOMMODATES.format(scheduler=preemptor.spec.schedulerName),
            "lastTransitionTime": format_time(self._clock.wall()),
            **observed_generation(victim),
        }
        with suppress(Conflict, NotFound):  # deleted or recreated meanwhile
            if not _is_target(victim):
                await self._hub.patch_status(eviction.victim, {"conditions": [condition]})
            await self._hub.delete(eviction.victim)
            self._metrics.evicted(preemptor.spec.schedulerName)
            self._recorders[preemptor.spec.schedulerName].event(
                victim,
                reason=PREEMPTED_EVENT,
                message=PREEMPTED_BY.format(uid=preemptor.metadata.uid, node=eviction.node),
                type_=NORMAL,
                action=PREEMPTING,
                related=reference_to(preemptor),
            )


def _is_target(pod: Pod) -> bool:
    return any(
        condition.type == DISRUPTION_TARGET and condition.status == TRUE and condition.reason == PREEMPTED
        for condition in pod.status.conditions
    )
