"""Commits of decisions that change: what is reserved, permitted and given back, without a hub."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from fairway.engine.commit.instructions import ReadBack, RunBind, RunPostBind, RunPreBind
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext, Reads
from fairway.engine.profile import OnFault, assemble
from fairway.engine.state import CycleState
from fairway.engine.status import OK, SKIPPED, Code, Status, unschedulable
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import SECOND
from fairway.testing.builders import placement
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.commits import (
    Failed,
    Owner,
    PlacementCommits,
    Rejected,
    Step,
    Waiting,
    is_committed,
)
from fairway.workloads.placement.selection import Selection

P1, P2 = ("ns1", "p1"), ("ns1", "p2")


@dataclass
class LimitedReserve:
    """A Reserve plugin with room for some clusters of each name."""

    name: str = "Books"
    log: list[str] = field(default_factory=list)
    result: Any = OK

    def reserve(self, context: CommitContext, /) -> Status:
        self.log.append(f"+{_names(context)}")
        if isinstance(self.result, Exception):
            raise self.result
        result: Status = self.result
        return result

    def unreserve(self, context: CommitContext, /) -> None:
        self.log.append(f"-{_names(context)}")


class NamedBooks(LimitedReserve):
    def releases(self, _context: CommitContext, /) -> Mapping[Key, Direction]:
        return {("free",): Direction.UP}


@dataclass
class Gate:
    name: str = "Gate"
    result: Any = (OK, None)

    def permit(self, _context: CommitContext, /) -> Any:
        return self.result

    def commit_reads(self, _context: CommitContext, /) -> Reads:
        return Reads(cells=frozenset({("label", "window")}))


@dataclass
class Binder:
    """Only named in steps: the commits do not run it."""

    name: str = "Binder"

    async def pre_bind(self, _context: CommitContext, /) -> Status:
        return OK

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK

    async def post_bind(self, _context: CommitContext, /) -> None: ...


WAITS = (Status(Code.WAIT, ("needs a ticket",)), timedelta(minutes=5))


def _names(context: CommitContext) -> str:
    return ",".join(f"{host.name}{host.uid}" for host in context.hosts)


class CommitHarness:
    def __init__(self, **plugins: Any) -> None:
        self.events: list[Event] = []
        self.woken: list[Owner] = []
        self.now = 0
        self.commits = PlacementCommits(
            assemble(name="placement", **plugins),
            binder=Binder("Own"),
            broadcast=self.events.append,
            wake=self._wake,
        )
        self.workloads = {P1: workload("p1"), P2: workload("p2")}

    def _wake(self, owners: Iterable[Owner], _trigger: str) -> None:
        self.woken += owners

    def review(self, hosts: str, *, owner: Owner = P1, shown: str = "") -> Step | None:
        selection = Selection(workload=self.workloads[owner], hosts=keys(hosts), state=CycleState())
        return self.commits.review(selection, clusters_on_hub=set(shown), now=self.now)

    def bind(self, hosts: str, *, owner: Owner = P1) -> list[str]:
        """Commit a decision; return the steps."""
        step, steps = self.review(hosts, owner=owner), []
        while step is not None:
            assert isinstance(step, RunPreBind | RunBind | RunPostBind)
            steps.append(f"{type(step).__name__} {step.plugin.name}")
            step = self.commits.finished(step, OK, now=self.now)
        return steps


def workload(name: str) -> PlacementWorkload:
    source = placement(name)
    return PlacementWorkload(structs.replace(source, metadata=structs.replace(source.metadata, uid=name)))


def keys(text: str) -> tuple[HostKey, ...]:
    """``"ab2"``: the clusters a with uid 1, and b with uid 2."""
    hosts: list[HostKey] = []
    for letter in text:
        if letter.isdigit():
            hosts[-1] = HostKey(hosts[-1].name, letter)
        else:
            hosts.append(HostKey(letter, "1"))
    return tuple(hosts)


def test_default_profile_commits_nothing() -> None:
    assert not is_committed(default_profile())
    assert is_committed(assemble(name="placement", post_binds=[Binder()]))


def test_only_clusters_that_are_new_in_the_decision_are_reserved() -> None:
    books = LimitedReserve()
    bench = CommitHarness(reserves=[books], pre_binds=[Binder()], post_binds=[Binder()])
    assert bench.bind("ab") == ["RunPreBind Binder", "RunBind Own", "RunPostBind Binder"]
    assert bench.review("ba") is None
    assert books.log == ["+a1,b1"]
    bench.bind("bc")
    assert books.log == ["+a1,b1", "+c1", "-a1"]


def test_change_that_only_gives_up_clusters_is_not_delayed() -> None:
    books, gate = LimitedReserve(), Gate()
    bench = CommitHarness(reserves=[books], permits=[gate], pre_binds=[Binder()], post_binds=[Binder()])
    bench.bind("ab")
    gate.result = WAITS
    assert bench.bind("a") == ["RunBind Own", "RunPostBind Binder"]
    assert books.log == ["+a1,b1", "-b1"]


def test_recreated_cluster_is_another_one() -> None:
    books = LimitedReserve()
    bench = CommitHarness(reserves=[books])
    bench.bind("a")
    bench.bind("a2")
    assert books.log == ["+a1", "+a2", "-a1"]


def test_first_bind_plugin_that_does_not_skip_takes_over_from_our_own() -> None:
    bench = CommitHarness(binds=[Binder("Mine"), Binder("Other")])
    first = bench.review("a")
    assert isinstance(first, RunBind)
    second = bench.commits.finished(first, SKIPPED, now=0)
    assert isinstance(second, RunBind)
    assert (first.plugin.name, second.plugin.name) == ("Mine", "Other")
    assert bench.commits.finished(second, OK, now=0) is None


def test_rejection_gives_back_and_names_plugin_clusters_and_reason() -> None:
    books = LimitedReserve(result=unschedulable("full", plugin="Books"))
    bench = CommitHarness(reserves=[books])
    bench.review("c", owner=P2)
    books.log.clear()
    step = bench.review("ba")
    assert isinstance(step, Rejected)
    assert step.message == "plugin Books rejects a, b: full; the last decision is kept"
    assert [rejection.plugin for rejection in step.rejections] == ["Books"]
    assert (books.log, bench.events, bench.woken) == (["+b1,a1", "-b1,a1"], [], [])


def test_waiting_permit_is_asked_again_when_the_placement_is_decided_again() -> None:
    books, gate = LimitedReserve(), Gate(result=WAITS)
    bench = CommitHarness(reserves=[books], permits=[gate])
    step = bench.review("a")
    assert isinstance(step, Waiting)
    message = "waiting until 1970-01-01T00:05:00Z for the permit of plugin Gate for a: needs a ticket"
    assert (step.message, step.deadline, step.new) == (message, 300 * SECOND, True)
    assert set(step.depends.columns) == {("label", "window")}
    assert bench.commits.waiting(P1) == (message,)
    bench.now = 9 * SECOND
    again = bench.review("a")
    assert isinstance(again, Waiting)
    assert (again.deadline, again.new, books.log) == (300 * SECOND, False, ["+a1"])
    gate.result = (OK, None)
    assert isinstance(bench.review("a"), RunBind)
    assert bench.commits.waiting(P1) == ()


def test_expired_wait_rejects_and_names_what_was_missing() -> None:
    bench = CommitHarness(permits=[Gate(result=WAITS)])
    bench.review("a")
    bench.now = 300 * SECOND
    step = bench.review("a")
    assert isinstance(step, Rejected)
    assert step.message == (
        "plugin Gate rejects a: timed out after waiting 300 seconds: needs a ticket; the last decision is kept"
    )


@pytest.mark.parametrize("change", ["clusters", "placement", "given up", "back"])
def test_wait_is_given_up_when_something_else_is_decided(change: str) -> None:
    books, gate = LimitedReserve(), Gate()
    bench = CommitHarness(reserves=[books], permits=[gate])
    bench.bind("a")
    gate.result = WAITS
    bench.review("ab")
    if change == "placement":
        bench.workloads[P1] = workload("p1")
    decided = {"clusters": "ac", "placement": "ab", "given up": "b", "back": "a"}[change]
    step = bench.review(decided)
    expected = {"clusters": ["-b1", "+c1"], "back": ["-b1"]}.get(change, ["-b1", "+b1"])
    assert books.log[2:] == expected
    assert (step is None) == (change == "back")


def test_short_waits_last_a_second() -> None:
    bench = CommitHarness(permits=[Gate(result=(Status(Code.WAIT), timedelta()))])
    step = bench.review("a")
    assert isinstance(step, Waiting)
    assert step.deadline == SECOND


def test_fault_keeps_the_decision_or_is_skipped_as_the_profile_configures() -> None:
    broken = LimitedReserve(result=ValueError("odd"))
    bench = CommitHarness(reserves=[broken])
    step = bench.review("a")
    assert isinstance(step, Failed)
    assert step.message == "plugin Books at Reserve raised ValueError: odd; the last decision is kept"
    assert [fault.plugin for fault in bench.commits.take_faults()] == ["Books"]
    bench = CommitHarness(reserves=[broken], on_fault=OnFault.SKIP)
    assert bench.bind("a") == ["RunBind Own"]
    assert [fault.plugin for fault in bench.commits.take_faults()] == ["Books"]


@pytest.mark.parametrize(
    ("shown", "held"), [("", "-b1,c1"), ("b", "-c1"), ("bc", "")], ids=["none", "some", "all"]
)
def test_failed_write_gives_back_the_clusters_that_the_hub_does_not_show(shown: str, held: str) -> None:
    books = LimitedReserve()
    bench = CommitHarness(reserves=[books])
    bench.bind("a")
    run = bench.review("bc")
    assert isinstance(run, RunBind)
    back = bench.commits.failed(run, TimeoutError("no reply"))
    assert isinstance(back, ReadBack)
    step = bench.commits.read_back(back, set(shown) | {"a"}, now=0)
    assert (step is None) == (held == "")
    assert books.log == ["+a1", "+b1,c1", *([held] if held else [])]
    assert not bench.commits.take_faults(), "our own write is no plugin"
    books.log.clear()
    bench.bind("bc")
    again = {"": ["+b1,c1"], "b": ["+c1"], "bc": []}[shown]
    assert books.log == [*again, "-a1"], "a left the hub with this write only"


def test_failed_write_that_gives_up_clusters_keeps_those_that_the_hub_shows() -> None:
    books = LimitedReserve()
    bench = CommitHarness(reserves=[books])
    bench.bind("ab")
    run = bench.review("a")
    assert isinstance(run, RunBind)
    back = bench.commits.failed(run, TimeoutError("no reply"))
    assert isinstance(back, ReadBack)
    assert isinstance(bench.commits.read_back(back, {"a", "b"}, now=0), Failed)
    assert "-b1" not in books.log


def test_fault_of_a_bind_plugin_is_the_reason_if_the_hub_shows_nothing() -> None:
    bench = CommitHarness(binds=[Binder("Mine")])
    run = bench.review("a")
    assert isinstance(run, RunBind)
    back = bench.commits.failed(run, ValueError("no token"))
    assert isinstance(back, ReadBack)
    step = bench.commits.read_back(back, set(), now=0)
    assert step == Failed(
        message="plugin Mine at Bind raised ValueError: no token; the last decision is kept"
    )


def test_decisions_on_the_hub_are_reserved_at_the_start_of_a_term_and_given_back_at_its_end() -> None:
    books, gate = LimitedReserve(result=unschedulable("full", plugin="Books")), Gate(result=WAITS)
    bench = CommitHarness(reserves=[books], permits=[gate])
    refusals = bench.commits.begin({bench.workloads[P1]: keys("ab"), bench.workloads[P2]: ()}, now=0)
    assert {owner: [status.message for status in statuses] for owner, statuses in refusals.items()} == {
        P1: ["full"] * 2
    }
    assert books.log == ["+a1,b1", "-a1,b1", "+a1", "-a1", "+b1", "-b1"]
    assert bench.review("ab", shown="ab") is None, "the hub has the decision, whatever the plugin says"
    books.result = OK
    books.log.clear()
    assert bench.review("ab", shown="ab") is None, "what is decided needs no permit"
    assert books.log == ["+a1,b1"], "a plugin that refused is asked again"
    assert isinstance(bench.review("abc", shown="ab"), Waiting)
    bench.commits.end()
    assert books.log[1:] == ["+c1", "-c1", "-a1,b1"]
    bench.commits.end()
    assert len(books.log) == 4


def test_cluster_that_a_late_write_added_is_reserved_without_a_permit() -> None:
    books, gate = LimitedReserve(), Gate(result=WAITS)
    bench = CommitHarness(reserves=[books], permits=[gate])
    assert bench.review("a", shown="a") is None
    assert books.log == ["+a1"]


def test_deleted_placement_gives_back_what_it_has_and_what_it_waits_for() -> None:
    books, gate = LimitedReserve(), Gate()
    bench = CommitHarness(reserves=[books], permits=[gate])
    bench.bind("a")
    gate.result = WAITS
    bench.review("ab")
    bench.commits.delete(P1)
    assert books.log == ["+a1", "+b1", "-b1", "-a1"]
    assert bench.commits.waiting(P1) == ()


def test_rejected_placements_are_woken_when_a_plugin_without_columns_gives_back() -> None:
    books = LimitedReserve()
    bench = CommitHarness(reserves=[books])
    bench.bind("a")
    books.result = unschedulable("full", plugin="Books")
    bench.review("a", owner=P2)
    books.result = OK
    bench.bind("b")
    assert (bench.woken, bench.events) == ([P2], [])
    bench.commits.delete(P2)
    bench.bind("c")
    assert bench.woken == [P2], "a deleted placement is not woken"


def test_readers_of_the_columns_are_woken_when_a_plugin_that_names_them_gives_back() -> None:
    bench = CommitHarness(reserves=[NamedBooks()])
    bench.bind("a")
    bench.bind("b")
    (event,) = bench.events
    assert (event.columns, event.excluded) == ({("free",): Direction.UP}, WorkloadKey(*P1))
    assert not bench.woken


def test_plugins_that_reserve_nothing_wake_no_placement() -> None:
    bench = CommitHarness(post_binds=[Binder()])
    bench.bind("a")
    bench.bind("b")
    assert (bench.events, bench.woken) == ([], [])
