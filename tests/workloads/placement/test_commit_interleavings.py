"""Reservations follow the decisions on the hub, whatever fails in between.

A simulated hub applies writes completely, partly, late or not at all. Once everything is decided again and written, the
plugin holds exactly what the hub has, and nothing once the term ends.
"""

from collections.abc import Sequence
from datetime import timedelta

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec import structs

from fairway.engine.commit.instructions import ReadBack, RunBind
from fairway.engine.points import CommitContext
from fairway.engine.profile import assemble
from fairway.engine.state import CycleState
from fairway.engine.status import OK, Code, Status, unschedulable
from fairway.engine.workload import HostKey
from fairway.hosts.instant import SECOND
from fairway.testing.builders import placement
from fairway.workloads.placement import PlacementWorkload
from fairway.workloads.placement.commits import Failed, Owner, PlacementCommits, Rejected, Waiting
from fairway.workloads.placement.selection import Selection

HOSTS = tuple(HostKey(name, "1") for name in "abcd")
OWNERS = (("ns1", "p1"), ("ns1", "p2"))


class Plugins:
    """Reserves and permits; ``held`` is what it treats as promised."""

    name = "Plugins"

    def __init__(self) -> None:
        self.held: set[tuple[Owner, HostKey]] = set()
        self.full = False
        self.answer: tuple[Status, timedelta | None] = (OK, None)

    def reserve(self, context: CommitContext, /) -> Status:
        if self.full:
            return unschedulable("full", plugin=self.name)
        self.held |= _pairs(context)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        self.held -= _pairs(context)

    def permit(self, _context: CommitContext, /) -> tuple[Status, timedelta | None]:
        return self.answer


class DecisionBind:
    name = "DecisionBind"

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK


def _pairs(context: CommitContext) -> set[tuple[Owner, HostKey]]:
    owner = (context.workload.namespace, context.workload.name)
    return {(owner, host) for host in context.hosts}


class Simulation:
    def __init__(self) -> None:
        self.plugin = Plugins()
        self.commits = PlacementCommits(
            assemble(name="placement", reserves=[self.plugin], permits=[self.plugin]),
            binder=DecisionBind(),
            broadcast=lambda _event: None,
            wake=lambda _owners, _trigger: None,
        )
        self.hub: dict[Owner, set[HostKey]] = {owner: set() for owner in OWNERS}
        self.workloads = {owner: _workload(owner) for owner in OWNERS}
        self.now = 0

    def play(self, moves: Sequence[tuple[str, int]]) -> None:
        for move, number in moves:
            getattr(self, move)(OWNERS[number % 2], number // 2)
        self.plugin.answer, self.plugin.full = (OK, None), False
        for owner in OWNERS:
            self.decide(owner, 0b11_0110)
        promised = {(owner, host) for owner in OWNERS for host in self.hub[owner]}
        assert self.plugin.held == promised
        self.commits.end()
        assert not self.plugin.held

    def decide(self, owner: Owner, number: int) -> None:
        """Select clusters by four bits; two more decide what becomes of the write."""
        wanted = tuple(host for at, host in enumerate(HOSTS) if number >> at & 1)
        self.now += SECOND
        selection = Selection(workload=self.workloads[owner], hosts=wanted, state=CycleState())
        step = self.commits.review(selection, clusters_on_hub=self._shown(owner), now=self.now)
        fate = number >> 4 & 3
        if step is None and fate == 3:
            self.hub[owner] = set(wanted)  # nothing to commit: written at once
        while step is not None and not isinstance(step, Waiting | Rejected | Failed):
            if isinstance(step, ReadBack):
                step = self.commits.read_back(step, self._shown(owner), now=self.now)
                if fate == 2:  # the request takes effect after all
                    self.hub[owner] = set(wanted)
                continue
            assert isinstance(step, RunBind)
            if fate == 3:
                self.hub[owner] = set(wanted)
                step = self.commits.finished(step, OK, now=self.now)
            else:
                self.hub[owner] |= set(wanted[:fate])
                step = self.commits.failed(step, TimeoutError())

    def wait(self, _owner: Owner, _number: int) -> None:
        self.plugin.answer = (Status(Code.WAIT), timedelta(seconds=3))

    def deny(self, _owner: Owner, _number: int) -> None:
        self.plugin.answer = (unschedulable("no", plugin="Plugins"), None)

    def approve(self, _owner: Owner, _number: int) -> None:
        self.plugin.answer = (OK, None)

    def fill(self, _owner: Owner, number: int) -> None:
        self.plugin.full = bool(number & 1)

    def edit(self, owner: Owner, _number: int) -> None:
        self.workloads[owner] = _workload(owner)

    def suspend(self, owner: Owner, _number: int) -> None:
        self.commits.abandon(owner)

    def recreate(self, owner: Owner, _number: int) -> None:
        self.commits.delete(owner)
        assert not {host for key, host in self.plugin.held if key == owner}
        self.hub[owner].clear()
        self.edit(owner, 0)

    def restart(self, _owner: Owner, _number: int) -> None:
        self.commits.end()
        assert not self.plugin.held
        placed = {self.workloads[owner]: tuple(self.hub[owner]) for owner in OWNERS}
        self.commits.begin(placed, now=self.now)

    def _shown(self, owner: Owner) -> set[str]:
        return {host.name for host in self.hub[owner]}


MOVES = (
    "decide",
    "decide",
    "decide",
    "wait",
    "deny",
    "approve",
    "fill",
    "edit",
    "suspend",
    "recreate",
    "restart",
)


def _workload(owner: Owner) -> PlacementWorkload:
    source = placement(owner[1])
    return PlacementWorkload(structs.replace(source, metadata=structs.replace(source.metadata, uid=owner[1])))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 127)), max_size=20))
def test_plugins_hold_what_the_hub_shows_in_any_interleaving(moves: list[tuple[str, int]]) -> None:
    Simulation().play(moves)
