"""Guards: faults of third-party plugins are charged to their names, and harm no other plugin."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairway.engine import cycle
from fairway.engine.fault import LONGEST_REASON, Fault, FaultError
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.points import CommitContext, Context, Raw, Reads, Weighted
from fairway.engine.profile import OnFault, Profile, assemble
from fairway.engine.status import OK, Code, Status, failed, unschedulable
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts import bitmap
from fairway.hosts.clusters import Fleet
from fairway.scheduling import coroutines
from fairway.scheduling.checks import Nonsense
from fairway.scheduling.discovery import in_file
from fairway.scheduling.guard import FaultReport, Guard, Supervisor, Unwatched, guarded_class
from fairway.scheduling.quarantine import FIRST_SECONDS, MOST_FAULTS
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
    outcome = bench.run(
        plugin(
            filter=lambda _self, _context, row: OK if row != 3 else unschedulable("late", plugin="Foreign"),
            score=lambda _self, context, row: 10 if context.snapshot.hosts.names[row] == "a" else None,
        )
    )
    assert outcome.selected == ["a", "c"]
    assert outcome.status.code is Code.SUCCESS
    assert not outcome.faults
    assert not bench.reports


def test_score_that_is_absent_may_have_any_value() -> None:
    bench = Bench()
    outcome = bench.run(
        plugin(
            score=lambda *_: None,
            score_fleet=lambda _self, _context, rows: Raw(
                np.full(len(rows), 5000), np.zeros(len(rows), bool)
            ),
        )
    )
    assert (outcome.selected, bench.reports) == (["d", "c"], [])


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
    outcome = bench.run(plugin(**methods))
    assert outcome.selected == []
    assert (outcome.status.code, outcome.status.plugin) == (Code.ERROR, "Foreign")
    assert reason in outcome.status.message
    assert [report.fault.plugin for report in bench.reports] == ["Foreign"]


@pytest.mark.parametrize(("methods", "reason"), FAULTY.values(), ids=FAULTY)
def test_skipped_plugin_leaves_the_decision_of_the_others(
    methods: dict[str, Callable[..., Any]], reason: str
) -> None:
    bench = Bench()
    outcome = bench.run(plugin(**methods), OnFault.SKIP)
    assert outcome.selected == ["d", "c"]
    assert outcome.status.code is Code.WARNING
    assert reason in outcome.status.message
    assert outcome.status.message.endswith("; skipped")
    assert [str(report.fault) for report in bench.reports] == [str(fault) for fault in outcome.faults]
    assert [scored.plugin for scored in outcome.details.scored] == ["Likes"]


def test_host_by_host_cycle_contains_faults_too() -> None:
    outcome = Bench().run(plugin(**scores(1, 2, 101, 3)), OnFault.SKIP, whole_fleet=False)
    assert outcome.selected == ["d", "c"]


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
    outcome = cycle.run(snapshot, workload, profile, now=7)
    assert outcome.selected == ["d", "c"]
    assert "plugin Foreign at Filter modified its input: " in outcome.status.message
    assert bitmap.count(snapshot.live) == len(NAMES)
    assert not snapshot.codes(("label", "x")).codes.any()
    assert bitmap.count(snapshot.codes(("label", "x")).bitmap(0)) == snapshot.capacity
    assert workload.spec == {"labels": {"a": "b"}}
    assert outcome.context.state.read("Other", int) == 0


def test_endless_loop_is_interrupted_and_leads_to_quarantine() -> None:
    def forever(*_args: Any) -> Any:
        while True:
            pass

    bench = Bench(limit=0.05)
    outcome = bench.run(plugin(filter=forever), OnFault.SKIP)
    assert outcome.selected == ["d", "c"]
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
    assert [report.fault.reason for report in bench.reports] == ["took 3.0 seconds, more than the limit of 1"]
    outcome = bench.run(slow)
    assert outcome.selected == []
    assert outcome.status.message == (
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
    for _ in range(MOST_FAULTS + 3):
        bench.run(plugin(filter=fails), OnFault.SKIP)
    assert len(calls) == MOST_FAULTS
    assert [report.quarantine for report in bench.reports] == [None] * (MOST_FAULTS - 1) + [FIRST_SECONDS]


def test_success_ends_a_row_of_faults() -> None:
    bench = Bench()
    for _ in range(2):
        for _ in range(MOST_FAULTS - 1):
            bench.run(plugin(filter=raises))
        bench.run(plugin(filter=lambda *_: OK))
    assert [report.quarantine for report in bench.reports] == [None] * 2 * (MOST_FAULTS - 1)


LINES = (
    "import json\n\nclass Own:\n    name = 'Foreign'\n\n    def filter(self, context, row):\n"
    "        return {action}\n"
)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("json.loads('{{')", "raised JSONDecodeError: {} (own.py:7)"),
        ("json.loads('nope' * 1000 + str(1 / 0))", "raised ZeroDivisionError: division by zero (own.py:7)"),
        ("True", "returned True, not a Status (own.py:6)"),
        ("'long' * 1000", "returned '{}, not a Status (own.py:6)"),
    ],
)
def test_fault_ends_with_the_file_and_line_of_the_plugin(action: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(LINES.format(action=action.replace("{{", "{")))
    (own,) = in_file(file, shown="own.py", start=Unwatched().start)
    bench = Bench()
    bench.run(own.kind())
    begin, _, end = reason.partition("{}")
    actual = bench.reports[0].fault.reason
    assert (actual.startswith(begin), actual.endswith(end)) == (True, True), actual
    assert len(actual) <= LONGEST_REASON


def test_fault_of_a_plugin_that_another_one_calls_is_charged_to_it_alone() -> None:
    bench = Bench()
    inner = bench.guarded(type("Inner", (), {"name": "Inner", "filter": raises})())
    outcome = bench.run(plugin(filter=lambda _self, context, row: inner.filter(context, row)))
    assert [report.fault.plugin for report in bench.reports] == ["Inner"]
    assert outcome.status.message.startswith("plugin Inner at Filter raised KeyError: 'zone'")


def test_faults_of_one_plugin_do_not_count_for_another() -> None:
    bench = Bench()
    for _ in range(MOST_FAULTS):
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
    outcome = memory.run(bench.fleet.snapshot(), workload, profile, now=3)
    assert memory.followed == 1
    assert (outcome.selected, outcome.status.code) == (["a"], Code.WARNING)
    inner.broken = False
    assert memory.run(bench.fleet.snapshot(), workload, profile, now=4).selected == ["b"]


def test_guard_passes_the_interruption_of_a_command_on() -> None:
    def interrupted(*_args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    def swallowed(*_args: Any) -> Any:
        with suppress(BaseException):
            interrupted()
        return OK

    for method in (interrupted, swallowed):
        bench = Bench()
        with pytest.raises(KeyboardInterrupt):
            bench.run(plugin(filter=method))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Odd(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise asyncio.CancelledError


class Lying(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit


class NoName(Exception, metaclass=Lying):
    pass


class BadWords(Exception):
    def __str__(self) -> str:
        words: str = type("Words", (str,), {"__format__": raises, "__getitem__": raises})("words")
        return words


def blames_another() -> BaseException:
    return FaultError(Fault("Likes", "Score", "is bad"))


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "CancelledError": (asyncio.CancelledError, "raised CancelledError: "),
    "GeneratorExit": (GeneratorExit, "raised GeneratorExit: "),
    "KeyboardInterrupt": (KeyboardInterrupt, "raised KeyboardInterrupt: "),
    "SystemExit": (SystemExit, "raised SystemExit: "),
    "StopIteration": (lambda: StopIteration(3), "raised StopIteration: 3"),
    "StopAsyncIteration": (StopAsyncIteration, "raised StopAsyncIteration: "),
    "MemoryError": (MemoryError, "raised MemoryError: "),
    "BaseException": (Odd, "raised Odd: "),
    "BaseExceptionGroup": (
        lambda: BaseExceptionGroup("two", [Odd(), KeyError()]),
        "raised BaseExceptionGroup: two (2 sub-exceptions)",
    ),
    "unprintable": (Unprintable, "raised Unprintable: an error that cannot be printed"),
    "unnameable": (NoName, "raised NoName: "),
    "words of a subclass": (BadWords, "raised BadWords: words"),
    "fault of another": (blames_another, "raised FaultError: plugin Likes at Score is bad"),
    "nonsense": (lambda: Nonsense(Unprintable(), Unprintable()), "raised an error that cannot be printed"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("point", ["filter", "score", "pre_filter", "choose"])
@pytest.mark.parametrize(("error", "words"), RAISED.values(), ids=RAISED)
def test_error_of_any_class_is_the_plugins_fault(
    error: Callable[[], BaseException], words: str, point: str
) -> None:
    def fails(*_args: Any) -> Any:
        raise error()

    bench = Bench()
    outcome = bench.run(plugin(**{point: fails}), OnFault.SKIP)
    assert outcome.selected == ["d", "c"]
    assert [report.fault.plugin for report in bench.reports] == ["Foreign"]
    assert bench.reports[0].fault.reason.startswith(words)


@pytest.mark.parametrize(("error", "words"), RAISED.values(), ids=RAISED)
async def test_error_of_any_class_in_a_coroutine_is_the_plugins_fault(
    error: Callable[[], BaseException], words: str
) -> None:
    async def at_once(*_args: Any) -> Any:
        raise error()

    async def later(*_args: Any) -> Any:
        await asyncio.sleep(0)
        raise error()

    bench = Bench(limit=5)
    for method in (at_once, later):
        with pytest.raises(FaultError) as caught:
            await bench.guarded(plugin(pre_bind=method)).pre_bind(commit_context())
        assert caught.value.fault.plugin == "Foreign"
        assert "raised " in caught.value.fault.reason
    assert len(bench.reports) == 2


def test_error_that_never_ends_printing_is_interrupted() -> None:
    class Endless(Exception):
        def __str__(self) -> str:
            while True:
                pass

    def fails(*_args: Any) -> Any:
        raise Endless

    bench = Bench(limit=0.05)
    assert bench.run(plugin(filter=fails), OnFault.SKIP).selected == ["d", "c"]
    assert "was interrupted" in bench.reports[0].fault.reason


async def test_plugin_cannot_cancel_the_task_that_awaits_it() -> None:
    async def cancels(*_args: Any) -> Status:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return OK

    bench = Bench(limit=5)
    with pytest.raises(FaultError, match="raised CancelledError"):
        await bench.guarded(plugin(pre_bind=cancels)).pre_bind(commit_context())
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_coroutine_that_ignores_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coroutines, "UNWIND_SECONDS", 0.01)

    async def clings(*_args: Any) -> Status:
        while True:
            with suppress(BaseException):
                await asyncio.sleep(3600)

    bench = Bench()
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(bench.guarded(plugin(pre_bind=clings)).pre_bind(commit_context()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [report.fault.reason for report in bench.reports] == [
        "did not end when it was cancelled, and was left behind"
    ]
    assert bench.reports[0].quarantine == FIRST_SECONDS
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before

    bench.clock.now = FIRST_SECONDS
    bench.supervisor.watch = Watchdog(coroutine_limit=0.01)
    with pytest.raises(FaultError, match=r"did not return within 0\.01 seconds"):
        await bench.guarded(plugin(pre_bind=clings)).pre_bind(commit_context())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


LEFT_BEHIND = """
import asyncio, contextlib, os
from fairway.scheduling import coroutines

