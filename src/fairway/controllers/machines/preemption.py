"""Carry out preemptions: evict the victims, and clear nominations that have lost their room.

As kube-scheduler, this deletes the pods instead of asking for evictions: the plan prefers nodes where no
PodDisruptionBudget is violated, but a budget cannot keep a pod of higher priority waiting. Each victim has the
condition DisruptionTarget before it is deleted, so that Jobs can tell a preemption from a failure.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairway.api.event import NORMAL
from fairway.api.meta import TRUE, format_time
from fairway.api.pod import Pod
from fairway.controllers.machines.hub_access import PodAccess
from fairway.controllers.machines.pod_metrics import PodMetrics
from fairway.controllers.machines.pod_status import PodReporter, observed_generation
from fairway.controllers.reconciler import Key
from fairway.controllers.scheduling_loop import SchedulingLoop
from fairway.engine.commit.instructions import Nominate
from fairway.engine.workload import WorkloadKey
from fairway.fleet.journal import Change
from fairway.kube import Clock, Conflict, Informer, NotFound, Recorder
from fairway.kube.events import reference_to
from fairway.nodes import NodeFleet
from fairway.plugins.pods.default_preemption import DISRUPTION_TARGET, PREEMPTED, Preemption
from fairway.plugins.pods.vm_scaling import EarmarkPreemption

PREFIX: Final = "evictions/"
"""Of the namespace in keys of victims. No namespace contains a slash."""
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
    """``wake`` queues a victim for ``evict``, ``changed`` wakes pods after a change of nominations, and ``take_room``
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
        wake: Callable[[Key], None],
        changed: Callable[[Change, str], None],
        clock: Clock,
        take_room: Callable[[Pod, EarmarkPreemption], None] = lambda _pod, _plan: None,
    ) -> None:
        self._take_room = take_room
        self._fleet, self._pods, self._hub, self._reporter = fleet, pods, hub, reporter
        self._recorders, self._wake, self._changed, self._clock = recorders, wake, changed, clock
        self._metrics = metrics
        self._evictions: dict[Key, Eviction] = {}

    def carry_out(self, nominate: Nominate, loop: SchedulingLoop) -> None:
        """Begin a preemption: keep the room, and evict the victims."""
        plan, key = nominate.plan, nominate.key
        preemptor = self._find(key)
        if not isinstance(plan, Preemption | EarmarkPreemption) or preemptor is None:
            return
        self._clear_lower(plan.node, preemptor)
        self._changed(self._fleet.nominate(preemptor, plan.node), "pod nominated")
        if isinstance(plan, EarmarkPreemption):
            self._take_room(preemptor, plan)
            return
        for pod in plan.victims:
            victim = WorkloadKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
            if not loop.preempt(victim, PREEMPTED_BY.format(uid=key.uid, node=plan.node)):
                name = (PREFIX + victim.namespace, victim.name)
                self._evictions[name] = Eviction(victim, preemptor, plan.node)
                self._wake(name)

    def _clear_lower(self, node: str, preemptor: Pod) -> None:
        """Clear the nominations of lower priority on a node: the room is not theirs any more."""
        priority = preemptor.spec.priority or 0
        for info in [each for each in self._fleet.nominated_to(node) if each.priority < priority]:
            meta = info.pod.metadata
            self._changed(self._fleet.nominate(info.pod, ""), "nomination cleared")
            self._reporter.nominate(WorkloadKey(meta.namespace, meta.name, meta.uid), "")

    async def evict(self, name: Key) -> None:
        eviction = self._evictions.get(name)
        if eviction is None:
            return
        victim = self._find(eviction.victim)
        if victim is not None and not victim.terminating:
            await self._delete(victim, eviction)
        if self._evictions.get(name) is eviction:
            del self._evictions[name]

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

    def _find(self, key: WorkloadKey) -> Pod | None:
        pod = self._pods.get(key.name, namespace=key.namespace)
        return pod if pod is not None and pod.metadata.uid == key.uid else None


def _is_target(pod: Pod) -> bool:
    return any(
        each.type == DISRUPTION_TARGET and each.status == TRUE and each.reason == PREEMPTED
        for each in pod.status.conditions
    )
