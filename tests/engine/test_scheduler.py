"""Scheduler: queue, cycle and commit together, without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from engine.toys import Refuse, fleet_of
from fairway.api.cluster import ManagedCluster
from fairway.clusters import Fleet
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
from fairway.fleet.instant import SECOND
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
        found = self.scheduler.queue.explain(WorkloadKey("ns", name))
        return None if found is None else found.state

    def reasons(self, name: str) -> tuple[str, ...]:
        found = self.scheduler.queue.explain(WorkloadKey("ns", name))
        return () if found is None else found.reasons


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
    it = scheduled(Refuse(["a"]))
    it.scheduler.put(workload("w"), now=NOW)
    (bind,) = it.step()
    assert isinstance(bind, RunBind)
    assert [host.name for host in bind.context.hosts] == ["b"]
    assert it.state("w") is State.BINDING
    rest = it.scheduler.finished(bind.key, bind.token, OK, now=NOW)
    assert [type(each) for each in rest] == [Bound]
    assert it.state("w") is None
    assert len(it.scheduler) == 0


def test_infeasible_workload_waits_for_an_event_and_is_tried_again() -> None:
    refuse = Refuse(["a", "b"])
    it = scheduled(refuse)
    it.scheduler.put(workload("w"), now=NOW)
    assert it.step() == []
    assert it.state("w") is State.UNSCHEDULABLE
    refuse.names = []
    it.scheduler.on_event(Event(label="b changed", hosts=frozenset({"b"})), now=NOW)
    assert it.state("w") is State.BACKOFF
    it.scheduler.advance(now=NOW + 3 * SECOND)
    assert [type(each) for each in it.step(now=NOW + 3 * SECOND)] == [RunBind]


def test_workload_that_wants_more_hosts_than_are_feasible_is_not_bound_to_some() -> None:
    it = scheduled(Refuse(["a"]))
    it.scheduler.put(workload("w", wanted=2), now=NOW)
    assert it.step() == []
    assert it.state("w") is State.UNSCHEDULABLE


def test_workload_of_an_unknown_profile_waits_for_a_change_of_its_spec() -> None:
    it = scheduled()
    it.scheduler.put(workload("w", profile="defualt"), now=NOW)
    assert it.step() == []
    explained = it.scheduler.queue.explain(WorkloadKey("ns", "w"))
    assert explained is not None
    assert "profile 'defualt' does not exist; write one of default" in explained.reasons[0]
    assert explained.wakes == ("a change of its own spec",)
    it.scheduler.put(workload("w"), now=NOW)
    it.scheduler.advance(now=NOW + 3 * SECOND)
    assert [type(each) for each in it.step(now=NOW + 3 * SECOND)] == [RunBind]


def test_error_of_the_cycle_is_retried_after_back_off_without_an_event() -> None:
    it = scheduled(Refuse(say=lambda _: failed("broken", plugin="Refuse")))
    it.scheduler.put(workload("w"), now=NOW)
    assert it.step() == []
    assert it.state("w") is State.ERROR_BACKOFF
    assert it.scheduler.next_deadline() == NOW + 2 * SECOND


def test_deleted_workload_stops_being_committed() -> None:
    it = scheduled()
    it.scheduler.put(workload("w"), now=NOW)
    (bind,) = it.step()
    it.scheduler.delete(bind.key, now=NOW)
    assert it.scheduler.finished(bind.key, bind.token, OK, now=NOW) == []
    assert it.state("w") is None
    assert len(it.scheduler) == 0


def test_stale_update_of_a_bound_workload_does_not_bind_it_again() -> None:
    it = scheduled()
    it.scheduler.put(workload("w"), now=NOW)
    (bind,) = it.step()
    it.scheduler.finished(bind.key, bind.token, OK, now=NOW)
    it.scheduler.put(workload("w", priority=1), now=NOW)
    assert (it.step(), it.state("w")) == ([], None), "the watch shows it as it was before"
    assert it.scheduler.next_deadline() == NOW + STALE_FOR
    it.scheduler.observed(bind.key, bind.context.hosts, now=NOW)
    it.scheduler.put(workload("w"), now=NOW)
    assert it.state("w") is State.ACTIVE, "it lost its host later"


def test_workload_that_lost_its_host_is_not_bound_again_before_post_bind_has_ended() -> None:
    it = scheduled(post_binds=(Binder(),))
    it.scheduler.put(workload("w"), now=NOW)
    (bind,) = it.step()
    _, post_bind = it.scheduler.finished(bind.key, bind.token, OK, now=NOW)
    assert isinstance(post_bind, RunPostBind)
    it.scheduler.put(workload("w", priority=1), now=NOW)
    later = NOW + STALE_FOR
    it.scheduler.advance(now=later)
    assert (it.step(now=later), it.state("w")) == ([], State.ERROR_BACKOFF)
    it.scheduler.finished(post_bind.key, post_bind.token, None, now=later)
    assert [type(each) for each in it.step(now=later + 3 * SECOND)] == [RunBind]


def test_workload_observed_as_bound_leaves_the_queue_wherever_it_is() -> None:
    it = scheduled(Refuse(["a", "b"]))
    it.scheduler.put(workload("w"), now=NOW)
    it.step()
    it.scheduler.observed(WorkloadKey("ns", "w", "uid-w"), (HostKey("a", ""),), now=NOW)
    assert it.state("w") is None


def waiting() -> tuple[Scheduled, Waits]:
    waits = Waits()
    it = scheduled(permits=(waits,), reserves=(waits,))
    it.scheduler.put(workload("w"), now=NOW)
    assert it.step() == []
    assert waits.log == ["+"]
    return it, waits


def test_workload_that_changes_while_it_waits_for_permits_is_tried_again_at_once() -> None:
    it, waits = waiting()
    it.scheduler.put(workload("w"), now=NOW)
    assert waits.log == ["+"], "an equal spec changes nothing"
    it.scheduler.put(workload("w", wanted=2), now=NOW)
    assert (it.state("w"), waits.log) == (State.ACTIVE, ["+", "-"])
    it.step()
    assert waits.log == ["+", "-", "+"]


def test_workload_whose_permit_timed_out_is_tried_again() -> None:
    it, waits = waiting()
    later = NOW + 60 * SECOND
    it.scheduler.advance(now=later)
    assert (it.state("w"), waits.log, len(it.scheduler)) == (State.UNSCHEDULABLE, ["+", "-"], 0)
    it.scheduler.on_event(Event(label="b changed", hosts=frozenset({"b"})), now=later)
    it.step(now=later + 3 * SECOND)
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
    it = scheduled(same, reserves=(same,))
    for name in "vwx":
        it.scheduler.put(workload(name), now=NOW)
        it.step()
    assert seen == [None, None, None]


def test_recreated_workload_takes_nothing_over_from_the_commit_of_the_old_one() -> None:
    it, waits = waiting()
    it.scheduler.put(workload("w", uid="new"), now=NOW)
    assert (it.state("w"), waits.log, len(it.scheduler)) == (State.ACTIVE, ["+", "-"], 0)


def test_deleting_a_waiting_workload_rejects_it() -> None:
    it, waits = waiting()
    it.scheduler.delete(WorkloadKey("ns", "w", "uid-w"), now=NOW)
    assert (it.state("w"), waits.log, it.scheduler.next_deadline()) == (None, ["+", "-"], None)


def test_workload_that_waits_on_a_deleted_host_is_tried_again_on_another() -> None:
    it, waits = waiting()
    old = waits.hosts[0]
    metadata = msgspec.structs.replace(cluster(old.name).metadata, uid="recreated")
    it.fleet.upsert_cluster(msgspec.structs.replace(cluster(old.name), metadata=metadata))
    it.scheduler.remove_host(HostKey(old.name, "of no commit"), now=NOW)
    assert waits.log == ["+"]
    it.scheduler.remove_host(old, now=NOW)
    assert (it.state("w"), len(it.scheduler)) == (State.ACTIVE, 0)
    it.step()
    assert waits.hosts == [old, HostKey(old.name, "recreated")], "another host of the same name"


def test_host_that_made_no_room_nominates_nothing_and_one_that_can_is_handed_to_the_caller() -> None:
    for relief, expected in ((Relief(None), []), (Relief("victim"), [("b", "Relief", "victim")])):
        it = scheduled(Refuse(["a", "b"]), post_filters=(relief,))
        it.scheduler.put(workload("w"), now=NOW)
        found = it.step()
        assert [(each.hosts[0].name, each.plugin, each.plan) for each in found] == expected
        assert it.state("w") is State.UNSCHEDULABLE, "a nominated workload waits for the room"


def test_gates_and_queue_sort_are_those_of_the_profiles() -> None:
    closed = Closed()
    gated = assemble(name="gated", pre_enqueues=(closed,), queue_sort=closed, binds=(Binder(),))
    default = assemble(name="default", queue_sort=closed, binds=(Binder(),))
    it = Scheduled(fleet_of("a"), scheduler_of(gated, default))
    it.scheduler.put(workload("g", profile="gated"), now=NOW)
    it.scheduler.put(workload("high", priority=2), now=NOW)
    it.scheduler.put(workload("low", priority=1), now=NOW)
    assert (it.state("g"), it.reasons("g")) == (State.GATED, ("Closed: 1 gate left",))
    assert [bind.key.name for bind in (*it.step(), *it.step(), *it.step())] == ["low", "high"]
    closed.open = True
    it.scheduler.on_event(Event(label="gate removed", wildcard=True), now=NOW)
    assert it.state("g") is State.ACTIVE
    with pytest.raises(ValueError, match="profiles default and other have different QueueSort plugins"):
        scheduler_of(default, assemble(name="other", binds=(Binder(),)))


def test_cycle_that_raises_fails_its_workload_only_and_is_reported() -> None:
    it = scheduled(Refuse(say=lambda _: 1 / 0))  # type: ignore[arg-type,return-value]
    it.scheduler.put(workload("w"), now=NOW)
    (returned,) = it.step()
    words = "plugin default at cycle raised ZeroDivisionError: division by zero"
    assert (it.state("w"), it.reasons("w")) == (State.ERROR_BACKOFF, (words,))
    assert returned == Returned(returned.key, error=words)
    assert [str(each) for each in it.scheduler.take_faults()] == [words]
    assert it.scheduler.take_faults() == []


def test_workload_that_wants_more_hosts_than_exist_waits_for_one() -> None:
    it = scheduled()
    it.scheduler.put(workload("w", wanted=3), now=NOW)
    it.step()
    assert it.reasons("w") == ("default: 2 hosts are feasible, 3 are wanted",)
    it.scheduler.on_event(event_of(it.fleet.upsert_cluster(cluster("c")), label="c added"), now=NOW)
    assert it.state("w") is State.BACKOFF


def test_preview_decides_as_a_cycle_and_queues_nothing() -> None:
    it = scheduled(Refuse(["a"]))
    found = it.scheduler.preview(workload("w"), it.fleet.snapshot(), now=NOW)
    assert found is not None
    assert (found.selected, len(it.scheduler.queue)) == (["b"], 0)
    assert it.scheduler.preview(workload("w", profile="no"), it.fleet.snapshot(), now=NOW) is None
