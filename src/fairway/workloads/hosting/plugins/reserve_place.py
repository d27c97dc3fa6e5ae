"""ReservePlace: makes a request a resident of the host that was selected for it, before its status is written.

The filters of the next cycle, which may run before the first write of this one, read the same residents and the same
ledger.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fairway.engine.ledger import InsufficientCapacity, LedgerError
from fairway.engine.points import CommitContext, Reads
from fairway.engine.status import OK, Status, failed, unschedulable
from fairway.engine.workload import ResourceList
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.plugins.row import workload_in
from fairway.workloads.hosting.plugins.tenant_quota import column_of

if TYPE_CHECKING:
    from fairway.workloads.hosting.state import HostingState

NAME: Final = "ReservePlace"


class ReservePlace:
    name = NAME

    def __init__(self, *, state: "HostingState") -> None:
        self._state = state

    def reserve(self, context: CommitContext, /) -> Status:
        (host,) = context.hosts
        try:
            self._state.reserve(workload_in(context, NAME), host)
        except InsufficientCapacity as refused:
            return unschedulable(str(refused), plugin=NAME)
        except LedgerError as error:
            return failed(str(error), plugin=NAME)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        self._state.unreserve(context.workload.key)

    def releases(self, context: CommitContext, /) -> Mapping[Key, Direction]:
        freed = column_of(workload_in(context, NAME).spec)
        return {**_columns_of(context.workload.demand), freed: Direction.UP}

    def commit_reads(self, context: CommitContext, /) -> Reads:
        columns = _columns_of(context.workload.demand)
        return Reads(cells=frozenset(columns), helps=columns)


def _columns_of(demand: ResourceList) -> dict[Key, Direction]:
    return {grantable(resource): Direction.UP for resource in demand}
