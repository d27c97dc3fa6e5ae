"""Placing: filters with their reasons, strategies, running deduction, and spare hosts."""

from typing import Any

import msgspec
import pytest

from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.workloads.hosting import Decision, Evacuation, HostingState, changes_that_fit, place
from fairway.workloads.hosting.decision import NO_HOSTS, decision_of
from fairway.workloads.hosting.fleet import facts
from fairway.workloads.hosting.plugins import (
    claim_values,
    hosting_claim,
    names_free,
    not_full,
    policy_member,
    room,
    spare_hosts,
    tenant_anti_affinity,
    version,
    zones,
)
from fairway.workloads.hosting.plugins.quiet_hours import QUIET
from fairway.workloads.hosting.requests.conditions import MISCONFIGURED
from fairway.workloads.hosting.requests.demand import UNKNOWN_SIZE
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace
from fairway.workloads.hosting.rules.policy import policy_of
from fairway.workloads.hosting.workload import NO_PLACEMENT
from fairway.workloads.placement.plugins.work_budget import (
    CLUSTER_WORK,
    EXPRESSION_WORK,
    REQUEST_FLEET_WORK,
)
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of


def one(state: HostingState, wanted: HostedClusterRequest) -> Decision:
    (decision,) = place(state, [wanted], now=NOW)
    return decision


def hosts_of(decisions: list[Decision]) -> list[str]:
    return [decision.host.name if decision.host else "" for decision in decisions]


def constrained(**constraints: Any) -> HostedClusterRequest:
    return request("new", constraints=constraints)


ADD_ON = "feature.open-cluster-management.io/addon-hypershift-addon"
REJECTED = [
    (
        host("h1", available=False),
        request("new"),
        facts.NOT_AVAILABLE.format(message="its lease expired"),
    ),
    (host("h1", hubAcceptsClient=False), request("new"), facts.NOT_ACCEPTED),
    (
        host("h1", claims={"hostingcluster.hypershift.openshift.io": "no"}),
        request("new"),
        hosting_claim.NOT_HOSTING,
    ),
    (
        host("h1", claims={"full.hostedclustercount.hypershift.openshift.io": "true"}),
        request("new"),
        not_full.FULL,
    ),
    (
        host("h1", labels={ADD_ON: "unhealthy"}),
        request("new"),
        "its hypershift add-on is unhealthy",
    ),
    (
        host("h1", claims={"platform.open-cluster-management.io": "GCP"}),
        constrained(platforms=["AWS", "Azure"]),
        claim_values.OTHER_VALUE.format(noun="platform", value="GCP", wanted="AWS or Azure"),
    ),
    (
        host("h1"),
        constrained(regions=["eu-1"]),
        claim_values.NO_VALUE.format(claim="region.open-cluster-management.io", noun="region", wanted="eu-1"),
    ),
    (
        host("h1", claims={"architecture.open-cluster-management.io": "arm64"}),
        constrained(architectures=["amd64"]),
        claim_values.OTHER_VALUE.format(noun="architecture", value="arm64", wanted="amd64"),
    ),
    (host("h1"), constrained(minVersion="1.32"), version.TOO_OLD.format(found="v1.31.2", wanted="1.32")),
    (host("h1", version=""), constrained(minVersion="1.32"), version.UNKNOWN.format(wanted="1.32")),
    (
        host("h1", claims={"zones.fairway.dev": "2"}),
        constrained(minZones=3),
        zones.TOO_FEW.format(found=2, wanted=3),
    ),
    (host("h1"), constrained(minZones=3), zones.UNKNOWN.format(wanted=3)),
    (
        host("h1", taints=[{"key": "old", "effect": "NoSelect"}]),
        request("new"),
        "has taint old:NoSelect, which the placement does not tolerate",
    ),
    (
        host(
            "h1",
            allocatable={"cpu": "8", "memory": "32Gi"},
            claims={"cpu.free.hosting.fairway.dev": "4", "memory.free.hosting.fairway.dev": "8Gi"},
        ),
        request("new"),
        "; ".join(
            room.TOO_LITTLE.format(resource=name, left=left, asked=asked)
            for name, left, asked in (("cpu", "4", "5"), ("memory", "8 GiB", "17 GiB"))
        ),
    ),
]


@pytest.mark.parametrize(("cluster", "wanted", "reason"), REJECTED, ids=[case[2][:40] for case in REJECTED])
def test_host_that_does_not_qualify_is_rejected_with_its_reason(
    cluster: ManagedCluster, wanted: HostedClusterRequest, reason: str
) -> None:
    decision = one(state_of(cluster, load("h1", count=0)), wanted)
    assert decision.host is None
    assert [(rejection.reason, rejection.clusters) for rejection in decision.rejections] == [
        (reason, ("h1",))
    ]
    assert reason in decision.message


