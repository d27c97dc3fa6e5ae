"""Telemetry and capacity: what is unknown is never taken for empty, and no hosted cluster is left out."""

from datetime import timedelta
from typing import Any

import pytest

from fairway.engine.workload import HostKey
from fairway.hosts.steps import finish
from fairway.workloads.hosting import Capacity, HostingState, Unknown, place, rebalance, reports
from fairway.workloads.hosting.fleet.capacity import NO_RESOURCES, NO_SLOTS
from fairway.workloads.hosting.fleet.telemetry import (
    EXPIRED,
    FREE_CLAIMS,
    NEGATIVE,
    NO_SCORE,
    NOT_COUNTED,
    OLD,
    SILENT,
    UNDATED,
    Telemetry,
)
from fairway.workloads.hosting.requests.demand import Demand, demand_of
from fairway.workloads.hosting.requests.request_status import policy_status
from fairway.workloads.hosting.resources import CPU, HOSTED, SLOTS
from workloads.hosting.hosts import MINUTE, NOW, START, host, load, placed, policy, request, state_of

H1 = HostKey("h1", "uid-h1")
ADD_ON = {"feature.open-cluster-management.io/addon-hypershift-addon": "available"}
RESOURCE = "hosted-clusters-score"


def reason(state: HostingState) -> str:
    capacity = state.facts["h1"].capacity
    assert isinstance(capacity, Unknown)
    assert state.free(H1) == {}
    return capacity.reason


def model(state: HostingState) -> str:
    capacity = state.facts["h1"].capacity
    assert isinstance(capacity, Capacity)
    return capacity.model


def condition(type_: str, status: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": "X",
        "message": "cannot list",
        "lastTransitionTime": "2026-03-01T00:00:00Z",
    }


UNKNOWN = [
    ((), NO_SCORE.format(resource=RESOURCE, score="hostedClustersCount")),
    ((load("h1", count=0, valid=timedelta(seconds=-5)),), EXPIRED.format(resource=RESOURCE, seconds=5)),
    ((load("h1", count=0, valid=None),), UNDATED.format(resource=RESOURCE)),
    (
        (load("h1", count=0, conditions=[condition("fairway.dev/Silent", "True")]),),
        SILENT.format(resource=RESOURCE),
    ),
    (
        (load("h1", count=0, conditions=[condition("HostedClusterCountUpdated", "False")]),),
        NOT_COUNTED.format(message="cannot list"),
    ),
    ((load("h1", count=-3),), NEGATIVE.format(resource=RESOURCE, score="hostedClustersCount", value=-3)),
    ((load("h1", count=0), policy(capacity={"model": "Slots"})), NO_SLOTS),
    (
        (load("h1", count=0), policy(capacity={"model": "Resources"})),
        NO_RESOURCES.format(claims=" and ".join(FREE_CLAIMS.values())),
    ),
]


@pytest.mark.parametrize(("objects", "words"), UNKNOWN, ids=[words[:30] for _, words in UNKNOWN])
def test_unknown_load_grants_nothing_and_has_its_reason(objects: tuple[Any, ...], words: str) -> None:
    assert reason(state_of(host("h1"), *objects)) == words


def test_score_without_expiry_counts_while_the_add_on_is_available() -> None:
    state = state_of(host("h1", labels=ADD_ON), load("h1", count=3, valid=None))
    assert (model(state), state.free(H1)[HOSTED]) == ("Count", 77_000)


def test_load_becomes_unknown_when_it_expires_and_known_when_it_is_published_again() -> None:
    state = state_of(host("h1"), load("h1", count=3))
    later = NOW + 3 * MINUTE
    assert state.next_deadline() == later
    assert state.advance(now=later - 1) == []
    (event,) = state.advance(now=later)
    assert (event.label, state.free(H1)) == ("capacity of h1 changed", {})
    state.upsert(load("h1", count=4, at=START + timedelta(minutes=3)), now=later)
    assert state.free(H1)[HOSTED] == 76_000


