"""Selection: rejects clusters that do not meet the request's Placement, or its own selector and tolerations."""

from collections.abc import Iterator
from dataclasses import replace

from fairway.engine.points import Context, Reader, Reads
from fairway.engine.status import OK, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.placement.plugins.clustersets import ClusterSets
from fairway.workloads.placement.plugins.predicate import Predicate
from fairway.workloads.placement.plugins.taints import TaintToleration

NAME = "Selection"


class Selection:
    """The reasons are those of the plugins that Placements use."""

    name = NAME

    def __init__(self) -> None:
        self._sets = ClusterSets()
        self._filters = (Predicate(), TaintToleration())

    def filter(self, context: Context, row: int, /) -> Status:
        inner = self._inner(context)
        if spec_in(context, NAME).in_sets and (status := self._sets.admits(inner, row)) is not OK:
            return status
        for plugin in self._filters:
            status = plugin.filter(inner, row)
            if status is not OK:
                return status
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        """All hosts share one limit on the work of expressions: each cycle runs on the event loop as a whole."""
        inner = self._inner(context)
        passed = candidates
        if spec_in(context, NAME).in_sets:
            admitted: list[int] = []
            for row in bitmap.rows_of(candidates).tolist():
                status = self._sets.admits(inner, row)
                if status.aborts:
                    return status, candidates
                if not status.rejects:
                    admitted.append(row)
            passed = bitmap.from_rows(admitted, context.snapshot.capacity)
        for plugin in self._filters:
            status, passed = plugin.filter_fleet(inner, passed)
            if status.aborts:
                return status, candidates
        return OK, passed

    def reads(self, context: Context, /) -> Reads:
        inner = self._inner(context)
        read = [reader.reads(inner) for reader in self._readers(context)]
        return Reads(
            cells=frozenset().union(*(reads.cells for reads in read)),
            shared=frozenset().union(*(reads.shared for reads in read)),
            anything=any(reads.anything for reads in read),
        )

    def basis(self, context: Context, /) -> object:
        inner = self._inner(context)
        return tuple(reader.basis(inner) for reader in self._readers(context))

    def until(self, context: Context, rows: Rows, /) -> Micros:
        inner = self._inner(context)
        return min(reader.until(inner, rows) for reader in self._readers(context))

    def _readers(self, context: Context) -> Iterator[Reader]:
        if spec_in(context, NAME).in_sets:
            yield self._sets
        yield from self._filters

    def _inner(self, context: Context) -> Context:
        """Return the context of the request's Placement."""
        selection = spec_in(context, NAME).selection
        assert selection is not None
        return replace(context, workload=selection)
