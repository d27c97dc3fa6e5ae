"""What does the decision about one HostedClusterRequest cost, by the number of clusters and of those that host?"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from benchmarks.measure import Note, table
from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE, HostingPolicy
from fairway.api.score import AddOnPlacementScore
from fairway.hosts.instant import to_micros
from fairway.workloads.hosting import HostingState, changes_that_fit, place
from fairway.workloads.hosting.fleet.telemetry import HOSTING_CLAIM

FLEETS = ((20, 20, 0), (10_000, 20, 0), (100_000, 20, 0), (300, 300, 0), (10_000, 300, 0), (300, 300, 1))
"""Number of clusters, of those that host, and ``spareHosts``."""
CARRIED = 10
"""Hosted clusters of each host."""
REQUESTS = 20
ROUNDS = 5
NOW = to_micros(datetime(2026, 3, 2, 12, tzinfo=UTC))


def _request(name: str, **spec: object) -> HostedClusterRequest:
    body = {
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
        "spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}}}, **spec},
    }
    return msgspec.convert(body, HostedClusterRequest)


def _objects(clusters: int, hosting: int, spare: int) -> Iterator[object]:
    yield msgspec.convert({"metadata": {"name": "default"}, "spec": {"spareHosts": spare}}, HostingPolicy)
    for number in range(clusters):
        name, hosts = f"cluster-{number:06d}", number < hosting
        body = {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {"hubAcceptsClient": True},
            "status": {
                "conditions": [{"type": CONDITION_AVAILABLE, "status": "True", "reason": "Lease"}],
                "clusterClaims": [{"name": HOSTING_CLAIM, "value": "true"}] if hosts else [],
                "allocatable": {"cpu": "400", "memory": "1600Gi"},
            },
        }
        yield msgspec.convert(body, ManagedCluster)
        if hosts:
            scores = [{"name": COUNT_SCORE, "value": number % 7}]
            load = {"scores": scores, "validUntil": "2026-03-02T12:03:00Z"}
            meta = {"name": SCORE_RESOURCE, "namespace": name}
            yield msgspec.convert({"metadata": meta, "status": load}, AddOnPlacementScore)


def _carry(state: HostingState, hosting: int) -> None:
    requests = (_request(f"old-{number}") for number in range(CARRIED * hosting))
    workloads = map(state.workload_of, requests)
    for number, workload in enumerate(workloads):
        state.reserve(workload, state.facts[f"cluster-{number % hosting:06d}"].key)


def measure(note: Note) -> str:
    """Return a table. Each figure is the best of several rounds, in CPU time."""
    rows: list[tuple[str, ...]] = []
    for clusters, hosting, spare in FLEETS:
        note(f"{clusters:,} clusters, {hosting} host, spareHosts {spare}")
        state = HostingState()
        state.load(_objects(clusters, hosting, spare), now=NOW)
        asked = [_request(f"new-{number}") for number in range(REQUESTS)]
        huge = state.workload_of(
            _request("huge", size="large", constraints={"regions": ["us"], "minZones": 3})
        )
        _carry(state, hosting)
        assert all(decision.host for decision in place(state, asked, now=NOW))
        decision = what_ifs = float("inf")
        for _ in range(ROUNDS):
            start = time.process_time()
            place(state, asked, now=NOW)
            middle = time.process_time()
            changes_that_fit(state, huge, now=NOW)
            decision = min(decision, (middle - start) / REQUESTS)
            what_ifs = min(what_ifs, time.process_time() - middle)
        costs = f"{decision * 1e3:.2f}", f"{what_ifs * 1e3:.1f}"
        rows.append((f"{clusters:,}", str(hosting), str(spare), *costs))
    return table([("clusters", "hosting", "spareHosts", "decision (ms)", "wouldFit (ms)"), *rows])
