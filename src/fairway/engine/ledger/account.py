"""The account of one host: immutable, so that transactions and speculative copies share what they do not change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fairway.engine.ledger.refusal import SOURCE_TOO_SMALL, InsufficientCapacity, LedgerError, Shortage
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey, checked_resources
from fairway.hosts.instant import Micros

UNATTRIBUTED = "use that no workload accounts for"
_NOTHING: ResourceList = checked_resources({})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccount:
    host: HostKey
    capacity: ResourceList | None = None
    """None if it is unknown: nothing is granted."""
    observed: Mapping[WorkloadKey, ResourceList] = field(default_factory=dict)
    unattributed: ResourceList = field(default_factory=dict)
    """Observed use that no workload accounts for."""
    reservations: Mapping[WorkloadKey, ResourceList] = field(default_factory=dict)
    earmarks: Mapping[str, Earmark] = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)
    """Sum of all holdings and the unattributed use."""

    def holding(self, workload: WorkloadKey) -> ResourceList:
        """Return what a workload has here: the larger of reservation and observed use, per resource."""
        # Not the sum: a reservation becomes observed use, and in between both are the same room.
        observed = self.observed.get(workload, _NOTHING)
        reservation = self.reservations.get(workload)
        if reservation is None:
            return observed
        return reservation if not observed else _larger(observed, reservation)

    def holds(self, workload: WorkloadKey) -> bool:
        return workload in self.observed or workload in self.reservations

    def kept(self, workload: WorkloadKey) -> Iterator[Earmark]:
        """Yield the earmarks whose room is kept from a workload."""
        return (
            earmark for earmark in self.earmarks.values() if earmark.freed and earmark.beneficiary != workload
        )

    def grantable(self, workload: WorkloadKey) -> dict[str, int]:
        """Return how much more a workload may have of each resource, its own earmarks included."""
        own = self.kept_room(workload) if self.earmarks else _NOTHING
        # What is left may be negative: observed use is never refused, and a host can lose capacity.
        return {resource: max(0, left + own.get(resource, 0)) for resource, left in self.free().items()}

    def shortages(self, workload: WorkloadKey, growth: ResourceList) -> tuple[Shortage, ...]:
        """Return what is in the way of granting a workload so much more; nothing if it is grantable."""
        grantable = self.grantable(workload)
        short = [resource for resource, amount in growth.items() if amount > grantable.get(resource, 0)]
        return tuple(self._shortage(workload, resource, growth[resource], grantable) for resource in short)

    def free(self) -> dict[str, int]:
        """Return what is left for a workload without earmarks; below 0 where more is used than there is."""
        if self.capacity is None:
            return {}
        kept = self.kept_room() if self.earmarks else _NOTHING
        return {
            resource: amount - self.used.get(resource, 0) - kept.get(resource, 0)
            for resource, amount in self.capacity.items()
        }

    def kept_room(self, workload: WorkloadKey | None = None) -> dict[str, int]:
        """Return the room that is kept for a workload, or for all."""
        room: dict[str, int] = {}
        for earmark in self.earmarks.values():
            if earmark.freed and workload in (None, earmark.beneficiary):
                for resource, amount in earmark.amounts.items():
                    room[resource] = room.get(resource, 0) + amount
        return room

    def set_capacity(self, capacity: ResourceList | None) -> "HostAccount":
        return replace(self, capacity=None if capacity is None else checked_resources(capacity))

    def observe(self, workload: WorkloadKey, amounts: ResourceList | None) -> "HostAccount":
        """Set the observed use of a workload; None when it was deleted."""
        known = self.observed.get(workload)
        # Also a use of nothing is an entry, so None is not the same as no amounts: the workload is there, and holds
        # its place.
        if amounts is None:
            return self if known is None else self._observing(workload, None)
        checked = checked_resources(amounts)
        return self if known == checked else self._observing(workload, checked)

    def _observing(self, workload: WorkloadKey, amounts: ResourceList | None) -> "HostAccount":
        observed = dict(self.observed)
        if amounts is None:
            del observed[workload]
        else:
            observed[workload] = amounts
        return self._changed(workload, replace(self, observed=observed))

    @staticmethod
    def begin(
        host: HostKey, capacity: ResourceList | None, observed: Mapping[WorkloadKey, ResourceList]
    ) -> "HostAccount":
        """Return an account with the observed use of all its workloads."""
        uses = {workload: checked_resources(amounts) for workload, amounts in observed.items()}
        used: dict[str, int] = {}
        for amounts in uses.values():
            for resource, amount in amounts.items():
                used[resource] = used.get(resource, 0) + amount
        return HostAccount(host=host, observed=uses, used=used).set_capacity(capacity)

    def observe_unattributed(self, amounts: ResourceList) -> "HostAccount":
        amounts = checked_resources(amounts)
        used = _exchanged(self.used, self.unattributed, amounts)
        return replace(self, unattributed=amounts, used=used)

    def reserve(self, workload: WorkloadKey, amounts: ResourceList) -> "HostAccount":
        """Set a workload's reservation. Growth must be grantable; it uses up the workload's own earmarks first."""
        amounts = checked_resources(amounts)
        held = self.holding(workload)
        # Only growth is checked: what the workload holds already is in use, even on a host that is overcommitted.
        growth = {
            resource: amount - held.get(resource, 0)
            for resource, amount in amounts.items()
            if amount > held.get(resource, 0)
        }
        if growth and (shortages := self.shortages(workload, growth)):
            raise InsufficientCapacity(self.host, workload, shortages)
        return self.restore(workload, amounts)._consumed(workload, growth)

    def restore(self, workload: WorkloadKey, amounts: ResourceList) -> "HostAccount":
        """Set a reservation that was granted before, without a check."""
        # A copy of one dictionary with the workloads of one host: tens to hundreds. In return a transaction needs no
        # undo log, and a speculation no copy of the ledger.
        return self._changed(workload, replace(self, reservations={**self.reservations, workload: amounts}))

    def release(self, workload: WorkloadKey) -> "HostAccount":
        """Drop a workload's reservation. Its observed use remains until its deletion is observed."""
        if workload not in self.reservations:
            return self
        reservations = {holder: value for holder, value in self.reservations.items() if holder != workload}
        return self._changed(workload, replace(self, reservations=reservations))

    def add_earmark(self, earmark: Earmark) -> "HostAccount":
        """Add an earmark, or replace the one with its id."""
        # An earmark that is replaced must not count against itself.
        base = self.close(earmark.id)
        amounts = checked_resources(earmark.amounts)
        if earmark.source is None:
            grantable = base.grantable(earmark.beneficiary)
            # Room of the beneficiary's other earmarks is promised already.
            for other in base.earmarks.values():
                if other.freed and other.beneficiary == earmark.beneficiary:
                    grantable = {key: left - other.amounts.get(key, 0) for key, left in grantable.items()}
            short = [resource for resource, asked in amounts.items() if asked > grantable.get(resource, 0)]
            if short:
                shortages = (
                    base._shortage(earmark.beneficiary, resource, amounts[resource], grantable)
                    for resource in short
                )
                raise InsufficientCapacity(self.host, earmark.beneficiary, shortages)
        else:
            base._check_source(earmark.source, amounts)
        return base.restore_earmark(replace(earmark, amounts=amounts, freed=earmark.source is None))

    def restore_earmark(self, earmark: Earmark) -> "HostAccount":
        return replace(self, earmarks={**self.earmarks, earmark.id: earmark})

    def close(self, earmark_id: str) -> "HostAccount":
        if earmark_id not in self.earmarks:
            return self
        return replace(
            self, earmarks={key: earmark for key, earmark in self.earmarks.items() if key != earmark_id}
        )

    def _check_source(self, source: WorkloadKey, amounts: ResourceList) -> None:
        held = self.holding(source)
        wanted = dict(amounts)
        for earmark in self.earmarks.values():
            # What a source leaves can be promised once. Earmarks whose source has left are free room, and count in
            # ``grantable``.
            if earmark.source == source and not earmark.freed:
                wanted = {key: amount + earmark.amounts.get(key, 0) for key, amount in wanted.items()}
        for resource, amount in wanted.items():
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

    def _changed(self, workload: WorkloadKey, after: "HostAccount") -> "HostAccount":
        """Update the sum; when a workload left, free the earmarks of its room and close those for it."""
        held = self.holding(workload)
        after = replace(after, used=_exchanged(self.used, held, after.holding(workload)))
        if after.holds(workload) or not self.holds(workload):
            return after
        left = dict(held)
        earmarks: dict[str, Earmark] = {}
        for key, earmark in after.earmarks.items():
            # Nothing waits for this room any more.
            if earmark.beneficiary == workload:
                continue
            if earmark.source == workload and not earmark.freed:
                # Never more than the source leaves: it may have shrunk since.
                amounts = {name: min(amount, left.get(name, 0)) for name, amount in earmark.amounts.items()}
                left = {name: amount - amounts.get(name, 0) for name, amount in left.items()}
                earmark = replace(earmark, freed=True, amounts=checked_resources(amounts))
            earmarks[key] = earmark
        return replace(after, earmarks=earmarks)

    def _consumed(self, workload: WorkloadKey, growth: Mapping[str, int]) -> "HostAccount":
        """Take growth out of the workload's freed earmarks; close those that are used up."""
        rest = dict(growth)
        earmarks: dict[str, Earmark] = {}
        for key, earmark in self.earmarks.items():
            if earmark.freed and earmark.beneficiary == workload and any(rest.values()):
                amounts = {
                    name: max(0, amount - rest.get(name, 0)) for name, amount in earmark.amounts.items()
                }
                rest = {name: max(0, amount - earmark.amounts.get(name, 0)) for name, amount in rest.items()}
                if not any(amounts.values()):
                    continue
                earmark = replace(earmark, amounts=checked_resources(amounts))
            earmarks[key] = earmark
        return replace(self, earmarks=earmarks)

    def _shortage(
        self, workload: WorkloadKey, resource: str, asked: int, grantable: Mapping[str, int]
    ) -> Shortage:
        held = {str(holder): self.holding(holder).get(resource, 0) for holder in self._holders()}
        held[UNATTRIBUTED] = self.unattributed.get(resource, 0)
        kept = (
            (earmark.id, str(earmark.beneficiary), earmark.amounts.get(resource, 0))
            for earmark in self.kept(workload)
        )
        return Shortage(
            resource=resource,
            asked=asked,
            grantable=max(0, grantable.get(resource, 0)),
            capacity=None if self.capacity is None else self.capacity.get(resource, 0),
            holders=tuple(
                sorted(((n, a) for n, a in held.items() if a), key=lambda pair: (-pair[1], pair[0]))
            ),
            earmarks=tuple(entry for entry in kept if entry[2]),
        )

    def _holders(self) -> Iterator[WorkloadKey]:
        yield from self.observed
        yield from (holder for holder in self.reservations if holder not in self.observed)


def _larger(first: ResourceList, second: ResourceList) -> ResourceList:
    return {
        resource: max(first.get(resource, 0), second.get(resource, 0)) for resource in {**first, **second}
    }


def _exchanged(total: ResourceList, old: ResourceList, new: ResourceList) -> ResourceList:
    if old == new:
        return total
    changed = dict(total)
    for resource, amount in old.items():
        changed[resource] -= amount
    for resource, amount in new.items():
        changed[resource] = changed.get(resource, 0) + amount
    # Without zeros, so that equal sums are equal dictionaries, whatever came and left before.
    return {resource: amount for resource, amount in changed.items() if amount}