def test_host_that_meets_all_constraints_is_selected_with_its_scores() -> None:
    claims = {
        "platform.open-cluster-management.io": "AWS",
        "region.open-cluster-management.io": "eu-1",
        "zones.fairway.dev": "3",
    }
    wanted = constrained(
        platforms=["aws"],
        regions=["eu-1", "eu-2"],
        minVersion="1.31",
        minZones=3,
        selector={"labelSelector": {"matchLabels": {"tier": "prod"}}},
        tolerations=[{"key": "old", "operator": "Exists"}],
    )
    good = host("h1", claims=claims, labels={"tier": "prod"}, taints=[{"key": "old", "effect": "NoSelect"}])
    state = state_of(good, load("h1", count=8), host("h2"), load("h2", count=0))
    decision = one(state, wanted)
    assert decision.host is not None
    assert decision.host.name == "h1"
    assert {score.plugin: score.score for score in decision.scores} == {
        "Headroom": 89,
        "Balance": 100,
        "HostedClusters": 89,
        "TenantAntiAffinity": 0,
    }
    assert decision.total == 10 * 89 + 100 + 89
    assert [rejection.clusters for rejection in decision.rejections] == [("h2",)]


def test_hub_without_clusters_is_named_as_the_reason() -> None:
    assert one(state_of(), request("new")).message == NO_HOSTS


BAD = [
    (request("new", size="hue"), UNKNOWN_SIZE.format(size="hue", known="large, medium, small")),
    (constrained(placement="gone"), NO_PLACEMENT.format(namespace="team-a", name="gone")),
]


@pytest.mark.parametrize(("wanted", "reason"), BAD)
def test_invalid_request_is_refused_with_what_is_wrong(wanted: HostedClusterRequest, reason: str) -> None:
    decision = one(state_of(host("h1"), load("h1", count=0)), wanted)
    assert (decision.host, decision.reason, decision.message) == (None, MISCONFIGURED, reason)


def test_placement_restricts_the_hosts() -> None:
    placement = msgspec.convert(
        {
            "metadata": {"namespace": "team-a", "name": "where"},
            "spec": {
                "predicates": [
                    {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"tier": "prod"}}}}
                ]
            },
        },
        Placement,
    )
    hosts = [host("h1"), load("h1", count=0), host("h2", labels={"tier": "prod"}), load("h2", count=50)]
    state = state_of(*hosts, placement)
    assert "is bound to no cluster set" in one(state, constrained(placement="where")).message


def test_hosts_outside_the_policy_are_rejected() -> None:
    members = msgspec.convert(
        {
            "metadata": {"name": "hosting"},
            "spec": {
                "clusterSelector": {
                    "selectorType": "LabelSelector",
                    "labelSelector": {"matchLabels": {"hosting": "yes"}},
                }
            },
        },
        ManagedClusterSet,
    )
    hosts = [host("h1"), load("h1", count=0), host("h2", labels={"hosting": "yes"}), load("h2", count=50)]
    decision = one(state_of(members, *hosts, policy(clusterSets=["hosting"])), request("new"))
    assert decision.host is not None
    assert decision.host.name == "h2"
    assert decision.rejections[0].reason == policy_member.NOT_A_MEMBER.format(
        policy="default", sets="hosting"
    )


def test_quiet_hours_keep_requests_waiting_unless_they_are_ignored() -> None:
    state = state_of(host("h1"), load("h1", count=0), policy(quietHours=[{"start": "11:00", "end": "13:00"}]))
    assert one(state, request("new")).message == QUIET.format(policy="default", end="2026-03-02T13:00:00Z")
    assert hosts_of(place(state, [request("new")], now=NOW, quiet=False)) == ["h1"]


def fleet(*counts: int) -> list[Any]:
    names = [f"h{number}" for number in range(1, len(counts) + 1)]
    return [
        thing
        for name, count in zip(names, counts, strict=True)
        for thing in (host(name), load(name, count=count))
    ]


def test_spread_fills_the_emptiest_host_first_and_pack_the_fullest_that_fits() -> None:
    wanted = [request(f"r{number}") for number in range(4)]
    spread = place(state_of(*fleet(2, 0)), wanted, now=NOW)
    assert hosts_of(spread) == ["h2", "h2", "h1", "h2"]
    pack = place(state_of(*fleet(2, 0), policy(strategy="Pack", maxPerHost=4)), wanted, now=NOW)
    assert hosts_of(pack) == ["h1", "h1", "h2", "h2"]


def test_burst_is_deducted_while_it_is_placed_and_ends_with_a_reason() -> None:
    state = state_of(*fleet(0, 0), policy(maxPerHost=2))
    decisions = place(state, [request(f"r{number}") for number in range(5)], now=NOW)
    assert sorted(hosts_of(decisions)) == ["", "h1", "h1", "h2", "h2"]
    assert decisions[-1].rejections[0].reason == room.NO_NUMBER.format(used=2, most=2)
    assert hosts_of(place(state, [request("r9")], now=NOW)) == ["h1"], "nothing was reserved"


