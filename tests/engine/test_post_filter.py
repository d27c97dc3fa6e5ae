"""PostFilter plugins run only if no host passes the filters."""

from collections.abc import Mapping

import pytest

from engine.toys import Admit, Refuse, Work, fleet_of
from fairway.api.placement import PlacementSpec
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.points import Context
from fairway.engine.profile import assemble
from fairway.engine.status import OK, Code, Status, failed, unschedulable
from fairway.testing.builders import cluster, placement
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload


class Only:
    """A filter that passes one host."""

    name = "Only"

    def __init__(self, host: str) -> None:
        self._host = host

    def filter(self, context: Context, row: int, /) -> Status:
        name = context.snapshot.hosts.names[row]
        return OK if name == self._host else unschedulable(f"is not {self._host}", plugin=self.name)


class Relief:
    def __init__(self, name: str, answer: Status) -> None:
        self.name = name
        self._answer = answer
        self.asked: list[dict[int, Status]] = []

    def post_filter(self, _context: Context, rejections: Mapping[int, Status], /) -> Status:
        self.asked.append(dict(rejections))
        return self._answer


def outcome_of(host: str, *plugins: Relief) -> Outcome:
    world = World([cluster("a"), cluster("b")])
    profile = assemble(name="test", filters=(Only(host),), post_filters=plugins)
    workload = PlacementWorkload(placement(spec=PlacementSpec(numberOfClusters=1)))
    return cycle.run(world.fleet.snapshot(), workload, profile, now=0)


def test_post_filter_is_not_called_with_feasible_hosts() -> None:
    plugin = Relief("r", OK)
    outcome = outcome_of("b", plugin)
    assert (outcome.selected, outcome.relief, plugin.asked) == (["b"], None, [])


def test_post_filter_gets_status_of_every_host() -> None:
    plugin = Relief("r", OK)
    outcome = outcome_of("c", plugin)
    assert outcome.selected == []
    assert outcome.relief == OK
    assert [sorted(rejections) for rejections in plugin.asked] == [[0, 1]]
    assert {status.message for status in plugin.asked[0].values()} == {"is not c"}


@pytest.mark.parametrize(
    ("code", "goes_on"),
    [
        (Code.UNSCHEDULABLE, True),
        (Code.SKIP, True),
        (Code.SUCCESS, False),
        (Code.UNRESOLVABLE, False),
        (Code.ERROR, False),
    ],
)
def test_post_filters_stop_at_success_unresolvable_and_error_and_go_on_after_unschedulable(
    code: Code, goes_on: bool
) -> None:
    first, second = Relief("first", Status(code)), Relief("second", OK)
    assert outcome_of("c", first, second).selected == [], (
        "whatever they return, the cycle ends without a host"
    )
    assert bool(second.asked) == goes_on


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNRESOLVABLE])
def test_post_filter_runs_after_a_rejection_by_pre_filter_or_if_every_host_is_unresolvable(
    code: Code,
) -> None:
    rejection = Status(code, ("no",), plugin="P")
    for plugins in (
        {"pre_filters": (Admit(None, rejection, "P"),)},
        {"filters": (Refuse(say=lambda _: rejection),)},
    ):
        relief = Relief("r", OK)
        profile = assemble(name="test", post_filters=(relief,), **plugins)
        outcome = cycle.run(fleet_of("a", "b").snapshot(), Work(1), profile, now=0)
        assert (len(relief.asked), outcome.relief, outcome.selected) == (1, OK, [])


def test_post_filter_error_ends_the_cycle() -> None:
    outcome = outcome_of("c", Relief("r", failed("no books", plugin="r")))
    assert outcome.status.code is Code.ERROR
    assert outcome.status.message == "no books"
