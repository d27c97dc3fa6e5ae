"""Room: rejects clusters on which the ledger cannot grant what the hosted cluster needs."""

from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Code, Status
from fairway.fleet.direction import Direction
from fairway.fleet.resources import grantable
from fairway.hosting.placement_promises import describe_promises
from fairway.hosting.plugins.row import cluster_at, workload_in
from fairway.hosting.resources import DIMENSIONS, HOSTED, MILLI, SLOTS, UNLIMITED, shown
from fairway.hosting.state import HostingState, host_key

NAME: Final = "Room"
NO_NUMBER: Final = "has {used} hosted clusters with reservations, and takes at most {most}"
NO_SLOT: Final = "has no free slot of size {size}"
NO_SLOTS: Final = "has room for {left} small hosted clusters, and the request needs room for {asked}"
TOO_LITTLE: Final = "has {left} {resource} left, and the request needs {asked}"


class Room(Timeless):
    name = NAME

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def filter(self, context: Context, row: int, /) -> Status:
        short = self.shortages(context, row)
        if not short:
            return OK
        facts = self._state.facts.get(cluster_at(context, row).metadata.name)
        promised = describe_promises(facts.promised) if facts is not None else ""
        reasons = (*short.values(), promised) if promised else tuple(short.values())
        return Status(Code.UNSCHEDULABLE, reasons, plugin=NAME)

    def shortages(self, context: Context, row: int) -> dict[str, str]:
        """Return what is short, in words, by dimension."""
        state, workload = self._state, workload_in(context, NAME)
        host = host_key(cluster_at(context, row))
        asked = state.amounts_on(workload, host)
        left = state.free(host)
        account = state.account(host)
        found: dict[str, str] = {}
        for each in DIMENSIONS:
            wanted, free = asked.get(each, 0), max(0, left.get(each, 0))
            if wanted <= free:
                continue
            if each == HOSTED:
                most = (account.capacity or {}).get(HOSTED, 0)
                used = account.used.get(HOSTED, 0)
                found[each] = NO_NUMBER.format(used=used // MILLI, most=most // MILLI)
            elif each == SLOTS and wanted == UNLIMITED:
                found[each] = NO_SLOT.format(size=workload.spec.need.size)
            elif each == SLOTS:
                found[each] = NO_SLOTS.format(left=shown(each, free), asked=shown(each, wanted))
            else:
                found[each] = TOO_LITTLE.format(
                    resource=each, left=shown(each, free), asked=shown(each, wanted)
                )
        return found

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(each): Direction.UP for each in DIMENSIONS}
        return Reads(cells=frozenset(helps), helps=helps)
