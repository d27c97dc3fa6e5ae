"""The account of one host: immutable, so that transactions and speculative copies share what they do not change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from fairway.engine.ledger.refusal import SOURCE_TOO_SMALL, InsufficientCapacity, LedgerError, Shortage
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey, checked_resources
from fairway.fleet.instant import Micros

UNATTRIBUTED = "use that no workload accounts for"
_NOTHING: ResourceList = checked_resources({})


class Recorded(Enum):
    """Where a promise survives a crash."""

    OBJECT = "object"
    """In the status of the object that it is for."""
    JOURNAL = "journal"
    """In the journal, because it has no object."""


@dataclass(frozen=True, slots=True)
class Reservation:
    amounts: ResourceList
    recorded: Recorded = Recorded.OBJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Earmark:
    """Room for one beneficiary."""

    id: str
    beneficiary: WorkloadKey
    amounts: ResourceList
    source: WorkloadKey | None = None
    """The workload whose room it is, until that leaves; None for room that was free."""
    deadline: Micros | None = None
    freed: bool = False
    """Whether the source left, so that the room is kept from others."""
    recorded: Recorded = Recorded.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccount:
    host: HostKey
    capacity: ResourceList | None = None
    """None if it is unknown: nothing is granted."""
    observed: Mapping[WorkloadKey, ResourceList] = field(default_factory=dict)
    unattributed: ResourceList = field(default_factory=dict)
    """Observed use that no workload accounts for."""
    reservations: Mapping[WorkloadKey, Reservation] = field(default_factory=dict)
    earmarks: Mapping[str, Earmark] = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)
    """Sum of all holdings and the unattributed use."""

    def holding(self, who: WorkloadKey) -> ResourceList:
        """Return what a workload has here: the larger of reservation and observed use, per resource."""
        observed = self.observed.get(who, _NOTHING)
        reservation = self.reservations.get(who)
        if reservation is None:
            return observed
        return reservation.amounts if not observed else _larger(observed, reservation.amounts)

    def holds(self, who: WorkloadKey) -> bool:
        return who in self.observed or who in self.reservations

    def kept(self, who: WorkloadKey) -> Iterator[Earmark]:
        """Yield the earmarks whose room is kept from a workload."""
        return (each for each in self.earmarks.values() if each.freed and each.beneficiary != who)

    def grantable(self, who: WorkloadKey) -> dict[str, int]:
        """Return how much more a workload may have of each resource, its own earmarks included."""
        own = self.kept_room(who) if self.earmarks else _NOTHING
        return {resource: max(0, left + own.get(resource, 0)) for resource, left in self.free().items()}

    def shortages(self, who: WorkloadKey, growth: ResourceList) -> tuple[Shortage, ...]:
        """Return what is in the way of granting a workload so much more; nothing if it is grantable."""
        grantable = self.grantable(who)
        short = [each for each, asked in growth.items() if asked > grantable.get(each, 0)]
        return tuple(self._shortage(who, each, growth[each], grantable) for each in short)

    def free(self) -> dict[str, int]:
        """Return what is left for a workload without earmarks; below 0 where more is used than there is."""
        if self.capacity is None:
            return {}
        kept = self.kept_room() if self.earmarks else _NOTHING
        return {
            resource: amount - self.used.get(resource, 0) - kept.get(resource, 0)
            for resource, amount in self.capacity.items()
        }

    def kept_room(self, who: WorkloadKey | None = None) -> dict[str, int]:
        """Return the room that is kept for a workload, or for all."""
        room: dict[str, int] = {}
        for each in self.earmarks.values():
            if each.freed and who in (None, each.beneficiary):
                for resource, amount in each.amounts.items():
                    room[resource] = room.get(resource, 0) + amount
        return room

    def set_capacity(self, capacity: ResourceList | None) -> "HostAccount":
        return replace(self, capacity=None if capacity is None else checked_resources(capacity))

    def observe(self, who: WorkloadKey, amounts: ResourceList | None) -> "HostAccount":
        """Set the observed use of a workload; None when it was deleted."""
        known = self.observed.get(who)
        if amounts is None:
            return self if known is None else self._observing(who, None)
        checked = checked_resources(amounts)
        return self if known == checked else self._observing(who, checked)

    def _observing(self, who: WorkloadKey, amounts: ResourceList | None) -> "HostAccount":
        observed = dict(self.observed)
        if amounts is None:
            del observed[who]
        else:
            observed[who] = amounts
        return self._changed(who, replace(self, observed=observed))

    @staticmethod
    def begin(
        host: HostKey, capacity: ResourceList | None, observed: Mapping[WorkloadKey, ResourceList]
    ) -> "HostAccount":
        """Return an account with the observed use of all its workloads."""
        uses = {who: checked_resources(amounts) for who, amounts in observed.items()}
        used: dict[str, int] = {}
        for amounts in uses.values():
            for resource, amount in amounts.items():
                used[resource] = used.get(resource, 0) + amount
        return HostAccount(host=host, observed=uses, used=used).set_capacity(capacity)

    def observe_unattributed(self, amounts: ResourceList) -> "HostAccount":
        amounts = checked_resources(amounts)
        used = _exchanged(self.used, self.unattributed, amounts)
        return replace(self, unattributed=amounts, used=used)

    def reserve(self, who: WorkloadKey, amounts: ResourceList, recorded: Recorded) -> "HostAccount":
        """Set a workload's reservation. Growth must be grantable; it uses up the workload's own earmarks first."""
        amounts = checked_resources(amounts)
        held = self.holding(who)
        growth = {
            resource: amount - held.get(resource, 0)
            for resource, amount in amounts.items()
            if amount > held.get(resource, 0)
        }
        if growth and (shortages := self.shortages(who, growth)):
            raise InsufficientCapacity(self.host, who, shortages)
        old = self.reservations.get(who)
        reservation = Reservation(amounts, recorded if old is None else old.recorded)
        return self.restore(who, reservation)._consumed(who, growth)

    def restore(self, who: WorkloadKey, reservation: Reservation) -> "HostAccount":
        """Set a reservation that was granted before, without a check."""
        return self._changed(who, replace(self, reservations={**self.reservations, who: reservation}))

    def release(self, who: WorkloadKey) -> "HostAccount":
        """Drop a workload's reservation. Its observed use remains until its deletion is observed."""
        if who not in self.reservations:
            return self
        reservations = {each: value for each, value in self.reservations.items() if each != who}
        return self._changed(who, replace(self, reservations=reservations))

    def add_earmark(self, earmark: Earmark) -> "HostAccount":
        """Add an earmark, or replace the one with its id."""
        base = self.close(earmark.id)
        amounts = checked_resources(earmark.amounts)
        if earmark.source is None:
            grantable = base.grantable(earmark.beneficiary)
            # Room of the beneficiary's other earmarks is promised already.
            for other in base.earmarks.values():
                if other.freed and other.beneficiary == earmark.beneficiary:
                    grantable = {key: left - other.amounts.get(key, 0) for key, left in grantable.items()}
            short = [each for each, asked in amounts.items() if asked > grantable.get(each, 0)]
            if short:
                shortages = (
                    base._shortage(earmark.beneficiary, each, amounts[each], grantable) for each in short
                )
                raise InsufficientCapacity(self.host, earmark.beneficiary, shortages)
        else:
            base._check_source(earmark.source, amounts)
        recorded = self.earmarks.get(earmark.id, earmark).recorded
        added = replace(earmark, amounts=amounts, freed=earmark.source is None, recorded=recorded)
        return base.restore_earmark(added)

    def restore_earmark(self, earmark: Earmark) -> "HostAccount":
        return replace(self, earmarks={**self.earmarks, earmark.id: earmark})

    def close(self, earmark_id: str) -> "HostAccount":
        if earmark_id not in self.earmarks:
            return self
        return replace(self, earmarks={key: each for key, each in self.earmarks.items() if key != earmark_id})

    def _check_source(self, source: WorkloadKey, amounts: ResourceList) -> None:
        held = self.holding(source)
        asked = dict(amounts)
        for each in self.earmarks.values():
            if each.source == source and not each.freed:
                asked = {key: amount + each.amounts.get(key, 0) for key, amount in asked.items()}
        for resource, amount in asked.items():
            if amount > held.get(resource, 0):
                raise LedgerError(
                    SOURCE_TOO_SMALL.format(
                        source=source,
                        host=self.host,
                        resource=resource,
                        asked=amount,
                        held=held.get(resource, 0),
                    )
                )

    def _changed(self, who: WorkloadKey, after: "HostAccount") -> "HostAccount":
        """Update the sum; when a workload left, free the earmarks of its room and close those for it."""
        held = self.holding(who)
        after = replace(after, used=_exchanged(self.used, held, after.holding(who)))
        if after.holds(who) or not self.holds(who):
            return after
        left = dict(held)
        earmarks: dict[str, Earmark] = {}
        for key, each in after.earmarks.items():
            if each.beneficiary == who:
                continue
            if each.source == who and not each.freed:
                # Never more than the source leaves: it may have shrunk since.
                amounts = {name: min(amount, left.get(name, 0)) for name, amount in each.amounts.items()}
                left = {name: amount - amounts.get(name, 0) for name, amount in left.items()}
                each = replace(each, freed=True, amounts=checked_resources(amounts))
            earmarks[key] = each
        return replace(after, earmarks=earmarks)

    def _consumed(self, who: WorkloadKey, growth: Mapping[str, int]) -> "HostAccount":
        """Take growth out of the workload's freed earmarks; close those that are used up."""
        rest = dict(growth)
        earmarks: dict[str, Earmark] = {}
        for key, each in self.earmarks.items():
            if each.freed and each.beneficiary == who and any(rest.values()):
                amounts = {name: max(0, amount - rest.get(name, 0)) for name, amount in each.amounts.items()}
                rest = {name: max(0, amount - each.amounts.get(name, 0)) for name, amount in rest.items()}
                if not any(amounts.values()):
                    continue
                each = replace(each, amounts=checked_resources(amounts))
            earmarks[key] = each
        return replace(self, earmarks=earmarks)

    def _shortage(
        self, who: WorkloadKey, resource: str, asked: int, grantable: Mapping[str, int]
    ) -> Shortage:
        held = {str(each): self.holding(each).get(resource, 0) for each in self._holders()}
        held[UNATTRIBUTED] = self.unattributed.get(resource, 0)
        kept = ((each.id, str(each.beneficiary), each.amounts.get(resource, 0)) for each in self.kept(who))
        return Shortage(
            resource=resource,
            asked=asked,
            grantable=max(0, grantable.get(resource, 0)),
            capacity=None if self.capacity is None else self.capacity.get(resource, 0),
            holders=tuple(
                sorted(((n, a) for n, a in held.items() if a), key=lambda pair: (-pair[1], pair[0]))
            ),
            earmarks=tuple(each for each in kept if each[2]),
        )

    def _holders(self) -> Iterator[WorkloadKey]:
        yield from self.observed
        yield from (each for each in self.reservations if each not in self.observed)


def _larger(first: ResourceList, second: ResourceList) -> ResourceList:
    return {each: max(first.get(each, 0), second.get(each, 0)) for each in {**first, **second}}


def _exchanged(total: ResourceList, old: ResourceList, new: ResourceList) -> ResourceList:
    if old == new:
        return total
    changed = dict(total)
    for resource, amount in old.items():
        changed[resource] -= amount
    for resource, amount in new.items():
        changed[resource] = changed.get(resource, 0) + amount
    return {resource: amount for resource, amount in changed.items() if amount}
