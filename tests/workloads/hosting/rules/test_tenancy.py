"""Tenants, priorities and quotas come from the policy, never from what a request writes."""

from typing import Any

import pytest

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine.dependencies import Event
from fairway.engine.workload import HostKey
from fairway.hosts.direction import Direction
from fairway.workloads.hosting import Decision, HostingState, place
from fairway.workloads.hosting.fleet.columns import LARGEST_HOST
from fairway.workloads.hosting.fleet.tenant_usage import Account, quota_column
from fairway.workloads.hosting.planning.fit import changes_that_fit
from fairway.workloads.hosting.planning.moves import drain
from fairway.workloads.hosting.requests.conditions import (
    DEMAND_TOO_LARGE,
    MISCONFIGURED,
    QUOTA_EXCEEDED,
    UNSCHEDULABLE,
)
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of

TENANTS = [
    {"name": "shop", "namespaces": ["shop-*", "ci"], "quota": {"hostedClusters": 1}},
    {"name": "bank", "namespaces": ["bank", "ci"]},
]
HOST = HostKey("h1", "uid-h1")


def fleet(**spec: Any) -> HostingState:
    return state_of(policy(**spec), host("h1"), load("h1", count=0))


def one(state: HostingState, wanted: HostedClusterRequest) -> Decision:
    (decision,) = place(state, [wanted], now=NOW)
    return decision


def tenant(state: HostingState, **spec: Any) -> str:
    return state.spec_of(request("new", **spec)).tenant


# Tenants


@pytest.mark.parametrize(
    ("namespace", "asked", "tenant"),
    [
        ("team-a", "", "team-a"),
        ("team-a", "team-a", "team-a"),
        ("shop-1", "", "shop"),
        ("ci", "", "shop"),
        ("ci", "bank", "bank"),
        ("bank", "bank", "bank"),
    ],
)
def test_tenant_is_the_namespace_unless_the_policy_maps_it(namespace: str, asked: str, tenant: str) -> None:
    state = fleet(tenants=TENANTS)
    wanted = request("new", namespace=namespace, tenant=asked)
    assert state.spec_of(wanted).tenant == tenant
    assert one(state, wanted).host == HOST


@pytest.mark.parametrize(
    ("namespace", "asked", "remedy"),
    [
        ("team-b", "team-a", "remove the field, and the tenant is team-b"),
        ("bank", "shop", "remove the field, and the tenant is bank"),
        ("ci", "other", "remove the field, and the tenant is shop, or write one of bank"),
    ],
)
def test_tenant_that_is_not_granted_is_refused_with_what_to_write(
    namespace: str, asked: str, remedy: str
) -> None:
    refused = one(fleet(tenants=TENANTS), request("new", namespace=namespace, tenant=asked))
    assert (refused.host, refused.reason) == (None, MISCONFIGURED)
    assert refused.message.startswith("spec.tenant: policy default does not grant ")
    assert refused.message.endswith(remedy)


def test_foreign_tenant_does_not_count_for_anti_affinity_also_if_written_after_placement() -> None:
    rules = policy(tenantAntiAffinity="Required")
    state = state_of(rules, host("h1"), load("h1", count=0), placed("web", "h1", namespace="team-b"))
    state.upsert(placed("web", "h1", namespace="team-b", tenant="team-a"), now=NOW)
    assert one(state, request("new", namespace="team-a")).host == HOST


def test_namespace_with_the_name_of_a_tenant_is_another_tenant() -> None:
    state = fleet(tenants=TENANTS)
    state.reserve(state.workload_of(request("first", namespace="shop-1")), HOST)
    assert tenant(state, namespace="shop") == "namespace:shop"
    assert one(state, request("second", namespace="shop")).host == HOST, "the quota of tenant shop is used up"


# Priorities


