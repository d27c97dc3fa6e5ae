"""AddOnHealthy: rejects clusters whose hypershift add-on reports that it is not available."""

from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at
from fairway.hosting.telemetry import ADD_ON_AVAILABLE, ADD_ON_LABEL

NAME = "AddOnHealthy"
UNHEALTHY = "its hypershift add-on is {state}"


class AddOnHealthy(Timeless):
    """A cluster without the add-on passes: HyperShift may be installed in another way."""

    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        state = cluster_at(context, row).metadata.labels.get(ADD_ON_LABEL, ADD_ON_AVAILABLE)
        return OK if state == ADD_ON_AVAILABLE else unschedulable(UNHEALTHY.format(state=state), plugin=NAME)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.label(ADD_ON_LABEL)}))
