"""Transactions, speculative copies and recovery of the ledger."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypeVar

from fairway.engine.dependencies import Event
from fairway.engine.ledger.account import Earmark, HostAccount, Recorded, Reservation
from fairway.engine.ledger.refusal import (
    LEDGER_CHANGED,
    SPECULATIVE,
    STALE_EPOCH,
    TRANSACTION_ENDED,
    UNKNOWN_EARMARK,
    LedgerError,
    StaleEpoch,
)
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction
from fairway.fleet.instant import Micros
from fairway.fleet.resources import earmarked, grantable
from fairway.fleet.steps import Steps, finish, strides

SubjectT = TypeVar("SubjectT", WorkloadKey, str)
PromiseT = TypeVar("PromiseT", Reservation, Earmark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A promise that changed. Entries are absolute: applying one twice is applying it once."""

    epoch: int
    host: HostKey
    subject: WorkloadKey | str
    """The workload of a reservation, or the id of an earmark."""
    value: Reservation | Earmark | None
    """None if the promise ended."""
    recorded: Recorded


class _View:
    """Accounts with private changes: reads go to the changed accounts first, then to the ledger's."""

    def __init__(self, base: Mapping[HostKey, HostAccount]) -> None:
        self._base = base
        self._changed: dict[HostKey, HostAccount | None] = {}

    def account(self, host: HostKey) -> HostAccount | None:
        return self._changed[host] if host in self._changed else self._base.get(host)

    def grantable(self, host: HostKey, who: WorkloadKey) -> dict[str, int]:
        """Return how much more a workload may have of each resource of a host; nothing if capacity is unknown."""
        account = self.account(host)
        return {} if account is None else account.grantable(who)

    def set_capacity(self, host: HostKey, capacity: ResourceList | None) -> None:
        """Add a host, or change its capacity; None if it is unknown."""
        self._write(self._account(host).set_capacity(capacity))

    def remove_host(self, host: HostKey) -> None:
        """Remove a host with all promises about it."""
        self._check_open()
        self._changed[host] = None

    def observe(self, host: HostKey, who: WorkloadKey, amounts: ResourceList | None) -> None:
        """Report a workload's use; None when it was deleted. Never refused, whatever it does to the sum."""
        self._write(self._account(host).observe(who, amounts))

    def observe_unattributed(self, host: HostKey, amounts: ResourceList) -> None:
        """Report use that belongs to no workload of the ledger."""
        self._write(self._account(host).observe_unattributed(amounts))

    def reserve(
        self,
        host: HostKey,
        who: WorkloadKey,
        amounts: ResourceList,
        *,
        recorded: Recorded = Recorded.OBJECT,
    ) -> None:
        """Promise a workload these amounts in total. Raises InsufficientCapacity if its growth is not grantable.

        A promise stays where it was first recorded.
        """
        self._write(self._account(host).reserve(who, amounts, recorded))

    def confirm(self, host: HostKey, who: WorkloadKey, observed: ResourceList) -> None:
        """Replace a promise by what is observed."""
        self._write(self._account(host).observe(who, observed).release(who))

    def release(self, host: HostKey, who: WorkloadKey) -> None:
        """End a promise, if there is one."""
        self._write(self._account(host).release(who))

    def earmark(self, host: HostKey, earmark: Earmark) -> None:
        """Keep room for a beneficiary: what its source will leave, or free room if it has none."""
        self._write(self._account(host).add_earmark(earmark))

    def close(self, host: HostKey, earmark_id: str) -> None:
        """End an earmark, if there is one; its room is grantable to everyone."""
        self._write(self._account(host).close(earmark_id))

    def transfer(self, host: HostKey, earmark_id: str, *, wanted: ResourceList) -> ResourceList:
        """Remove an earmark's source, grow its beneficiary and close the earmark, in one step.

        ``wanted`` is what the beneficiary asks for in total now, which may have changed since the earmark was added.
        Return what it holds afterwards, at most that.
        """
        account = self._account(host)
        earmark = account.earmarks.get(earmark_id)
        if earmark is None:
            raise LedgerError(UNKNOWN_EARMARK.format(host=host, id=earmark_id))
        who = earmark.beneficiary
        if earmark.source is not None:
            account = account.observe(earmark.source, None).release(earmark.source)
        held, grantable = account.holding(who), account.grantable(who)
        granted = {
            resource: min(amount, held.get(resource, 0) + grantable.get(resource, 0))
            for resource, amount in wanted.items()
        }
        account = account.reserve(who, granted, Recorded.OBJECT).close(earmark_id)
        self._write(account)
        return account.holding(who)

    def _account(self, host: HostKey) -> HostAccount:
        self._check_open()
        return self.account(host) or HostAccount(host=host)

    def _write(self, account: HostAccount) -> None:
        if account is not self.account(account.host):
            self._changed[account.host] = account

    def _check_open(self) -> None:
        """Raise if this view can no longer be written to."""


