"""NamesFree: rejects clusters on which another request creates an object of the same name."""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.engine.workload import WorkloadKey
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.columns import RESIDENTS
from fairway.workloads.hosting.fleet.residents import HostResidents, ObjectName, namespace_of
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.resources import HOSTED
from fairway.workloads.hosting.workload import objects_of

NAME: Final = "NamesFree"
TAKEN: Final = "its {kind} {name} belongs to request {request}"


class NamesFree(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        taken = _find_taken(hosting_of(context.snapshot).residents_at(row), _names_in(context))
        if taken is None:
            return OK
        (kind, namespace, name), owner = taken
        words = TAKEN.format(kind=kind, name=f"{namespace}/{name}".lstrip("/"), request=owner)
        return unschedulable(words, plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot, rows = hosting_of(context.snapshot), bitmap.rows_of(candidates)
        known, taken = snapshot.residents_in(rows), set[int]()
        for namespace, names in groupby(sorted(_names_in(context), key=_namespace), key=_namespace):
            # Most hosts have nothing in a namespace of the request.
            shared = [(at, host.sources) for at, host in enumerate(known) if namespace in host.owners]
            for name, source in names if shared else ():
                taken.update([at for at, sources in shared if sources.get(name, source) != source])
        if not taken:
            return OK, candidates
        return OK, candidates & ~bitmap.from_rows(rows[sorted(taken)], snapshot.capacity)

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(HOSTED): Direction.UP}
        return Reads(cells=frozenset({RESIDENTS, *helps}), helps=helps)


def _names_in(context: Context) -> list[tuple[ObjectName, str]]:
    """Return names and sources of what the request creates."""
    spec = spec_in(context, NAME)
    created = sorted(objects_of(spec.request, spec.namespace))
    return [((kind, namespace, name), source) for kind, namespace, name, source in created]


def _namespace(named: tuple[ObjectName, str]) -> str:
    return namespace_of(named[0])


def _find_taken(
    residents: HostResidents, names: Iterable[tuple[ObjectName, str]]
) -> tuple[ObjectName, WorkloadKey] | None:
    """Return the first object that another request creates on a host, and that request."""
    for name, source in names:
        owner = residents.owner_of(name, source=source)
        if owner is not None:
            return name, owner
    return None