def test_load_that_is_not_renewed_for_max_age_is_unknown_however_long_it_is_valid() -> None:
    state = state_of(host("h1"), load("h1", count=3, valid=timedelta(days=1)), tracks_age=True)
    state.advance(now=NOW + 10 * MINUTE)
    assert reason(state) == OLD.format(resource=RESOURCE, seconds=600)


def test_count_includes_residents_only_once_they_are_counted() -> None:
    """Until then a resident may take its room twice, and is never left out."""
    state = state_of(host("h1"), load("h1", count=10), placed("a", "h1"))
    assert state.free(H1)[HOSTED] == (80 - 10 - 1) * 1000
    state.upsert(placed("a", "h1", phase="Confirmed", counted=True), now=NOW)
    assert state.free(H1)[HOSTED] == (80 - 10) * 1000
    state.delete(placed("a", "h1"), now=NOW)
    assert state.free(H1)[HOSTED] == (80 - 10) * 1000
    state.upsert(load("h1", count=9), now=NOW)
    assert state.free(H1)[HOSTED] == (80 - 9) * 1000


@pytest.mark.parametrize(
    ("of_requests", "confirmed", "reserved"),
    [
        (None, 2, 2),
        (0, 2, 2),
        (1, 2, 1),
        (2, 2, 0),
        # One of a request that exists no more is left on the host: it is of another owner.
        (3, 2, 0),
        # The host has not reported the second one: the one that is published may be a left one.
        (2, 1, 1),
    ],
)
def test_hosted_clusters_that_are_published_as_of_requests_are_not_counted_twice(
    of_requests: int | None, confirmed: int, reserved: int
) -> None:
    scores = {} if of_requests is None else {"hostedClustersOfRequests": of_requests}
    residents = [
        placed(name, "h1", phase="Confirmed" if at < confirmed else "Bound") for at, name in enumerate("ab")
    ]
    state = state_of(policy(), host("h1"), load("h1", count=10, scores=scores), *residents)
    (report,) = reports(state, now=NOW)
    assert (report.hosted, report.reserved) == (10, reserved)
    assert state.free(H1)[HOSTED] == (80 - 10 - reserved) * 1000
    status = finish(policy_status(policy(), state, now=START))
    assert (status.hostedClusters, status.reserved, status.freeSlots) == (
        10 + reserved,
        reserved,
        report.slots["small"],
    )


@pytest.mark.parametrize(("phase", "over"), [("Confirmed", 0), ("Bound", 2)])
def test_host_is_beyond_its_capacity_only_by_what_is_certainly_not_counted_twice(
    phase: str, over: int
) -> None:
    """A rebalance must not move hosted clusters because the published load has just begun to include them."""
    residents = [placed(name, "h1", phase=phase) for name in "ab"]
    state = state_of(policy(), host("h1"), load("h1", count=80), host("h2"), load("h2", count=0), *residents)
    assert sum(state.deficits(H1).values()) == over * 1000
    plan = rebalance(state, residents, now=NOW)
    assert (len(plan.before), len(plan.moves)) == (bool(over), over)


def test_count_at_the_end_of_the_scale_is_full() -> None:
    """A hundred or more hosted clusters have the same score."""
    state = state_of(host("h1"), load("h1", count=100), policy(maxPerHost=500))
    assert state.free(H1)[HOSTED] == 0


def test_slots_are_the_smallest_number_that_the_score_stands_for() -> None:
    state = state_of(host("h1"), load("h1", count=0, scores={"hcpSlotsSmall": 50, "hcpSlotsLarge": 1}))
    telemetry = state.facts["h1"].telemetry
    assert isinstance(telemetry, Telemetry)
    assert telemetry.slots == {"hcpSlotsSmall": 40, "hcpSlotsLarge": 1}
    assert (model(state), state.free(H1)[SLOTS]) == ("Slots", 40_000)


def test_slots_scale_with_the_published_maximum() -> None:
    claims = {"maximum.hostedclustercount.fairway.dev": "20"}
    state = state_of(host("h1", claims=claims), load("h1", count=0, scores={"hcpSlotsSmall": 50}))
    assert state.free(H1)[SLOTS] == 10_000


