"""Scheduler: queue, cycle and commit together, without I/O."""

from dataclasses import dataclass
from typing import Any

from engine.toys import Refuse, fleet_of
from fairway.api.cluster import ManagedCluster
from fairway.clusters import Fleet
from fairway.engine.commit.instructions import Bound, RunBind
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext
from fairway.engine.profile import assemble
from fairway.engine.queue import State
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, Status, failed
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet.instant import SECOND

NOW = 1000 * SECOND


class Binder:
    name = "Binder"

    async def bind(self, context: CommitContext, /) -> Status:
        return OK


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


def host_key(cluster: ManagedCluster) -> HostKey:
    return HostKey(cluster.metadata.name, cluster.metadata.uid)


def scheduled(*filters: Any, hosts: tuple[str, ...] = ("a", "b")) -> Scheduled:
    profile = assemble(name="default", filters=filters, binds=(Binder(),))
    scheduler = Scheduler(
        profiles=[profile], profile_name=lambda workload: str(workload.spec), host_key=host_key
    )
    return Scheduled(fleet_of(*hosts), scheduler)


def workload(name: str, *, profile: str = "default", wanted: int = 1) -> Workload[str]:
    return Workload(key=WorkloadKey("ns", name, f"uid-{name}"), spec=profile, wanted=wanted)


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
