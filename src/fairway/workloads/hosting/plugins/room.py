"""Room: rejects clusters on which the ledger cannot grant what the hosted cluster needs."""

from typing import Final

import numpy as np

from fairway.api.amount_display import display_shortage
from fairway.engine.points import Context, Reads, Scores, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.columns import USED, offered, slot_share
from fairway.workloads.hosting.fleet.placement_promises import describe_promises
from fairway.workloads.hosting.fleet.snapshot import HostingSnapshot, hosting_of
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.requests.demand import Demand
from fairway.workloads.hosting.resources import DIMENSIONS, HOSTED, MILLI, SLOTS

NAME: Final = "Room"
NO_NUMBER: Final = "has {used} hosted clusters with reservations, and takes at most {most}"
NO_SLOT: Final = "has no free slot of size {size}"
ALL_TAKEN: Final = (
    "has no free slot of size {size} left: it published {count}, and reservations since then take them"
)
NO_SLOTS: Final = "has room for {left} small hosted clusters, and the request needs room for {asked}"
TOO_SMALL: Final = "offers {most} {resource} in all, and the request needs {asked}"
TOO_LITTLE: Final = "has {left} {resource} left, and the request needs {asked}"


class Room(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        snapshot = hosting_of(context.snapshot)
        short = shortages(snapshot, spec_in(context, NAME).need, row)
        if not short:
            return OK
        facts = snapshot.facts.get(snapshot.hosts.names[row])
        promised = describe_promises(facts.promised) if facts is not None else ""
        reasons = (*short.values(), promised) if promised else tuple(short.values())
        return Status(Code.UNSCHEDULABLE, reasons, plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot, need = hosting_of(context.snapshot), spec_in(context, NAME).need
        rows = bitmap.rows_of(candidates)
        fits = np.ones(len(rows), dtype=np.bool_)
        for resource in DIMENSIONS:
            wanted = asked(snapshot, need, resource, rows)
            fits &= (wanted <= 0) | (wanted <= snapshot.counts(grantable(resource)).values[rows])
            fits &= wanted <= snapshot.counts(offered(resource)).values[rows]
        return OK, candidates if fits.all() else bitmap.from_rows(rows[fits], snapshot.capacity)

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(resource): Direction.UP for resource in DIMENSIONS}
        return Reads(cells=frozenset({*helps, *map(offered, DIMENSIONS)}), helps=helps)


def asked(snapshot: HostingSnapshot, need: Demand, resource: str, rows: Rows) -> Scores:
    """Return what a hosted cluster takes on each host, as ``Capacity.amounts_for`` does for one."""
    amounts = np.full(len(rows), need.amounts.get(resource, 0), dtype=np.int64)
    if resource == SLOTS and need.slots_score is not None:
        shares = snapshot.counts(slot_share(need.slots_score)).values[rows]
        return np.maximum(amounts, shares)
    return amounts


def shortages(snapshot: HostingSnapshot, need: Demand, row: int) -> dict[str, str]:
    """Return what is short on a host, in words, by dimension."""
    short: dict[str, str] = {}
    at = np.array([row], dtype=np.int64)
    facts = snapshot.facts.get(snapshot.hosts.names[row])
    capacity = None if facts is None else facts.capacity
    for resource in DIMENSIONS:
        wanted = asked(snapshot, need, resource, at).item()
        free = max(0, snapshot.counts(grantable(resource)).values[row].item())
        offer = snapshot.counts(offered(resource)).values[row].item()
        if wanted <= free:
            if wanted > offer:
                # The capacity model does not limit this dimension, and the nodes do.
                most, amount = display_shortage(resource, offer, wanted)
                short[resource] = TOO_SMALL.format(resource=resource, most=most, asked=amount)
        elif resource == HOSTED:
            most_hosted = capacity.amounts.get(HOSTED, 0) if isinstance(capacity, Capacity) else 0
            used = snapshot.counts(USED).values[row].item()
            short[resource] = NO_NUMBER.format(used=used // MILLI, most=most_hosted // MILLI)
        elif resource == SLOTS and isinstance(capacity, Capacity) and capacity.slot_share(need.slots_score):
            # Of a size that has slots of its own: in slots of size small, a small one would need another number than 1.
            published = capacity.slots[need.slots_score or ""]
            words = ALL_TAKEN if published else NO_SLOT
            short[resource] = words.format(size=need.size, count=published)
        else:
            left, amount = display_shortage(resource, free, wanted)
            words = NO_SLOTS if resource == SLOTS else TOO_LITTLE
            short[resource] = words.format(resource=resource, left=left, asked=amount)
    return short
