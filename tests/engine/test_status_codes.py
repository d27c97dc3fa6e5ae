"""The effect of each status code at each extension point: where the workload is afterwards, and what is blamed."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from engine.test_scheduler import NOW, Scheduled, scheduler_of, workload
from engine.toys import fleet_of
from fairway.engine.commit.instructions import RunBind, RunPreBind
from fairway.engine.dependencies import Event
from fairway.engine.points import CommitContext, Context, Weighted
from fairway.engine.profile import assemble
from fairway.engine.queue import State
from fairway.engine.status import OK, Code, Status
from fairway.hosts.bitmap import Bits, Rows


@dataclass
class Answers:
    """A plugin at all points that returns one status at one of them."""

    point: str
    status: Status
    name: str = "Answers"

    def at(self, point: str) -> Status:
        return self.status if point == self.point else OK

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        return self.at("PreFilter"), None

    def filter(self, context: Context, row: int, /) -> Status:
        return self.at("Filter")

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        return self.at("PreScore")

    def score(self, context: Context, row: int, /) -> int:
        return 0

    def reserve(self, context: CommitContext, /) -> Status:
        return self.at("Reserve")

    def unreserve(self, context: CommitContext, /) -> None: ...

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        return self.at("Permit"), timedelta(seconds=9)

    async def pre_bind(self, context: CommitContext, /) -> Status:
        raise NotImplementedError

    async def bind(self, context: CommitContext, /) -> Status:
        raise NotImplementedError


def after(point: str, code: Code) -> Scheduled:
    """Schedule one workload, and answer for the coroutines."""
    plugin = Answers(point, Status(code, ("why",), plugin="Answers"))
    only: tuple[Any, ...] = (plugin,)
    profile = assemble(
        name="default",
        pre_filters=only,
        filters=only,
        scores=(Weighted(plugin, 1),),
        reserves=only,
        permits=only,
        pre_binds=only,
        binds=only,
    )
    bench = Scheduled(fleet_of("a"), scheduler_of(profile))
    bench.scheduler.put(workload("w"), now=NOW)
    rest = bench.step()
    while rest and isinstance(run := rest[0], RunPreBind | RunBind):
        answer = plugin.at("PreBind" if isinstance(run, RunPreBind) else "Bind")
        rest = [*bench.scheduler.finished(run.key, run.token, answer, now=NOW)]
    return bench


TABLE = """
                               PreFilter  Filter   PreScore  Reserve  Permit   PreBind  Bind
Success                        bound      bound    bound     bound    bound    bound    bound
Warning                        bound      bound    bound     bound    bound    bound    bound
Skip                           bound      bound    bound     retried  retried  bound    retried
Wait                           retried    retried  retried   retried  permit   retried  retried
Unschedulable                  waits      waits    retried   waits    waits    retried  retried
UnschedulableAndUnresolvable   waits      waits    retried   waits    waits    retried  retried
Pending                        retried    waits    retried   waits    waits    retried  retried
Misconfigured                  waits      waits    waits     waits    waits    retried  retried
Error                          retried    retried  retried   retried  retried  retried  retried
"""
STATES = {
    "bound": None,
    "waits": State.UNSCHEDULABLE,
    "retried": State.ERROR_BACKOFF,
    "permit": State.IN_FLIGHT,
}
POINTS, *ROWS = (line.split() for line in TABLE.strip().splitlines())
CASES = [
    pytest.param(point, Code(code), effect, id=f"{code} from {point}")
    for code, *effects in ROWS
    for point, effect in zip(POINTS, effects, strict=True)
]


@pytest.mark.parametrize(("point", "code", "effect"), CASES)
def test_status_code_decides_where_the_workload_waits(point: str, code: Code, effect: str) -> None:
    bench = after(point, code)
    assert bench.state("w") is STATES[effect]
    if effect == "waits":
        (reason,) = bench.reasons("w")
        assert reason.startswith("Answers: "), "the plugin is blamed"
    elif effect == "retried":
        explanation = bench.scheduler.queue.explain(workload("w").key)
        assert explanation is not None
        assert explanation.wakes == (), "no plugin is blamed: it is retried after its back-off"


@pytest.mark.parametrize("point", ["Filter", "Reserve", "Permit"])
def test_event_for_a_pending_plugin_skips_the_back_off(point: str) -> None:
    for code, expected in ((Code.PENDING, State.ACTIVE), (Code.UNSCHEDULABLE, State.BACKOFF)):
        bench = after(point, code)
        bench.scheduler.on_event(Event(label="image pulled"), now=NOW)
        assert bench.state("w") is expected


def test_every_status_code_is_in_the_table() -> None:
    assert {Code(code) for code, *_ in ROWS} == set(Code)
