"""Metrics of the hosting controller."""

from collections import Counter as Counts
from collections.abc import Iterable
from typing import Final

from prometheus_client import Counter, Gauge

from fairway.api.hosted_request import PENDING, PHASES, HostedClusterRequest
from fairway.hosting import HostingState, Unknown
from fairway.observe.meters import Meters

REQUESTS: Final = "fairway_hosting_requests"
REQUESTS_MEANING: Final = "HostedClusterRequests by phase."
HOSTS: Final = "fairway_hosting_hosts"
HOSTS_MEANING: Final = (
    "Hosting clusters by state: known (their load is published), unknown (it is missing or old, so that they get no "
    "hosted cluster)."
)
RELEASES: Final = "fairway_hosting_releases"
RELEASES_MEANING: Final = (
    "Places that were given up, by reason: deadline, deleted, host (the hosting cluster was deleted), move (an "
    "approved one)."
)
DEADLINE: Final = "deadline"
DELETED: Final = "deleted"
HOST: Final = "host"
MOVE: Final = "move"


class HostingMetrics:
    def __init__(self, meters: Meters) -> None:
        self._requests = Gauge(REQUESTS, REQUESTS_MEANING, ("phase",), registry=meters.registry)
        self._hosts = Gauge(HOSTS, HOSTS_MEANING, ("state",), registry=meters.registry)
        self._releases = Counter(RELEASES, RELEASES_MEANING, ("reason",), registry=meters.registry)
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
