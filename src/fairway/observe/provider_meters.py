"""Prometheus metrics of providers. As in ``meters``, recording is cheap and never raises."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairway.observe.meters import (
    MOST_LABELS,
    OTHER,
    WORK_BUCKETS,
    counter,
    gauge,
    histogram,
    without_created,
    word,
)

READINGS: Final = counter(
    "fairway_provider_readings_total", "Readings started by a provider, successful or not.", "provider"
)
READING_FAILURES: Final = counter(
    "fairway_provider_reading_failures_total",
    "Readings that failed completely or partly, by reason.",
    *("provider", "reason"),
)
READING_SECONDS: Final = histogram(
    "fairway_provider_reading_seconds", "Duration of a reading.", "provider", buckets=WORK_BUCKETS
)
PROVIDER_WRITES: Final = counter(
    "fairway_provider_writes_total", "Score objects written to the hub.", "provider"
)
WRITE_FAILURES: Final = counter(
    "fairway_provider_write_failures_total",
    "Score objects that the hub rejected, by reason.",
    *("provider", "reason"),
)
AVOIDED: Final = counter(
    "fairway_provider_writes_avoided_total",
    "Readings that were not written because no score moved by its deadband.",
    "provider",
)
EXPIRY: Final = gauge(
    "fairway_provider_expiry_seconds",
    "Time until the first published score of the provider expires; negative after that.",
    "provider",
)
SCORE: Final = gauge("fairway_provider_score", "The last written score.", *("provider", "cluster", "score"))

PROVIDER_DEFINITIONS: Final = (
    *(READINGS, READING_FAILURES, READING_SECONDS, PROVIDER_WRITES, WRITE_FAILURES, AVOIDED),
    *(EXPIRY, SCORE),
)


class ProviderMeters:
    """Metrics of the providers of one process, in ``registry`` if given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        made = self.registry
        self._readings = READINGS.create_counter(made)
        self._reading_failures = READING_FAILURES.create_counter(made)
        self._seconds = READING_SECONDS.create_histogram(made)
        self._writes = PROVIDER_WRITES.create_counter(made)
        self._write_failures = WRITE_FAILURES.create_counter(made)
        self._avoided = AVOIDED.create_counter(made)
        self._scores = SCORE.create_gauge(made)
        self._shown: dict[tuple[str, str], tuple[str, ...]] = {}
        self._series = 0
        self._reasons: set[tuple[str, str]] = set()
        self._expiry: dict[str, Callable[[], float]] = {}
        made.register(_Expiry(self._expiry))

    def provider(self, name: str, *, expiry: Callable[[], float]) -> None:
        """Export the metrics of a provider from now on. ``expiry`` returns the seconds to the first expiry, or NaN."""
        label = word(name)
        for metric in (self._readings, self._writes, self._avoided):
            metric.labels(label)
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
        """Set the last scores. Series beyond MOST_LABELS are dropped, because scores cannot be summed."""
        known = self._shown.get((provider, cluster), ())
        for name in known:
            if name not in scores:
                self._scores.remove(word(provider), word(cluster), word(name))
                self._series -= 1
        shown = []
        for name, value in scores.items():
            if name not in known:
                if self._series >= MOST_LABELS:
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
            if len(self._reasons) >= MOST_LABELS:
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
