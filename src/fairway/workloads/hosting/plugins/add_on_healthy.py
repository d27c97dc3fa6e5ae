"""AddOnHealthy: rejects clusters whose hypershift add-on reports that it is not available."""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.workloads.hosting.fleet.columns import UNHEALTHY
from fairway.workloads.hosting.fleet.facts import add_on_state
from fairway.workloads.hosting.fleet.telemetry import ADD_ON_LABEL
from fairway.workloads.hosting.plugins.row import cluster_at, rows_without

NAME = "AddOnHealthy"


class AddOnHealthy(Timeless):
    """A cluster without the add-on passes: HyperShift may be installed in another way."""

    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        if not context.snapshot.counts(UNHEALTHY).values[row]:
            return OK
        state = add_on_state(cluster_at(context, row))
        return unschedulable(f"its hypershift add-on is {state}", plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, rows_without(context, UNHEALTHY, candidates)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({UNHEALTHY, cells.label(ADD_ON_LABEL)}))
