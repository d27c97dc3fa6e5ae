"""The rules of the commit, as kube-scheduler has them, and of the reply that was lost but had succeeded."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from fairway.engine.commit import (
    ACTIVATE,
    LATE_BIND,
    CommitMachine,
    CommitPlugins,
    Instruction,
    Phase,
    perform,
)
from fairway.engine.commit.instructions import (
    Activate,
    BeginBinding,
    Bound,
    Broadcast,
    Cancel,
    Done,
    Fail,
    ReadBack,
    Reject,
    Release,
    RunBind,
    RunPostBind,
    RunPreBind,
)
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext, Reads
from fairway.engine.profile import OnFault, assemble
from fairway.engine.queue import SchedulingQueue, State
from fairway.engine.state import CycleState
from fairway.engine.status import OK, SKIPPED, Code, Status, failed, misconfigured, unschedulable
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import SECOND

KEY = WorkloadKey("ns", "a", "1")
HOST, OTHER = HostKey("n1", "u1"), HostKey("n2", "u2")
FREE: Key = ("free", "cpu")
MINUTE = 60 * SECOND


@dataclass
class Books:
    """A Reserve plugin that logs its calls."""

    name: str
    log: list[str] = field(default_factory=list)
    result: Any = OK
    broken: bool = False

    def reserve(self, context: CommitContext, /) -> Status:
        self.log.append(f"+{self.name}")
        if isinstance(self.result, Exception):
            raise self.result
        result: Status = self.result
        return result

    def unreserve(self, context: CommitContext, /) -> None:
        self.log.append(f"-{self.name}")
        if self.broken:
            raise RuntimeError("cannot undo")

    def releases(self, context: CommitContext, /) -> dict[Key, Direction]:
        return {FREE: Direction.UP}

    def commit_reads(self, context: CommitContext, /) -> Reads:
        return Reads(cells=frozenset({FREE}))


@dataclass
class Gate:
    """A Permit plugin."""

    name: str
    result: Any

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        if isinstance(self.result, Exception):
            raise self.result
        result: tuple[Status, timedelta | None] = self.result
        return result


@dataclass
class Binder:
    """Its coroutines are only named in instructions: the machine must not run them."""

    name: str

    async def pre_bind(self, context: CommitContext, /) -> Status:
        raise NotImplementedError

    async def bind(self, context: CommitContext, /) -> Status:
        raise NotImplementedError

    async def post_bind(self, context: CommitContext, /) -> None:
        raise NotImplementedError


BINDER = Binder("Binder")


def machine(
    *reserves: Books,
    permits: tuple[Gate, ...] = (),
    pre: tuple[Binder, ...] = (),
    binds: tuple[Binder, ...] = (BINDER,),
    post: tuple[Binder, ...] = (),
    late_bind: int = LATE_BIND,
    on_fault: OnFault = OnFault.FAIL,
) -> CommitMachine:
    plugins = CommitPlugins(
        binds=binds,
        reserves=reserves,
        permits=permits,
        pre_binds=pre,
        post_binds=post,
        profile="test",
        on_fault=on_fault,
    )
    return CommitMachine(plugins, late_bind=late_bind)


def context(state: CycleState | None = None, *, hosts: tuple[HostKey, ...] = (HOST,)) -> CommitContext:
    workload = Workload(key=KEY, spec=None)
    return CommitContext(workload=workload, hosts=hosts, started=0, state=state or CycleState())


def waits(seconds: float) -> tuple[Status, timedelta]:
    return Status(Code.WAIT), timedelta(seconds=seconds)


def kinds(instructions: list[Instruction]) -> list[type]:
    return [type(instruction) for instruction in instructions]


def rejection_of(instructions: list[Instruction]) -> tuple[str, tuple[str, ...]]:
    """Plugin and reasons of the rejection that these instructions end with."""
    last = instructions[-1]
    assert isinstance(last, Reject)
    (rejection,) = last.rejections
    return rejection.plugin, rejection.reasons


def error_of(instructions: list[Instruction]) -> str:
    last = instructions[-1]
    assert isinstance(last, Fail)
    return last.error


def token_of(instructions: list[Instruction]) -> int:
    last = instructions[-1]
    assert isinstance(last, RunPreBind | RunBind | RunPostBind)
    return last.token


def test_commit_runs_pre_bind_bind_and_post_bind_in_order() -> None:
    log: list[str] = []
    first, second = Binder("First"), Binder("Second")
    commits = machine(Books("R", log), pre=(first, second), post=(first, second))
    out = commits.start(context(), now=0)
    assert kinds(out) == [BeginBinding, RunPreBind]
    names = []
    for _ in range(5):
        run = out[-1]
        assert isinstance(run, RunPreBind | RunBind | RunPostBind)
        names.append((type(run).__name__, run.plugin.name))
        out = commits.finished(KEY, run.token, None if isinstance(run, RunPostBind) else OK, now=1)
    assert names == [
        ("RunPreBind", "First"),
        ("RunPreBind", "Second"),
        ("RunBind", "Binder"),
        ("RunPostBind", "First"),
        ("RunPostBind", "Second"),
    ]
    assert (out, len(commits), log) == ([], 0, ["+R"])


def test_successful_bind_leaves_the_queue_before_post_bind_runs() -> None:
    commits = machine(post=(BINDER,))
    out = commits.finished(KEY, token_of(commits.start(context(), now=0)), OK, now=1)
    assert out[:2] == [Done(KEY), Bound(KEY, (HOST,))]
    assert kinds(out) == [Done, Bound, RunPostBind]
    assert commits.delete(KEY) == [], "bound: there is nothing to give back"


def test_unreserve_of_all_plugins_mirrors_reserve_including_those_never_reserved() -> None:
    log: list[str] = []
    refuses = Books("B", log, unschedulable("full", plugin="B"))
    commits = machine(Books("A", log), refuses, Books("C", log))
    out = commits.start(context(), now=0)
    assert log == ["+A", "+B", "-C", "-B", "-A"]
    assert kinds(out) == [Broadcast, Reject]
    assert rejection_of(out) == ("B", ("full",))
    assert not commits.assumed(KEY)


def test_unreserve_that_raises_does_not_stop_the_others_and_is_charged() -> None:
    log: list[str] = []
    commits = machine(Books("A", log), Books("B", log, failed("no", plugin="B"), broken=True))
    commits.start(context(), now=0)
    assert log == ["+A", "+B", "-B", "-A"]
    assert [str(fault) for fault in commits.take_faults()] == [
        "plugin B at Unreserve raised RuntimeError: cannot undo"
    ]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (failed("broken", plugin="R"), "R: broken"),
        (Status(Code.WAIT), "R: returned Wait"),
        (ValueError("odd"), "R: raised ValueError: odd"),
        (None, "R: returned None, not a Status"),
    ],
    ids=["error", "wait", "raises", "nonsense"],
)
def test_reserve_that_fails_is_an_error_that_blames_no_plugin(result: object, error: str) -> None:
    assert error_of(machine(Books("R", result=result)).start(context(), now=0)) == error


def test_rejection_of_a_misconfigured_workload_waits_for_its_own_change_only() -> None:
    out = machine(Books("R", result=misconfigured("no size", plugin="R"))).start(context(), now=0)
    last = out[-1]
    assert isinstance(last, Reject)
    assert last.rejections[0].reads == Reads()


def test_pending_from_reserve_is_recorded_as_pending() -> None:
    out = machine(Books("R", result=Status(Code.PENDING))).start(context(), now=0)
    last = out[-1]
    assert isinstance(last, Reject)
    assert last.rejections[0].pending


def test_giving_back_wakes_the_readers_of_the_released_columns_except_the_rejected_one() -> None:
    rejected = machine(Books("R", result=unschedulable("full", plugin="R"))).start(context(), now=0)
    failing = machine(Books("R", result=failed("broken"))).start(context(), now=0)
    for out, excluded in ((rejected, KEY), (failing, None)):
        (broadcast,) = (instruction for instruction in out if isinstance(instruction, Broadcast))
        event = broadcast.event
        assert (event.hosts, event.columns) == (frozenset({"n1"}), {FREE: Direction.UP})
        assert (event.wildcard, event.excluded) == (False, excluded)


def test_first_denied_permit_stops_and_unwinds() -> None:
    log: list[str] = []
    denies = Gate("Denies", (unschedulable("not now", plugin="Denies"), None))
    commits = machine(Books("R", log), permits=(Gate("Waits", waits(5)), denies, Gate("Never", 1 / 2)))
    assert rejection_of(commits.start(context(), now=0)) == ("Denies", ("not now",))
    assert (log, commits.next_deadline()) == (["+R", "-R"], None)


@pytest.mark.parametrize("result", [None, (OK,), (OK, 5), "yes", ValueError("odd")], ids=repr)
def test_permit_that_returns_nonsense_or_raises_is_an_error_and_charged(result: object) -> None:
    commits = machine(permits=(Gate("P", result),))
    assert error_of(commits.start(context(), now=0)).startswith("P: r")
    assert [fault.plugin for fault in commits.take_faults()] == ["P"]


def test_shortest_permit_timer_rejects_and_is_attributed_to_its_plugin() -> None:
    commits = machine(permits=(Gate("Long", waits(30)), Gate("Short", waits(5))))
    assert commits.start(context(), now=SECOND) == []
    assert commits.next_deadline() == 6 * SECOND
    assert commits.advance(now=6 * SECOND - 1) == []
    out = commits.advance(now=6 * SECOND)
    assert rejection_of(out) == ("Short", ("timed out after waiting 5 seconds",))
    assert commits.allow(KEY, "Long", now=7 * SECOND) == [], "the first signal wins"


@pytest.mark.parametrize("wait", [timedelta(hours=2), None])
def test_permit_waits_at_most_fifteen_minutes(wait: timedelta | None) -> None:
    commits = machine(permits=(Gate("P", (Status(Code.WAIT), wait)),))
    commits.start(context(), now=0)
    assert commits.next_deadline() == 15 * MINUTE


def test_binding_begins_when_every_waiting_permit_approved() -> None:
    commits = machine(permits=(Gate("A", waits(5)), Gate("Open", (OK, None)), Gate("B", waits(9))))
    commits.start(context(), now=0)
    assert commits.allow(KEY, "A", now=1) == []
    assert commits.allow(KEY, "A", now=1) == []
    assert commits.next_deadline() == 9 * SECOND
    assert kinds(commits.allow(KEY, "B", now=1)) == [BeginBinding, RunBind]
    assert commits.deny(KEY, "B", "too late") == []
    assert commits.next_deadline() is None


def test_approval_after_the_deadline_comes_too_late() -> None:
    commits = machine(permits=(Gate("A", waits(5)),))
    commits.start(context(), now=0)
    assert rejection_of(commits.allow(KEY, "A", now=5 * SECOND))[0] == "A"


def test_denied_while_waiting_is_a_rejection_and_preempted_is_an_error() -> None:
    commits = machine(permits=(Gate("A", waits(5)),))
    commits.start(context(), now=0)
    assert rejection_of(commits.deny(KEY, "A", "no window")) == ("A", ("no window",))
    commits.start(context(), now=0)
    assert error_of(commits.preempt(KEY, "preempted by ns/b")) == "preempted by ns/b"


def test_preemption_cancels_pre_bind_and_comes_too_late_for_bind() -> None:
    commits = machine(pre=(BINDER,))
    token = token_of(commits.start(context(), now=0))
    out = commits.preempt(KEY, "preempted")
    assert (out[0], kinds(out)) == (Cancel(KEY, token), [Cancel, Broadcast, Fail])
    commits = machine()
    commits.start(context(), now=0)
    assert commits.preempt(KEY, "preempted") == []


def test_commit_on_a_deleted_host_is_abandoned_and_tried_again_at_once_unless_bind_runs() -> None:
    log: list[str] = []
    commits = machine(Books("R", log), permits=(Gate("A", waits(5)),))
    commits.start(context(), now=0)
    assert commits.remove_host(HostKey("n1", "recreated")) == []
    assert (kinds(commits.remove_host(HOST)), log) == ([Broadcast, Release], ["+R", "-R"])
    commits = machine(Books("R", log))
    commits.start(context(), now=0)
    assert commits.remove_host(HOST) == [], "the result of Bind decides"


def test_in_flight_tracking_ends_after_the_permits_and_before_pre_bind() -> None:
    commits = machine(permits=(Gate("A", waits(5)),), pre=(BINDER,))
    assert commits.start(context(), now=0) == []
    assert kinds(commits.allow(KEY, "A", now=1)) == [BeginBinding, RunPreBind]


@pytest.mark.parametrize("permits", [(Gate("A", waits(5)),), ()], ids=["waiting", "binding"])
def test_deleted_workload_gives_back_its_place_at_once(permits: tuple[Gate, ...]) -> None:
    log: list[str] = []
    commits = machine(Books("R", log), permits=permits)
    started = commits.start(context(), now=0)
    out = commits.delete(KEY)
    assert (out[-1], log) == (Done(KEY), ["+R", "-R"])
    if not permits:
        assert commits.finished(KEY, token_of(started), OK, now=1) == [], "a late result is ignored"


@pytest.mark.parametrize("code", [Code.ERROR, Code.UNSCHEDULABLE, Code.PENDING])
@pytest.mark.parametrize("point", ["PreBind", "Bind"])
def test_rejection_from_pre_bind_or_bind_is_an_error_that_blames_no_plugin(code: Code, point: str) -> None:
    log: list[str] = []
    commits = machine(Books("R", log), pre=(BINDER,) if point == "PreBind" else ())
    token = token_of(commits.start(context(), now=0))
    out = commits.finished(KEY, token, Status(code, ("no",)), now=1)
    assert (error_of(out), log) == ("Binder: no", ["+R", "-R"])


def test_failure_in_the_binding_cycle_unreserves_all_forgets_and_wakes_others_before_the_retry() -> None:
    log: list[str] = []
    commits = machine(Books("A", log), Books("B", log), pre=(BINDER,))
    token = token_of(commits.start(context(), now=0))
    out = commits.failed(KEY, token, RuntimeError("volume"))
    assert (log, commits.assumed(KEY)) == (["+A", "+B", "-B", "-A"], False)
    assert kinds(out) == [Cancel, Broadcast, Fail]
    assert (out[1], out[2]) == (
        Broadcast(given_back(excluded=None)),
        Fail(KEY, "Binder: raised RuntimeError: volume"),
    )


def given_back(*, excluded: WorkloadKey | None) -> Event:
    return Event(
        label="ns/a gave back its place on n1",
        hosts=frozenset({"n1"}),
        columns={FREE: Direction.UP},
        excluded=excluded,
    )


def test_first_bind_plugin_that_does_not_skip_decides() -> None:
    commits = machine(binds=(Binder("A"), Binder("B"), Binder("C")))
    out = commits.start(context(), now=0)
    out = commits.finished(KEY, token_of(out), SKIPPED, now=1)
    assert isinstance(out[0], RunBind)
    assert out[0].plugin.name == "B"
    assert Bound(KEY, (HOST,)) in commits.finished(KEY, token_of(out), OK, now=2)


def test_bind_skipped_by_every_plugin_is_an_error() -> None:
    commits = machine()
    out = commits.finished(KEY, token_of(commits.start(context(), now=0)), SKIPPED, now=1)
    assert error_of(out) == "every Bind plugin skipped the workload"


def test_profile_without_a_bind_plugin_is_refused() -> None:
    with pytest.raises(ValueError, match="profile hosting: at least one Bind plugin is required"):
        CommitPlugins.of(assemble(name="hosting", reserves=(Books("R"),)))
    plugins = CommitPlugins.of(assemble(name="hosting", reserves=(books := Books("R"),), binds=(BINDER,)))
    assert (plugins.reserves, plugins.binds) == ((books,), (BINDER,))


@pytest.mark.parametrize("reply", [TimeoutError("no reply"), None], ids=["raised", "nonsense"])
def test_bind_with_an_unknown_result_is_read_back_before_anything_is_undone(reply: Exception | None) -> None:
    for shown, ends_with in (((HOST,), Bound), (None, Fail)):
        log: list[str] = []
        commits = machine(Books("R", log), late_bind=0)
        token = token_of(commits.start(context(), now=0))
        out = (
            commits.finished(KEY, token, None, now=1) if reply is None else commits.failed(KEY, token, reply)
        )
        assert (out, log) == ([ReadBack(KEY, token + 1)], ["+R"])
        assert commits.read_back(KEY, token, None, now=2) == [], "an answer to another question"
        assert kinds(commits.read_back(KEY, token + 1, shown, now=2))[-1] is ends_with
        assert log == (["+R"] if shown else ["+R", "-R"])


@pytest.mark.parametrize("shown", [None, (HOST,)], ids=["lost for good", "took effect late"])
def test_place_of_a_lost_bind_is_kept_until_the_request_can_no_longer_take_effect(
    shown: tuple[HostKey, ...] | None,
) -> None:
    log: list[str] = []
    commits = machine(Books("R", log))
    commits.failed(KEY, token_of(commits.start(context(), now=0)), TimeoutError())
    assert commits.read_back(KEY, 2, None, now=SECOND) == []
    assert (log, commits.next_deadline()) == (["+R"], 61 * SECOND)
    assert commits.preempt(KEY, "preempted") == [], "it may be bound"
    (again,) = commits.advance(now=61 * SECOND)
    assert isinstance(again, ReadBack)
    out = commits.read_back(KEY, again.token, shown, now=61 * SECOND)
    assert (kinds(out)[-1], log) == ((Fail, ["+R", "-R"]) if shown is None else (Bound, ["+R"]))
    assert commits.next_deadline() is None


@pytest.mark.parametrize("seen", [(HOST,), None], ids=["observed", "deleted"])
def test_commit_in_doubt_ends_when_the_workload_is_observed_or_deleted(
    seen: tuple[HostKey, ...] | None,
) -> None:
    log: list[str] = []
    commits = machine(Books("R", log))
    commits.failed(KEY, token_of(commits.start(context(), now=0)), TimeoutError())
    commits.read_back(KEY, 2, None, now=SECOND)
    out = commits.delete(KEY) if seen is None else commits.observed(KEY, seen, now=2 * SECOND)
    assert (Done(KEY) in out, log) == (True, ["+R", "-R"] if seen is None else ["+R"])
    assert (commits.next_deadline(), commits.advance(now=MINUTE * 2)) == (None, [])


def test_workload_seen_as_bound_completes_a_bind_whose_reply_is_missing() -> None:
    log: list[str] = []
    commits = machine(Books("R", log))
    token = token_of(commits.start(context(), now=0))
    assert commits.observed(KEY, (HOST,), now=1) == [Done(KEY), Bound(KEY, (HOST,))]
    assert commits.failed(KEY, token, TimeoutError()) == []
    assert log == ["+R"]


def test_workload_seen_as_bound_after_it_was_given_back_leaves_the_queue() -> None:
    commits = machine()
    commits.finished(KEY, token_of(commits.start(context(), now=0)), failed("no"), now=1)
    assert commits.observed(KEY, (HOST,), now=2) == [Done(KEY)]


def test_workload_bound_elsewhere_by_another_actor_is_given_back_and_not_queued() -> None:
    log: list[str] = []
    commits = machine(Books("R", log))
    commits.start(context(), now=0)
    out = commits.observed(KEY, (OTHER,), now=1)
    assert (kinds(out), log) == ([Cancel, Broadcast, Done], ["+R", "-R"])


def test_workload_bound_by_another_actor_before_bind_runs_is_given_back_even_on_the_same_host() -> None:
    log: list[str] = []
    commits = machine(Books("R", log), permits=(Gate("P", waits(5)),))
    commits.start(context(), now=0)
    assert kinds(commits.observed(KEY, (HOST,), now=1)) == [Broadcast, Done]
    assert log == ["+R", "-R"]


def test_recreated_host_of_the_same_name_is_another_host() -> None:
    commits = machine()
    commits.start(context(), now=0)
    assert kinds(commits.observed(KEY, (HostKey("n1", "u9"),), now=1))[-1] is Done


def test_fault_of_post_bind_is_charged_and_changes_nothing() -> None:
    commits = machine(post=(Binder("A"), Binder("B")))
    out = commits.finished(KEY, token_of(commits.start(context(), now=0)), OK, now=1)
    out = commits.failed(KEY, token_of(out), RuntimeError("metric"))
    assert kinds(out) == [RunPostBind]
    assert commits.finished(KEY, token_of(out), None, now=2) == []
    assert [str(fault) for fault in commits.take_faults()] == [
        "plugin A at PostBind raised RuntimeError: metric"
    ]


def test_workloads_to_activate_are_activated_after_the_scheduling_and_the_binding_cycle() -> None:
    state = CycleState()
    state.write(ACTIVATE, frozenset({WorkloadKey("ns", "b")}))
    commits = machine()
    out = commits.start(context(state), now=0)
    assert kinds(out) == [Activate, BeginBinding, RunBind]
    assert Activate(frozenset({WorkloadKey("ns", "b")})) in commits.finished(KEY, token_of(out), OK, now=1)


def test_workload_that_is_assumed_cannot_be_started_again() -> None:
    commits = machine()
    commits.start(context(), now=0)
    with pytest.raises(ValueError, match="ns/a is already being committed"):
        commits.start(context(), now=0)
    commit = commits.find(KEY)
    assert commit is not None
    assert (commit.phase, commit.plugin) == (Phase.BIND, "Binder")


def test_queue_follows_the_instructions() -> None:
    queue = SchedulingQueue()
    queue.put(context().workload, now=0)
    queue.pop(now=0)
    commits = machine(permits=(Gate("P", waits(5)),))
    assert perform(queue, commits.start(context(), now=0), now=0) == []
    rest = perform(queue, commits.allow(KEY, "P", now=1), now=1)
    explanation = queue.explain(KEY)
    assert explanation is not None
    assert (explanation.state, kinds([*rest])) == (State.BINDING, [RunBind])
    (run,) = rest
    assert isinstance(run, RunBind)
    perform(queue, commits.finished(KEY, run.token, failed("refused"), now=2), now=2)
    explanation = queue.explain(KEY)
    assert explanation is not None
    assert (explanation.state, explanation.reasons) == (State.ERROR_BACKOFF, ("Binder: refused",))


def test_profile_that_skips_faults_continues_without_the_faulty_plugins_at_every_point() -> None:
    log: list[str] = []
    broken = Books("R", log, ValueError("odd"))
    commits = machine(broken, permits=(Gate("P", "yes"),), pre=(BINDER,), late_bind=0, on_fault=OnFault.SKIP)
    out = commits.start(context(), now=0)
    assert kinds(out) == [BeginBinding, RunPreBind]
    out = commits.failed(KEY, token_of(out), RuntimeError("no volume"))
    assert kinds(out) == [RunBind]
    assert Bound(KEY, (HOST,)) in commits.finished(KEY, token_of(out), OK, now=1)
    assert [fault.plugin for fault in commits.take_faults()] == ["R", "P", "Binder"]


@pytest.mark.parametrize("reply", [TimeoutError("no reply"), None], ids=["raised", "nonsense"])
def test_profile_that_skips_faults_asks_the_next_bind_plugin_if_the_hub_shows_nothing(
    reply: Exception | None,
) -> None:
    commits = machine(binds=(Binder("A"), Binder("B")), late_bind=0, on_fault=OnFault.SKIP)
    token = token_of(commits.start(context(), now=0))
    if reply is None:
        commits.finished(KEY, token, None, now=1)
    else:
        commits.failed(KEY, token, reply)
    (run,) = commits.read_back(KEY, token + 1, None, now=2)
    assert isinstance(run, RunBind)
    assert run.plugin.name == "B"
    commits.failed(KEY, run.token, TimeoutError())
    assert error_of(commits.read_back(KEY, run.token + 1, None, now=3)).endswith("bound by B")


def test_hosts_that_the_hub_shows_stay_reserved_if_bind_wrote_only_some() -> None:
    log: list[tuple[str, tuple[HostKey, ...]]] = []

    @dataclass
    class Logs:
        name: str = "R"

        def reserve(self, context: CommitContext, /) -> Status:
            log.append(("+", context.hosts))
            return OK

        def unreserve(self, context: CommitContext, /) -> None:
            log.append(("-", context.hosts))

    commits = CommitMachine(CommitPlugins(binds=(BINDER,), reserves=(Logs(),)), late_bind=0)
    token = token_of(commits.start(context(hosts=(HOST, OTHER)), now=0))
    commits.failed(KEY, token, TimeoutError())
    out = commits.read_back(KEY, token + 1, (HOST,), now=1)
    assert error_of(out) == "the hub does not show n2 as bound by Binder"
    assert log == [("+", (HOST, OTHER)), ("-", (OTHER,))]


def test_commit_that_takes_no_host_begins_with_bind() -> None:
    log: list[str] = []
    commits = machine(Books("R", log), permits=(Gate("A", waits(5)),), pre=(BINDER,))
    out = commits.start_binding(context(hosts=()), now=0)
    assert kinds(out) == [BeginBinding, RunBind]
    assert (kinds(commits.finished(KEY, token_of(out), OK, now=1)), log) == ([Done, Bound], [])


def test_permit_plugins_that_wait_are_asked_again_until_their_deadline() -> None:
    gate, slow, other = Gate("A", waits(5)), Gate("B", waits(9)), Gate("Open", (OK, None))
    commits = machine(permits=(gate, slow, other))
    commits.start(context(), now=0)
    gate.result = (Status(Code.WAIT, ("needs a ticket",)), timedelta(hours=1))
    other.result = ValueError("must not be called again")
    assert commits.ask_again(KEY, now=1) == []
    commit = commits.find(KEY)
    assert commit is not None
    assert (commit.reasons["A"], commits.next_deadline()) == (("needs a ticket",), 5 * SECOND)
    gate.result = (OK, None)
    assert (commits.ask_again(KEY, now=2), commits.next_deadline()) == ([], 9 * SECOND)
    slow.result = (OK, None)
    assert kinds(commits.ask_again(KEY, now=2)) == [BeginBinding, RunBind]
    assert commits.ask_again(KEY, now=3) == []


def test_permit_plugin_that_waits_may_deny_or_time_out_when_it_is_asked_again() -> None:
    gate = Gate("A", waits(5))
    commits = machine(permits=(gate,))
    commits.start(context(), now=0)
    gate.result = (unschedulable("no window", plugin="A"), None)
    assert rejection_of(commits.ask_again(KEY, now=1)) == ("A", ("no window",))
    gate.result = waits(5)
    commits.start(context(), now=0)
    gate.result = (OK, None)
    assert rejection_of(commits.ask_again(KEY, now=5 * SECOND))[0] == "A"


def test_hosts_that_are_bound_already_are_reserved_even_if_a_plugin_refuses() -> None:
    log: list[str] = []
    commits = machine(Books("A", log, unschedulable("full", plugin="A")), Books("B", log))
    assert [status.message for status in commits.reserve(context())] == ["full"]
    assert (log, len(commits)) == (["+A", "+B"], 0)
    event = commits.unreserve(context()).event
    assert (log[2:], event) == (["-B", "-A"], given_back(excluded=KEY))


def test_end_of_a_term_gives_up_every_commit_that_is_not_bound() -> None:
    log: list[str] = []
    commits = machine(Books("R", log), permits=(Gate("A", waits(5)),))
    commits.start(context(), now=0)
    commits.clear()
    assert (log, len(commits), commits.next_deadline()) == (["+R", "-R"], 0, None)
