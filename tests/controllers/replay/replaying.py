"""One scenario, from its objects on the hub to what the controller and ``fairway conformance`` make of every step."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from controllers.replay.answers import TICK, Answer, computed, keys, observed
from controllers.replay.hub_state import KINDS, Document, HubState
from controllers.replay.live import Live
from controllers.replay.scenarios import Scenario
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.hosts.instant import to_micros
from fairway.whatif.conformance import placement
from fairway.whatif.conformance.differences import differences


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    place: str
    """Scenario, number of the step, placement."""
    wanted: Answer
    got: Answer
    late: bool
    """Whether the answer is another one before the controller would look again."""

    def faults(self) -> list[str]:
        wrong = [
            f"{self.place}: {difference.path} should be {difference.expected}, is {difference.got}"
            for difference in differences(self.wanted, self.got)
        ]
        return [*wrong, f"{self.place}: looks again too late"] if self.late else wrong


async def replay(scenario: Scenario, *, hub_state: HubState, live: Live) -> AsyncIterator[Step]:
    """Raises Refused."""
    stored = await hub_state.set_up(scenario.objects)
    _means_the_same(scenario, stored)
    for kind, resource in KINDS.items():
        await live.knows(resource, [document for document in stored if document["kind"] == kind])
    now, schedule = datetime.fromisoformat(scenario.row["now"]), scenario.row["schedule"]
    wanted = computed(stored, schedule=schedule, now=now)
    for number, (key, (answer, due)) in enumerate(zip(keys(schedule), wanted, strict=True)):
        delays = await live.decide(key, now=now)
        again = min(delays, default=float("inf"))
        yield Step(
            place=f"{scenario.name} step {number} {'/'.join(key)}",
            wanted=answer,
            got=observed(
                key,
                placements=await hub_state.all_of(PLACEMENTS),
                decisions=await hub_state.all_of(PLACEMENT_DECISIONS),
                events=await hub_state.new_events(),
            ),
            late=due is not None and again * 1_000_000 > due - to_micros(now) + 2 * TICK,
        )


def _means_the_same(scenario: Scenario, stored: list[Document]) -> None:
    """What the hub added by itself, such as defaults, must not make another scenario of it."""
    (result,) = placement.run([{**scenario.row, "objects": stored}])
    assert result.differences == (), scenario.name
