"""Prometheus metrics of the controllers.

Every ``Meters`` has its own registry, so that several managers, and tests, can share a process. Metrics are recorded on
the path of every decision, so recording costs about a microsecond and never raises: an invalid value is dropped.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fairway import __version__

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the output of ``expose``."""

CYCLE_BUCKETS: Final = (
    *(1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3),
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
REACTION_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
WORK_BUCKETS: Final = (
    *(1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

CHANGES: Final = ("created", "updated", "refreshed", "relabelled", "deleted")
EVENT_RESULTS: Final = ("created", "updated", "suppressed", "dropped", "refused", "failed")
SUPPRESSION_CAUSES: Final = ("MinGain", "QuietHours", "Dwell", "MovesPerHour")
HISTORY_RESULTS: Final = ("recorded", "lost")
FOLLOWED: Final = "followed"
SCRATCH: Final = "scratch"

MOST_LABELS: Final = 1000
"""Maximum number of label combinations of one metric. Some labels come from error reasons of a hub, which must not be
able to exhaust the memory of this process or of Prometheus."""
OTHER: Final = "other"

_WORD: Final = re.compile(r"[A-Za-z0-9_./:+-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Name, type, meaning and labels of a metric. ``docs/reference/metrics.md`` is generated from them."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def create_counter(self, registry: CollectorRegistry) -> Counter:
        return Counter(self.name, self.meaning, self.labels, registry=registry)

    def create_gauge(self, registry: CollectorRegistry) -> Gauge:
        return Gauge(self.name, self.meaning, self.labels, registry=registry)

    def create_histogram(self, registry: CollectorRegistry) -> Histogram:
        return Histogram(self.name, self.meaning, self.labels, buckets=self.buckets, registry=registry)


def counter(name: str, meaning: str, *labels: str) -> Definition:
    return Definition(name=name, type="counter", meaning=meaning, labels=labels)


def gauge(name: str, meaning: str, *labels: str) -> Definition:
    return Definition(name=name, type="gauge", meaning=meaning, labels=labels)


def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Definition:
    return Definition(name=name, type="histogram", meaning=meaning, labels=labels, buckets=buckets)


QUEUE_DEPTH: Final = gauge(
    "fairway_workqueue_depth", "Keys waiting for a worker of the controller.", "controller"
)
QUEUE_ADDS: Final = counter(
    "fairway_workqueue_adds_total",
    "Keys added to the queue. A key that is already queued is not counted again.",
    "controller",
)
QUEUE_RETRIES: Final = counter(
    "fairway_workqueue_retries_total", "Keys requeued because their reconcile failed.", "controller"
)
QUEUE_WAIT: Final = histogram(
    "fairway_workqueue_wait_seconds",
    "Time from the first change of a key until a worker takes it.",
    "controller",
    buckets=WORK_BUCKETS,
)
QUEUE_WORK: Final = histogram(
    "fairway_workqueue_work_seconds",
    "Time that a worker takes for one key, including writes.",
    "controller",
    buckets=WORK_BUCKETS,
)
CYCLE: Final = histogram(
    "fairway_cycle_seconds",
    "Time to compute one placement, without I/O. "
    "path is followed for an incremental cycle, scratch for one over all clusters.",
    "path",
    buckets=CYCLE_BUCKETS,
)
EXPRESSIONS_WAITING: Final = gauge(
    "fairway_placement_expressions_waiting",
    "Placements whose CEL expressions wait because those of their namespace used up its share of the controller.",
)
DECISIONS_CHANGED: Final = counter(
    "fairway_decisions_changed_total",
    "PlacementDecisions written, by change: created, updated (clusters changed), refreshed (only scores "
    "or reasons changed), relabelled, deleted.",
    "change",
)
MOVES_SUPPRESSED: Final = counter(
    "fairway_moves_suppressed_total",
    "Better clusters that the stability contract of a Placement kept out, by cause: MinGain, QuietHours, Dwell, "
    "MovesPerHour. A cluster counts again once it was selected, or no longer better, in between.",
    "cause",
)
WRITES: Final = counter(
    "fairway_writes_total", "Writes sent to the hub, successful or not.", *("controller", "resource", "verb")
)
EVENTS: Final = counter(
    "fairway_events_total",
    "Recorded Events by what became of them: created, updated (a repetition of one on the hub), suppressed (too many "
    "about one object; the next update counts them), dropped (too many pending, or the process stopped), refused or "
    "failed (by the hub).",
    "result",
)
WRITE_ERRORS: Final = counter(
    "fairway_write_errors_total",
    "Writes that the hub rejected, by reason. "
    "A few with the reason Conflict are normal: another client wrote first, and the write is retried.",
    *("controller", "resource", "verb", "reason"),
)
CELLS_CHANGED: Final = counter(
    "fairway_cells_changed_total", "Changed cells of the fleet's columns, by kind of object.", "kind"
)
LEADER: Final = gauge("fairway_leader", "1 if this process holds the lease, 0 if it waits for it.", "lease")
OBJECTS: Final = gauge("fairway_objects", "Objects of the hub in the cache.", "kind")
LAG: Final = gauge(
    "fairway_informer_lag_seconds",
    "Maximum age of the cache of the resource; +Inf before the first list.",
    "resource",
)
UNREADABLE: Final = gauge(
    "fairway_unreadable_fields",
    "Objects with a field that cannot be decoded and is replaced by the safest value.",
    *("kind", "field"),
)
REACTION: Final = histogram(
    "fairway_reaction_seconds",
    "Time from an observed change to the written decision.",
    buckets=REACTION_BUCKETS,
)
DIFFERENCES: Final = gauge(
    "fairway_shadow_differences",
    "Placements whose decisions on the hub differ from what Fairway would write; only with --shadow.",
)
HISTORY: Final = counter(
    "fairway_history_records_total",
    "Decisions by what became of their records in the history: recorded, or lost because the disk was full, the file "
    "could not be written, or too many were pending. The history has a gap where records were lost.",
    "result",
)
PLUGIN_FAULTS: Final = counter(
    "fairway_plugin_faults_total",
    "Calls of third-party plugins that raised, returned nonsense, modified their input or stalled.",
    *("plugin", "point"),
)
PLUGIN_CALLS: Final = histogram(
    "fairway_plugin_call_seconds",
    "Time of one call of a third-party plugin.",
    *("plugin", "point"),
    buckets=CYCLE_BUCKETS,
)
PLUGIN_QUARANTINE: Final = gauge(
    "fairway_plugin_quarantined",
    "1 while a third-party plugin is not called because of repeated faults, otherwise 0.",
    "plugin",
)
BUILD: Final = gauge("fairway_build_info", "Always 1; the label is the version of Fairway.", "version")

DEFINITIONS: Final = (
    *(QUEUE_DEPTH, QUEUE_ADDS, QUEUE_RETRIES, QUEUE_WAIT, QUEUE_WORK),
    *(CYCLE, EXPRESSIONS_WAITING, REACTION, DECISIONS_CHANGED, WRITES, WRITE_ERRORS, EVENTS, CELLS_CHANGED),
    MOVES_SUPPRESSED,
    HISTORY,
    *(PLUGIN_FAULTS, PLUGIN_CALLS, PLUGIN_QUARANTINE),
    *(LEADER, OBJECTS, LAG, UNREADABLE, DIFFERENCES, BUILD),
)


def word(value: str) -> str:
    """Return ``value`` if it is a valid label, else OTHER."""
    return value if _WORD.fullmatch(value) else OTHER


class _Counters:
    """A counter with cached children."""

    def __init__(self, definition: Definition, registry: CollectorRegistry) -> None:
        self._metric = definition.create_counter(registry)
        self._other = (OTHER,) * len(definition.labels)
        self._children: dict[tuple[str, ...], Counter] = {}

    def child(self, *labels: str) -> Counter:
        known = self._children.get(labels)
        return known if known is not None else self._new(labels)

    def _new(self, labels: tuple[str, ...]) -> Counter:
        if len(self._children) >= MOST_LABELS:
            return self._metric.labels(*self._other)
        child = self._metric.labels(*map(word, labels))
        self._children[labels] = child
        return child


class _Gauges:
    def __init__(self, definition: Definition, registry: CollectorRegistry) -> None:
        self._metric = definition.create_gauge(registry)
        self._children: dict[str, Gauge] = {}

    def child(self, label: str) -> Gauge:
        known = self._children.get(label)
        return known if known is not None else self._new(label)

    def _new(self, label: str) -> Gauge:
        if len(self._children) >= MOST_LABELS:
            return self._metric.labels(OTHER)
        child = self._metric.labels(word(label))
        self._children[label] = child
        return child


def _observe(histogram: Histogram, seconds: float) -> None:
    # A clock that was set back causes a negative duration, and the sum of a histogram must never decrease.
    if math.isfinite(seconds):
        histogram.observe(seconds if seconds > 0.0 else 0.0)


class QueueMeter:
    """Metrics of a controller's queue; implements the observer of a work queue."""

    __slots__ = ("_adds", "_depth", "_retries", "_wait", "_work")

    def __init__(
        self, *, depth: Gauge, adds: Counter, retries: Counter, wait: Histogram, work: Histogram
    ) -> None:
        self._depth, self._adds, self._retries, self._wait, self._work = depth, adds, retries, wait, work

    def added(self, *, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def started(self, *, waited: float, depth: int) -> None:
        _observe(self._wait, waited)
        self._depth.set(depth)

    def finished(self, *, took: float) -> None:
        _observe(self._work, took)

    def retried(self) -> None:
        self._retries.inc()


class Meters:
    """Metrics of one process. A given ``registry`` must not contain these names yet."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        made = self.registry
        self._queue_depth = _Gauges(QUEUE_DEPTH, made)
        self._queue_adds = _Counters(QUEUE_ADDS, made)
        self._queue_retries = _Counters(QUEUE_RETRIES, made)
        self._queue_wait = QUEUE_WAIT.create_histogram(made)
        self._queue_work = QUEUE_WORK.create_histogram(made)
        self._queues: dict[str, QueueMeter] = {}
        cycle = CYCLE.create_histogram(made)
        self._followed, self._scratch = cycle.labels(FOLLOWED), cycle.labels(SCRATCH)
        self._expressions_waiting = EXPRESSIONS_WAITING.create_gauge(made)
        self._reaction = REACTION.create_histogram(made)
        self._decisions = _Counters(DECISIONS_CHANGED, made)
        for change in CHANGES:
            self._decisions.child(change)  # exported as 0 from the start: a rate needs a first value
        self._suppressed = _Counters(MOVES_SUPPRESSED, made)
        for cause in SUPPRESSION_CAUSES:
            self._suppressed.child(cause)
        self._writes = _Counters(WRITES, made)
        self._write_errors = _Counters(WRITE_ERRORS, made)
        self._events = _Counters(EVENTS, made)
        for result in EVENT_RESULTS:
            self._events.child(result)
        self._cells = _Counters(CELLS_CHANGED, made)
        self._history = _Counters(HISTORY, made)
        for result in HISTORY_RESULTS:
            self._history.child(result)
        self._leader = _Gauges(LEADER, made)
        self._objects = _Gauges(OBJECTS, made)
        self._lag = _Gauges(LAG, made)
        self._unreadable = UNREADABLE.create_gauge(made)
        self._unreadable_shown: set[tuple[str, str]] = set()
        self._differences: Gauge | None = None
        self._plugin_faults = _Counters(PLUGIN_FAULTS, made)
        self._plugin_calls = PLUGIN_CALLS.create_histogram(made)
        self._plugin_quarantine = _Gauges(PLUGIN_QUARANTINE, made)
        _Gauges(BUILD, made).child(__version__).set(1)
        ProcessCollector(registry=made)
        PlatformCollector(registry=made)
        GCCollector(registry=made)

    def queue(self, controller: str) -> QueueMeter:
        """Return the meter of a controller; always the same object."""
        meter = self._queues.get(controller)
        if meter is None:
            name = word(controller)
            meter = self._queues[controller] = QueueMeter(
                depth=self._queue_depth.child(name),
                adds=self._queue_adds.child(name),
                retries=self._queue_retries.child(name),
                wait=self._queue_wait.labels(name),
                work=self._queue_work.labels(name),
            )
        return meter

    def cycle(self, *, seconds: float, followed: bool) -> None:
        """``followed`` is true for a cycle that continued the last one of the same placement."""
        _observe(self._followed if followed else self._scratch, seconds)

    def expressions_waiting(self, count: int) -> None:
        self._expressions_waiting.set(count)

    def reaction(self, seconds: float) -> None:
        """Record the time from the observed change to the written decision."""
        _observe(self._reaction, seconds)

    def decision(self, change: str) -> None:
        """``change`` is one of CHANGES."""
        self._decisions.child(change).inc()

    def suppressed(self, cause: str, count: int) -> None:
        """Record better clusters that a stability contract kept out."""
        if count:
            self._suppressed.child(cause).inc(count)

    def write(self, *, controller: str, resource: str, verb: str, error: str = "") -> None:
        """Record a request to the hub. ``error`` is the reason of a rejection, such as Conflict."""
        self._writes.child(controller, resource, verb).inc()
        if error:
            self._write_errors.child(controller, resource, verb, error).inc()

    def event(self, result: str) -> None:
        """Record what became of an Event; one of EVENT_RESULTS."""
        self._events.child(result).inc()

    def history(self, result: str, count: int) -> None:
        """Record what became of decisions in the history; one of HISTORY_RESULTS. Any thread may call it."""
        self._history.child(result).inc(count)

    def cells(self, *, kind: str, count: int = 1) -> None:
        if count > 0:
            self._cells.child(kind).inc(count)

    def leader(self, *, lease: str, leading: bool) -> None:
        self._leader.child(lease).set(1 if leading else 0)

    def objects(self, *, kind: str, count: int) -> None:
        self._objects.child(kind).set(count)

    def lag(self, *, resource: str, seconds: float) -> None:
        self._lag.child(resource).set(seconds)

    def unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Set the number of objects by kind and field. Combinations that are no longer present become 0."""
        shown = dict.fromkeys(self._unreadable_shown, 0)
        for labels, count in counts.items():
            known = labels if labels in shown or len(shown) < MOST_LABELS else (OTHER, OTHER)
            shown[known] = shown.get(known, 0) + count
        for labels, count in shown.items():
            self._unreadable.labels(*labels).set(count)
        self._unreadable_shown.update(shown)

    def plugin_fault(self, *, plugin: str, point: str) -> None:
        self._plugin_faults.child(plugin, point).inc()

    def plugin_call(self, plugin: str, point: str, seconds: float) -> None:
        """Record a call of a third-party plugin. Configurations bound their number."""
        _observe(self._plugin_calls.labels(word(plugin), word(point)), seconds)

    def plugin_quarantine(self, *, plugin: str, active: bool) -> None:
        self._plugin_quarantine.child(plugin).set(1 if active else 0)

    def differences(self, count: int) -> None:
        """Set the gauge, which is exported only after the first call, because only a shadow has one."""
        if self._differences is None:
            self._differences = Gauge(DIFFERENCES.name, DIFFERENCES.meaning, registry=self.registry)
        self._differences.set(count)

    def expose(self) -> bytes:
        """Return all metrics in the format of CONTENT_TYPE."""
        return generate_latest(without_created(self.registry))


def without_created(registry: CollectorRegistry) -> Collector:
    """Return a collector without the ``_created`` series, which would double the output."""
    return _Plain(registry)


class _Plain(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
