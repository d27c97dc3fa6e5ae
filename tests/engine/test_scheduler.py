"""Scheduler: queue, cycle and commit together, without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from engine.toys import Refuse, fleet_of
from fairway.api.cluster import ManagedCluster
from fairway.engine.commit.instructions import Bound, Returned, RunBind, RunPostBind
from fairway.engine.dependencies import Event, event_of
from fairway.engine.points import (
    NOMINATION,
    CommitContext,
    Context,
    CycleWorkload,
    Nomination,
    Reads,
    Timeless,
)
from fairway.engine.profile import Profile, assemble
from fairway.engine.queue import State
from fairway.engine.scheduler import STALE_FOR, Scheduler
from fairway.engine.status import OK, Code, Status, failed, unschedulable
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.clusters import Fleet
from fairway.hosts.instant import SECOND
from fairway.testing.builders import cluster

NOW = 1000 * SECOND


class Binder:
    name = "Binder"

    async def bind(self, context: CommitContext, /) -> Status:
        return OK

    async def post_bind(self, context: CommitContext, /) -> None: ...


@dataclass
class Waits:
    """A Reserve and Permit plugin."""

    name: str = "Waits"
    log: list[str] = field(default_factory=list)
    hosts: list[HostKey] = field(default_factory=list)

    def reserve(self, context: CommitContext, /) -> Status:
        self.log.append("+")
        self.hosts += context.hosts
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        self.log.append("-")

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        return Status(Code.WAIT), timedelta(minutes=1)


@dataclass
class Relief:
    """A PostFilter plugin that nominates host b."""

    plan: str | None
    name: str = "Relief"

    def post_filter(self, context: Context, rejections: Mapping[int, Status], /) -> Status:
        if self.plan is None:
            return unschedulable("nothing to evict", plugin=self.name)
        rows = context.snapshot.rows_named(["b"])
        context.state.write(NOMINATION, Nomination(rows=rows, plan=self.plan))
        return Status(Code.SUCCESS, plugin=self.name)


@dataclass
class Closed:
    """A PreEnqueue and QueueSort plugin: lower priority first."""

    name: str = "Closed"
    open: bool = False

    def pre_enqueue(self, workload: Workload[Any], /) -> Status:
        return OK if self.open else unschedulable("1 gate left", plugin=self.name)

    def sort_key(self, workload: Workload[Any], queued: int, /) -> tuple[int, ...]:
        return (workload.priority, queued)


@dataclass
class Scheduled:
    fleet: Fleet
    scheduler: Scheduler

    def step(self, *, now: int = NOW) -> list[Any]:
        result = self.scheduler.schedule_one(self.fleet.snapshot(), now=now)
        return [] if result is None else list(result[1])

    def state(self, name: str) -> State | None:
        explanation = self.scheduler.queue.explain(WorkloadKey("ns", name))
        return None if explanation is None else explanation.state

    def reasons(self, name: str) -> tuple[str, ...]:
        explanation = self.scheduler.queue.explain(WorkloadKey("ns", name))
        return () if explanation is None else explanation.reasons


def host_key(cluster: ManagedCluster) -> HostKey:
    return HostKey(cluster.metadata.name, cluster.metadata.uid)


def scheduled(*filters: Any, hosts: tuple[str, ...] = ("a", "b"), **plugins: Any) -> Scheduled:
    profile = assemble(name="default", filters=filters, binds=(Binder(),), **plugins)
    return Scheduled(fleet_of(*hosts), scheduler_of(profile))


def scheduler_of(*profiles: Profile) -> Scheduler:
    return Scheduler(profiles=profiles, profile_name=lambda workload: str(workload.spec), host_key=host_key)


def workload(
    name: str, *, profile: str = "default", wanted: int = 1, uid: str = "", priority: int = 0
) -> Workload[str]:
    key = WorkloadKey("ns", name, uid or f"uid-{name}")
    return Workload(key=key, spec=profile, wanted=wanted, priority=priority)


def test_feasible_workload_is_bound_to_the_selected_host_and_leaves_the_queue() -> None:
    bench = scheduled(Refuse(["a"]))
    bench.scheduler.put(workload("w"), now=NOW)
    (bind,) = bench.step()
    assert isinstance(bind, RunBind)
    assert [host.name for host in bind.context.hosts] == ["b"]
    assert bench.state("w") is State.BINDING
    rest = bench.scheduler.finished(bind.key, bind.token, OK, now=NOW)
    assert [type(instruction) for instruction in rest] == [Bound]
    assert bench.state("w") is None
    assert len(bench.scheduler) == 0


def test_infeasible_workload_waits_for_an_event_and_is_tried_again() -> None:
    refuse = Refuse(["a", "b"])
    bench = scheduled(refuse)
    bench.scheduler.put(workload("w"), now=NOW)
    assert bench.step() == []
    assert bench.state("w") is State.UNSCHEDULABLE
    refuse.names = []
    bench.scheduler.on_event(Event(label="b changed", hosts=frozenset({"b"})), now=NOW)
    assert bench.state("w") is State.BACKOFF
    bench.scheduler.advance(now=NOW + 3 * SECOND)
    assert [type(instruction) for instruction in bench.step(now=NOW + 3 * SECOND)] == [RunBind]


def test_workload_that_wants_more_hosts_than_are_feasible_is_not_bound_to_some() -> None:
    bench = scheduled(Refuse(["a"]))
    bench.scheduler.put(workload("w", wanted=2), now=NOW)
    assert bench.step() == []
    assert bench.state("w") is State.UNSCHEDULABLE


def test_workload_of_an_unknown_profile_waits_for_a_change_of_its_spec() -> None:
    bench = scheduled()
    bench.scheduler.put(workload("w", profile="defualt"), now=NOW)
    assert bench.step() == []
    explained = bench.scheduler.queue.explain(WorkloadKey("ns", "w"))
    assert explained is not None
    assert "profile 'defualt' does not exist; write one of default" in explained.reasons[0]
    assert explained.wakes == ("a change of its own spec",)
    bench.scheduler.put(workload("w"), now=NOW)
    bench.scheduler.advance(now=NOW + 3 * SECOND)
    assert [type(instruction) for instruction in bench.step(now=NOW + 3 * SECOND)] == [RunBind]


def test_error_of_the_cycle_is_retried_after_back_off_without_an_event() -> None:
    bench = scheduled(Refuse(say=lambda _: failed("broken", plugin="Refuse")))
    bench.scheduler.put(workload("w"), now=NOW)
    assert bench.step() == []
    assert bench.state("w") is State.ERROR_BACKOFF
    assert bench.scheduler.next_deadline() == NOW + 2 * SECOND


def test_deleted_workload_stops_being_committed() -> None:
    bench = scheduled()
    bench.scheduler.put(workload("w"), now=NOW)
    (bind,) = bench.step()
    bench.scheduler.delete(bind.key, now=NOW)
    assert bench.scheduler.finished(bind.key, bind.token, OK, now=NOW) == []
    assert bench.state("w") is None
    assert len(bench.scheduler) == 0


def test_stale_update_of_a_bound_workload_does_not_bind_it_again() -> None:
    bench = scheduled()
    bench.scheduler.put(workload("w"), now=NOW)
    (bind,) = bench.step()
    bench.scheduler.finished(bind.key, bind.token, OK, now=NOW)
    bench.scheduler.put(workload("w", priority=1), now=NOW)
    assert (bench.step(), bench.state("w")) == ([], None), "the watch shows it as it was before"
    assert bench.scheduler.next_deadline() == NOW + STALE_FOR
    bench.scheduler.observed(bind.key, bind.context.hosts, now=NOW)
    bench.scheduler.put(workload("w"), now=NOW)
    assert bench.state("w") is State.ACTIVE, "it lost its host later"


def test_workload_that_lost_its_host_is_not_bound_again_before_post_bind_has_ended() -> None:
    bench = scheduled(post_binds=(Binder(),))
    bench.scheduler.put(workload("w"), now=NOW)
    (bind,) = bench.step()
    _, post_bind = bench.scheduler.finished(bind.key, bind.token, OK, now=NOW)
    assert isinstance(post_bind, RunPostBind)
    bench.scheduler.put(workload("w", priority=1), now=NOW)
    later = NOW + STALE_FOR
    bench.scheduler.advance(now=later)
    assert (bench.step(now=later), bench.state("w")) == ([], State.ERROR_BACKOFF)
    bench.scheduler.finished(post_bind.key, post_bind.token, None, now=later)
    assert [type(instruction) for instruction in bench.step(now=later + 3 * SECOND)] == [RunBind]


def test_workload_observed_as_bound_leaves_the_queue_wherever_it_is() -> None:
    bench = scheduled(Refuse(["a", "b"]))
    bench.scheduler.put(workload("w"), now=NOW)
    bench.step()
    bench.scheduler.observed(WorkloadKey("ns", "w", "uid-w"), (HostKey("a", ""),), now=NOW)
    assert bench.state("w") is None


def waiting() -> tuple[Scheduled, Waits]:
    waits = Waits()
    bench = scheduled(permits=(waits,), reserves=(waits,))
    bench.scheduler.put(workload("w"), now=NOW)
    assert bench.step() == []
    assert waits.log == ["+"]
    return bench, waits


def test_workload_that_changes_while_it_waits_for_permits_is_tried_again_at_once() -> None:
    bench, waits = waiting()
    bench.scheduler.put(workload("w"), now=NOW)
    assert waits.log == ["+"], "an equal spec changes nothing"
    bench.scheduler.put(workload("w", wanted=2), now=NOW)
    assert (bench.state("w"), waits.log) == (State.ACTIVE, ["+", "-"])
    bench.step()
    assert waits.log == ["+", "-", "+"]


def test_workload_whose_permit_timed_out_is_tried_again() -> None:
    bench, waits = waiting()
    later = NOW + 60 * SECOND
    bench.scheduler.advance(now=later)
    assert (bench.state("w"), waits.log, len(bench.scheduler)) == (State.UNSCHEDULABLE, ["+", "-"], 0)
    bench.scheduler.on_event(Event(label="b changed", hosts=frozenset({"b"})), now=later)
    bench.step(now=later + 3 * SECOND)
    assert waits.log == ["+", "-", "+"]


def test_alike_workloads_share_no_state_of_their_commits() -> None:
    seen: list[str | None] = []

    class Same(Timeless):
        """A filter and Reserve plugin for which all workloads are alike."""

        name = "Same"

        def filter(self, _context: Context, _row: int, /) -> Status:
            return OK

        def reads(self, _context: Context, /) -> Reads:
            return Reads()

        def signature(self, _workload: CycleWorkload, /) -> str:
            return ""

        def reserve(self, context: CommitContext, /) -> Status:
            seen.append(context.state.find("owner", str))
            context.state.write("owner", context.workload.name)
            return OK

        def unreserve(self, context: CommitContext, /) -> None: ...

    same = Same()
    bench = scheduled(same, reserves=(same,))
    for name in "vwx":
        bench.scheduler.put(workload(name), now=NOW)
        bench.step()
    assert seen == [None, None, None]


def test_recreated_workload_takes_nothing_over_from_the_commit_of_the_old_one() -> None:
    bench, waits = waiting()
    bench.scheduler.put(workload("w", uid="new"), now=NOW)
    assert (bench.state("w"), waits.log, len(bench.scheduler)) == (State.ACTIVE, ["+", "-"], 0)


def test_deleting_a_waiting_workload_rejects_it() -> None:
    bench, waits = waiting()
    bench.scheduler.delete(WorkloadKey("ns", "w", "uid-w"), now=NOW)
    assert (bench.state("w"), waits.log, bench.scheduler.next_deadline()) == (None, ["+", "-"], None)


def test_workload_that_waits_on_a_deleted_host_is_tried_again_on_another() -> None:
    bench, waits = waiting()
    old = waits.hosts[0]
    metadata = msgspec.structs.replace(cluster(old.name).metadata, uid="recreated")
    bench.fleet.upsert_cluster(msgspec.structs.replace(cluster(old.name), metadata=metadata))
    bench.scheduler.remove_host(HostKey(old.name, "of no commit"), now=NOW)
    assert waits.log == ["+"]
    bench.scheduler.remove_host(old, now=NOW)
    assert (bench.state("w"), len(bench.scheduler)) == (State.ACTIVE, 0)
    bench.step()
    assert waits.hosts == [old, HostKey(old.name, "recreated")], "another host of the same name"


def test_host_that_made_no_room_nominates_nothing_and_one_that_can_is_handed_to_the_caller() -> None:
    for relief, expected in ((Relief(None), []), (Relief("victim"), [("b", "Relief", "victim")])):
        bench = scheduled(Refuse(["a", "b"]), post_filters=(relief,))
        bench.scheduler.put(workload("w"), now=NOW)
        instructions = bench.step()
        assert [
            (instruction.hosts[0].name, instruction.plugin, instruction.plan) for instruction in instructions
        ] == expected
        assert bench.state("w") is State.UNSCHEDULABLE, "a nominated workload waits for the room"


def test_gates_and_queue_sort_are_those_of_the_profiles() -> None:
    closed = Closed()
    gated = assemble(name="gated", pre_enqueues=(closed,), queue_sort=closed, binds=(Binder(),))
    default = assemble(name="default", queue_sort=closed, binds=(Binder(),))
    bench = Scheduled(fleet_of("a"), scheduler_of(gated, default))
    bench.scheduler.put(workload("g", profile="gated"), now=NOW)
    bench.scheduler.put(workload("high", priority=2), now=NOW)
    bench.scheduler.put(workload("low", priority=1), now=NOW)
    assert (bench.state("g"), bench.reasons("g")) == (State.GATED, ("Closed: 1 gate left",))
    assert [bind.key.name for bind in (*bench.step(), *bench.step(), *bench.step())] == ["low", "high"]
    closed.open = True
    bench.scheduler.on_event(Event(label="gate removed", wildcard=True), now=NOW)
    assert bench.state("g") is State.ACTIVE
    with pytest.raises(ValueError, match="profiles default and other have different QueueSort plugins"):
        scheduler_of(default, assemble(name="other", binds=(Binder(),)))


def test_cycle_that_raises_fails_its_workload_only_and_is_returned() -> None:
    bench = scheduled(Refuse(say=lambda _: 1 / 0))  # type: ignore[arg-type,return-value]
    bench.scheduler.put(workload("w"), now=NOW)
    (returned,) = bench.step()
    words = "plugin default at cycle raised ZeroDivisionError: division by zero"
    assert (bench.state("w"), bench.reasons("w")) == (State.ERROR_BACKOFF, (words,))
    assert returned == Returned(returned.key, error=words)


def test_workload_that_wants_more_hosts_than_exist_waits_for_one() -> None:
    bench = scheduled()
    bench.scheduler.put(workload("w", wanted=3), now=NOW)
    bench.step()
    assert bench.reasons("w") == ("default: 2 hosts are feasible, 3 are wanted",)
    bench.scheduler.on_event(event_of(bench.fleet.upsert_cluster(cluster("c")), label="c added"), now=NOW)
    assert bench.state("w") is State.BACKOFF


def test_preview_decides_as_a_cycle_and_queues_nothing() -> None:
    bench = scheduled(Refuse(["a"]))
    outcome = bench.scheduler.preview(workload("w"), bench.fleet.snapshot(), now=NOW)
    assert outcome is not None
    assert (outcome.selected, len(bench.scheduler.queue)) == (["b"], 0)
    assert bench.scheduler.preview(workload("w", profile="no"), bench.fleet.snapshot(), now=NOW) is None
