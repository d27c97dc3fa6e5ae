"""CapacityKnown: rejects clusters whose load is unknown, so that silence is never taken for an empty host."""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.columns import KNOWN
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.fleet.telemetry import HOSTING_CLAIM, Unknown
from fairway.workloads.hosting.resources import HOSTED

NAME = "CapacityKnown"
NOT_READ = "is not known as a hosting cluster yet"


class CapacityKnown(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        snapshot = hosting_of(context.snapshot)
        if snapshot.counts(KNOWN).values[row]:
            return OK
        facts = snapshot.facts.get(snapshot.hosts.names[row])
        if facts is None or not isinstance(facts.capacity, Unknown):
            return unschedulable(NOT_READ, plugin=NAME)
        return unschedulable(facts.capacity.reason, plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot = context.snapshot
        rows = bitmap.rows_of(candidates)
        known = snapshot.counts(KNOWN).values[rows] > 0
        return OK, candidates if known.all() else bitmap.from_rows(rows[known], snapshot.capacity)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({KNOWN, grantable(HOSTED), cells.claim(HOSTING_CLAIM)}))
