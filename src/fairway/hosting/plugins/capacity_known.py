"""CapacityKnown: rejects clusters whose load is unknown, so that silence is never taken for an empty host."""

from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.fleet.resources import grantable
from fairway.hosting.plugins.row import cluster_at
from fairway.hosting.resources import HOSTED
from fairway.hosting.state import HostingState
from fairway.hosting.telemetry import HOSTING_CLAIM, Unknown

NAME = "CapacityKnown"
NOT_READ = "is not known as a hosting cluster yet"


class CapacityKnown(Timeless):
    name = NAME

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def filter(self, context: Context, row: int, /) -> Status:
        facts = self._state.facts.get(cluster_at(context, row).metadata.name)
        if facts is None:
            return unschedulable(NOT_READ, plugin=NAME)
        if isinstance(facts.capacity, Unknown):
            return unschedulable(facts.capacity.reason, plugin=NAME)
        return OK

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({grantable(HOSTED), cells.claim(HOSTING_CLAIM)}))