coroutines.UNWIND_SECONDS = 0.01


async def clings(sleep=asyncio.sleep, write=os.write):
    while True:
        try:
            await sleep(3600)
        except asyncio.CancelledError:
            pass
        except GeneratorExit:
            write(1, b"closed")
            raise


async def main():
    with contextlib.suppress(coroutines.Waited):
        await coroutines.await_apart(
            clings(), watch=lambda call, *args: call(*args), limit=0.01, left_behind=lambda: None
        )
    print("left behind", flush=True)


asyncio.run(main())
"""


def test_coroutine_that_was_left_behind_is_not_closed_when_python_exits() -> None:
    ended = subprocess.run(
        (sys.executable, "-c", LEFT_BEHIND),
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.stdout, ended.stderr) == ("left behind\n", "")


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
    bench = Bench(limit=0.05 if fault == "loops" else 30)
    with pytest.raises(FaultError) as caught:
        await bench.guarded(plugin(bind=method)).bind(commit_context())
    assert str(caught.value.fault).startswith(f"plugin Foreign at Bind {words}")
    assert [report.fault for report in bench.reports] == [caught.value.fault]


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
    outcome = bench.run(plugin(**method))
    assert outcome.status.code is Code.ERROR
    assert [fault.reason for fault in outcome.faults] == ["returned Error: no list"]
    assert bench.run(plugin(**method), OnFault.SKIP).selected == ["d", "c"]
    assert len(bench.reports) == 2
