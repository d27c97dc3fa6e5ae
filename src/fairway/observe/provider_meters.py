"""Prometheus metrics of providers. As in ``meters``, recording is cheap and never raises."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairway.observe.meters import MANY, OTHER, WORK_BUCKETS, Definition, without_created, word

READINGS: Final = Definition(
    name="fairway_provider_readings_total",
    type="counter",
    meaning="Readings started by a provider, successful or not.",
    labels=("provider",),
)
READING_FAILURES: Final = Definition(
    name="fairway_provider_reading_failures_total",
    type="counter",
    meaning="Readings that failed completely or partly, by reason.",
    labels=("provider", "reason"),
)
READING_SECONDS: Final = Definition(
    name="fairway_provider_reading_seconds",
    type="histogram",
    meaning="Duration of a reading.",
    labels=("provider",),
    buckets=WORK_BUCKETS,
)
PROVIDER_WRITES: Final = Definition(
    name="fairway_provider_writes_total",
    type="counter",
    meaning="Score objects written to the hub.",
    labels=("provider",),
)
WRITE_FAILURES: Final = Definition(
    name="fairway_provider_write_failures_total",
    type="counter",
    meaning="Score objects that the hub rejected, by reason.",
    labels=("provider", "reason"),
)
AVOIDED: Final = Definition(
    name="fairway_provider_writes_avoided_total",
    type="counter",
    meaning="Readings that were not written because no score moved by its deadband.",
    labels=("provider",),
)
EXPIRY: Final = Definition(
    name="fairway_provider_expiry_seconds",
    type="gauge",
    meaning="Time until the first published score of the provider expires; negative after that.",
    labels=("provider",),
)
SCORE: Final = Definition(
    name="fairway_provider_score",
    type="gauge",
    meaning="The last written score.",
    labels=("provider", "cluster", "score"),
)

PROVIDER_DEFINITIONS: Final = (
    *(READINGS, READING_FAILURES, READING_SECONDS, PROVIDER_WRITES, WRITE_FAILURES, AVOIDED),
    *(EXPIRY, SCORE),
)


def _counter(definition: Definition, registry: CollectorRegistry) -> Counter:
    return Counter(definition.name, definition.meaning, definition.labels, registry=registry)


class ProviderMeters:
    """Metrics of the providers of one process, in ``registry`` if given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        made = self.registry
        self._readings = _counter(READINGS, made)
        self._reading_failures = _counter(READING_FAILURES, made)
        self._seconds = Histogram(
            READING_SECONDS.name,
            READING_SECONDS.meaning,
            READING_SECONDS.labels,
            buckets=READING_SECONDS.buckets,
            registry=made,
        )
        self._writes = _counter(PROVIDER_WRITES, made)
        self._write_failures = _counter(WRITE_FAILURES, made)
        self._avoided = _counter(AVOIDED, made)
        self._scores = Gauge(SCORE.name, SCORE.meaning, SCORE.labels, registry=made)
        self._shown: dict[tuple[str, str], tuple[str, ...]] = {}
        self._series = 0
        self._reasons: set[tuple[str, str]] = set()
        self._expiry: dict[str, Callable[[], float]] = {}
        made.register(_Expiry(self._expiry))

    def provider(self, name: str, *, expiry: Callable[[], float]) -> None:
        """Export the metrics of a provider from now on. ``expiry`` returns the seconds to the first expiry, or NaN."""
        label = word(name)
        for counter in (self._readings, self._writes, self._avoided):
            counter.labels(label)
        self._expiry[label] = expiry

    def reading(self, provider: str, *, seconds: float) -> None:
        label = word(provider)
        self._readings.labels(label).inc()
        if math.isfinite(seconds):
            self._seconds.labels(label).observe(max(seconds, 0.0))

    def reading_failed(self, provider: str, *, reason: str) -> None:
        self._reading_failures.labels(word(provider), self._reason(provider, reason)).inc()

    def write(self, provider: str) -> None:
        self._writes.labels(word(provider)).inc()

    def write_failed(self, provider: str, *, reason: str) -> None:
        self._write_failures.labels(word(provider), self._reason(provider, reason)).inc()

    def avoided(self, provider: str) -> None:
        self._avoided.labels(word(provider)).inc()

    def published(self, provider: str, cluster: str, scores: Mapping[str, int]) -> None:
        """Set the last scores. Series beyond MANY are dropped, because scores cannot be summed."""
        known = self._shown.get((provider, cluster), ())
        for name in known:
            if name not in scores:
                self._scores.remove(word(provider), word(cluster), word(name))
                self._series -= 1
        shown = []
        for name, value in scores.items():
            if name not in known:
                if self._series >= MANY:
                    continue
                self._series += 1
            self._scores.labels(word(provider), word(cluster), word(name)).set(value)
            shown.append(name)
        self._shown[provider, cluster] = tuple(shown)

    def forget(self, provider: str, cluster: str) -> None:
        self.published(provider, cluster, {})
        self._shown.pop((provider, cluster), None)

    def expose(self) -> bytes:
        return generate_latest(without_created(self.registry))

    def _reason(self, provider: str, reason: str) -> str:
        """Limit the reasons, which providers choose, so that they cannot exhaust the memory."""
        known = (provider, reason)
        if known not in self._reasons:
            if len(self._reasons) >= MANY:
                return OTHER
            self._reasons.add(known)
        return word(reason)


class _Expiry(Collector):
    def __init__(self, providers: Mapping[str, Callable[[], float]]) -> None:
        self._providers = providers

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(EXPIRY.name, EXPIRY.meaning, labels=EXPIRY.labels)
        for name, expiry in self._providers.items():
            seconds = expiry()
            if not math.isnan(seconds):
                family.add_metric([name], seconds)
        yield family
