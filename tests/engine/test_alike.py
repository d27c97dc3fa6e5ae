"""Workloads that are alike share cycles, with the outcomes of full cycles, and share nothing else."""

from collections.abc import Hashable, Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairway.engine import alike, cycle
from fairway.engine.alike import AlikeMemory
from fairway.engine.ledger import Earmark, Ledger, LedgerColumns, LedgerError
from fairway.engine.points import Context, CycleWorkload, Reads, Scores, Timeless, Weighted
from fairway.engine.profile import Profile, assemble
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.bitmap import Rows
from fairway.hosts.nodes import NodeFleet
from hosts.nodes.builders import node
from ledger_plugins import Fit, MostRoom, demand_of

HOSTS = tuple(HostKey(f"n{at}", f"u{at}") for at in range(5))


class Harness:
    def __init__(self) -> None:
        self.fleet, self.ledger, self.memory = NodeFleet(), Ledger(), AlikeMemory()
        LedgerColumns(self.ledger, self.fleet)
        self.fleet.load([node(host.name, cpu="4", memory="8") for host in HOSTS])
        with self.ledger.transaction() as transaction:
            for host in HOSTS:
                transaction.set_capacity(host, {"cpu": 4000, "memory": 8000})
        score = MostRoom("cpu", "memory", unit=200)
        self.profile = assemble(name="p", filters=[Fit(self.ledger)], scores=[Weighted(score, 1)])

    def place(self, asking: Workload[None], profile: Profile | None = None) -> list[str]:
        """Run a cycle both ways, compare, and reserve the result."""
        view, profile = self.fleet.snapshot(), profile or self.profile
        outcome = self.memory.run(view, asking, profile, now=0)
        full = cycle.run(view, asking, profile, now=0)
        assert (outcome.selected, outcome.status) == (full.selected, full.status)
        assert outcome.details.totals.tolist() == full.details.totals.tolist()
        names = list(outcome.selected)
        with self.ledger.transaction() as transaction:
            for host in HOSTS:
                if host.name in names:
                    transaction.reserve(host, asking.key, asking.demand)
        return names


def asking(name: str, *, wanted: int = 1, **demand: int) -> Workload[None]:
    return Workload(key=WorkloadKey("ns1", name, name), spec=None, demand=demand, wanted=wanted)


def test_third_alike_workload_continues_from_the_second() -> None:
    harness = Harness()
    selected = [harness.place(asking(name, cpu=1000)) for name in "abcdef"]
    assert sorted(name for (name,) in selected[:5]) == [host.name for host in HOSTS]
    assert harness.memory.followed == 4
    harness.place(asking("other", cpu=1001))
    harness.place(asking("more", cpu=1000, wanted=2))
    assert harness.memory.followed == 4


def test_full_memory_of_alike_workloads_drops_the_one_not_used_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alike, "MOST_SIGNATURES", 2)
    harness = Harness()
    for at, cpu in enumerate((100, 100, 200, 200, 100, 300, 300)):
        harness.place(asking(f"w{at}", cpu=cpu))
    assert harness.memory.followed == 1
    harness.place(asking("again", cpu=100))
    assert harness.memory.followed == 2
    harness.place(asking("dropped", cpu=200))
    assert harness.memory.followed == 2


def test_beneficiary_of_an_earmark_is_not_alike() -> None:
    harness = Harness()
    for name in "abc":
        harness.place(asking(name, cpu=3000))
    me = asking("me", cpu=3000)
    with harness.ledger.transaction() as transaction:
        for host in HOSTS:
            if harness.ledger.grantable(host, me.key)["cpu"] == 4000:
                transaction.earmark(host, Earmark(id=host.name, beneficiary=me.key, amounts={"cpu": 4000}))
    assert harness.place(asking("d", cpu=3000)) == []
    assert len(harness.place(me)) == 1


def test_profile_with_a_plugin_without_signature_always_runs_full_cycles() -> None:
    class Unsigned(Timeless):
        name = "Unsigned"

        def score(self, _context: Context, _row: int, /) -> int:
            return 0

        def reads(self, _context: Context, /) -> Reads:
            return Reads()

    harness = Harness()
    profile = assemble(name="q", filters=[Fit(harness.ledger)], scores=[Weighted(Unsigned(), 1)])
    for name in "abc":
        harness.place(asking(name, cpu=1000), profile)
    assert harness.memory.followed == 0


def test_workloads_that_differ_in_what_a_plugin_reads_share_nothing() -> None:
    class ByName(Timeless):
        name = "ByName"

        def signature(self, workload: CycleWorkload, /) -> Hashable:
            return workload.name

        def score(self, context: Context, row: int, /) -> int:
            return 100 if context.snapshot.hosts.names[row] == context.workload.name else 0

        def reads(self, _context: Context, /) -> Reads:
            return Reads()

    harness = Harness()
    profile = assemble(name="q", scores=[Weighted(ByName(), 1)])
    assert [harness.place(asking(name), profile) for name in ("n3", "n1", "n3", "n1")] == [
        ["n3"],
        ["n1"],
        ["n3"],
        ["n1"],
    ]


