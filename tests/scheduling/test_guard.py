"""Guards: faults of third-party plugins are charged to their names, and harm no other plugin."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairway.clusters import Fleet
from fairway.engine import cycle
from fairway.engine.fault import FaultError
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.points import CommitContext, Context, Raw, Reads, Weighted
from fairway.engine.profile import OnFault, Profile, assemble
from fairway.engine.status import OK, Code, Status, failed, unschedulable
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet import bitmap
from fairway.scheduling.guard import FaultReport, Guard, Supervisor, guarded_class
from fairway.scheduling.quarantine import FAULTS, FIRST_SECONDS
from fairway.scheduling.watchdog import Watchdog
from fairway.testing import builders

NAMES = ("a", "b", "c", "d")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Likes:
    """A built-in plugin: prefers late names."""

    name = "Likes"

    def score(self, context: Context, row: int, /) -> int:
        return row


class Bench:
    """A fleet of four clusters, a supervisor, and profiles with one guarded plugin beside a built-in one."""

    def __init__(self, *, limit: float | None = None) -> None:
        self.fleet = Fleet()
        for name in NAMES:
            self.fleet.upsert_cluster(builders.cluster(name))
        self.reports: list[FaultReport] = []
        self.clock = Clock()
        self.supervisor = Supervisor(
            clock=self.clock,
            watch=None if limit is None else Watchdog(limit=limit),
            report=self.reports.append,
        )

    def guarded(self, plugin: Any) -> Any:
        return guarded_class(type(plugin))(Guard(plugin, self.supervisor))

    def profile(self, plugin: Any, on_fault: OnFault = OnFault.FAIL) -> Profile:
        kind, made = type(plugin), self.guarded(plugin)
        scores = [Weighted(Likes()), *([Weighted(made)] if hasattr(kind, "score") else [])]
        return assemble(
            name="test",
            on_fault=on_fault,
            pre_filters=[made] if hasattr(kind, "pre_filter") else [],
            filters=[made] if hasattr(kind, "filter") else [],
            scores=scores,
            choosers=[made] if hasattr(kind, "choose") else [],
        )

    def run(self, plugin: Any, on_fault: OnFault = OnFault.FAIL, *, whole_fleet: bool = True) -> Outcome:
        workload = Workload(key=WorkloadKey("ns", "w"), spec={"labels": {"a": "b"}}, wanted=2)
        return cycle.run(
            self.fleet.snapshot(), workload, self.profile(plugin, on_fault), now=7, whole_fleet=whole_fleet
        )


def plugin(**methods: Callable[..., Any]) -> Any:
    return type("Foreign", (), {"name": "Foreign", **methods})()


def raises(*_args: Any) -> Any:
    raise KeyError("zone")


def scores(*values: float, kind: str = "int64") -> dict[str, Callable[..., Any]]:
    return {
        "score": lambda _self, _context, row: values[row],
        "score_fleet": lambda _self, _context, rows: Raw(np.array(values, dtype=kind)[rows]),
    }


def test_healthy_plugin_decides_as_without_a_guard() -> None:
    bench = Bench()
    found = bench.run(
        plugin(
            filter=lambda _self, _context, row: OK if row != 3 else unschedulable("late", plugin="Foreign"),
            score=lambda _self, context, row: 10 if context.snapshot.hosts.names[row] == "a" else None,
        )
    )
    assert found.selected == ["a", "c"]
    assert found.status.code is Code.SUCCESS
    assert not found.faults
    assert not bench.reports


def test_score_that_is_absent_may_have_any_value() -> None:
    bench = Bench()
    found = bench.run(
        plugin(
            score=lambda *_: None,
            score_fleet=lambda _self, _context, rows: Raw(
                np.full(len(rows), 5000), np.zeros(len(rows), bool)
            ),
        )
    )
    assert (found.selected, bench.reports) == (["d", "c"], [])


FAULTY: dict[str, tuple[dict[str, Callable[..., Any]], str]] = {
    "filter raises": ({"filter": raises}, "plugin Foreign at Filter raised KeyError: 'zone'"),
    "filter exits": (
        {"filter": lambda *_: exit(3)},
        "plugin Foreign at Filter raised SystemExit: 3",
    ),
    "filter returns True": (
        {"filter": lambda *_: True},
        "plugin Foreign at Filter returned True, not a Status",
    ),
    "fleet filter returns other rows": (
        {
            "filter": lambda *_: OK,
            "filter_fleet": lambda _self, _context, candidates: (OK, ~candidates),
        },
        "not rows among the candidates",
    ),
    "fleet filter returns a mask": (
        {
            "filter": lambda *_: OK,
            "filter_fleet": lambda _self, _context, candidates: (OK, bitmap.unpack(candidates)),
        },
        "not packed bits for 256 rows",
    ),
    "pre-filter returns nothing": (
        {"pre_filter": lambda *_: None},
        "plugin Foreign at PreFilter returned None, not a Status and the rows that pass, as packed bits",
    ),
    "score is not a number": (
        scores(1, 2, float("nan"), 3, kind="float64"),
        "at Score returned nan, not finite",
    ),
    "score out of range": (
        scores(1, 2, 101, 3),
        "plugin Foreign at Score returned 101, not scores between -100 and 100",
    ),
    "score is text": (
        {"score": lambda *_: "high"},
        "plugin Foreign at Score returned 'high', not a finite number, or None",
    ),
    "too few scores": (
        {"score": lambda *_: 1, "score_fleet": lambda *_: Raw(np.zeros(3, dtype=np.int64))},
        "not Raw scores, one for each of 4 rows",
    ),
    "normalised score out of range": (
        {
            **scores(1, 2, 3, 4),
            "normalize": lambda _self, _raw, _extent: 500,
            "normalize_fleet": lambda _self, raw, _extent: np.full(len(raw), 500),
        },
        "plugin Foreign at NormalizeScore returned 500, not scores between -100 and 100",
    ),
    "chooses a row twice": (
        {"choose": lambda *_: np.array([1, 1])},
        "not different rows among the feasible ones",
    ),
    "chooses infeasible rows": (
        {"choose": lambda *_: np.array([1, 200])},
        "not different rows among the feasible ones",
    ),
}


@pytest.mark.parametrize(("methods", "reason"), FAULTY.values(), ids=FAULTY)
def test_fault_fails_the_cycle_and_names_the_plugin(
    methods: dict[str, Callable[..., Any]], reason: str
) -> None:
    bench = Bench()
    found = bench.run(plugin(**methods))
    assert found.selected == []
    assert (found.status.code, found.status.plugin) == (Code.ERROR, "Foreign")
    assert reason in found.status.message
    assert [each.fault.plugin for each in bench.reports] == ["Foreign"]


@pytest.mark.parametrize(("methods", "reason"), FAULTY.values(), ids=FAULTY)
def test_skipped_plugin_leaves_the_decision_of_the_others(
    methods: dict[str, Callable[..., Any]], reason: str
) -> None:
    bench = Bench()
    found = bench.run(plugin(**methods), OnFault.SKIP)
    assert found.selected == ["d", "c"]
    assert found.status.code is Code.WARNING
    assert reason in found.status.message
    assert found.status.message.endswith("; skipped")
    assert [str(each.fault) for each in bench.reports] == [str(each) for each in found.faults]
    assert [each.plugin for each in found.details.scored] == ["Likes"]


def test_host_by_host_cycle_contains_faults_too() -> None:
    found = Bench().run(plugin(**scores(1, 2, 101, 3)), OnFault.SKIP, whole_fleet=False)
    assert found.selected == ["d", "c"]


MUTATIONS: dict[str, Callable[..., Any]] = {
    "candidates": lambda _self, _context, candidates: candidates.__iand__(candidates),
    "live hosts": lambda _self, context, _candidates: context.snapshot.live.fill(0),
    "a column": lambda _self, context, _candidates: context.snapshot.codes(("label", "x")).codes.fill(9),
    "a bitmap": lambda _self, context, _candidates: context.snapshot.codes(("label", "x")).bitmap(0).fill(0),
    "the spec": lambda _self, context, _candidates: context.workload.spec["labels"].clear(),
    "state of others": lambda _self, context, _candidates: context.state.write("Other", 1),
}


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_plugin_that_modifies_its_input_is_reported_and_changes_nothing(mutate: Callable[..., Any]) -> None:
    class WritesState:
        name = "Other"

        def pre_filter(self, context: Context, /) -> tuple[Status, None]:
            context.state.write("Other", 0)
            return OK, None

    def filter_fleet(self: Any, context: Context, candidates: Any) -> Any:
        mutate(self, context, candidates)
        return OK, candidates

    bench = Bench()
    bad = plugin(filter=lambda *_: OK, filter_fleet=filter_fleet)
    workload = Workload(key=WorkloadKey("ns", "w"), spec={"labels": {"a": "b"}}, wanted=2)
    profile = assemble(
        name="test",
        on_fault=OnFault.SKIP,
        pre_filters=[WritesState()],
        filters=[bench.guarded(bad)],
        scores=[Weighted(Likes())],
    )
    snapshot = bench.fleet.snapshot()
    found = cycle.run(snapshot, workload, profile, now=7)
    assert found.selected == ["d", "c"]
    assert "plugin Foreign at Filter modified its input: " in found.status.message
    assert bitmap.count(snapshot.live) == len(NAMES)
    assert not snapshot.codes(("label", "x")).codes.any()
    assert bitmap.count(snapshot.codes(("label", "x")).bitmap(0)) == snapshot.capacity
    assert workload.spec == {"labels": {"a": "b"}}
    assert found.context.state.read("Other", int) == 0


def test_endless_loop_is_interrupted_and_leads_to_quarantine() -> None:
    def forever(*_args: Any) -> Any:
        while True:
            pass

    bench = Bench(limit=0.05)
    found = bench.run(plugin(filter=forever), OnFault.SKIP)
    assert found.selected == ["d", "c"]
    (report,) = bench.reports
    assert str(report.fault) == (
        "plugin Foreign at Filter did not return within 0.05 seconds and was interrupted"
    )
    assert report.quarantine == FIRST_SECONDS


def test_slow_call_counts_and_the_next_one_is_not_made() -> None:
    bench = Bench(limit=1.0)

    def blocks(self: Any, context: Context, row: int) -> Status:
        bench.clock.now += 3.0
        return OK

    slow = plugin(
        filter=blocks, filter_fleet=lambda self, context, candidates: (blocks(self, context, 0), candidates)
    )
    assert bench.run(slow).selected == ["d", "c"]
    assert [each.fault.reason for each in bench.reports] == ["took 3.0 seconds, more than the limit of 1"]
    found = bench.run(slow)
    assert found.selected == []
    assert found.status.message == (
        "plugin Foreign at Filter is in quarantine; its last fault: took 3.0 seconds, more than the limit of 1"
    )
    assert len(bench.reports) == 1
    bench.clock.now += FIRST_SECONDS
    assert bench.run(slow).selected == ["d", "c"]


def test_quarantined_plugin_is_not_called() -> None:
    calls = []

    def fails(*_args: Any) -> Any:
        calls.append(1)
        raise ValueError

    bench = Bench()
    for _ in range(FAULTS + 3):
        bench.run(plugin(filter=fails), OnFault.SKIP)
    assert len(calls) == FAULTS
    assert [each.quarantine for each in bench.reports] == [None] * (FAULTS - 1) + [FIRST_SECONDS]


def test_success_ends_a_row_of_faults() -> None:
    bench = Bench()
    for _ in range(2):
        for _ in range(FAULTS - 1):
            bench.run(plugin(filter=raises))
        bench.run(plugin(filter=lambda *_: OK))
    assert [each.quarantine for each in bench.reports] == [None] * 2 * (FAULTS - 1)


def test_fault_of_a_plugin_that_another_one_calls_is_charged_to_it_alone() -> None:
    bench = Bench()
    inner = bench.guarded(type("Inner", (), {"name": "Inner", "filter": raises})())
    found = bench.run(plugin(filter=lambda _self, context, row: inner.filter(context, row)))
    assert [each.fault.plugin for each in bench.reports] == ["Inner"]
    assert found.status.message == "plugin Inner at Filter raised KeyError: 'zone'"


def test_faults_of_one_plugin_do_not_count_for_another() -> None:
    bench = Bench()
    for _ in range(FAULTS):
        bench.run(plugin(filter=raises))
    other = type("Other", (), {"name": "Other", "filter": lambda _self, _context, _row: OK})()
    assert bench.run(other).selected == ["d", "c"]


def test_fault_in_an_incremental_cycle_starts_a_full_one() -> None:
    class Follows:
        name = "Foreign"
        broken = False

        def score(self, context: Context, row: int, /) -> int:
            if self.broken:
                raise KeyError("zone")
            return 100 * (context.snapshot.codes(("label", "x")).value(row) == "yes")

        def reads(self, context: Context, /) -> Any:
            return Reads(cells=frozenset({("label", "x")}))

        def basis(self, context: Context, /) -> object:
            return None

        def until(self, context: Context, rows: Any, /) -> int:
            return 1 << 62

    bench, inner = Bench(), Follows()
    guarded = bench.guarded(inner)
    profile = assemble(name="test", on_fault=OnFault.SKIP, scores=[Weighted(guarded)])
    workload = Workload(key=WorkloadKey("ns", "w"), spec=None, wanted=1)
    memory = Memory()
    assert memory.run(bench.fleet.snapshot(), workload, profile, now=1).selected == ["a"]
    bench.fleet.upsert_cluster(builders.cluster("c", labels={"x": "yes"}))
    assert memory.run(bench.fleet.snapshot(), workload, profile, now=2).selected == ["c"]
    assert memory.followed == 1
    inner.broken = True
    bench.fleet.upsert_cluster(builders.cluster("b", labels={"x": "yes"}))
    found = memory.run(bench.fleet.snapshot(), workload, profile, now=3)
    assert memory.followed == 1
    assert (found.selected, found.status.code) == (["a"], Code.WARNING)
    inner.broken = False
    assert memory.run(bench.fleet.snapshot(), workload, profile, now=4).selected == ["b"]


def test_guard_passes_the_interruption_of_a_command_on() -> None:
    def interrupted(*_args: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Bench().run(plugin(filter=interrupted))


def test_fault_in_an_explanation_changes_no_decision() -> None:
    bench = Bench()
    made = bench.guarded(plugin(score=lambda *_: 1, remark=raises, knows=raises))
    workload = Workload(key=WorkloadKey("ns", "w"), spec=None)
    context = Context(snapshot=bench.fleet.snapshot(), workload=workload, now=0)
    assert made.remark(context, 0) == ""
    assert made.knows(context, np.array([0, 1])).tolist() == [True, True]


def commit_context() -> CommitContext:
    workload = Workload(key=WorkloadKey("ns", "w"), spec={"labels": {"a": "b"}})
    return CommitContext(workload=workload, hosts=(HostKey("a", "1"),), started=0)


async def waits_for_ever(*_args: Any) -> Status:
    await asyncio.Event().wait()
    return OK


async def loops_for_ever(*_args: Any) -> Status:
    await asyncio.sleep(0)
    while True:
        pass


async def raises_later(*_args: Any) -> Status:
    await asyncio.sleep(0)
    raise KeyError("zone")


async def modifies_later(_self: Any, context: CommitContext) -> Status:
    await asyncio.sleep(0)
    context.workload.spec["labels"]["a"] = "c"
    return OK


async def returns(value: Any) -> Any:
    return value


COROUTINES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raises_later, "raised KeyError: 'zone'"),
    "raises before it waits": (raises, "raised KeyError: 'zone'"),
    "nonsense": (lambda *_: returns(True), "returned True, not a Status"),
    "no coroutine, but nonsense": (lambda *_: True, "returned True, not a Status"),
    "modifies": (modifies_later, "modified its input: the spec of the workload"),
    "error": (lambda *_: returns(failed("no disk", plugin="Foreign")), "returned Error: no disk"),
    "loops": (loops_for_ever, "did not return within 0.05 seconds and was interrupted"),
}


@pytest.mark.parametrize("fault", COROUTINES)
async def test_faulty_coroutine_is_charged_to_the_plugin(fault: str) -> None:
    method, words = COROUTINES[fault]
    bench = Bench(limit=0.05)
    with pytest.raises(FaultError) as caught:
        await bench.guarded(plugin(bind=method)).bind(commit_context())
    assert str(caught.value.fault) == f"plugin Foreign at Bind {words}"
    assert [each.fault for each in bench.reports] == [caught.value.fault]


async def test_coroutine_that_waits_too_long_is_interrupted() -> None:
    bench = Bench()
    bench.supervisor.watch = Watchdog(coroutine_limit=0.01)
    made = bench.guarded(plugin(post_bind=waits_for_ever))
    with pytest.raises(FaultError, match=r"at PostBind did not return within 0\.01 seconds"):
        await made.post_bind(commit_context())
    with pytest.raises(FaultError, match="at PostBind is in quarantine"):
        await made.post_bind(commit_context())
    assert len(bench.reports) == 1


async def test_healthy_coroutine_returns_its_result_and_is_cancelled_without_a_fault() -> None:
    async def answers(_self: Any, _context: CommitContext) -> Status:
        await asyncio.sleep(0)
        return OK

    bench = Bench(limit=5)
    assert await bench.guarded(plugin(pre_bind=answers)).pre_bind(commit_context()) is OK
    task = asyncio.ensure_future(bench.guarded(plugin(pre_bind=waits_for_ever)).pre_bind(commit_context()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not bench.reports


@pytest.mark.parametrize(
    "method",
    [
        {"filter": lambda *_: failed("no list", plugin="Foreign")},
        {"pre_filter": lambda *_: (failed("no list", plugin="Foreign"), None)},
    ],
    ids=["Filter", "PreFilter"],
)
def test_error_status_counts_as_a_fault(method: dict[str, Callable[..., Any]]) -> None:
    bench = Bench()
    found = bench.run(plugin(**method))
    assert found.status.code is Code.ERROR
    assert [each.reason for each in found.faults] == ["returned Error: no list"]
    assert bench.run(plugin(**method), OnFault.SKIP).selected == ["d", "c"]
    assert len(bench.reports) == 2
