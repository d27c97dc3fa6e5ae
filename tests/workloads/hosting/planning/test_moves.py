"""Plans of moves: draining a host, and the fewest moves after which no host violates a policy."""

from typing import Any

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine.workload import HostKey
from fairway.workloads.hosting import HostingState, drain, place, rebalance, violations
from fairway.workloads.hosting.planning.move_problem import FREEZE
from fairway.workloads.hosting.planning.moves import FOREIGN, NO_OTHER, NO_REQUEST, MovePlan
from fairway.workloads.hosting.planning.violations import NO_SPARE, OVER, TENANT
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of

Built = tuple[HostingState, list[HostedClusterRequest]]


def carried(counts: dict[str, list[HostedClusterRequest]], **spec: Any) -> Built:
    """Return hosts that carry these requests, and publish the number of the confirmed ones."""
    residents = [request for requests in counts.values() for request in requests]
    state = state_of(
        policy(**spec),
        *(host(name) for name in counts),
        *(
            load(name, count=sum(request.status.phase == "Confirmed" for request in requests))
            for name, requests in counts.items()
        ),
        *residents,
    )
    return state, residents


def on(name: str, *names: str, **fields: Any) -> list[HostedClusterRequest]:
    return [
        placed(request_name, on=name, phase="Confirmed", counted=True, **fields) for request_name in names
    ]


def targets(plan: MovePlan) -> dict[str, str]:
    return {move.key.name: move.target.name for move in plan.moves}


def test_drain_places_everything_on_the_other_hosts() -> None:
    state, requests = carried({"h1": on("h1", "a", "b"), "h2": on("h2", "c"), "h3": []}, maxPerHost=2)
    plan = drain(state, requests, [HostKey("h1", "uid-h1")], now=NOW)
    assert sorted(targets(plan).values()) == ["h2", "h3"]
    assert not plan.stuck
    assert plan.freeze == 2 * FREEZE["small"]


def test_drain_names_hosted_clusters_that_fit_nowhere() -> None:
    state, requests = carried({"h1": on("h1", "a", "b"), "h2": on("h2", "c")}, maxPerHost=2)
    plan = drain(state, requests, [HostKey("h1", "uid-h1")], now=NOW)
    assert len(plan.moves) == 1
    assert [stuck.key.name for stuck in plan.stuck] == ["b"]
    assert "takes at most 2" in plan.stuck[0].reason


def test_drain_reports_hosted_clusters_of_other_owners() -> None:
    state = state_of(policy(), host("h1"), host("h2"), load("h1", count=3), load("h2", count=0))
    plan = drain(state, [], [HostKey("h1", "uid-h1")], now=NOW)
    assert plan.notes == (FOREIGN.format(host="h1", count=3),)


def test_drain_does_not_move_a_resident_without_request() -> None:
    state, _ = carried({"h1": on("h1", "a"), "h2": []})
    plan = drain(state, [], [HostKey("h1", "uid-h1")], now=NOW)
    assert [stuck.reason for stuck in plan.stuck] == [NO_REQUEST]


def test_planning_leaves_the_state_unchanged() -> None:
    state, requests = carried({"h1": on("h1", "a", "b", "c"), "h2": []}, maxPerHost=2)
    before = (violations(state), state.free(HostKey("h1", "uid-h1")), state.free(HostKey("h2", "uid-h2")))
    drain(state, requests, [HostKey("h1", "uid-h1")], now=NOW)
    rebalance(state, requests, now=NOW)
    after = (violations(state), state.free(HostKey("h1", "uid-h1")), state.free(HostKey("h2", "uid-h2")))
    assert after == before


def test_rebalance_moves_nothing_within_policy() -> None:
    state, requests = carried({"h1": on("h1", "a", "b"), "h2": []})
    assert rebalance(state, requests, now=NOW) == MovePlan()


def test_rebalance_moves_one_from_an_overfull_host() -> None:
    state, requests = carried({"h1": on("h1", "a", "b", "c"), "h2": on("h2", "d")}, maxPerHost=2)
    plan = rebalance(state, requests, now=NOW)
    assert [violation.message for violation in plan.before] == [OVER.format(amount="1 hosted cluster")]
    assert list(targets(plan).values()) == ["h2"]
    assert plan.fewest
    assert not plan.after


