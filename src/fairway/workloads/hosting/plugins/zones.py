"""Zones: rejects clusters with fewer zones than the request wants."""

from collections.abc import Hashable
from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.workloads.hosting.plugins.row import rows_with, spec_in, value_at

NAME: Final = "Zones"
ZONES_CLAIM: Final = "zones.fairway.dev"
_CLAIM: Final = cells.claim(ZONES_CLAIM)
TOO_FEW: Final = "has {found} zones, and the request wants {wanted}"
UNKNOWN: Final = f"has no claim {ZONES_CLAIM}, and the request wants {{wanted}} zones"


class Zones(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = spec_in(context, NAME).request.spec.constraints.minZones
        if not wanted:
            return OK
        zones = _zones(value_at(context, _CLAIM, row))
        if zones is None:
            return unschedulable(UNKNOWN.format(wanted=wanted), plugin=NAME)
        if zones >= wanted:
            return OK
        return unschedulable(TOO_FEW.format(found=zones, wanted=wanted), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        wanted = spec_in(context, NAME).request.spec.constraints.minZones
        if not wanted:
            return OK, candidates

        def is_enough(text: Hashable | None) -> bool:
            zones = _zones(text)
            return zones is not None and zones >= wanted

        return OK, rows_with(context, _CLAIM, candidates, is_enough)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({_CLAIM}))


def _zones(text: Hashable | None) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= 9 else None