CLASSES = [
    {"name": "gold", "value": 100, "namespaces": ["team-a"]},
    {"name": "normal", "value": 10, "default": True},
    {"name": "batch", "value": -5},
]


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({}, 10),
        ({"priorityClass": "gold"}, 100),
        ({"priorityClass": "batch"}, -5),
        ({"priority": 2_147_483_647}, 10),
        ({"priority": 3}, 3),
        ({"priority": -7}, -7),
        ({"priority": 50, "priorityClass": "gold"}, 50),
    ],
)
def test_priority_is_of_a_class_and_a_number_only_lowers_it(spec: dict[str, Any], priority: int) -> None:
    assert fleet(priorityClasses=CLASSES).workload_of(request("new", **spec)).priority == priority


def test_number_has_no_effect_without_classes() -> None:
    assert fleet().workload_of(request("new", priority=1000)).priority == 0


@pytest.mark.parametrize(
    ("namespace", "name", "remedy"),
    [
        ("team-b", "gold", "write one of batch, normal"),
        ("team-a", "none", "write one of batch, gold, normal"),
    ],
)
def test_class_that_the_namespace_may_not_use_is_refused(namespace: str, name: str, remedy: str) -> None:
    refused = one(fleet(priorityClasses=CLASSES), request("new", namespace=namespace, priorityClass=name))
    assert (refused.host, refused.reason) == (None, MISCONFIGURED)
    assert remedy in refused.message


def test_class_without_any_in_the_policy_is_refused() -> None:
    assert "remove the field" in one(fleet(), request("new", priorityClass="gold")).message


# Quotas


def test_request_over_the_quota_waits_with_quota_and_use() -> None:
    state = fleet(quota={"hostedClusters": 2, "cpu": "12"})
    decisions = place(state, [request("a"), request("b"), request("c"), request("d", namespace="x")], now=NOW)
    assert [decision.host for decision in decisions] == [HOST, HOST, None, HOST]
    assert decisions[2].reason == QUOTA_EXCEEDED
    assert decisions[2].message == (
        "quota of tenant team-a in policy default: hosted clusters: 2 of 2 used, and the request needs 1; "
        "cpu: 10 of 12 used, and the request needs 5"
    )


@pytest.mark.parametrize(
    "quota", [{"cpu": "4"}, {"memory": "16Gi"}, {"pods": 77}, {"slots": 0}, {"hostedClusters": 0}]
)
def test_quota_limits_each_dimension(quota: dict[str, Any]) -> None:
    assert one(fleet(quota=quota), request("new")).reason == QUOTA_EXCEEDED


def test_quota_is_shared_by_the_namespaces_of_a_tenant_and_replaces_that_of_the_policy() -> None:
    state = fleet(tenants=TENANTS, quota={"hostedClusters": 5})
    shop = [request("a", namespace="shop-1"), request("b", namespace="shop-2")]
    bank = [request(name, namespace="bank") for name in ("c", "d")]
    assert [decision.host for decision in place(state, [*shop, *bank], now=NOW)] == [HOST, None, HOST, HOST]


def test_quota_counts_from_the_reservation_on_until_the_place_is_given_back() -> None:
    state = fleet(quota={"hostedClusters": 1})
    first = request("first")
    state.reserve(state.workload_of(first), HOST)
    assert one(state, request("second")).reason == QUOTA_EXCEEDED
    state.upsert(placed("first", "h1"), now=NOW)
    assert one(state, request("second")).reason == QUOTA_EXCEEDED
    events = state.delete(placed("first", "h1"), now=NOW)
    assert woken_accounts(events) == [quota_column(Account("default", "team-a"))]
    assert one(state, request("second")).host == HOST


def woken_accounts(events: list[Event]) -> list[object]:
    return [
        column
        for event in events
        for column, direction in event.columns.items()
        if column[0] == "tenant-quota" and direction & Direction.UP
    ]


def test_place_of_another_tenant_wakes_none_that_wait_for_a_quota() -> None:
    state = state_of(
        policy(quota={"hostedClusters": 1}),
        host("h1"),
        load("h1", count=0),
        placed("mine", "h1"),
        placed("other", "h1", namespace="team-b"),
    )
    events = state.delete(placed("other", "h1", namespace="team-b"), now=NOW)
    assert woken_accounts(events) == [quota_column(Account("default", "team-b"))]
    assert one(state, request("new")).reason == QUOTA_EXCEEDED


