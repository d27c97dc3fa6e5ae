"""What is promised to clusters, and not yet in their published scores."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairway.api.cluster import ManagedCluster
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import PHASES, PLACED, HostedClusterRequest
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.score import AddOnPlacementScore
from fairway.hosts.clusters import Fleet, cells, objects
from fairway.hosts.clusters.promises import (
    MEASURED_AFTER,
    Promise,
    change_by_request,
    promise_of,
    promised_place,
)
from fairway.testing.builders import cluster, decision, score
from strategies import NOW, NOW_MICROS


def published(version: str) -> AddOnPlacementScore:
    made = score("a", {"cpu": 50})
    return structs.replace(made, metadata=structs.replace(made.metadata, resourceVersion=version))


def page(**meta: Any) -> PlacementDecision:
    made = decision("p-decision-1", ["a"], placement="p")
    return structs.replace(made, metadata=structs.replace(made.metadata, **meta))


def request(
    name: str = "shop", *, on: str = "a", uid: str = "uid-a", phase: str = "Reserved", counted: str = ""
) -> HostedClusterRequest:
    conditions = [{"type": "Counted", "status": counted, "reason": "InPublishedLoad"}] if counted else []
    status: dict[str, Any] = {"phase": phase, "conditions": conditions}
    if phase in PLACED:
        status["hostingCluster"] = {"name": on, "uid": uid}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "team-a"}, "status": status}, HostedClusterRequest
    )


def host(name: str, *, uid: str = "") -> ManagedCluster:
    made = cluster(name)
    return structs.replace(made, metadata=structs.replace(made.metadata, uid=uid or f"uid-{name}"))


def promised(fleet: Fleet) -> dict[str, int]:
    snapshot = fleet.snapshot()
    counts = snapshot.counts(cells.PROMISED)
    return {name: int(counts.values[row]) for name, row in snapshot.hosts.row_of.items()}


def test_decision_is_pending_until_a_newer_score_is_published() -> None:
    promise = Promise(100, NOW_MICROS)
    assert promise.is_pending(published("99"), now=NOW_MICROS)
    assert not promise.is_pending(published("101"), now=NOW_MICROS)
    assert not promise.is_pending(None, now=NOW_MICROS), "there is no score to change"
    assert not promise.is_pending(published(""), now=NOW_MICROS)


def test_decision_is_pending_for_at_most_ten_minutes() -> None:
    promise = Promise(100, NOW_MICROS)
    assert promise.is_pending(published("99"), now=promise.until)
    assert not promise.is_pending(published("99"), now=promise.until + 1)
    assert promise.until == NOW_MICROS + MEASURED_AFTER


def test_promise_starts_with_the_creation_of_the_decision_unless_a_later_time_is_known() -> None:
    created = NOW - timedelta(minutes=5)
    made = page(creationTimestamp=created, resourceVersion="7")
    assert promise_of(made) == Promise(7, NOW_MICROS - 5 * 60 * 1_000_000)
    assert promise_of(made, since=NOW_MICROS) == Promise(7, NOW_MICROS)


@pytest.mark.parametrize("meta", [{"resourceVersion": "7"}, {"creationTimestamp": NOW}])
def test_decision_without_version_or_age_is_no_promise(meta: dict[str, Any]) -> None:
    assert promise_of(page(**meta)) is None


@pytest.mark.parametrize("phase", PHASES)
def test_request_is_promised_while_it_holds_room(phase: str) -> None:
    assert (promised_place(request(phase=phase)) is not None) is (phase in PLACED)


def test_request_is_promised_until_the_published_load_includes_it() -> None:
    assert promised_place(request(phase="Confirmed", counted="False")) is not None
    assert promised_place(request(phase="Confirmed", counted="True")) is None


def test_request_raises_the_count_by_one_and_counts_like_a_decision_in_other_scores() -> None:
    assert change_by_request(SCORE_RESOURCE, COUNT_SCORE, debit=0) == 1
    assert change_by_request(SCORE_RESOURCE, "hcpHeadroom", debit=-4) == -4
    assert change_by_request("usage", COUNT_SCORE, debit=1) == 0


def test_fleet_counts_requests_by_their_hosting_cluster() -> None:
    fleet = Fleet()
    fleet.load([host("a"), host("b")])
    assert promised(fleet) == {"a": 0, "b": 0}
    objects.upsert(fleet, request("shop"))
    objects.upsert(fleet, request("blog"))
    assert promised(fleet) == {"a": 2, "b": 0}
    assert fleet.snapshot().requests == {"a": ("team-a/blog", "team-a/shop")}
    objects.upsert(fleet, request("shop", on="b", uid="uid-b"))
    assert promised(fleet) == {"a": 1, "b": 1}
    objects.upsert(fleet, request("shop", on="b", uid="uid-b", phase="Confirmed", counted="True"))
    objects.delete(fleet, request("blog"))
    assert promised(fleet) == {"a": 0, "b": 0}
    assert fleet.snapshot().requests == {}


def test_fleet_snapshot_keeps_its_requests() -> None:
    fleet = Fleet()
    fleet.load([host("a")])
    objects.upsert(fleet, request())
    before = fleet.snapshot()
    objects.delete(fleet, request())
    assert before.requests == {"a": ("team-a/shop",)}
    assert before.counts(cells.PROMISED).values[0] == 1


@pytest.mark.parametrize("bulk", [True, False])
def test_fleet_counts_requests_that_are_read_before_their_cluster(bulk: bool) -> None:
    fleet = Fleet()
    objects.upsert(fleet, request())
    if bulk:
        objects.load(fleet, [host("a"), published("3")])
    else:
        fleet.upsert_cluster(host("a"))
    assert promised(fleet) == {"a": 1}
    objects.upsert(fleet, published("5"))
    assert promised(fleet) == {"a": 1}, "a publication alone does not include it"


def test_request_on_a_deleted_cluster_does_not_count_on_its_successor() -> None:
    fleet = Fleet()
    fleet.load([host("a")])
    objects.upsert(fleet, request())
    fleet.upsert_cluster(host("a", uid="other"))
    assert promised(fleet) == {"a": 0}
    fleet.upsert_cluster(host("a"))
    assert promised(fleet) == {"a": 1}
