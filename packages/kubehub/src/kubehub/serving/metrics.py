"""The hub's own metrics, under the names that Kubernetes dashboards use."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class _Objects(Collector):
    def __init__(self, count: Callable[[], Mapping[str, int]], revision: Callable[[], int]) -> None:
        self._count, self._revision = count, revision

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily(
            "apiserver_storage_objects", "Stored objects by resource.", labels=["resource"]
        )
        for resource, number in self._count().items():
            objects.add_metric([resource], number)
        yield objects
        yield GaugeMetricFamily("fairway_hub_revision", "The newest resourceVersion.", value=self._revision())


class Metrics:
    """One registry per hub, because a process may run several hubs."""

    def __init__(self, *, count: Callable[[], Mapping[str, int]], revision: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "apiserver_request",
            "Requests answered.",
            ["verb", "group", "resource", "subresource", "code"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Seconds from the arrival of a request to its response, without watches.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests in progress.", registry=self._registry
        )
        self.watches = Gauge("apiserver_longrunning_requests", "Open watches.", registry=self._registry)
        self.connections = Gauge("fairway_hub_connections", "Open connections.", registry=self._registry)
        self._registry.register(_Objects(count, revision))
        ProcessCollector(registry=self._registry)
        self._counters: dict[tuple[str, str, str, str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def answered(
        self, *, verb: str, group: str, resource: str, subresource: str, code: int, seconds: float
    ) -> None:
        key = (verb, group, resource, subresource, code)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._requests.labels(verb, group, resource, subresource, str(code))
            self._counters[key] = counter
        counter.inc()
        if verb != "watch":
            timer = self._timers.get(verb)
            if timer is None:
                timer = self._timers[verb] = self._seconds.labels(verb)
            timer.observe(seconds)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