def test_higher_priority_is_placed_first() -> None:
    state = state_of(*fleet(0), policy(maxPerHost=1, priorityClasses=[{"name": "gold", "value": 5}]))
    decisions = place(state, [request("low"), request("high", priorityClass="gold")], now=NOW)
    assert [(decision.key.name, bool(decision.host)) for decision in decisions] == [
        ("high", True),
        ("low", False),
    ]


def test_tenants_keep_apart_as_the_policy_says() -> None:
    hosts = [*fleet(5, 0), placed("mine", "h2")]
    required = state_of(*hosts, policy(tenantAntiAffinity="Required"))
    assert hosts_of(place(required, [request("a"), request("b")], now=NOW)) == ["h1", ""]
    reason = tenant_anti_affinity.SAME_TENANT.format(count=1, tenant="team-a")
    (refused,) = place(required, [request("a"), request("b")], now=NOW)[1].rejections
    assert (refused.reason, refused.count) == (reason, 2)
    preferred = state_of(*hosts, policy(tenantAntiAffinity="Preferred"))
    assert hosts_of(place(preferred, [request("a"), request("b")], now=NOW)) == ["h1", "h2"]


def test_object_of_another_request_is_not_overwritten() -> None:
    template = {"name": "web", "spec": {}}
    state = state_of(*fleet(0), placed("mine", "h1", hostedCluster=template))
    decision = one(state, request("new", hostedCluster=template))
    name = f"{derived_namespace('team-a')}/web"
    assert decision.rejections[0].reason == names_free.TAKEN.format(
        kind="HostedCluster", name=name, request="team-a/mine"
    )


def test_spare_host_keeps_room_for_the_failure_of_any_host() -> None:
    """Three hosts of 10: any one may fail while the other two take what it carries, so 20 fit."""
    rules = policy(spareHosts=1, maxPerHost=10)
    state = state_of(*fleet(0, 0, 0), rules)
    decisions = place(state, [request(f"r{number}") for number in range(25)], now=NOW)
    placed_on = [name for name in hosts_of(decisions) if name]
    assert len(placed_on) == 20
    refused = decisions[-1]
    assert refused.rejections[0].plugin == spare_hosts.NAME
    assert refused.rejections[0].reason == spare_hosts.NO_SPARE.format(host="h1", count=1)
    trial = state.fork()
    for decision in decisions:
        if decision.host is not None:
            trial.reserve(state.workload_of(request(decision.key.name)), decision.host)
    evacuation = Evacuation.of(trial.snapshot(), policy_of(rules))
    assert [evacuation.unplaced(name) for name in ("h1", "h2", "h3")] == [0, 0, 0]


FITS = [
    (
        (host("h1", allocatable={"cpu": "15", "memory": "60Gi"}), load("h1", count=0)),
        request("new", size="large"),
        (
            "spec.size: medium",
            "spec.size: small",
            "spec.availability: SingleReplica",
            "9 cpu and 26 GiB memory more on h1",
        ),
    ),
    ((host("h1"), load("h1", count=80)), request("new"), ("one hosted cluster less on h1",)),
    ((host("h1", available=False), load("h1", count=0)), request("new"), ("h1 becomes available",)),
    ((host("h1"),), request("new"), ("h1 publishes its load",)),
    (fleet(0), constrained(platforms=["AWS"]), ("spec.constraints without platforms",)),
    (fleet(0), constrained(platforms=["AWS"], minZones=3), ()),
]


@pytest.mark.parametrize(("objects", "wanted", "changes"), FITS)
def test_changes_that_make_a_request_fit_are_enough_each(
    objects: tuple[Any, ...], wanted: HostedClusterRequest, changes: tuple[str, ...]
) -> None:
    state = state_of(*objects)
    assert changes_that_fit(state, state.workload_of(wanted), now=NOW) == changes


def test_costly_expressions_of_a_request_are_refused_within_a_limit_for_all_hosts() -> None:
    """The cycle of a request is not divided into slices: it keeps everything else from the event loop."""
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    costly = f'{ten}.all(a, {ten}.all(b, {ten}.all(c, managedCluster.metadata.name != "x")))'
    hosts = [f"h{at}" for at in range(20)]
    state = state_of(policy(), *map(host, hosts), *(load(name, count=0) for name in hosts))
    wanted = request("q", constraints={"selector": {"celSelector": {"celExpressions": [costly]}}})
    workload = state.workload_of(wanted)
    outcome = cycle.run(state.snapshot(), workload, state.profile, now=NOW)
    decision = decision_of(outcome, workload.key)
    assert (decision.host, decision.reason) == (None, MISCONFIGURED)
    assert "write fewer or cheaper ones" in decision.message
    assert workload.spec.selection is not None
    limit = REQUEST_FLEET_WORK + CLUSTER_WORK * len(hosts)
    assert workload.spec.selection.pace.used <= limit + EXPRESSION_WORK
