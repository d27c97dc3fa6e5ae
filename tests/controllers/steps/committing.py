"""The simulation of the placement controller with plugins from Reserve on."""

from dataclasses import replace
from datetime import timedelta

from controllers.steps.simulation import Simulation
from controllers.steps.stepwise import Key
from fairway.api.resources import PLACEMENTS
from fairway.engine.points import CommitContext
from fairway.engine.profile import Profile
from fairway.engine.status import OK, Code, Status, failed, unschedulable
from fairway.workloads.placement import PlacementWorkload, default_profile


class Plugins:
    """Reserves, permits, prepares and is notified. ``held`` are the clusters that it regards as decided."""

    name = "Plugins"

    def __init__(self) -> None:
        self.held: dict[Key, set[str]] = {}
        self.answer: tuple[Status, timedelta | None] = (OK, None)
        self.prepared = OK
        self.unprepared = False

    def reserve(self, context: CommitContext, /) -> Status:
        self.held.setdefault(_owner(context), set()).update(host.name for host in context.hosts)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        held = self.held.get(_owner(context), set())
        held -= {host.name for host in context.hosts}
        if not held:
            self.held.pop(_owner(context), None)

    def permit(self, _context: CommitContext, /) -> tuple[Status, timedelta | None]:
        return self.answer

    async def pre_bind(self, _context: CommitContext, /) -> Status:
        return self.prepared

    async def post_bind(self, context: CommitContext, /) -> None:
        assert {host.name for host in context.hosts} <= self.held.get(_owner(context), set())


def _owner(context: CommitContext) -> Key:
    return (context.workload.namespace, context.workload.name)


class CommittingSimulation(Simulation):
    plugin: Plugins

    def profile(self) -> Profile:
        self.plugin = Plugins()
        points = (self.plugin,)
        return replace(
            default_profile(), reserves=points, permits=points, pre_binds=points, post_binds=points
        )

    def _start(self) -> None:
        super()._start()
        self.controller.scheduler.begin()

    # The plugins

    def withhold(self) -> None:
        """Permits wait, are denied, or preparations fail."""
        answers = (Status(Code.WAIT, ("later",)), unschedulable("no", plugin="Plugins"), OK)
        self.plugin.answer = (self.chance.choice(answers), timedelta(seconds=30))
        self.plugin.prepared = self.chance.choice((OK, failed("not ready", plugin="Plugins")))

    def approve(self) -> None:
        self.plugin.answer, self.plugin.prepared = (OK, None), OK

    # The law

    def come_to_rest(self) -> None:
        self.approve()
        self.queue.wake(self.controller.state.records, trigger="approved")
        super().come_to_rest()
        assert set(self.plugin.held) <= set(self.hub.all(PLACEMENTS))

    def is_right(self, key: Key) -> None:
        super().is_right(key)
        placement = self.hub.all(PLACEMENTS)[key]
        decided = {
            decision.clusterName for page in self.own(key).values() for decision in page.status.decisions
        }
        record = self.controller.state.records[key]
        if not PlacementWorkload(placement).idle and record.settled is not None:
            assert self.plugin.held.get(key, set()) == decided


COMMITTING_MOVES = ("withhold", "withhold", "approve")