def amounts(state: HostingState, demand: Demand) -> int:
    capacity = state.facts["h1"].capacity
    assert isinstance(capacity, Capacity)
    return capacity.amounts_for(demand)[SLOTS]


def test_size_takes_its_share_of_the_room_where_its_own_slots_are_published() -> None:
    """Two zones have room for many control planes with one replica, and few with three."""
    state = state_of(host("h1"), load("h1", count=0, scores={"hcpSlotsSingle": 38, "hcpSlotsSmall": 2}))
    small = demand_of(request("a"))
    single = demand_of(request("a", availability="SingleReplica"))
    assert state.free(H1)[SLOTS] == 31 * 540
    assert amounts(state, small) == 31 * 540 // 2
    assert amounts(state, single) == 540
    seven = state_of(host("h1"), load("h1", count=0, scores={"hcpSlotsSingle": 38, "hcpSlotsSmall": 8}))
    assert 7 * amounts(seven, small) >= seven.free(H1)[SLOTS] > 7 * (amounts(seven, small) - 1)
    none_of_it = state_of(host("h1"), load("h1", count=0, scores={"hcpSlotsSingle": 3, "hcpSlotsSmall": 0}))
    assert amounts(none_of_it, small) > none_of_it.free(H1)[SLOTS]


FREE = {FREE_CLAIMS["cpu"]: "50", FREE_CLAIMS["memory"]: "170Gi"}


def test_count_does_not_fill_what_other_workloads_use_where_free_amounts_are_published() -> None:
    state = state_of(
        host("h1", claims=FREE, allocatable={"cpu": "100", "memory": "400Gi"}),
        load("h1", count=0),
        policy(capacity={"model": "Count"}),
    )
    decisions = place(state, [request(f"q{at}") for at in range(20)], now=NOW)
    assert sum(decision.host is not None for decision in decisions) == 10, "5 CPUs each"
    assert "has 0 cpu left, and the request needs 5" in decisions[-1].message
    (report,) = reports(state, now=NOW)
    assert (report.model, report.limited_by, report.headroom) == ("Count", "hostedclusters", 100)


def test_headroom_includes_existing_load_where_only_free_amounts_are_published() -> None:
    state = state_of(
        host("h1", claims=FREE), load("h1", count=10), host("h2", claims=FREE), load("h2", count=0)
    )
    loaded, empty = reports(state, now=NOW)
    assert (loaded.slots["small"], empty.slots["small"]) == (10, 10)
    assert (loaded.headroom, loaded.limited_by) == (50, "cpu"), "ten small ones and room for ten"
    assert empty.headroom == 100
    (decision,) = place(state, [request("shop")], now=NOW)
    assert decision.host == HostKey("h2", "uid-h2")


def test_share_that_is_kept_free_is_of_the_whole_host_where_only_free_amounts_are_published() -> None:
    state = state_of(host("h1", claims=FREE), load("h1", count=10), policy(maxUtilization=80))
    assert state.free(H1)[CPU] == (50 - 20) * 1000


def test_headroom_is_of_the_allocatable_amounts_where_they_are_published() -> None:
    known = host("h1", claims=FREE, allocatable={"cpu": "200", "memory": "680Gi"})
    (report,) = reports(state_of(known, load("h1", count=10)), now=NOW)
    assert report.headroom == 25


def test_allocatable_resources_limit_where_nothing_better_is_published() -> None:
    big = host("h1", allocatable={"cpu": "64", "memory": "256Gi"})
    state = state_of(big, load("h1", count=4))
    assert (model(state), state.free(H1)[CPU]) == ("Resources", (64 - 4 * 5) * 1000)


