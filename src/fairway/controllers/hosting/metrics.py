"""Metrics of the hosting controller."""

from collections import Counter as Counts
from collections.abc import Iterable
from typing import Final

from fairway.api.hosted_request import PENDING, PHASES, HostedClusterRequest
from fairway.hosting import HostingState, Unknown
from fairway.observe.meters import Meters, counter, gauge

REQUESTS: Final = gauge("fairway_hosting_requests", "HostedClusterRequests by phase.", "phase")
HOSTS: Final = gauge(
    "fairway_hosting_hosts",
    "Hosting clusters by state: known (their load is published), unknown (it is missing or old, so that they "
    "get no hosted cluster).",
    "state",
)
RELEASES: Final = counter(
    "fairway_hosting_releases_total",
    "Places that were given up, by reason: deadline, deleted, host (the hosting cluster was deleted), move (an "
    "approved one).",
    "reason",
)
HOSTING_DEFINITIONS: Final = (REQUESTS, HOSTS, RELEASES)
DEADLINE: Final = "deadline"
DELETED: Final = "deleted"
HOST: Final = "host"
MOVE: Final = "move"


class HostingMetrics:
    def __init__(self, meters: Meters) -> None:
        registry = meters.registry
        self._requests = REQUESTS.create_gauge(registry)
        self._hosts = HOSTS.create_gauge(registry)
        self._releases = RELEASES.create_counter(registry)
        for reason in (DEADLINE, DELETED, HOST, MOVE):
            self._releases.labels(reason)

    def released(self, reason: str) -> None:
        self._releases.labels(reason).inc()

    def show(self, requests: Iterable[HostedClusterRequest], state: HostingState) -> None:
        phases = Counts(each.status.phase or PENDING for each in requests)
        for phase in PHASES:
            self._requests.labels(phase).set(phases[phase])
        unknown = sum(isinstance(each.capacity, Unknown) for each in state.facts.values())
        self._hosts.labels("unknown").set(unknown)
        self._hosts.labels("known").set(len(state.facts) - unknown)
