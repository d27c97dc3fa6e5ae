"""Selection: rejects clusters that do not meet the request's Placement, or its own selector and tolerations."""

from collections.abc import Iterator
from dataclasses import replace

from fairway.engine.points import Context, Reader, Reads
from fairway.engine.status import OK, Status
from fairway.fleet.bitmap import Rows
from fairway.fleet.instant import Micros
from fairway.hosting.plugins.row import spec_in
from fairway.plugins.clustersets import ClusterSets
from fairway.plugins.predicate import Predicate
from fairway.plugins.taints import TaintToleration

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
        for each in self._filters:
            status = each.filter(inner, row)
            if status is not OK:
                return status
        return OK

    def reads(self, context: Context, /) -> Reads:
        inner = self._inner(context)
        found = [each.reads(inner) for each in self._readers(context)]
        return Reads(
            cells=frozenset().union(*(each.cells for each in found)),
            shared=frozenset().union(*(each.shared for each in found)),
            anything=any(each.anything for each in found),
        )

    def basis(self, context: Context, /) -> object:
        inner = self._inner(context)
        return tuple(each.basis(inner) for each in self._readers(context))

    def until(self, context: Context, rows: Rows, /) -> Micros:
        inner = self._inner(context)
        return min(each.until(inner, rows) for each in self._readers(context))

    def _readers(self, context: Context) -> Iterator[Reader]:
        if spec_in(context, NAME).in_sets:
            yield self._sets
        yield from self._filters

    def _inner(self, context: Context) -> Context:
        """Return the context of the request's Placement."""
        selection = spec_in(context, NAME).selection
        assert selection is not None
        return replace(context, workload=selection)
