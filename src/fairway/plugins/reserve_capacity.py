"""ReserveCapacity: books the demand of a workload in the ledger, on every host that was selected for it.

``ResourcesFit(ledger=...)`` decides by the same ledger, so that no host passes the filters and is refused here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairway.engine.ledger import Entry, InsufficientCapacity, Ledger, LedgerError
from fairway.engine.points import CommitContext, Reads
from fairway.engine.status import OK, Status, failed, unschedulable
from fairway.engine.workload import HostKey, ResourceList, Workload
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction
from fairway.fleet.resources import grantable

NAME = "ReserveCapacity"


def columns_of(demand: ResourceList) -> dict[Key, Direction]:
    return {grantable(resource): Direction.UP for resource in demand}


class ReserveCapacity:
    """``amounts`` returns what a workload takes on a host, where that is not its demand everywhere.

    ``persist`` gets the entries of each transaction, for a caller that persists them before Bind runs.
    """

    name = NAME

    def __init__(
        self,
        *,
        ledger: Ledger,
        amounts: Callable[[Workload[Any], HostKey], ResourceList] | None = None,
        persist: Callable[[Sequence[Entry]], None] = lambda _entries: None,
    ) -> None:
        self._ledger = ledger
        self._amounts = amounts or (lambda workload, _: workload.demand)
        self._persist = persist
        self._epoch = ledger.epoch
        """The term in which this plugin was made: it cannot write in a later one."""

    def reserve(self, context: CommitContext, /) -> Status:
        workload = context.workload
        try:
            with self._ledger.transaction(epoch=self._epoch) as transaction:
                for host in context.hosts:
                    transaction.reserve(host, workload.key, self._amounts(workload, host))
        except InsufficientCapacity as refused:
            return unschedulable(str(refused), plugin=self.name)
        except LedgerError as error:
            return failed(str(error), plugin=self.name)
        self._persist(transaction.entries)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        if self._epoch != self._ledger.epoch:
            return  # the next leader rebuilds the ledger from what was persisted
        with self._ledger.transaction(epoch=self._epoch) as transaction:
            for host in context.hosts:
                if self._ledger.account(host) is not None:
                    transaction.release(host, context.workload.key)
        self._persist(transaction.entries)

    def releases(self, context: CommitContext, /) -> Mapping[Key, Direction]:
        return columns_of(context.workload.demand)

    def commit_reads(self, context: CommitContext, /) -> Reads:
        columns = columns_of(context.workload.demand)
        return Reads(cells=frozenset(columns), helps=columns)
