"""Metrics of the scheduling of pods."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from prometheus_client import Counter, Gauge

from fairway.engine.queue import SchedulingQueue, State
from fairway.observe.meters import Definition, Meters

ATTEMPTS: Final = Definition(
    name="fairway_pods_schedule_attempts_total",
    type="counter",
    meaning="Attempts to schedule a pod, by profile and result: scheduled (bound), unschedulable, error.",
    labels=("profile", "result"),
)
PENDING: Final = Definition(
    name="fairway_pods_pending",
    type="gauge",
    meaning="Pods without a node, by where they wait: active, backoff, unschedulable (until an event may help), gated, "
    "binding (a node is chosen).",
    labels=("queue",),
)
VICTIMS: Final = Definition(
    name="fairway_pods_preemption_victims_total",
    type="counter",
    meaning="Pods that were deleted for a pod of higher priority, by the profile of that pod.",
    labels=("profile",),
)
POD_DEFINITIONS: Final = (ATTEMPTS, PENDING, VICTIMS)

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

_QUEUES: Final[Mapping[str, tuple[State, ...]]] = {
    "active": (State.ACTIVE,),
    "backoff": (State.BACKOFF, State.ERROR_BACKOFF),
    "unschedulable": (State.UNSCHEDULABLE,),
    "gated": (State.GATED,),
    "binding": (State.IN_FLIGHT, State.BINDING),
}


class PodMetrics:
    def __init__(self, meters: Meters, *, profiles: Iterable[str]) -> None:
        registry = meters.registry
        self._attempts = Counter(ATTEMPTS.name, ATTEMPTS.meaning, ATTEMPTS.labels, registry=registry)
        self._pending = Gauge(PENDING.name, PENDING.meaning, PENDING.labels, registry=registry)
        self._victims = Counter(VICTIMS.name, VICTIMS.meaning, VICTIMS.labels, registry=registry)
        for profile in profiles:
            self._victims.labels(profile)
            for result in (SCHEDULED, UNSCHEDULABLE, ERROR):
                self._attempts.labels(profile, result)

    def attempted(self, profile: str, result: str) -> None:
        self._attempts.labels(profile, result).inc()

    def evicted(self, profile: str) -> None:
        self._victims.labels(profile).inc()

    def follow(self, queue: Callable[[], SchedulingQueue | None]) -> None:
        """Count the pods of this queue when the gauge is scraped; None while another process leads."""
        for name, states in _QUEUES.items():
            self._pending.labels(name).set_function(partial(_count, queue, states))


def _count(queue: Callable[[], SchedulingQueue | None], states: tuple[State, ...]) -> int:
    current = queue()
    return 0 if current is None else sum(current.counts()[state] for state in states)
