"""Zones: rejects clusters with fewer zones than the request wants."""

from typing import Final

from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at, spec_in

NAME: Final = "Zones"
ZONES_CLAIM: Final = "zones.fairway.dev"
TOO_FEW: Final = "has {found} zones, and the request wants {wanted}"
UNKNOWN: Final = f"has no claim {ZONES_CLAIM}, and the request wants {{wanted}} zones"


class Zones(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = spec_in(context, NAME).request.spec.constraints.minZones
        if not wanted:
            return OK
        text = cells.claims_of(cluster_at(context, row)).get(ZONES_CLAIM, "")
        if not text.isdecimal() or len(text) > 9:
            return unschedulable(UNKNOWN.format(wanted=wanted), plugin=NAME)
        if int(text) >= wanted:
            return OK
        return unschedulable(TOO_FEW.format(found=int(text), wanted=wanted), plugin=NAME)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.claim(ZONES_CLAIM)}))
