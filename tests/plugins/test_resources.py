"""Room for a workload, and the scores of kube-scheduler over it; both forms of each plugin agree."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fairway.engine import cycle
from fairway.engine.dependencies import Dependencies, event_of
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns, LedgerError
from fairway.engine.points import CommitContext, Context, Weighted
from fairway.engine.profile import assemble
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet import bitmap
from fairway.nodes import NodeFleet
from fairway.plugins.reserve_capacity import ReserveCapacity
from fairway.plugins.resources import BalancedAllocation, LeastAllocated, ResourcesFit
from nodes.builders import node, pod

ME = WorkloadKey("ns1", "me", "u")


def workload(**demand: int) -> Workload[None]:
    return Workload(key=ME, spec=None, demand=demand)


def context_of(fleet: NodeFleet, asking: Workload[None]) -> Context:
    return Context(snapshot=fleet.snapshot(), workload=asking, now=0)


def fleet_with(*, used: dict[str, Any], **allocatable: Any) -> NodeFleet:
    fleet = NodeFleet()
    fleet.load([node("n1", **allocatable)])
    fleet.upsert_pod(pod("p", on="n1", **used))
    return fleet


def test_rejection_names_every_short_resource_with_its_amounts() -> None:
    fleet = fleet_with(used={"cpu": "1500m"}, cpu="2", memory="10")
    status = ResourcesFit().filter(context_of(fleet, workload(cpu=501, memory=10_000, gpu=1)), 0)
    assert status.reasons == (
        "has too little cpu: 501m requested, 500m left",
        "has too little gpu: 1m requested, 0 left",
    )
    assert not ResourcesFit().filter(context_of(fleet, workload(cpu=500)), 0).rejects


@pytest.mark.parametrize(
    ("demand", "used", "have", "expected"),
    [
        ({"cpu": 1000, "memory": 1000}, {}, {"cpu": "4", "memory": "8"}, (75 + 87) // 2),
        ({"cpu": 3000}, {"cpu": "1"}, {"cpu": "4", "memory": "0"}, 0),
        ({"cpu": 9000}, {}, {"cpu": "4", "memory": "2"}, (0 + 100) // 2),
        ({}, {}, {}, 0),
    ],
)
def test_least_allocated_is_the_mean_of_the_free_shares(
    demand: dict[str, int], used: dict[str, str], have: dict[str, str], expected: int
) -> None:
    fleet = fleet_with(used=used, **have)
    assert LeastAllocated().score(context_of(fleet, workload(**demand)), 0) == expected


@pytest.mark.parametrize(
    ("demand", "used", "expected"),
    [
        ({}, {"cpu": "1"}, 75),
        ({"memory": 2500}, {"cpu": "5"}, 50 + (50 + 87 - 75) // 2),
        ({"cpu": 10_000}, {}, 50 + (50 + 50 - 100) // 2),
    ],
)
def test_balanced_allocation_compares_with_and_without_the_workload(
    demand: dict[str, int], used: dict[str, str], expected: int
) -> None:
    fleet = fleet_with(used=used, cpu="10", memory="10")
    assert BalancedAllocation().score(context_of(fleet, workload(**demand)), 0) == expected


def test_only_freed_room_wakes_a_rejected_workload() -> None:
    fleet = fleet_with(used={"cpu": "2"}, cpu="2")
    fleet.upsert_node(node("n2", cpu="1"))
    asking = workload(cpu=2000)
    depends = Dependencies.of([ResourcesFit().reads(context_of(fleet, asking))])
    ResourcesFit().filter(context_of(fleet, asking), 0)
    more = event_of(fleet.upsert_pod(pod("q", on="n2", cpu="1")), label="q")
    less = event_of(fleet.delete_pod("ns1", "p"), label="p")
    larger = event_of(fleet.upsert_node(node("n2", cpu="4")), label="n2")
    smaller = event_of(fleet.upsert_node(node("n2", cpu="3")), label="n2")
    assert [depends.concerned_by(each) for each in (more, less, larger, smaller)] == [
        False,
        True,
        True,
        False,
    ]


def test_own_earmark_makes_room_that_others_do_not_have() -> None:
    fleet, ledger, host = NodeFleet(), Ledger(), HostKey("n1", "u1")
    fleet.load([node("n1", cpu="2"), node("n2", cpu="2")])
    LedgerColumns(ledger, fleet)
    with ledger.transaction(epoch=0) as transaction:
        transaction.set_capacity(host, {"cpu": 2000})
        transaction.earmark(host, Earmark(id="e", beneficiary=ME, amounts={"cpu": 2000}))
    fit = ResourcesFit(ledger=ledger)
    other = Workload(key=WorkloadKey("ns1", "other"), spec=None, demand={"cpu": 1})
    for asking, fits in ((workload(cpu=2000), True), (other, False)):
        context = context_of(fleet, asking)
        assert fit.filter(context, 0).rejects != fits
        assert bitmap.test(fit.filter_fleet(context, context.snapshot.live)[1], 0) == fits


def test_rejection_by_the_ledger_names_holders_and_earmarks() -> None:
    fleet, ledger, host = NodeFleet(), Ledger(), HostKey("n1", "u1")
    fleet.load([node("n1", cpu="4")])
    LedgerColumns(ledger, fleet)
    big, kept = WorkloadKey("ns1", "big", "b"), WorkloadKey("ns1", "kept", "k")
    with ledger.transaction(epoch=0) as transaction:
        transaction.set_capacity(host, {"cpu": 4000, "memory": 2 << 40})
        transaction.reserve(host, big, {"cpu": 2500})
        transaction.earmark(host, Earmark(id="move-1", beneficiary=kept, amounts={"cpu": 1000}))
    status = ResourcesFit(ledger=ledger).filter(context_of(fleet, workload(cpu=1000, memory=1 << 42)), 0)
    with ledger.transaction(epoch=0) as transaction:
        transaction.release(host, big)
    assert status.reasons == (
        "has too little cpu: 1 requested, 500m of 4 left; held by ns1/big 2500m; kept for ns1/kept 1 (move-1)",
        "has too little memory: 4398046511104m requested, 2199023255552m of 2199023255552m left",
    )


ledgers = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "observe", "earmark", "capacity", "close"]),
        st.sampled_from([ME, WorkloadKey("ns1", "other", "o")]),
        st.fixed_dictionaries({"cpu": st.integers(0, 3), "gpu": st.integers(0, 3)}),
    ),
    max_size=8,
)


@given(changes=ledgers, demand=st.dictionaries(st.sampled_from(["cpu", "gpu", "new"]), st.integers(1, 4)))
def test_reserve_accepts_every_host_that_the_filter_passes(
    changes: list[tuple[str, WorkloadKey, dict[str, int]]], demand: dict[str, int]
) -> None:
    fleet, ledger, host = NodeFleet(), Ledger(), HostKey("n1", "u1")
    fleet.load([node("n1")])
    LedgerColumns(ledger, fleet)
    for name, who, amounts in [("capacity", ME, {"cpu": 4, "gpu": 4}), *changes]:
        try:
            with ledger.transaction(epoch=0) as transaction:
                match name:
                    case "capacity":
                        transaction.set_capacity(host, amounts)
                    case "earmark":
                        transaction.earmark(host, Earmark(id=who.name, beneficiary=who, amounts=amounts))
                    case "close":
                        transaction.close(host, who.name)
                    case _:
                        getattr(transaction, name)(host, who, amounts)
        except LedgerError:
            pass
    passed = not ResourcesFit(ledger=ledger).filter(context_of(fleet, workload(**demand)), 0).rejects
    commit = CommitContext(workload=workload(**demand), hosts=(host,), started=0)
    accepted = not ReserveCapacity(ledger=ledger).reserve(commit).rejects
    account = ledger.account(host)
    assert account is not None
    assert accepted or not passed
    if not account.holding(ME):
        assert accepted == passed, "what it has already need not be granted again"


quantities = st.sampled_from(
    ["0", "1", "3", "700m", "2500m", "9007199254740993", "9223372036854775807", "4E"]
)
resources = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), quantities)
demands = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]), st.sampled_from([1, 500, 1000, 3333, (1 << 63) - 1])
)


@given(
    hosts=st.lists(st.tuples(resources, resources), min_size=1, max_size=4),
    demand=demands,
    scored=st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(1, 3), min_size=1),
    with_ledger=st.booleans(),
)
def test_whole_fleet_and_host_by_host_agree(
    hosts: list[tuple[dict[str, Any], dict[str, Any]]],
    demand: dict[str, int],
    scored: dict[str, int],
    with_ledger: bool,
) -> None:
    fleet, ledger = NodeFleet(), Ledger() if with_ledger else None
    fleet.load([node(f"n{at}", **have) for at, (have, _) in enumerate(hosts)])
    for at, (_, used) in enumerate(hosts):
        fleet.upsert_pod(pod(f"p{at}", on=f"n{at}", **used))
    if ledger is not None:
        book(ledger, fleet, demand)
    scores = [
        Weighted(plugin, 1)
        for plugin in (
            LeastAllocated(resources=scored, ledger=with_ledger),
            BalancedAllocation(resources=scored, ledger=with_ledger),
        )
    ]
    profile = assemble(name="p", filters=[ResourcesFit(ledger=ledger)], scores=scores)
    view, asking = fleet.snapshot(), workload(**demand)
    quick, slow = (cycle.run(view, asking, profile, now=0, whole_fleet=whole) for whole in (True, False))
    assert quick.details.rows.tolist() == slow.details.rows.tolist()
    for one, other in zip(quick.details.scored, slow.details.scored, strict=True):
        assert one.scores.tolist() == other.scores.tolist()
        assert ((one.scores >= 0) & (one.scores <= 100)).all()
    plugins: list[Any] = [each.plugin for each in scores]
    for plugin in plugins:
        context, rows = Context(snapshot=view, workload=asking, now=0), np.arange(len(hosts))
        fleet_scores = plugin.score_fleet(context, rows).values  # rejected hosts, too
        assert fleet_scores.tolist() == [plugin.score(context, row) for row in range(len(hosts))]


def book(ledger: Ledger, fleet: NodeFleet, demand: dict[str, int]) -> None:
    """Fill the ledger with what the nodes have and use."""
    LedgerColumns(ledger, fleet)
    view = fleet.snapshot()
    with ledger.transaction(epoch=0) as transaction:
        for name, row in view.hosts.row_of.items():
            amounts = {
                kind: {each: int(view.counts((kind, each)).values[row]) for each in ("cpu", "memory", "gpu")}
                for kind in ("allocatable-milli", "requested-milli")
            }
            transaction.set_capacity(HostKey(name, name), amounts["allocatable-milli"])
            transaction.observe_unattributed(HostKey(name, name), amounts["requested-milli"])
