"""NamesFree: rejects clusters on which another request creates an object of the same name."""

from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.fleet.direction import Direction
from fairway.fleet.resources import grantable
from fairway.hosting.plugins.row import cluster_at, spec_in
from fairway.hosting.resources import HOSTED
from fairway.hosting.state import HostingState, host_key
from fairway.hosting.workload import objects_of

NAME: Final = "NamesFree"
TAKEN: Final = "its {kind} {namespace}/{name} belongs to request {request}"


class NamesFree(Timeless):
    name = NAME

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = {each[:3]: each[3] for each in objects_of(spec_in(context, NAME).request)}
        for resident in self._state.on(host_key(cluster_at(context, row))):
            for kind, namespace, name, source in resident.objects:
                if wanted.get((kind, namespace, name), source) != source:
                    words = TAKEN.format(kind=kind, namespace=namespace, name=name, request=resident.key)
                    return unschedulable(words, plugin=NAME)
        return OK

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(HOSTED): Direction.UP}
        return Reads(cells=frozenset(helps), helps=helps)
