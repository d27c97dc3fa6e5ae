"""The placement controller on a hub in memory, and every move that can be made on either side of it.

A move is a name and a number, from which all its decisions follow. So a list of moves is all there is to a run, and a
shorter one that goes wrong in the same way is found by leaving moves out.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, cast

from msgspec import structs

from controllers.chaos.expected_decisions import KINDS
from controllers.chaos.inventor import SETS, Inventor
from controllers.steps.stepwise import (
    CONTROLLER,
    FORMER,
    FakeClock,
    FakeRecorder,
    Key,
    Worker,
    carry_out,
    collect_garbage,
    last_write,
    stepwise_client,
)
from error_logs import recorded_errors
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL, Placement
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.placement import PlacementController
from fairway.engine.profile import Profile
from fairway.engine.queue import State
from fairway.engine.status import Code
from fairway.hosts.instant import to_micros
from fairway.observe.meters import Meters
from fairway.testing import builders
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload
from fairway.workloads.placement.reconcile_plan import KEEP, ON_MISCONFIGURATION, ReconcilePlan, rate_of
from fairway.workloads.placement.steps import Delete, Fill
from fairway.workloads.placement.unscored import unscored_condition
from fairway.workloads.placement.verdict import Verdict
from kubewire.client import KubeError, Recorder, ServerError, TransportError
from rigs.fake_hub import Call, FakeHub, refused
from strategies import NOW

Move = tuple[str, int]

NEVER_QUIET: Final = 400
"""Maximum number of rounds until convergence."""
METERS: Final = Meters()


class Simulation:
    def __init__(self) -> None:
        self.hub = FakeHub(live=False)
        self.clock = FakeClock(NOW + timedelta(milliseconds=250))
        self.chance = random.Random(0)
        self.late: list[tuple[Key, Call]] = []
        self.excused: set[Key] = set()
        """Placements of which scores may be recorded before their time: something else was wrong with them."""
        for name in SETS:
            selector = builders.selector(labels={"gpu": "true"}) if name == "gpus" else None
            self.hub.put(MANAGED_CLUSTER_SETS, builders.cluster_set(name, selector=selector))
            self.hub.put(MANAGED_CLUSTER_SET_BINDINGS, builders.binding(name))
        self._start()

    def _start(self) -> None:
        """A new controller, as in a new process."""
        self.controller = PlacementController(
            stepwise_client(),
            meters=METERS,
            recorder=cast("Recorder", FakeRecorder()),
            profile=self.profile(),
            resync=0,
            clock=self.clock,
        )
        self.queue = self.controller.queue
        self.workers: dict[Key, Worker] = {}
        self.shown: dict[Key, list[PlacementDecision]] = {}
        """Decisions of all placements at the last reconcile of each placement."""
        self.moving: dict[Key, bool] = {}
        """Whether what was last proposed changes which clusters are on a page."""
        state = self.controller.state
        decide = state.decide

        def watched(owner: Key, **options: Any) -> ReconcilePlan | None:
            plan = decide(owner, **options)
            self.moving[owner] = plan is not None and any(
                isinstance(step, Delete) or (isinstance(step, Fill) and step.changed) for step in plan.steps
            )
            return plan

        cast("Any", state).decide = watched
        self.hub.disconnect()
        self.informed = {resource.plural: self.hub.of(resource) for resource in KINDS}
        state.follow(self.hub.informers, calculators=True)
        for informer in self.informed.values():
            informer.relist()
        self.began = self.hub.revision
        self._excuse(*self.hub.all(PLACEMENTS))

    def profile(self) -> Profile | None:
        """Return the profile of a new process; None for the default one."""
        return None

    def _excuse(self, *keys: Key) -> None:
        self.excused.update(keys)

    def _excuse_owner(self, decision: PlacementDecision) -> None:
        self._excuse((decision.metadata.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, "")))

    def play(self, moves: Sequence[Move]) -> None:
        with recorded_errors() as errors:
            for name, number in moves:
                self.chance = random.Random(number)
                getattr(self, name)()
            self.come_to_rest()
        assert errors == []

    # Other clients

    @property
    def inventor(self) -> Inventor:
        return Inventor(self.chance, now=self.clock.now)

    def change_fleet(self) -> None:
        invent = self.inventor
        match self.chance.randrange(6):
            case 0 | 1:
                self.hub.put(MANAGED_CLUSTERS, invent.cluster())
            case 2 | 3:
                self.hub.put(ADD_ON_PLACEMENT_SCORES, invent.score())
            case 4:
                self.hub.put(MANAGED_CLUSTER_SCORES, invent.cluster_score())
            case _ if self.chance.random() < 0.5:
                self.hub.put(MANAGED_CLUSTER_SETS, invent.cluster_set())
            case _:
                self.hub.put(MANAGED_CLUSTER_SET_BINDINGS, invent.binding())

    def ask(self) -> None:
        """Create or change a placement."""
        new = self.inventor.placement()
        old = self.hub.all(PLACEMENTS).get((new.metadata.namespace, new.metadata.name))
        self.hub.put(PLACEMENTS, new if old is None else structs.replace(new, status=old.status))

    def remove(self) -> None:
        there = [(resource, key) for resource in KINDS for key in self.hub.all(resource)]
        if there:
            resource, (namespace, name) = self.chance.choice(there)
            gone = self.hub.drop(resource, name, namespace=namespace)
            if resource is PLACEMENT_DECISIONS:
                self._excuse_owner(gone)

    def intrude(self) -> None:
        """Create a decision without a placement."""
        new = self.inventor.decision()
        old = self.hub.all(PLACEMENT_DECISIONS).get((new.metadata.namespace, new.metadata.name))
        for decision in (old, self.hub.put(PLACEMENT_DECISIONS, new)):
            if decision is not None:
                self._excuse_owner(decision)

    def meddle(self) -> None:
        """With a decision the controller may have made."""
        there = self.hub.all(PLACEMENT_DECISIONS)
        if not there:
            return
        key = self.chance.choice(list(there))
        self._excuse_owner(there[key])
        if self.chance.random() < 0.25:
            self.hub.drop(PLACEMENT_DECISIONS, key[1], namespace=key[0])
        else:
            self._excuse_owner(
                self.hub.put(PLACEMENT_DECISIONS, self.inventor.externally_modified(there[key]))
            )

    def unsettle(self) -> None:
        """Write a wrong status to a placement."""
        there = self.hub.all(PLACEMENTS)
        if there:
            key = self.chance.choice(list(there))
            self._excuse(key)
            old = there[key]
            status = structs.replace(old.status, numberOfSelectedClusters=99)
            self.hub.put(PLACEMENTS, structs.replace(old, status=status))

    def collect(self) -> None:
        collect_garbage(self.hub)

    # The wire

    def hear(self) -> None:
        self.informed[self.chance.choice(KINDS).plural].deliver(self.chance.randint(1, 3))

    def hear_all(self) -> None:
        for informer in self.informed.values():
            informer.deliver()

    def list_anew(self) -> None:
        self.informed[self.chance.choice(KINDS).plural].relist()

    def restore(self) -> None:
        """Pending requests are lost, and informers have seen later revisions. All detect that before the next write."""
        told = max(informer.delivered for informer in self.informed.values())
        self.restore_to(max(16, min(self.hub.revision, told) - self.chance.randint(1, 12)))

    def restore_to(self, revision: int) -> None:
        for worker in list(self.workers.values()):
            self._fail(worker, TransportError("pretended"))
        self._excuse(*self.hub.all(PLACEMENTS))
        self.hub.rewind(revision)
        for kind in self.chance.sample(KINDS, len(KINDS)):
            self.informed[kind.plural].relist()

    # The controller

    def ready(self) -> list[tuple[str, str]]:
        """Return the placements that are ready, in no order."""
        queue = self.queue._queue
        queue.advance(now=self.queue.now())
        return list(queue._active)

    def look(self) -> None:
        ready = self.ready()
        if ready:
            self.look_at(self.chance.choice(ready))

    def look_at(self, key: Key) -> None:
        self.shown[key] = self._held()
        self.workers[key] = worker = Worker(key, self.attempt(key))
        self._after(worker)

    async def attempt(self, key: Key) -> None:
        assert self.queue.pop(key) == key
        scheduler = self.controller.scheduler
        await carry_out(scheduler, scheduler.attempt(key))

    def _after(self, worker: Worker) -> None:
        if worker.done:
            del self.workers[worker.key]
            explanation = self.queue.explain(worker.key)
            if explanation is not None and explanation.state in (State.ERROR_BACKOFF, State.BACKOFF):
                self._excuse(worker.key)
                self.queue.wake((worker.key,), trigger="the test does not wait")

    def _worker(self) -> Worker | None:
        return self.chance.choice(list(self.workers.values())) if self.workers else None

    def carry_out(self) -> None:
        """The hub executes a request; its response is pending."""
        worker = self._worker()
        if worker is not None:
            self._carry_out(worker)

    def _carry_out(self, worker: Worker) -> None:
        if not worker.carried_out:
            assert worker.call is not None
            self.is_due(worker.key, worker.call)
            worker.carry_out(self.hub)

    def answer(self) -> None:
        worker = self._worker()
        if worker is not None:
            self.answer_to(worker.key)

    def answer_to(self, key: Key) -> None:
        worker = self.workers[key]
        self._carry_out(worker)
        worker.answer()
        self._after(worker)

    def cut_off(self) -> None:
        """The request fails before or after its execution."""
        worker = self._worker()
        if worker is not None:
            self._fail(worker, TransportError("pretended"))

    def refuse(self) -> None:
        worker = self._worker()
        if worker is not None and not worker.carried_out:
            self._fail(worker, refused(ServerError, 500))

    def _fail(self, worker: Worker, error: KubeError) -> None:
        worker.fail(error)
        self._after(worker)

    def pass_time(self) -> None:
        self.clock.now += timedelta(seconds=self.chance.choice((1, 5, 20, 61, 700)))

    def crash(self) -> None:
        """Replace the process by a new one without state."""
        for worker in self.workers.values():
            if worker.call is not None and not worker.carried_out:
                self.late.append((worker.key, worker.call))
            worker.fail(TransportError("pretended"))
        self._start()

    def arrive_late(self) -> None:
        """Deliver a late request of a replaced process."""
        if self.late:
            key, call = self.late.pop(self.chance.randrange(len(self.late)))
            self._excuse(key)
            with suppress(KubeError):
                self.hub.answer(call, author=FORMER)

    # The law

    def come_to_rest(self) -> None:
        for _ in range(NEVER_QUIET):
            collect_garbage(self.hub)
            self.hear_all()
            ready = self.ready()
            if self.workers:
                worker = next(iter(self.workers.values()))
                self.answer_to(worker.key)
            elif ready:
                self.look_at(ready[0])
            elif not any(informer.waiting for informer in self.informed.values()):
                break
        else:
            raise AssertionError(f"never quiet: {self.ready()} {list(self.workers)}")
        self.knows_the_hub()
        for key in self.hub.all(PLACEMENTS):
            self.is_right(key)
        self.excused.clear()

    def is_due(self, key: Key, call: Call) -> None:
        """While only scores change, they are not recorded more often than the placement allows.

        Where the clusters on one page change, all pages get the scores of that cycle.
        """
        placement: Placement | None = self.hub.all(PLACEMENTS).get(key)
        page: PlacementDecision | None = self.hub.all(PLACEMENT_DECISIONS).get((call.namespace, call.name))
        if call.resource is not PLACEMENT_DECISIONS or call.subresource != "status" or page is None:
            return
        named = [decision["clusterName"] for decision in call.body["status"]["decisions"]]
        if placement is None or key in self.excused or named != _named(page) or self.moving[key]:
            return
        last = placement.status.lastScoreUpdateTime
        assert last is None or self.clock.now >= last + rate_of(placement)

    def knows_the_hub(self) -> None:
        state = self.controller.state
        there = self.hub.all(PLACEMENT_DECISIONS)
        known = state.fleet.snapshot().decisions
        fresh = World(there.values()).fleet.snapshot().decisions
        for key, decision in there.items():
            assert state.decision(*key) == decision
        assert known._holdings == fresh._holdings
        assert {key: record.placement for key, record in state.records.items()} == self.hub.all(PLACEMENTS)

    def _held(self) -> list[PlacementDecision]:
        """Decided clusters by placement, as the controller knows them."""
        held = self.controller.state.fleet.snapshot().decisions._holdings
        return [
            builders.decision(
                name,
                decision.clusters,
                placement=decision.owner[1] if decision.owner else "",
                namespace=space,
            )
            for (space, name), decision in held.items()
        ]

    def _afresh(self, key: Key, decided: Iterable[PlacementDecision]) -> Verdict:
        """Compute decisions from the hub's objects and these decisions."""
        world = World(
            obj
            for resource in KINDS
            if resource is not PLACEMENT_DECISIONS
            for obj in self.hub.all(resource).values()
        )
        for decision in decided:
            world.put(decision)
        return world.decide(key, now=to_micros(self.clock.now))

    def own(self, key: Key) -> dict[str, PlacementDecision]:
        return {
            name: decision
            for (_, name), decision in self.hub.all(PLACEMENT_DECISIONS).items()
            if _is_of(key, decision)
        }

    def is_right(self, key: Key) -> None:
        placement: Placement = self.hub.all(PLACEMENTS)[key]
        if PlacementWorkload(placement).idle:
            return
        # Decisions of others wake no placement, and a decision does not change its own scores.
        then = self._afresh(key, self.shown[key])
        others = [decision for decision in self.shown[key] if not _is_of(key, decision)]
        verdict = self._afresh(key, (*others, *self.own(key).values()))
        if any(decision.metadata.name in self.own(key) for decision in others):
            verdict = then  # what counted as another's decision is the placement's own since
        status = placement.status
        said = {
            (condition.type, condition.status, condition.reason, condition.message)
            for condition in status.conditions
        }
        if verdict.frozen:
            assert verdict.status.message in {message for *_, message in said}
            return
        unscored = unscored_condition(verdict.outcome)
        wanted = [*verdict.conditions, *([] if unscored is None else [unscored])]
        assert said == {
            (condition.type, condition.status, condition.reason, condition.message) for condition in wanted
        }
        keeps = placement.metadata.annotations.get(ON_MISCONFIGURATION) == KEEP
        if verdict.status.code is Code.MISCONFIGURED and keeps:
            return
        assert status.numberOfSelectedClusters == verdict.selected
        assert status.decisionGroups == verdict.groups
        own = self.own(key)
        assert {name: decision.metadata.labels for name, decision in own.items()} == {
            page.name: page.labels for page in verdict.pages
        }
        assert all(
            decision.metadata.ownerReferences[-1].uid == placement.metadata.uid for decision in own.values()
        )
        for page, scored in zip(verdict.pages, then.pages, strict=True):
            recorded = own[page.name].status.decisions
            named = _named(own[page.name])
            if placement.spec.sortBy == "Score":
                # That it was decided may put a cluster into a better group; that alone is no reason to move it.
                assert sorted(named) in (sorted(page.clusters), sorted(scored.clusters))
            else:
                assert named == list(page.clusters)
            last = status.lastScoreUpdateTime
            write = last_write(self.hub, (key[0], page.name))
            theirs = write.author != CONTROLLER and write.version > self.began
            if theirs or last is None or self.clock.now >= last + rate_of(placement) + timedelta(seconds=1):
                assert recorded in (page.decisions, scored.decisions)


def _named(decision: PlacementDecision) -> list[str]:
    return [item.clusterName for item in decision.status.decisions]


def _is_of(key: Key, decision: PlacementDecision) -> bool:
    meta = decision.metadata
    return (meta.namespace, meta.labels.get(PLACEMENT_LABEL)) == key


MOVES: Final[dict[str, Callable[[Simulation], None]]] = {
    move.__name__: move
    for move in (
        Simulation.change_fleet,
        Simulation.ask,
        Simulation.remove,
        Simulation.intrude,
        Simulation.meddle,
        Simulation.unsettle,
        Simulation.collect,
        Simulation.hear,
        Simulation.hear_all,
        Simulation.list_anew,
        Simulation.restore,
        Simulation.look,
        Simulation.carry_out,
        Simulation.answer,
        Simulation.cut_off,
        Simulation.refuse,
        Simulation.pass_time,
        Simulation.crash,
        Simulation.arrive_late,
        Simulation.come_to_rest,
    )
}
OFTEN: Final = {
    "change_fleet": 14, "ask": 8, "meddle": 4, "hear": 10, "hear_all": 6, "look": 16, "carry_out": 8, "answer": 16,
}  # fmt: skip
"""Others are made once as often."""