def test_lowered_quota_keeps_what_is_placed_and_lets_it_move() -> None:
    hosts = [thing for name in ("h1", "h2") for thing in (host(name), load(name, count=0))]
    residents = [placed("a", "h1"), placed("b", "h1")]
    state = state_of(policy(quota={"hostedClusters": 5}), *hosts, *residents)
    state.upsert(policy(quota={"hostedClusters": 1}), now=NOW)
    assert len(list(state.on(HOST))) == 2
    assert one(state, request("c")).message.endswith("2 of 1 used, and the request needs 1")
    plan = drain(state, residents, [HOST], now=NOW)
    assert (len(plan.moves), plan.stuck) == (2, ())


def test_renamed_tenant_takes_its_use_along() -> None:
    state = state_of(
        policy(tenants=[{"name": "old", "namespaces": ["team-a"]}], quota={"hostedClusters": 1}),
        host("h1"),
        load("h1", count=0),
        placed("web", "h1"),
    )
    renamed = policy(tenants=[{"name": "new", "namespaces": ["team-*"]}], quota={"hostedClusters": 1})
    assert state.upsert(renamed, now=NOW), "rules between tenants may allow more now"
    refused = one(state, request("second", namespace="team-b"))
    assert refused.message.startswith("quota of tenant new in policy default: hosted clusters: 1 of 1 used")


def test_request_cannot_leave_its_quota_by_naming_another_policy() -> None:
    state = state_of(policy(quota={"hostedClusters": 1}), policy("free"), host("h1"), load("h1", count=0))
    first = placed("first", "h1")
    accepted = {"namespace": "x", "policy": "default"}
    status = {"phase": "Bound", "hostingCluster": {"name": "h1", "uid": "uid-h1"}, "accepted": accepted}
    state.upsert(request("first", policy="free", status=status), now=NOW)
    assert state.snapshot().tenants.used(Account("default", "team-a"))["hostedclusters"] == 1000
    assert one(state, request("second")).reason == QUOTA_EXCEEDED
    assert state.delete(first, now=NOW)


def test_unreadable_quota_grants_nothing() -> None:
    assert one(fleet(quota={"cpu": "a lot"}), request("new")).reason == QUOTA_EXCEEDED


def test_smaller_size_is_proposed_if_it_is_within_the_quota_and_no_change_of_a_host() -> None:
    state = fleet(quota={"cpu": "6"})
    wanted = state.workload_of(request("new", size="large"))
    assert changes_that_fit(state, wanted, now=NOW) == ("spec.size: small",)


def test_policy_without_quota_emits_no_events_of_quotas() -> None:
    state = state_of(policy(), host("h1"), load("h1", count=0), placed("a", "h1"))
    assert woken_accounts(state.delete(placed("a", "h1"), now=NOW)) == []


def test_use_of_tenants_survives_creation_and_deletion_in_a_loop() -> None:
    state = fleet(quota={"hostedClusters": 1})
    for number in range(20):
        asked = request(f"r{number}")
        state.reserve(state.workload_of(asked), HOST)
        if number % 2:
            state.upsert(placed(f"r{number}", "h1"), now=NOW)
        state.delete(asked, now=NOW)
    assert state.snapshot().tenants.used(Account("default", "team-a")) == {}
    assert not state.snapshot().tenants.claimants("team-a")


# Demands that no host can meet


ABSURD = {"cpu": "9223372036854775807", "memory": "16E"}


