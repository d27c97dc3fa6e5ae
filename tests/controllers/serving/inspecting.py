"""An inspector as small as can be: a fleet in memory, and placements that are only there."""

from collections.abc import Iterable
from typing import Any

from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload, default_profile

NOW = 1_772_366_400_000_000


class Fleet:
    """``seen`` are the placements to schedule. ``fault`` is raised once by the next call."""

    def __init__(self, objects: Iterable[object] = ()) -> None:
        self.world = World(objects)
        self.seen: list[Placement] = []
        self.fault: Exception | None = None

    def find(self, namespace: str, name: str) -> Placement | None:
        self._fail()
        return self.world.placements.get((namespace, name))

    def describe_queue(self, namespace: str, name: str) -> dict[str, Any] | None:
        return {"state": "settled"} if self.find(namespace, name) is not None else None

    async def inspect(self, placement: Placement) -> Outcome:
        return self.outcome(placement)

    def outcome(self, placement: Placement) -> Outcome:
        self.seen.append(placement)
        self._fail()
        workload = PlacementWorkload(placement)
        return cycle.run(self.world.fleet.snapshot(), workload, default_profile(), now=NOW)

    def _fail(self) -> None:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
