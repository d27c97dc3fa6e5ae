"""What plans of moves state about themselves, against all plans of small random fleets."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.cluster import ManagedCluster
from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine.workload import HostKey
from fairway.workloads.hosting import HostingState, Proof, drain, rebalance, violations
from fairway.workloads.hosting.planning.move_search import HostLimits, Mover, MoveSearch
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of
from workloads.hosting.move_oracle import MoveOracle

Fleet = tuple[HostingState, list[HostedClusterRequest]]
MOST_MOVES = 3
"""That are tried one by one."""


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Return three hosts, at most six hosted clusters, and rules that some of them violate."""
    model = draw(st.sampled_from(("Count", "Slots", "Resources")))
    names = ["h0", "h1", "h2"]
    requests: list[HostedClusterRequest] = []
    counted = dict.fromkeys(names, 0)
    for number in range(draw(st.integers(3, 6))):
        on = draw(st.sampled_from(("h0", "h0", "h1", "h2")))
        exists = draw(st.booleans())
        counted[on] += exists
        spec: dict[str, Any] = {"size": draw(st.sampled_from(("small", "small", "medium", "large")))}
        if draw(st.integers(0, 4)) == 0:
            spec["constraints"] = {"minZones": 3}
        if draw(st.integers(0, 3)) == 0:
            # Two requests may name one HostedCluster; such a pair cannot share a host.
            spec["hostedCluster"] = {
                "name": draw(st.sampled_from(("shared", "other"))),
                "spec": {"platform": {"type": "None"}},
            }
        spec["tenant"] = f"t{draw(st.integers(0, 3))}"
        phase = "Confirmed" if exists else "Bound"
        requests.append(placed(f"r{number}", on=on, phase=phase, counted=exists, **spec))
    objects: list[object] = [
        policy(
            capacity={"model": model},
            maxPerHost=draw(st.sampled_from((2, 3, 99))),
            tenantAntiAffinity=draw(st.sampled_from(("None", "None", "Required"))),
            tenants=[{"name": f"t{number}", "namespaces": ["team-a"]} for number in range(4)],
            spareHosts=draw(st.sampled_from((0, 0, 0, 1))),
            maxUtilization=draw(st.sampled_from((80, 100))),
        )
    ]
    for name in names:
        objects.append(_host(name, draw))
        slots = {"hcpSlotsSmall": draw(st.integers(0, 6)), "hcpSlotsLarge": draw(st.integers(0, 2))}
        objects.append(load(name, count=counted[name], scores=slots if model == "Slots" else None))
    return state_of(*objects, *requests), requests


def _host(name: str, draw: st.DrawFn) -> ManagedCluster:
    cores = draw(st.sampled_from((15, 25, 40, 60)))
    return host(
        name,
        claims={"zones.fairway.dev": draw(st.sampled_from(("1", "3")))},
        allocatable={"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": "500"},
    )


@settings(max_examples=60, deadline=None)
@given(fleet=fleets())
def test_rebalance_states_what_all_plans_of_a_small_fleet_confirm(fleet: Fleet) -> None:
    state, requests = fleet
    plan = rebalance(state, requests, now=NOW)
    if not violations(state):
        assert not plan.moves
        return
    oracle = MoveOracle(state, requests, clean=True)
    best = oracle.best(most_moves=MOST_MOVES)
    match plan.proof:
        case Proof.CHEAPEST:
            assert not plan.after
            assert best == ((len(plan.moves), plan.freeze) if len(plan.moves) <= MOST_MOVES else None)
        case Proof.IMPOSSIBLE:
            assert plan.after
            assert best is None
        case _:
            pytest.fail(f"a fleet of this size is searched exactly; got {plan.proof}")


@settings(max_examples=60, deadline=None)
@given(fleet=fleets())
def test_drain_states_what_all_plans_of_a_small_fleet_confirm(fleet: Fleet) -> None:
    state, requests = fleet
    leaving = state.facts["h0"].key
    number = sum(1 for _ in state.on(leaving))
    plan = drain(state, requests, [leaving], now=NOW)
    best = MoveOracle(state, requests, clean=False).best(must=leaving, most_moves=max(number, MOST_MOVES))
    match plan.proof:
        case Proof.CHEAPEST:
            assert not plan.stuck
            if len(plan.moves) <= max(number, MOST_MOVES):
                assert best == (len(plan.moves), plan.freeze)
            else:
                assert best is None
        case Proof.IMPOSSIBLE:
            assert plan.stuck
            assert best is None
        case _:
            pytest.fail(f"a fleet of this size is searched exactly; got {plan.proof}")


