"""Metrics of the hosting controller."""

from collections import Counter as Counts
from collections.abc import Iterable
from typing import Final

from fairway.api.hosted_request import PENDING, PHASES, HostedClusterRequest
from fairway.hosts.instant import Micros
from fairway.observe.meters import Meters, counter, gauge
from fairway.workloads.hosting import HostingState, Unknown

REQUESTS: Final = gauge("fairway_hosting_requests", "HostedClusterRequests by phase.", "phase")
HOSTS: Final = gauge(
    "fairway_hosting_hosts",
    "Hosting clusters by state: known (their load is published), unknown (it is missing or old, so that they "
    "get no hosted cluster).",
    "state",
)
OUTAGES: Final = gauge(
    "fairway_hosting_requests_on_unavailable_hosts",
    "HostedClusterRequests whose hosting cluster is unavailable, by state: unavailable, lost (for longer than the "
    "policy allows, deleted or being deleted).",
    "state",
)
RELEASES: Final = counter(
    "fairway_hosting_releases_total",
    "Places that were given up, by reason: deadline, deleted, move (an "
    "approved one), refused (the hosting cluster refused an object), lost (the hosting cluster was lost before it "
    "reported the hosted cluster), recovered (an approved recovery from a lost one).",
    "reason",
)
HOSTING_DEFINITIONS: Final = (REQUESTS, HOSTS, OUTAGES, RELEASES)
DEADLINE: Final = "deadline"
DELETED: Final = "deleted"
MOVE: Final = "move"
REFUSED: Final = "refused"
LOST: Final = "lost"
RECOVERED: Final = "recovered"


class HostingMetrics:
    def __init__(self, meters: Meters) -> None:
        registry = meters.registry
        self._requests = REQUESTS.create_gauge(registry)
        self._hosts = HOSTS.create_gauge(registry)
        self._outages = OUTAGES.create_gauge(registry)
        self._releases = RELEASES.create_counter(registry)
        for reason in (DEADLINE, DELETED, MOVE, REFUSED, LOST, RECOVERED):
            self._releases.labels(reason)

    def released(self, reason: str) -> None:
        self._releases.labels(reason).inc()

    def show(self, requests: Iterable[HostedClusterRequest], state: HostingState, *, now: Micros) -> None:
        phases = Counts(request.status.phase or PENDING for request in requests)
        outages: Counts[str] = Counts()
        for host in state.residents.hosts():
            if (outage := state.outage(host)) is not None:
                is_lost = outage.is_lost(state.lost_after(host), now=now)
                outages["lost" if is_lost else "unavailable"] += sum(1 for _ in state.on(host))
        for name in ("lost", "unavailable"):
            self._outages.labels(name).set(outages[name])
        for phase in PHASES:
            self._requests.labels(phase).set(phases[phase])
        unknown = sum(isinstance(facts.capacity, Unknown) for facts in state.facts.values())
        self._hosts.labels("unknown").set(unknown)
        self._hosts.labels("known").set(len(state.facts) - unknown)
