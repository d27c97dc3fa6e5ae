"""A cycle is a function of (snapshot, workload, profile, clock), and its two forms agree."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine import cycle
from fairway.engine.ledger import InsufficientCapacity
from fairway.engine.outcome import Outcome
from fairway.engine.points import Context, FleetFilter
from fairway.hosts import bitmap
from fairway.workloads.hosting import HostingState, place
from fairway.workloads.hosting.decision import decision_of
from fairway.workloads.hosting.fleet.roster import Roster
from fairway.workloads.hosting.fleet.telemetry import ADD_ON_LABEL, FULL_CLAIM, HOSTING_CLAIM
from fairway.workloads.hosting.plugins.available import HostAvailable
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of

NAMES = tuple(f"h{number}" for number in range(6))
CLAIMS = {
    "hostingcluster.hypershift.openshift.io": ("true", "true", "true", "false"),
    "platform.open-cluster-management.io": ("AWS", "aws", "Azure"),
    "zones.fairway.dev": ("1", "3", "many"),
    FULL_CLAIM: ("false", "false", "true"),
}
SIZES = ("small", "medium", "large")


@st.composite
def fleets(draw: st.DrawFn) -> HostingState:
    model = draw(st.sampled_from(("Count", "Slots", "Resources")))
    objects: list[object] = [
        policy(
            capacity={"model": model},
            maxPerHost=draw(st.sampled_from((2, 4, 99))),
            maxUtilization=draw(st.sampled_from((80, 100))),
            strategy=draw(st.sampled_from(("Spread", "Pack"))),
            tenantAntiAffinity=draw(st.sampled_from(("None", "Preferred", "Required"))),
            spareHosts=draw(st.sampled_from((0, 0, 1))),
            quota=draw(st.sampled_from(({}, {"hostedClusters": 2}))),
        )
    ]
    for name in NAMES:
        claims = {claim: draw(st.sampled_from(values)) for claim, values in CLAIMS.items()}
        cores = draw(st.sampled_from((15, 40, 400)))
        objects.append(
            host(
                name,
                claims=claims,
                labels={ADD_ON_LABEL: draw(st.sampled_from(("available", "available", "unhealthy")))},
                allocatable={"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": "900"},
                available=draw(st.integers(0, 5)) > 0,
                version=draw(st.sampled_from(("v1.29.1", "v1.31.2", "latest"))),
                hubAcceptsClient=draw(st.integers(0, 5)) > 0,
            )
        )
        if draw(st.integers(0, 5)):
            slots = {
                "hcpSlotsSmall": draw(st.integers(0, 6)),
                "hcpSlotsLarge": draw(st.integers(0, 2)),
            }
            objects.append(
                load(
                    name,
                    count=draw(st.integers(0, 4)),
                    valid=draw(st.sampled_from((None, timedelta(minutes=3)))),
                    scores=slots if model == "Slots" else None,
                )
            )
    objects += [
        placed(
            f"r{number}",
            on=draw(st.sampled_from(NAMES)),
            phase=draw(st.sampled_from(("Bound", "Confirmed"))),
            counted=draw(st.booleans()),
            size=draw(st.sampled_from(SIZES)),
            hostedCluster={"name": draw(st.sampled_from(("shared", f"r{number}"))), "spec": {}},
        )
        for number in range(draw(st.integers(0, 6)))
    ]
    return state_of(*objects)


@st.composite
def requests(draw: st.DrawFn) -> HostedClusterRequest:
    constraints: dict[str, Any] = {}
    if draw(st.booleans()):
        constraints = draw(
            st.sampled_from(
                (
                    {"platforms": ["AWS"]},
                    {"minVersion": "1.30"},
                    {"minZones": 2},
                    {"platforms": ["azure"], "minZones": 1},
                )
            )
        )
    return request(
        f"new{draw(st.integers(0, 9))}",
        size=draw(st.sampled_from(SIZES)),
        availability=draw(st.sampled_from(("", "SingleReplica"))),
        hostedCluster={"name": draw(st.sampled_from(("", "shared"))), "spec": {}},
        constraints=constraints,
    )


def answer_of(outcome: Outcome) -> tuple[object, ...]:
    """Return all that a cycle concludes."""
    details = outcome.details
    return (
        outcome.status,
        outcome.selected,
        details.totals.tolist(),
        [(scored.plugin, scored.scores.tolist()) for scored in details.scored],
        [(stage.plugin, bitmap.rows_of(stage.survivors).tolist()) for stage in details.stages],
    )


@settings(max_examples=100, deadline=None)
@given(state=fleets(), wanted=requests())
def test_forms_of_each_plugin_agree_on_all_clusters(
    state: HostingState, wanted: HostedClusterRequest
) -> None:
    snapshot, workload, profile = state.snapshot(), state.workload_of(wanted), state.profile
    whole = cycle.run(snapshot, workload, profile, now=NOW)
    assert answer_of(whole) == answer_of(cycle.run(snapshot, workload, profile, now=NOW, whole_fleet=False))
    context = Context(snapshot=snapshot, workload=workload, now=NOW)
    live = bitmap.rows_of(snapshot.live)
    for calls in profile.filters:
        assert isinstance(calls.plugin, FleetFilter), calls.plugin.name
        _, passed = calls.plugin.filter_fleet(context, snapshot.live)
        one_by_one = [row for row in live.tolist() if not calls.plugin.filter(context, row).rejects]
        assert bitmap.rows_of(passed).tolist() == one_by_one, calls.plugin.name
    for scorer in profile.scores:
        assert scorer.fleet is not None, scorer.plugin.name
        values = scorer.fleet.score_fleet(context, live).values
        assert values.tolist() == [scorer.plugin.score(context, row) for row in live.tolist()]


@settings(max_examples=40, deadline=None)
@given(state=fleets(), wanted=requests(), others=st.lists(requests(), max_size=4))
def test_cycle_reads_nothing_but_its_snapshot(
    state: HostingState, wanted: HostedClusterRequest, others: list[HostedClusterRequest]
) -> None:
    snapshot, workload, profile = state.snapshot(), state.workload_of(wanted), state.profile
    before = answer_of(cycle.run(snapshot, workload, profile, now=NOW))
    for number, other in enumerate(others):
        facts = state.facts.get(NAMES[number])
        if facts is not None:
            try:
                state.reserve(state.workload_of(other), facts.key)
            except InsufficientCapacity:
                continue
    state.upsert(policy(maxPerHost=1), now=NOW)
    for name in NAMES:
        state.upsert(load(name, count=50), now=NOW)
        state.upsert(host(name, available=False), now=NOW)
    assert answer_of(cycle.run(snapshot, workload, profile, now=NOW)) == before


@settings(max_examples=40, deadline=None)
@given(
    state=fleets(),
    wanted=st.lists(requests(), min_size=2, max_size=4, unique_by=lambda one: one.metadata.name),
)
def test_what_if_decides_as_the_state_that_reserves(
    state: HostingState, wanted: list[HostedClusterRequest]
) -> None:
    """A place that is reserved is there for every rule, in what-ifs and in the state of the controller."""
    expected = place(state, wanted, now=NOW)
    profile = state.profile
    for one, decision in zip(wanted, expected, strict=True):
        workload = state.workload_of(one)
        outcome = cycle.run(state.snapshot(), workload, profile, now=NOW)
        assert decision_of(outcome, workload.key) == decision
        if decision.host is not None:
            state.reserve(workload, decision.host)


def test_reserved_place_is_in_the_next_snapshot_and_returned_by_unreserve() -> None:
    state = state_of(policy(maxPerHost=1), host("h1"), load("h1", count=0))
    first, second = state.workload_of(request("first")), request("second")
    before = place(state, [second], now=NOW)
    state.reserve(first, state.facts["h1"].key)
    assert place(state, [second], now=NOW)[0].host is None
    state.unreserve(first.key)
    assert place(state, [second], now=NOW) == before


def test_host_whose_availability_changes_wakes_what_it_rejected() -> None:
    state = state_of(policy(), host("h1", available=False), load("h1", count=0))
    context = Context(snapshot=state.snapshot(), workload=state.workload_of(request("new")), now=NOW)
    reads = HostAvailable().reads(context)
    events = state.upsert(host("h1", available=True), now=NOW)
    assert any(reads.cells & event.columns.keys() and event.hosts == {"h1"} for event in events)
    assert place(state, [request("new")], now=NOW)[0].host is not None


STEPS = ("appear", "appear", "not hosting", "unavailable", "delete", "load", "reserve")


def assert_lists_all_hosts(state: HostingState) -> None:
    snapshot = state.snapshot()
    roster, new = snapshot.roster, Roster.of(state.facts, snapshot.hosts.row_of)
    assert dict(zip(roster.names, roster.keys, strict=True)) == dict(zip(new.names, new.keys, strict=True))
    assert (roster.rows.tolist(), roster.at) == (new.rows.tolist(), new.at)
    assert (roster.usable.tolist(), roster.others.tolist()) == (new.usable.tolist(), new.others.tolist())
    live = bitmap.rows_of(snapshot.live)
    assert snapshot.residents_in(live) == [snapshot.residents_at(row) for row in live.tolist()]


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(NAMES[:3]), st.sampled_from(STEPS)), max_size=12))
def test_snapshot_lists_the_hosts_as_they_are(steps: list[tuple[str, str]]) -> None:
    state = state_of(policy())
    for number, (name, step) in enumerate(steps):
        match step:
            case "appear":
                state.upsert(host(name), now=NOW)
            case "not hosting":
                state.upsert(host(name, claims={HOSTING_CLAIM: "false"}), now=NOW)
            case "unavailable":
                state.upsert(host(name, available=False), now=NOW)
            case "delete":
                state.delete(host(name), now=NOW)
            case "load":
                state.upsert(load(name, count=number), now=NOW)
            case "reserve" if (facts := state.facts.get(name)) is not None:
                with suppress(InsufficientCapacity):
                    state.reserve(state.workload_of(request(f"r{number}")), facts.key)
        assert_lists_all_hosts(state)
        trial = state.fork()
        closed = [trial.close(facts.key) for facts in state.facts.values()]
        assert_lists_all_hosts(trial)
        for closed_facts in closed:
            assert closed_facts is not None
            trial.reopen(closed_facts)
        assert_lists_all_hosts(trial)
        assert_lists_all_hosts(state)