def test_rebalance_prefers_a_hosted_cluster_that_does_not_exist_yet() -> None:
    state, requests = carried({"h1": [*on("h1", "a", "b"), placed("c", on="h1")], "h2": []}, maxPerHost=2)
    plan = rebalance(state, requests, now=NOW)
    assert targets(plan) == {"c": "h2"}
    assert plan.freeze == 0


def test_rebalance_prefers_the_shortest_freeze() -> None:
    """A hosted cluster of unknown size may be small, and is assumed to take the longest."""
    custom = on("h1", "a", demand={"cpu": "1", "memory": "1Gi"})
    state, requests = carried({"h1": [*custom, *on("h1", "b", "c")], "h2": []}, maxPerHost=2)
    assert targets(rebalance(state, requests, now=NOW)) == {"b": "h2"}


def test_rebalance_separates_tenants() -> None:
    state, requests = carried({"h1": on("h1", "a", "b"), "h2": []}, tenantAntiAffinity="Required")
    plan = rebalance(state, requests, now=NOW)
    assert [violation.message for violation in plan.before] == [TENANT.format(count=2, tenant="team-a")]
    assert len(plan.moves) == 1
    assert not plan.after


def test_rebalance_reports_violations_that_no_moves_fix() -> None:
    state, requests = carried({"h1": on("h1", "a", "b", "c"), "h2": on("h2", "d", "e")}, maxPerHost=2)
    plan = rebalance(state, requests, now=NOW)
    assert not plan.moves
    assert plan.after == plan.before
    assert not plan.fewest


def test_rebalance_reports_a_fleet_without_spare_host() -> None:
    state, requests = carried(
        {"h1": on("h1", "a", "b"), "h2": on("h2", "d", "e")}, maxPerHost=3, spareHosts=1
    )
    plan = rebalance(state, requests, now=NOW)
    assert [violation.message for violation in plan.before] == [NO_SPARE.format(count=1)]


def test_equal_plans_have_equal_hashes() -> None:
    state, requests = carried({"h1": on("h1", "a", "b", "c"), "h2": []}, maxPerHost=2)
    first, second = (rebalance(state, requests, now=NOW + later) for later in (0, 1))
    assert first.hash == second.hash
    assert first.hash != drain(state, requests, [HostKey("h1", "uid-h1")], now=NOW).hash


def test_request_constraints_hold_when_it_moves() -> None:
    pinned = on("h1", "a", constraints={"regions": ["eu-1"]})
    state, requests = carried({"h1": pinned, "h2": []})
    plan = drain(state, requests, [HostKey("h1", "uid-h1")], now=NOW)
    assert "region" in plan.stuck[0].reason


def test_drain_of_the_only_host_has_no_other() -> None:
    state, requests = carried({"h1": on("h1", "a")})
    plan = drain(state, requests, [HostKey("h1", "uid-h1")], now=NOW)
    assert [stuck.reason for stuck in plan.stuck] == [NO_OTHER]


def test_new_request_is_placed_after_a_drain_elsewhere() -> None:
    state, requests = carried({"h1": on("h1", "a"), "h2": []}, maxPerHost=1)
    plan = drain(state, [*requests, request("new")], [HostKey("h1", "uid-h1")], now=NOW)
    assert targets(plan) == {"a": "h2"}


def test_fleet_that_was_filled_with_a_spare_host_survives_the_loss_of_any_host() -> None:
    state = state_of(
        policy(spareHosts=1, maxPerHost=6),
        *(host(f"h{number}") for number in range(4)),
        *(load(f"h{number}", count=0) for number in range(4)),
    )
    decisions = place(state, [request(f"r{number}") for number in range(24)], now=NOW)
    requests = [
        placed(decision.key.name, on=decision.host.name)
        for decision in decisions
        if decision.host is not None
    ]
    assert 12 <= len(requests) <= 18  # at most the room of three hosts
    filled = state_of(
        policy(spareHosts=1, maxPerHost=6),
        *(host(f"h{number}") for number in range(4)),
        *(load(f"h{number}", count=0) for number in range(4)),
        *requests,
    )
    assert not violations(filled)
    for number in range(4):
        plan = drain(filled, requests, [HostKey(f"h{number}", f"uid-h{number}")], now=NOW)
        assert not plan.stuck
        assert len(plan.moves) == sum(
            request.status.hostingCluster is not None and request.status.hostingCluster.name == f"h{number}"
            for request in requests
        )
