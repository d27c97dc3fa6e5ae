"""NamesFree: rejects clusters on which another request creates an object of the same name."""

from collections.abc import Iterable
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
        names, snapshot = _names_in(context), hosting_of(context.snapshot)
        wanted: dict[str, set[ObjectName]] = {}
        for name, _ in names:
            wanted.setdefault(namespace_of(name), set()).add(name)
        taken = []
        for row in bitmap.rows_of(candidates).tolist():
            residents = snapshot.residents_at(row)
            exist = {
                name
                for namespace, created in wanted.items()
                for name in residents.owners.get(namespace, {}).keys() & created
            }
            if exist and _find_taken(residents, [pair for pair in names if pair[0] in exist]) is not None:
                taken.append(row)
        if not taken:
            return OK, candidates
        return OK, candidates & ~bitmap.from_rows(taken, snapshot.capacity)

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(HOSTED): Direction.UP}
        return Reads(cells=frozenset({RESIDENTS, *helps}), helps=helps)


def _names_in(context: Context) -> list[tuple[ObjectName, str]]:
    """Return names and sources of what the request creates."""
    spec = spec_in(context, NAME)
    created = sorted(objects_of(spec.request, spec.namespace))
    return [((kind, namespace, name), source) for kind, namespace, name, source in created]


def _find_taken(
    residents: HostResidents, names: Iterable[tuple[ObjectName, str]]
) -> tuple[ObjectName, WorkloadKey] | None:
    """Return the first object that another request creates on a host, and that request."""
    for name, source in names:
        owner = residents.owner_of(name, source=source)
        if owner is not None:
            return name, owner
    return None