def pinned(name: str, on: str, *, size: str, zones: int = 0) -> HostedClusterRequest:
    return placed(name, on=on, phase="Confirmed", counted=True, size=size, constraints={"minZones": zones})


def sized(cores: dict[str, int], requests: list[HostedClusterRequest], **spec: Any) -> Fleet:
    """Return hosts with so many cores and three zones, on which the published number has all requests."""
    counts = dict.fromkeys(cores, 0)
    for asked in requests:
        assert asked.status.hostingCluster is not None
        counts[asked.status.hostingCluster.name] += 1
    hosts = [
        host(
            name,
            claims={"zones.fairway.dev": "3"},
            allocatable={"cpu": str(number), "memory": f"{number * 4}Gi", "pods": "5000"},
        )
        for name, number in cores.items()
    ]
    loads = [load(name, count=count) for name, count in counts.items()]
    return state_of(policy(maxPerHost=99, **spec), *hosts, *loads, *requests), requests


def test_rebalance_finds_two_moves_in_a_chain() -> None:
    """The hosted cluster that must leave fits only where another one makes room first."""
    state, requests = sized(
        {"h0": 15, "h1": 15, "h2": 7},
        [
            pinned("a", "h0", size="small"),
            pinned("b", "h0", size="medium"),
            pinned("c", "h1", size="small"),
        ],
    )
    plan = rebalance(state, requests, now=NOW)
    assert plan.proof is Proof.CHEAPEST
    assert not plan.after
    assert len(plan.moves) <= 2


def test_moves_are_listed_in_an_order_in_which_each_one_fits() -> None:
    state, requests = sized(
        {"h0": 13, "h1": 14, "h2": 5},
        [pinned("big", "h0", size="medium"), pinned("in-the-way", "h1", size="small")],
    )
    plan = drain(state, requests, [HostKey("h0", "uid-h0")], now=NOW)
    assert [move.key.name for move in plan.moves] == ["in-the-way", "big"]
    assert not plan.notes


def test_plan_says_that_hosted_clusters_exchange_their_hosts() -> None:
    state, requests = sized(
        {"h0": 13, "h1": 24},
        [
            placed("a", on="h0", phase="Confirmed", counted=True, size="large"),
            placed("b", on="h1", phase="Confirmed", counted=True, size="medium"),
        ],
    )
    plan = rebalance(state, requests, now=NOW)
    assert {move.key.name: move.target.name for move in plan.moves} == {"a": "h1", "b": "h0"}
    assert "exchange" in plan.notes[0]


def test_drain_packs_what_one_pass_does_not() -> None:
    """The largest first, each on the emptiest host, leaves no room for the last one."""
    state, requests = sized(
        {"old": 100, "h1": 26, "h2": 23},
        [
            *(pinned(f"m{number}", "old", size="medium") for number in range(3)),
            *(pinned(f"s{number}", "old", size="small") for number in range(2)),
        ],
    )
    plan = drain(state, requests, [HostKey("old", "uid-old")], now=NOW)
    assert not plan.stuck
    assert plan.proof is Proof.CHEAPEST


def test_search_that_ends_at_its_limit_proves_nothing() -> None:
    state, requests = sized(
        {"h0": 13, "h1": 14, "h2": 5},
        [pinned("big", "h0", size="medium"), pinned("in-the-way", "h1", size="small")],
    )
    plan = drain(state, requests, [HostKey("h0", "uid-h0")], now=NOW, most_work=2)
    assert plan.proof is Proof.NOT_FOUND
    assert [stuck.key.name for stuck in plan.stuck] == ["big"]


def test_work_of_a_search_is_bounded_at_any_size() -> None:
    hosts = [HostLimits(free=(-7, 0), clean=True), *(HostLimits(free=(6, 9), clean=True) for _ in range(200))]
    movers = [
        Mover(
            source=number % 201,
            amounts=(1 + number % 5, 1 + number % 7),
            targets={
                target: (1 + number % 5, 1 + number % 7) for target in range(201) if target != number % 201
            },
            tenant=number,
            freeze=number % 3,
        )
        for number in range(2000)
    ]
    result = MoveSearch(hosts, movers, most_work=3000, check=lambda _: False).solve()
    assert result.proof is Proof.NOT_FOUND
    assert result.work <= 3100


def test_equal_problems_have_equal_plans() -> None:
    plans = []
    for _ in range(2):
        state, requests = sized(
            {"h0": 13, "h1": 40, "h2": 40, "h3": 40},
            [pinned("a", "h0", size="medium"), *(pinned(f"s{n}", "h0", size="small") for n in range(5))],
        )
        plans.append(rebalance(state, [*requests, request("new")], now=NOW))
    assert plans[0] == plans[1]