@pytest.mark.parametrize("model", ["Count", "Auto", "Slots", "Resources"])
@pytest.mark.parametrize("demand", [ABSURD, {"cpu": "1", "memory": "9E"}, {"cpu": "1e18", "memory": "1"}])
def test_demand_beyond_the_largest_host_is_refused_in_every_model(model: str, demand: dict[str, str]) -> None:
    large = {"cpu": "64", "memory": "256Gi"}
    state = state_of(
        policy(capacity={"model": model}),
        host("h1", allocatable=large),
        load("h1", count=0, scores={"hcpSlotsSmall": 12}),
        host("h2", allocatable={"cpu": "8", "memory": "32Gi"}),
        load("h2", count=0, scores={"hcpSlotsSmall": 1}),
    )
    refused, accepted = place(state, [request("huge", demand=demand), request("small")], now=NOW)
    assert (refused.host, refused.reason) == (None, DEMAND_TOO_LARGE)
    assert "the largest hosting cluster, h1, offers in all" in refused.message
    assert accepted.host == HOST


def test_host_that_publishes_only_a_count_offers_what_its_hosted_clusters_may_need() -> None:
    state = fleet(maxPerHost=2)
    assert one(state, request("fits", demand={"cpu": "10", "memory": "34Gi"})).host == HOST
    refused = one(state, request("huge", demand={"cpu": "10001m", "memory": "1Gi"}))
    assert refused.message == (
        "spec.demand.cpu: 10001m cpu is more than the largest hosting cluster, h1, offers in all, which is 10; write "
        "at most that, or add a larger hosting cluster"
    )


def test_smaller_host_of_the_model_count_is_rejected_by_what_its_nodes_have() -> None:
    state = state_of(
        policy(capacity={"model": "Count"}),
        *(host("big", allocatable={"cpu": "64", "memory": "256Gi"}), load("big", count=9)),
        *(host("tiny", allocatable={"cpu": "8", "memory": "32Gi"}), load("tiny", count=0)),
    )
    decision = one(state, request("new", size="medium"))
    assert decision.host is not None
    assert decision.host.name == "big"
    assert [rejection.reason for rejection in decision.rejections] == [
        "offers 8 cpu in all, and the request needs 13; offers 32 GiB memory in all, and the request needs 47 GiB"
    ]


def test_larger_host_wakes_what_was_too_large() -> None:
    state = fleet(maxPerHost=1)
    assert one(state, request("new", size="large")).reason == DEMAND_TOO_LARGE
    events = state.upsert(policy(maxPerHost=9), now=NOW)
    assert any(LARGEST_HOST in event.columns for event in events)
    assert one(state, request("new", size="large")).host == HOST


def test_host_whose_load_is_unknown_for_a_while_still_offers_what_it_has() -> None:
    state = state_of(
        *(host("big", allocatable={"cpu": "64", "memory": "256Gi"}), load("big", count=0)),
        *(host("tiny", allocatable={"cpu": "8", "memory": "32Gi"}), load("tiny", count=0)),
    )
    state.delete(load("big", count=0), now=NOW)
    assert one(state, request("new", size="medium")).reason == UNSCHEDULABLE
    state.delete(host("big", allocatable={"cpu": "64", "memory": "256Gi"}), now=NOW)
    assert one(state, request("new", size="medium")).reason == DEMAND_TOO_LARGE


def test_demand_that_grows_after_placement_takes_no_room() -> None:
    state = state_of(
        policy(capacity={"model": "Count"}, spareHosts=1),
        *(thing for name in ("h1", "h2") for thing in (host(name), load(name, count=0))),
    )
    status = {
        "phase": "Bound",
        "hostingCluster": {"name": "h1", "uid": "uid-h1"},
        "reservation": {"amounts": {"hostedclusters": "1", "slots": "1", "cpu": "5", "memory": "17Gi"}},
    }
    state.upsert(request("evil", status=status, demand=ABSURD), now=NOW)
    assert state.account(HOST).used["cpu"] == 5000
    assert all(decision.host for decision in place(state, [request("a"), request("b")], now=NOW))


def test_absurd_reservations_of_earlier_versions_block_no_host() -> None:
    status = {
        "phase": "Bound",
        "hostingCluster": {"name": "h1", "uid": "uid-h1"},
        "reservation": {"amounts": {"hostedclusters": "1", "slots": "1", **ABSURD}},
    }
    state = fleet(capacity={"model": "Count"})
    state.upsert(request("evil", status=status, demand=ABSURD), now=NOW)
    assert one(state, request("new")).host == HOST
