"""The rules of the scheduling queue, as kube-scheduler has them."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.points import Reads, SortKey
from fairway.engine.queue import Backoff, Rejection, RetryLimit, SchedulingQueue, State
from fairway.engine.queue import in_flight as in_flight_module
from fairway.engine.status import OK, Status, unschedulable
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import SECOND, Micros

FREE: Key = ("free", "cpu")
LABEL: Key = ("label", "env")
FIT = Rejection(
    plugin="Fit",
    reads=Reads(cells=frozenset({FREE}), helps={FREE: Direction.UP}),
    reasons=("not enough cpu",),
)
AFFINITY = Rejection(plugin="Affinity", reads=Reads(cells=frozenset({LABEL})))
WAITS_FOR_IMAGE = Rejection(plugin="Image", reads=Reads(shared=frozenset({("image",)})), pending=True)

ROOM = Event(label="n1 has room", hosts=frozenset({"n1"}), columns={FREE: Direction.UP})
LESS_ROOM = Event(label="n1 is fuller", hosts=frozenset({"n1"}), columns={FREE: Direction.DOWN})
RELABELLED = Event(label="n1 relabelled", hosts=frozenset({"n1"}), columns={LABEL: Direction.ANY})
PULLED = Event(label="image pulled", columns={("image",): Direction.ANY})


def workload(name: str = "a", *, priority: int = 0, spec: str = "", uid: str = "1") -> Workload[str]:
    return Workload(key=WorkloadKey("ns", name, uid), spec=spec, priority=priority)


def key(name: str = "a") -> WorkloadKey:
    return WorkloadKey("ns", name)


def queue_of(*workloads: Workload[str], **options: Any) -> SchedulingQueue:
    queue = SchedulingQueue(**options)
    for workload in workloads:
        queue.put(workload, now=0)
    return queue


def popped(queue: SchedulingQueue, now: Micros = 0) -> str | None:
    workload = queue.pop(now=now)
    return None if workload is None else workload.name


def rejected(*rejections: Rejection, now: Micros = 0, **options: Any) -> SchedulingQueue:
    queue = queue_of(workload(), **options)
    queue.pop(now=now)
    queue.reject(key(), rejections, now=now)
    return queue


def state(queue: SchedulingQueue, name: str = "a") -> State | None:
    explanation = queue.explain(key(name))
    return None if explanation is None else explanation.state


def test_priority_sort_pops_higher_priority_first_then_longer_waiting() -> None:
    queue = queue_of(workload("low", priority=1), workload("first"), workload("high", priority=5))
    queue.put(workload("second"), now=1)
    assert [popped(queue) for _ in range(5)] == ["high", "low", "first", "second", None]


def test_updated_priority_moves_an_active_workload() -> None:
    queue = queue_of(workload("a"), workload("b"))
    queue.put(workload("b", priority=1), now=1)
    assert [popped(queue), popped(queue), popped(queue)] == ["b", "a", None]


def test_backoff_is_1_2_4_8_10_10_seconds() -> None:
    durations = [Backoff().duration(failures) // SECOND for failures in range(8)]
    assert durations == [0, 1, 2, 4, 8, 10, 10, 10]
    assert Backoff(maximum=0).duration(5) == 0


def test_backoff_expiring_in_the_current_one_second_window_is_not_over() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.fail(key(), "timeout", now=SECOND // 2)  # expires at 1.5 s, in the window that ends at 2 s
    assert queue.next_deadline() == 2 * SECOND
    assert popped(queue, 2 * SECOND - 1) is None
    assert popped(queue, 2 * SECOND) == "a"


def test_backoff_of_errors_counts_consecutive_errors_only() -> None:
    queue = queue_of(workload(), flush_after=1 << 60)
    now = 0
    for expected in (2, 3, 5):
        assert popped(queue, now) == "a"
        queue.fail(key(), "timeout", now=now)
        deadline = queue.next_deadline()
        assert deadline == now + expected * SECOND
        now = deadline
    queue.pop(now=now)
    queue.reject(key(), [FIT], now=now)
    queue.activate([key()], now=now)
    queue.pop(now=now)
    queue.fail(key(), "timeout", now=now)
    assert queue.next_deadline() == now + 2 * SECOND
    queue.pop(now=now + 2 * SECOND)
    queue.settle(key(), Dependencies(), now=now + 2 * SECOND)
    assert queue.errors(key()) == 0


def test_limit_of_all_retries_adds_to_the_backoff() -> None:
    queue = queue_of(workload("a"), workload("b"), retries=RetryLimit(burst=1, every=30 * SECOND))
    for name, deadline in (("a", 2), ("b", 30)):
        assert popped(queue) == name
        queue.fail(key(name), "timeout", now=0)
        explanation = queue.explain(key(name))
        assert explanation is not None
        assert explanation.next_try == deadline * SECOND


def test_retry_limit_allows_no_more_than_a_burst_after_a_long_pause() -> None:
    limit = RetryLimit(burst=2, every=SECOND)
    assert [limit.reserve(0) for _ in range(4)] == [0, 0, SECOND, 2 * SECOND]
    later = 1000 * SECOND
    assert [limit.reserve(later) - later for _ in range(3)] == [0, 0, SECOND]


def test_rejected_workload_waits_for_an_event_that_its_rejector_reads() -> None:
    queue = rejected(FIT)
    assert queue.on_event(RELABELLED, now=1) == []
    assert state(queue) is State.UNSCHEDULABLE
    assert queue.on_event(ROOM, now=1) == [WorkloadKey("ns", "a", "1")]
    assert state(queue) is State.BACKOFF


def test_event_in_a_direction_that_cannot_help_wakes_no_workload() -> None:
    queue = rejected(FIT)
    assert queue.on_event(LESS_ROOM, now=1) == []
    either_way = Event(label="n1 added", hosts=frozenset({"n1"}), columns={FREE: Direction.ANY})
    assert len(queue.on_event(either_way, now=1)) == 1


def test_any_of_several_rejectors_may_wake_the_workload() -> None:
    queue = rejected(FIT, AFFINITY)
    assert len(queue.on_event(RELABELLED, now=1)) == 1


@pytest.mark.parametrize("event", [PULLED, LESS_ROOM, RELABELLED], ids=lambda event: event.label)
def test_rejector_that_declares_no_reads_wakes_on_every_event(event: Event) -> None:
    queue = rejected(Rejection(plugin="Custom", reads=Reads(anything=True)))
    assert len(queue.on_event(event, now=1)) == 1


def test_workload_rejected_at_its_commit_also_wakes_by_what_its_decision_depends_on() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    decision = Dependencies(
        columns={LABEL: Direction.ANY}, of_hosts={("score",): Direction.ANY}, hosts={"n1"}
    )
    queue.reject(key(), [FIT], now=0, dependencies=decision)
    explanation = queue.explain(key())
    assert explanation is not None
    assert (explanation.state, explanation.reasons) == (State.UNSCHEDULABLE, ("Fit: not enough cpu",))
    assert queue.on_event(LESS_ROOM, now=9 * SECOND) == []
    assert queue.on_event(RELABELLED, now=9 * SECOND) != []


def test_rejector_that_declares_empty_reads_is_never_requeued_by_events() -> None:
    queue = rejected(Rejection(plugin="Never", reads=Reads()))
    assert queue.on_event(ROOM, now=1) == []
    assert len(queue.on_event(Event(label="anything", wildcard=True), now=1)) == 1


def test_rejection_without_rejectors_is_retried_after_backoff() -> None:
    queue = rejected()
    assert state(queue) is State.ERROR_BACKOFF
    assert popped(queue, 2 * SECOND) == "a"


def test_woken_workload_whose_backoff_is_over_goes_to_active() -> None:
    queue = rejected(FIT)
    queue.on_event(ROOM, now=2 * SECOND)
    assert state(queue) is State.ACTIVE


def test_event_of_a_pending_plugin_skips_the_backoff() -> None:
    queue = rejected(WAITS_FOR_IMAGE, FIT)
    queue.on_event(PULLED, now=1)
    assert state(queue) is State.ACTIVE
    queue = rejected(WAITS_FOR_IMAGE, FIT)
    queue.on_event(ROOM, now=1)
    assert state(queue) is State.BACKOFF


def test_pop_takes_the_first_in_backoff_when_none_is_active() -> None:
    queue = rejected(FIT)
    queue.on_event(ROOM, now=1)
    queue.put(workload("b"), now=1)
    assert [popped(queue, 1), popped(queue, 1), popped(queue, 1)] == ["b", "a", None]


def test_pop_never_takes_from_error_backoff() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.fail(key(), "timeout", now=0)
    assert popped(queue, 1) is None
    queue.put(workload(spec="changed"), now=1)
    assert popped(queue, 1) is None
    assert popped(queue, 2 * SECOND) == "a"


def test_backoffs_in_the_same_second_are_ordered_by_queue_sort() -> None:
    queue = queue_of(workload("a"), workload("b", priority=9))
    for now, name in ((1, "b"), (0, "a")):
        queue.pop(now=0)
        queue.reject(key(name), [FIT], now=now)
    queue.on_event(ROOM, now=2)
    assert [popped(queue, 2), popped(queue, 2)] == ["b", "a"]


def test_event_that_arrives_in_flight_is_replayed_at_the_rejection() -> None:
    queue = queue_of(workload(), workload("b"))
    queue.pop(now=0)
    queue.on_event(ROOM, now=1)
    queue.pop(now=2)
    queue.reject(key("a"), [FIT], now=3)
    queue.reject(key("b"), [FIT], now=3)
    assert state(queue, "a") is State.BACKOFF
    assert state(queue, "b") is State.UNSCHEDULABLE, "the event came before its snapshot"


def test_events_are_kept_only_while_a_workload_popped_before_them_is_in_flight() -> None:
    queue = queue_of(workload("a"), workload("b"))
    queue.on_event(ROOM, now=0)
    tracked = queue._in_flight
    assert len(tracked._events) == 0
    queue.pop(now=0)
    queue.on_event(ROOM, now=1)
    queue.pop(now=1)
    queue.on_event(ROOM, now=2)
    assert len(tracked._events) == 2
    queue.done(key("a"))
    assert len(tracked._events) == 1
    queue.done(key("b"))
    assert (len(tracked._events), len(tracked)) == (0, 0)


def test_more_events_than_the_queue_keeps_count_as_any_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight_module, "MOST_EVENTS", 3)
    queue = queue_of(workload("a"), workload("b"))
    queue.pop(now=0)
    for _ in range(5):
        queue.on_event(LESS_ROOM, now=1)
    queue.pop(now=2)
    queue.reject(key("a"), [FIT], now=3)
    queue.reject(key("b"), [FIT], now=3)
    assert (state(queue, "a"), state(queue, "b")) == (State.BACKOFF, State.UNSCHEDULABLE)


def test_event_does_not_wake_the_workload_that_caused_it() -> None:
    freed = replace(ROOM, excluded=WorkloadKey("ns", "a", "1"))
    queue = queue_of(workload("a"), workload("b"))
    queue.pop(now=0)
    queue.pop(now=0)
    queue.on_event(freed, now=1)
    for name in ("a", "b"):
        queue.reject(key(name), [FIT], now=2)
    assert (state(queue, "a"), state(queue, "b")) == (State.UNSCHEDULABLE, State.BACKOFF)
    assert [workload.name for workload in queue.on_event(freed, now=3)] == []


def test_activation_by_name_ignores_rejections_and_backoff() -> None:
    for queue in (rejected(FIT), rejected()):
        queue.activate([key(), key("unknown")], now=1)
        assert state(queue) is State.ACTIVE


def test_activation_in_flight_is_replayed() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.activate([key()], now=0)
    queue.reject(key(), [FIT], now=1)
    assert state(queue) is State.BACKOFF


def test_workload_changed_in_an_earlier_attempt_waits_from_its_next_change_on() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.activate([key()], now=1)
    queue.reject(key(), [FIT], now=2)
    assert (state(queue), popped(queue, 3)) == (State.BACKOFF, "a")
    queue.settle(key(), Dependencies(), now=4)
    queue.activate([key()], now=5)
    assert (popped(queue, 6), queue.woken(key())) == ("a", 5)


def test_changed_spec_wakes_and_an_equal_one_does_not() -> None:
    queue = rejected(FIT)
    queue.put(workload(), now=1)
    assert state(queue) is State.UNSCHEDULABLE
    queue.put(workload(spec="smaller"), now=1)
    popped_workload = queue.pop(now=1)
    assert popped_workload is not None
    assert popped_workload.spec == "smaller"
    queue.put(workload(spec="smallest"), now=2)
    queue.reject(key(), [FIT], now=3)
    assert state(queue) is State.BACKOFF


def test_deleted_workload_is_not_requeued() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.delete(key())
    queue.reject(key(), [FIT], now=1)
    assert len(queue) == 0
    queue = rejected(FIT)
    queue.delete(key())
    assert queue.on_event(ROOM, now=1) == []


def test_workload_deleted_and_listed_again_in_flight_is_kept() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.delete(key())
    queue.put(workload(), now=1)
    assert popped(queue, 1) is None, "it is still being tried"
    queue.reject(key(), [FIT], now=2)
    assert state(queue) is State.BACKOFF


def test_recreated_workload_inherits_nothing_and_late_results_of_the_old_one_are_ignored() -> None:
    queue = queue_of(workload(uid="1"))
    queue.pop(now=0)
    queue.put(workload(uid="2"), now=1)
    queue.fail(WorkloadKey("ns", "a", "1"), "timeout", now=2)
    explanation = queue.explain(key())
    assert explanation is not None
    assert (explanation.key.uid, explanation.state, explanation.attempts) == ("2", State.ACTIVE, 0)


def test_workload_without_an_event_is_tried_again_after_five_minutes() -> None:
    never = Rejection(plugin="Never", reads=Reads())
    queue = rejected(never)
    for deadline in (300 * SECOND, 601 * SECOND, 902 * SECOND):
        assert queue.next_deadline() == deadline
        assert popped(queue, deadline - 1) is None
        assert popped(queue, deadline) == "a"
        queue.reject(key(), [never], now=deadline + SECOND)


def test_failure_after_permit_is_retried_although_events_are_no_longer_tracked() -> None:
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.bind(key())
    assert (state(queue), len(queue._in_flight)) == (State.BINDING, 0)
    queue.fail(key(), "the hub timed out", now=1)
    assert state(queue) is State.ERROR_BACKOFF
    assert popped(queue, 3 * SECOND) == "a"


def test_settled_workload_is_tried_again_when_its_decision_may_change() -> None:
    score: Key = ("score", "cpu")
    depends = Dependencies(columns={LABEL: Direction.ANY}, of_hosts={score: Direction.ANY}, hosts={"n1"})
    queue = queue_of(workload())
    queue.pop(now=0)
    queue.settle(key(), depends, now=0)
    assert queue.next_deadline() is None
    elsewhere = Event(label="score of n2", hosts=frozenset({"n2"}), columns={score: Direction.UP})
    assert queue.on_event(elsewhere, now=1) == []
    assert len(queue.on_event(replace(elsewhere, hosts=frozenset({"n1"})), now=1)) == 1
    assert popped(queue, 1) == "a"
    queue.on_event(RELABELLED, now=2)
    queue.settle(key(), depends, now=3)
    assert state(queue) is State.ACTIVE, "replayed"


def test_settled_workload_that_an_event_leaves_unaffected_is_not_woken() -> None:
    depends = Dependencies(columns={LABEL: Direction.ANY})
    queue = queue_of(workload("a"), workload("b"), workload("c"))
    for _ in range(2):
        name = popped(queue)
        assert name is not None
        queue.settle(key(name), depends, now=0)
    asked: list[str] = []

    def is_unaffected(workload: WorkloadKey) -> bool:
        asked.append(workload.name)
        return workload.name == "a"

    woken = queue.on_event(RELABELLED, now=1, is_unaffected=is_unaffected)
    assert [workload.name for workload in woken] == ["b"]
    assert asked == ["a", "b"], "c is active"
    assert (state(queue, "a"), state(queue, "b")) == (State.SETTLED, State.ACTIVE)


def test_workload_with_a_lowered_deadline_is_tried_then() -> None:
    queue = queue_of(workload())
    queue.lower_deadline(key(), 5)
    assert queue.next_deadline() is None, "only settled workloads have a deadline"
    queue.pop(now=0)
    queue.settle(key(), Dependencies(), now=0, deadline=None)
    for deadline, expected in ((20, 20), (10, 10), (15, 10)):
        queue.lower_deadline(key(), deadline)
        assert queue.next_deadline() == expected
    assert popped(queue, 9) is None
    assert popped(queue, 10) == "a"


@dataclass
class Gate:
    name: str = "Gate"
    closed: bool = True
    asked: list[str] = field(default_factory=list)
    reads: Reads = field(default_factory=lambda: Reads(shared=frozenset({("quota",)})))

    def pre_enqueue(self, workload: Workload[Any], /) -> Status:
        self.asked.append(self.name)
        return unschedulable("no quota", plugin=self.name) if self.closed else OK

    def gate_reads(self, workload: Workload[Any], /) -> Reads:
        return self.reads


QUOTA = Event(label="quota raised", columns={("quota",): Direction.UP})


def test_gated_workload_is_tested_again_only_by_events_its_gate_reads() -> None:
    gate = Gate()
    queue = queue_of(workload(), gates=[gate])
    assert (state(queue), popped(queue)) == (State.GATED, None)
    gate.closed = False
    queue.on_event(ROOM, now=1)
    assert state(queue) is State.GATED
    queue.on_event(QUOTA, now=2)
    assert state(queue) is State.ACTIVE
    explanation = queue.explain(key())
    assert explanation is not None
    assert explanation.reasons == ()


def test_gated_workload_is_queued_when_its_last_gate_is_removed() -> None:
    class Gates:
        name = "SchedulingGates"

        def pre_enqueue(self, workload: Workload[Any], /) -> Status:
            return unschedulable(workload.spec, plugin=self.name) if workload.spec else OK

        def gate_reads(self, workload: Workload[Any], /) -> Reads:
            return Reads()

    queue = queue_of(workload(spec="quota, image"), gates=[Gates()])
    states = [state(queue)]
    for now, gates in enumerate(("image", "")):
        queue.on_event(ROOM, now=now)
        queue.put(workload(spec=gates), now=now)
        states.append(state(queue))
    assert states == [State.GATED, State.GATED, State.ACTIVE]


def test_gate_that_objected_last_is_called_first() -> None:
    asked: list[str] = []
    first, second = Gate("First", closed=False, asked=asked), Gate("Second", asked=asked)
    queue = queue_of(workload(), gates=[first, second])
    queue.on_event(QUOTA, now=1)
    assert asked == ["First", "Second", "Second"]


def test_gates_apply_to_woken_and_activated_workloads() -> None:
    gate = Gate(closed=False)
    queue = rejected(FIT, gates=[gate])
    gate.closed = True
    assert queue.on_event(ROOM, now=1) == []
    queue.activate([key()], now=1)
    assert state(queue) is State.GATED


def test_gate_that_raises_or_returns_nonsense_keeps_the_workload_out_and_is_the_reason() -> None:
    class Broken:
        name = "Broken"

        def pre_enqueue(self, workload: Workload[Any], /) -> Status:
            if workload.name == "a":
                raise RuntimeError("no connection")
            return "yes"  # type: ignore[return-value]

    queue = queue_of(workload("a"), workload("b"), gates=[Broken()])
    assert queue.counts() == {State.GATED: 2}
    explanations = [queue.explain(key(name)) for name in "ab"]
    assert [explanation.reasons for explanation in explanations if explanation is not None] == [
        ("Broken: raised RuntimeError: no connection",),
        ("Broken: returned 'yes', not a Status",),
    ]


def test_faulty_gate_is_skipped_if_the_queue_skips_faults() -> None:
    class Broken:
        name = "Broken"

        def pre_enqueue(self, _workload: Workload[Any], /) -> Status:
            raise RuntimeError("no connection")

    queue = queue_of(workload(), gates=(Broken(),), skips_faults=True)
    assert state(queue) is State.ACTIVE


def test_faulty_queue_sort_falls_back_to_priority() -> None:
    class Broken:
        name = "Broken"

        def sort_key(self, workload: Workload[Any], queued: Micros, /) -> SortKey:
            raise KeyError(workload.name)

    queue = queue_of(workload("a"), workload("b", priority=1), sort=Broken())
    assert [popped(queue), popped(queue)] == ["b", "a"]


def test_explanation_has_reasons_time_attempts_and_what_would_wake() -> None:
    queue = rejected(FIT, AFFINITY, now=5)
    explanation = queue.explain(key())
    assert explanation is not None
    assert (explanation.state, explanation.since, explanation.attempts) == (State.UNSCHEDULABLE, 5, 1)
    assert explanation.reasons == ("Fit: not enough cpu", "Affinity")
    assert explanation.wakes == ("free cpu increases", "label env changes", "a change of its own spec")
    assert explanation.next_try == 5 + 300 * SECOND
    assert queue.explain(key("unknown")) is None


def test_explanation_of_a_gate_keeps_the_time_at_which_it_closed() -> None:
    queue = queue_of(workload(), gates=[Gate()])
    queue.on_event(QUOTA, now=7)
    explanation = queue.explain(key())
    assert explanation is not None
    assert (explanation.state, explanation.since, explanation.reasons) == (
        State.GATED,
        0,
        ("Gate: no quota",),
    )


def test_clock_that_steps_back_delays_but_loses_no_workload() -> None:
    queue = rejected(FIT, now=10 * SECOND)
    queue.put(workload("b"), now=3)
    assert popped(queue, 3) == "b"
    queue.reject(key("b"), [FIT], now=4)
    queue.advance(now=310 * SECOND)
    assert queue.counts() == {State.ACTIVE: 2}
