"""What the queue reports about one placement, in wall clock time."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from fairway.controllers.placement.queue import PlacementQueue
from fairway.engine.dependencies import Dependencies
from fairway.hosts.clusters import cells
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.direction import Direction
from fairway.testing.builders import placement
from kubewire.client import Clock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNER = ("ns1", "p1")


class Ticking(Clock):
    """A clock whose wall time and monotonic time have different origins."""

    seconds = 0.0

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 5000 + self.seconds


def queued() -> tuple[PlacementQueue, Ticking]:
    clock = Ticking()
    queue = PlacementQueue(clock)
    queue.put(placement())
    return queue, clock


def described(queue: PlacementQueue) -> Mapping[str, object]:
    state = queue.describe(OWNER)
    assert state is not None
    return state


def test_new_placement_is_active() -> None:
    queue, _ = queued()
    state = described(queue)
    assert (state["state"], state["since"], state["attempts"]) == ("active", "2026-01-01T12:00:00Z", 0)
    assert state["nextTry"] is None
    assert queue.describe(("ns1", "other")) is None


def test_failed_placement_reports_error_and_next_try() -> None:
    queue, clock = queued()
    for _ in range(11):
        clock.seconds += 60
        assert queue.pop() == OWNER
        queue.fail(OWNER, "hub refused the write (403)")
    state = described(queue)
    assert state["state"] == "error backoff"
    assert state["attempts"] == 11
    assert state["reasons"] == ["hub refused the write (403)"]
    assert state["since"] == "2026-01-01T12:11:00Z"
    assert state["nextTry"] == "2026-01-01T12:11:05Z"


def test_settled_placement_reports_what_wakes_it() -> None:
    queue, clock = queued()
    assert queue.pop() == OWNER
    always: tuple[Key, ...] = (
        MEMBERSHIP,
        cells.TAINTS,
        cells.label("env"),
        (cells.SETS, "prod"),
        (cells.BINDINGS, "ns1"),
        (cells.OWN_DECISIONS, *OWNER),
    )
    score = (cells.SCORE, "usage", "cpu")
    depends = Dependencies(
        columns=dict.fromkeys(always, Direction.ANY), of_hosts={score: Direction.ANY}, hosts=()
    )
    queue.settle(OWNER, depends, after=600)
    clock.seconds = 30
    state = described(queue)
    assert (state["state"], state["since"], state["nextTry"]) == (
        "settled",
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:10:00Z",
    )
    assert state["wakes"] == [
        "a ManagedClusterSetBinding in namespace ns1 changes",
        "label env changes",
        "the list of clusters changes",
        "a PlacementDecision of ns1/p1 changes",
        "ManagedClusterSet prod changes",
        "taints changes",
        "score usage/cpu changes on a host that it considers",
        "a change of its own spec",
    ]