def test_host_that_reports_nothing_of_a_resource_is_ranked_and_reported() -> None:
    """The ledger keeps no dimension of zero, and agents may report any amount."""
    empty = host("h1", allocatable={"cpu": "1m", "memory": "256Gi"})
    state = state_of(empty, load("h1", count=0), policy(maxUtilization=50))
    (report,) = reports(state, now=NOW)
    assert (report.headroom, report.limited_by, report.slots["small"]) == (0, "cpu", 0)
    (decision,) = place(state, [request("shop", demand={"cpu": "0", "memory": "1Gi"})], now=NOW)
    assert decision.host == H1


@pytest.mark.parametrize("absurd", ["1e30", "9223372036854775807Ei", "1e-30", "-5", "NaN", "1" * 400])
def test_absurd_amounts_of_a_host_concern_that_host_only(absurd: str) -> None:
    claims = {**dict.fromkeys(FREE_CLAIMS.values(), absurd), "maximum.hostedclustercount.fairway.dev": absurd}
    amounts = dict.fromkeys(("cpu", "memory", "pods"), absurd)
    for liar in (host("h2", claims=claims), host("h2", allocatable=amounts)):
        state = state_of(host("h1", claims=FREE), load("h1", count=0), liar, load("h2", count=80))
        assert [report.slots["small"] for report in reports(state, now=NOW)] == [10, 0]
        decisions = place(state, [request(f"q{at}") for at in range(11)], now=NOW)
        assert [decision.host for decision in decisions] == [H1] * 10 + [None]


def test_published_free_resources_are_less_what_uncounted_residents_take() -> None:
    claims = {FREE_CLAIMS["cpu"]: "30", FREE_CLAIMS["memory"]: "100Gi"}
    state = state_of(host("h1", claims=claims), load("h1", count=4), placed("a", "h1"))
    assert state.free(H1)[CPU] == 25_000
    state.upsert(placed("a", "h1", phase="Confirmed", counted=True), now=NOW)
    assert state.free(H1)[CPU] == 30_000


def test_max_utilization_keeps_a_share_free_in_every_dimension() -> None:
    big = host("h1", allocatable={"cpu": "100", "memory": "1000Gi"})
    state = state_of(big, load("h1", count=0), policy(maxUtilization=80, maxPerHost=10))
    assert (state.free(H1)[CPU], state.free(H1)[HOSTED]) == (80_000, 8000)


def test_recreated_host_has_no_residents() -> None:
    state = state_of(host("h1"), load("h1", count=0), placed("a", "h1"))
    state.delete(host("h1"), now=NOW)
    state.upsert(host("h1", uid="new"), now=NOW)
    assert state.free(H1) == {}
    assert state.free(HostKey("h1", "new"))[HOSTED] == 80_000


def test_request_that_moves_frees_its_earlier_host() -> None:
    hosts = [thing for name in ("h1", "h2") for thing in (host(name), load(name, count=0))]
    state = state_of(*hosts, placed("a", "h1"))
    state.upsert(placed("a", "h2"), now=NOW)
    free = {name: state.free(HostKey(name, f"uid-{name}"))[HOSTED] for name in ("h1", "h2")}
    assert free == {"h1": 80_000, "h2": 79_000}


def test_resident_is_countable_when_a_score_arrives_well_after_its_report() -> None:
    resident = placed("a", "h1", phase="Confirmed")  # reported an hour ago
    state = state_of(host("h1"), load("h1", count=1), resident)
    assert [resident.key.name for resident in state.countable("h1", now=NOW)] == ["a"]
    assert not list(state.countable("h1", now=NOW - 60 * MINUTE + 29_000_000))
    slots = state_of(host("h1"), load("h1", count=1, scores={"hcpSlotsSmall": 9}), resident)
    assert not list(slots.countable("h1", now=NOW - 51 * MINUTE)), "its pods may not request resources yet"
    assert list(slots.countable("h1", now=NOW))


def test_host_that_publishes_less_than_it_carries_is_not_filled_beyond_the_maximum() -> None:
    residents = [placed(name, "h1", phase="Confirmed", counted=True) for name in ("a", "b", "c")]
    state = state_of(host("h1"), load("h1", count=0), policy(maxPerHost=3), *residents)
    assert state.free(H1)[HOSTED] == 0