class Speculation(_View):
    """A private copy, for what-if questions. It costs nothing to make, and cannot reach the ledger."""

    def commit(self) -> None:
        raise LedgerError(SPECULATIVE)

    def speculate(self) -> "Speculation":
        copy = Speculation(self._base)
        copy._changed = dict(self._changed)
        return copy


class Transaction(_View):
    """Changes that happen together or not at all: leaving the ``with`` block commits, an exception discards."""

    def __init__(self, ledger: "Ledger", *, base: Mapping[HostKey, HostAccount], epoch: int) -> None:
        super().__init__(base)
        self._ledger: Ledger | None = ledger
        self._generation = ledger.generation
        self._epoch = epoch
        self.entries: tuple[Entry, ...] = ()
        """After the commit: what to persist, in this order, before acting on it."""
        self._before: dict[HostKey, HostAccount | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def commit(self) -> None:
        self._check_open()
        ledger, self._ledger = self._ledger, None
        assert ledger is not None
        self._before = {host: ledger.account(host) for host in self._changed}
        self.entries = ledger._apply(self._changed, epoch=self._epoch, generation=self._generation)

    def discard(self) -> None:
        self._ledger = None

    def event(self, label: str, *, excluded: WorkloadKey | None = None) -> Event | None:
        """Return the committed change of what is grantable, for the scheduling queue; None if there is none.

        Report it for changes from outside, such as observed use and capacity. The commit reports what it gives back.
        """
        columns: dict[Key, Direction] = {}
        hosts: set[str] = set()
        for host, before in self._before.items():
            changed = _grantable_changes(before, self._changed[host])
            if changed:
                hosts.add(host.name)
                for key, direction in changed.items():
                    columns[key] = columns.get(key, Direction.NONE) | direction
        if not hosts:
            return None
        return Event(label=label, hosts=frozenset(hosts), columns=columns, excluded=excluded)

    def journal(self) -> tuple[Entry, ...]:
        """Return the entries that have no object of their own. Append them to the journal as one record."""
        return tuple(each for each in self.entries if each.recorded is Recorded.JOURNAL)

    def _check_open(self) -> None:
        if self._ledger is None:
            raise LedgerError(TRANSACTION_ENDED)


class Ledger:
    """All accounts. ``epoch`` is the leader's term: transactions of other terms are refused."""

    def __init__(self, *, epoch: int = 0) -> None:
        self.epoch = epoch
        self.generation = 0
        """Number of commits."""
        self._accounts: dict[HostKey, HostAccount] = {}
        self._earmarked: set[HostKey] = set()
        """Hosts with earmarks."""
        self._current: dict[str, HostKey] = {}
        """The host of known capacity that has a name now. A recreated one has another uid, and its own account."""
        self._followers: list[Callable[[HostKey, HostAccount | None], None]] = []
        self._lent = False
        """Whether a speculative copy reads ``_accounts``, which must then be copied before it changes."""

    def follow(self, follower: Callable[[HostKey, HostAccount | None], None]) -> None:
        """Call this function with every account now, and with each that changes; None for a removed host."""
        self._followers.append(follower)
        for host, account in self._accounts.items():
            follower(host, account)

    def earmarked_for(self, who: WorkloadKey) -> dict[HostKey, dict[str, int]]:
        """Return the room that is kept for a workload, by host and resource, of hosts whose capacity is known."""
        found: dict[HostKey, dict[str, int]] = {}
        for host in self._earmarked:
            account = self._accounts[host]
            room = account.kept_room(who)
            if room and account.capacity is not None:
                found[host] = {each: amount for each, amount in room.items() if each in account.capacity}
        return found

    def account(self, host: HostKey) -> HostAccount | None:
        return self._accounts.get(host)

    def with_earmarks(self) -> list[HostAccount]:
        """Return the accounts of hosts with earmarks and known capacity."""
        found = (self._accounts[host] for host in sorted(self._earmarked))
        return [each for each in found if each.capacity is not None]

    def account_named(self, name: str) -> HostAccount | None:
        """Return the account of the host that has a name now, if its capacity is known."""
        host = self._current.get(name)
        return None if host is None else self._accounts[host]

    def hosts(self) -> Iterable[HostKey]:
        return self._accounts.keys()

    def grantable(self, host: HostKey, who: WorkloadKey) -> dict[str, int]:
        account = self._accounts.get(host)
        return {} if account is None else account.grantable(who)

    def fence(self, epoch: int) -> None:
        """Begin a term. Open transactions of the old one can no longer commit."""
        if epoch < self.epoch:
            raise StaleEpoch(STALE_EPOCH.format(given=epoch, current=self.epoch))
        self.epoch = epoch

    def transaction(self, *, epoch: int) -> Transaction:
        if epoch != self.epoch:
            raise StaleEpoch(STALE_EPOCH.format(given=epoch, current=self.epoch))
        return Transaction(self, base=self._accounts, epoch=epoch)

    def speculate(self) -> Speculation:
        self._lent = True
        return Speculation(self._accounts)

    def expired(self, *, now: Micros) -> list[tuple[HostKey, Earmark]]:
        """Return the earmarks whose deadline passed; the caller closes and reports them."""
        return [
            (host, each)
            for host in sorted(self._earmarked)
            for each in self._accounts[host].earmarks.values()
            if each.deadline is not None and each.deadline <= now
        ]

    def next_deadline(self) -> Micros | None:
        accounts = (self._accounts[host] for host in self._earmarked)
        deadlines = (each.deadline for account in accounts for each in account.earmarks.values())
        return min((each for each in deadlines if each is not None), default=None)

    def journal(self) -> list[Entry]:
        """Return the promises that only the journal holds, to replace a long journal by a short one."""
        return [
            each
            for account in self._accounts.values()
            for each in _difference(HostAccount(host=account.host), account, self.epoch)
            if each.recorded is Recorded.JOURNAL
        ]

    @classmethod
    def rebuild(
        cls,
        *,
        epoch: int,
        capacities: Iterable[tuple[HostKey, ResourceList | None]],
        observed: Iterable[tuple[HostKey, WorkloadKey, ResourceList]] = (),
        objects: Iterable[Entry] = (),
        journal: Iterable[Entry] = (),
    ) -> "Ledger":
        """Do all of ``rebuild_in_steps`` at once."""
        return finish(
            cls.rebuild_in_steps(
                epoch=epoch, capacities=capacities, observed=observed, objects=objects, journal=journal
            )
        )

    @classmethod
    def rebuild_in_steps(
        cls,
        *,
        epoch: int,
        capacities: Iterable[tuple[HostKey, ResourceList | None]],
        observed: Iterable[tuple[HostKey, WorkloadKey, ResourceList]] = (),
        objects: Iterable[Entry] = (),
        journal: Iterable[Entry] = (),
    ) -> Steps["Ledger"]:
        """Restore the ledger after a crash, once everything is listed.

        Promises are restored even where they exceed the capacity: they were made. An object overrides the journal. An
        entry of an older term than one before it in the journal was written by a deposed leader, and is ignored.
        """
        ledger = cls(epoch=epoch)
        known = dict(capacities)
        uses: dict[HostKey, dict[WorkloadKey, ResourceList]] = {host: {} for host in known}
        for some in strides(observed):
            yield
            for host, who, amounts in some:
                uses.setdefault(host, {})[who] = amounts
        accounts: dict[HostKey, HostAccount] = {}
        for hosts in strides(uses.items()):
            yield
            for host, workloads in hosts:
                accounts[host] = HostAccount.begin(host, known.get(host), workloads)
        last = {(entry.host, entry.subject): entry for entry in (*_of_leaders(journal), *objects)}
        for entry in last.values():
            account = accounts.get(entry.host, HostAccount(host=entry.host))
            accounts[entry.host] = _restored(account, entry)
        ledger._accounts = {host: _with_freed(account) for host, account in accounts.items()}
        ledger._earmarked = {host for host, account in accounts.items() if account.earmarks}
        for host, account in accounts.items():
            ledger._name(host, account)
        return ledger

    def _name(self, host: HostKey, account: HostAccount | None) -> None:
        if account is not None and account.capacity is not None:
            self._current[host.name] = host
        elif self._current.get(host.name) == host:
            del self._current[host.name]

    def _apply(
        self, changed: Mapping[HostKey, HostAccount | None], *, epoch: int, generation: int
    ) -> tuple[Entry, ...]:
        if epoch != self.epoch:
            raise StaleEpoch(STALE_EPOCH.format(given=epoch, current=self.epoch))
        if generation != self.generation:
            raise LedgerError(LEDGER_CHANGED)
        if self._lent:
            self._accounts = dict(self._accounts)
            self._lent = False
        entries: list[Entry] = []
        for host, written in changed.items():
            empty = HostAccount(host=host)
            old = self._accounts.get(host, empty)
            account = None if written is None else _recorded_as_before(old, written)
            entries += _difference(old, account or empty, epoch)
            if account is None:
                self._accounts.pop(host, None)
            else:
                self._accounts[host] = account
            if account is not None and account.earmarks:
                self._earmarked.add(host)
            else:
                self._earmarked.discard(host)
            self._name(host, account)
        self.generation += 1
        for follower in self._followers:
            for host in changed:
                follower(host, self._accounts.get(host))
        return tuple(sorted(entries, key=_persistence_order))


def _grantable_changes(old: HostAccount | None, new: HostAccount | None) -> dict[Key, Direction]:
    changed: dict[Key, Direction] = {}
    for column, was, now in (
        (grantable, {} if old is None else old.free(), {} if new is None else new.free()),
        (earmarked, {} if old is None else old.kept_room(), {} if new is None else new.kept_room()),
    ):
        for resource in was.keys() | now.keys():
            if (left := now.get(resource, 0)) != (before := was.get(resource, 0)):
                changed[column(resource)] = Direction.UP if left > before else Direction.DOWN
    return changed


def _recorded_as_before(old: HostAccount, new: HostAccount) -> HostAccount:
    """Keep each promise where it was first recorded, also if the transaction ended it and made it again.

    Otherwise its record in the old place would count again after a crash, once the new one has ended.
    """
    reservations = _places_kept(old.reservations, new.reservations)
    earmarks = _places_kept(old.earmarks, new.earmarks)
    if not reservations and not earmarks:
        return new
    return replace(
        new,
        reservations={**new.reservations, **reservations},
        earmarks={**new.earmarks, **earmarks},
    )


def _places_kept(
    old: Mapping[SubjectT, PromiseT], new: Mapping[SubjectT, PromiseT]
) -> dict[SubjectT, PromiseT]:
    if old is new:
        return {}
    return {
        subject: replace(value, recorded=was.recorded)
        for subject, value in new.items()
        if (was := old.get(subject)) is not None and was.recorded is not value.recorded
    }


def _difference(old: HostAccount, new: HostAccount, epoch: int) -> Iterator[Entry]:
    """Yield the promises that differ."""
    yield from _changes(new.host, old.reservations, new.reservations, epoch)
    yield from _changes(new.host, old.earmarks, new.earmarks, epoch)


def _changes(
    host: HostKey, old: Mapping[SubjectT, PromiseT], new: Mapping[SubjectT, PromiseT], epoch: int
) -> Iterator[Entry]:
    if old is new:
        return
    for subject, value in new.items():
        if old.get(subject) != value:
            yield Entry(epoch=epoch, host=host, subject=subject, value=value, recorded=value.recorded)
    for subject, was in old.items():
        if subject not in new:
            yield Entry(epoch=epoch, host=host, subject=subject, value=None, recorded=was.recorded)


def _persistence_order(entry: Entry) -> int:
    """Order entries so that a crash between two of them leaves room kept, never given away.

    An earmark is written before its source is released, and closed after its beneficiary has grown.
    """
    if isinstance(entry.subject, str):
        return 0 if entry.value is not None else 3
    return 1 if entry.value is None else 2


def _of_leaders(journal: Iterable[Entry]) -> Iterator[Entry]:
    newest = 0
    for entry in journal:
        if entry.epoch >= newest:
            newest = entry.epoch
            yield entry


def _restored(account: HostAccount, entry: Entry) -> HostAccount:
    if isinstance(entry.value, Earmark):
        return account.restore_earmark(entry.value)
    if isinstance(entry.value, Reservation) and isinstance(entry.subject, WorkloadKey):
        return account.restore(entry.subject, entry.value)
    return account


def _with_freed(account: HostAccount) -> HostAccount:
    """Free the earmarks whose source left while no ledger was there to see it."""
    for each in tuple(account.earmarks.values()):
        if each.source is not None and not each.freed and not account.holds(each.source):
            account = account.restore_earmark(replace(each, freed=True))
    return account