def test_profile_with_a_choose_plugin_always_runs_full_cycles() -> None:
    class Own:
        name = "Own"

        def choose(self, context: Context, rows: Rows, _totals: Scores, /) -> Rows | None:
            return rows[-1:] if context.workload.name == "c" else None

    harness = Harness()
    profile = assemble(name="q", filters=[Fit(harness.ledger)], choosers=[Own()])
    assert [harness.place(asking(name, cpu=1), profile) for name in "abc"] == [["n0"], ["n0"], ["n4"]]


hosts = st.sampled_from(HOSTS)
amounts = st.fixed_dictionaries(
    {"cpu": st.sampled_from([500, 1000]), "memory": st.sampled_from([1000, 3000])}
)
steps = st.one_of(
    st.tuples(st.just("place"), st.integers(0, 20), amounts, st.integers(1, 2)),
    st.tuples(st.just("release"), hosts, st.integers(0, 20)),
    st.tuples(st.just("capacity"), hosts, amounts),
    st.tuples(st.just("earmark"), hosts, st.integers(0, 20), amounts),
    st.tuples(st.just("node"), hosts, st.booleans()),
)


@given(st.lists(steps, max_size=40))
def test_outcomes_equal_full_cycles_whatever_changes_between(steps: list[Any]) -> None:
    harness = Harness()
    for step in steps:
        match step:
            case ("place", number, demand, wanted):
                harness.place(asking(f"w{number}", wanted=wanted, **demand))
            case ("node", host, there):
                if there:
                    harness.fleet.upsert_node(node(host.name, cpu="4", memory="8"))
                else:
                    harness.fleet.delete_node(host.name)
            case (name, host, *rest):
                try:
                    with harness.ledger.transaction() as transaction:
                        if name == "release":
                            transaction.release(host, asking(f"w{rest[0]}").key)
                        elif name == "capacity":
                            transaction.set_capacity(
                                host, {resource: 4 * of for resource, of in rest[0].items()}
                            )
                        else:
                            workload = asking(f"w{rest[0]}").key
                            transaction.earmark(host, Earmark(id="e", beneficiary=workload, amounts=rest[1]))
                except LedgerError:
                    pass


class Fickle(Timeless):
    """Scores only workloads with a demand of memory, and shares no results of workloads with a demand of disk."""

    name = "Fickle"

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        return OK if demand_of(context.workload).get("memory") else SKIPPED

    def score(self, context: Context, row: int, /) -> int:
        return int(context.snapshot.hosts.names[row][1:])

    def reads(self, _context: Context, /) -> Reads:
        return Reads()

    def signature(self, workload: CycleWorkload, /) -> Hashable | None:
        demand = demand_of(workload)
        return None if demand.get("disk") else frozenset(demand.items())


class Relief:
    name = "Relief"

    def post_filter(self, _context: Context, rejections: Mapping[int, Status], /) -> Status:
        return Status(Code.UNSCHEDULABLE, (f"{len(rejections)} hosts are full",), plugin=self.name)


def fickle_scene() -> tuple[Harness, Profile]:
    harness = Harness()
    fit = Fit(harness.ledger)
    profile = assemble(name="q", filters=[fit], post_filters=[Relief()], scores=[Weighted(Fickle(), 1)])
    return harness, profile


def test_alike_workloads_that_a_prioritizer_skips_follow_each_other() -> None:
    harness, profile = fickle_scene()
    assert [harness.place(asking(name, cpu=2000), profile) for name in "abc"] == [["n0"], ["n0"], ["n1"]]
    assert harness.memory.followed == 1
    assert [harness.place(asking(name, cpu=2000, memory=1), profile) for name in "de"] == [["n4"], ["n4"]]


def test_workload_without_signature_runs_full_cycles() -> None:
    harness, profile = fickle_scene()
    for name in "abcd":
        harness.place(asking(name, disk=1), profile)
    assert harness.memory.followed == 0


def test_post_filter_runs_when_the_last_host_of_alike_workloads_is_full() -> None:
    harness, profile = fickle_scene()
    for name in "abcde":
        harness.place(asking(name, cpu=4000), profile)
    assert harness.memory.followed == 3
    outcome = harness.memory.run(harness.fleet.snapshot(), asking("f", cpu=4000), profile, now=0)
    assert outcome.selected == []
    assert outcome.relief is not None
    assert outcome.relief.reasons == ("5 hosts are full",)
