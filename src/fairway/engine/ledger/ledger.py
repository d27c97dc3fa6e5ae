"""Transactions, speculative copies and recovery of the ledger."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from fairway.engine.ledger.account import Earmark, HostAccount
from fairway.engine.ledger.refusal import (
    LEDGER_CHANGED,
    TRANSACTION_ENDED,
    UNKNOWN_EARMARK,
    LedgerError,
)
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey, checked_resources
from fairway.hosts.instant import Micros
from fairway.hosts.steps import Steps, strides


class _View:
    """Accounts with private changes: reads go to the changed accounts first, then to the ledger's."""

    def __init__(self, base: Mapping[HostKey, HostAccount]) -> None:
        self._base = base
        self._changed: dict[HostKey, HostAccount | None] = {}

    def account(self, host: HostKey) -> HostAccount | None:
        return self._changed[host] if host in self._changed else self._base.get(host)

    def set_capacity(self, host: HostKey, capacity: ResourceList | None) -> None:
        """Add a host, or change its capacity; None if it is unknown."""
        self._write(self._account(host).set_capacity(capacity))

    def remove_host(self, host: HostKey) -> None:
        """Remove a host with all promises about it."""
        self._check_open()
        self._changed[host] = None

    def observe(self, host: HostKey, workload: WorkloadKey, amounts: ResourceList | None) -> None:
        """Report a workload's use; None when it was deleted. Never refused, whatever it does to the sum."""
        self._write(self._account(host).observe(workload, amounts))

    def observe_unattributed(self, host: HostKey, amounts: ResourceList) -> None:
        """Report use that belongs to no workload of the ledger."""
        self._write(self._account(host).observe_unattributed(amounts))

    def reserve(self, host: HostKey, workload: WorkloadKey, amounts: ResourceList) -> None:
        """Promise a workload these amounts in total. Raises InsufficientCapacity if its growth is not grantable."""
        self._write(self._account(host).reserve(workload, amounts))

    def confirm(self, host: HostKey, workload: WorkloadKey, observed: ResourceList) -> None:
        """Replace a promise by what is observed."""
        self._write(self._account(host).observe(workload, observed).release(workload))

    def release(self, host: HostKey, workload: WorkloadKey) -> None:
        """End a promise, if there is one."""
        self._write(self._account(host).release(workload))

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
        beneficiary = earmark.beneficiary
        if earmark.source is not None:
            # In one step with the growth: between two transactions, the room would be grantable to whichever workload
            # asks first.
            account = account.observe(earmark.source, None).release(earmark.source)
        held, grantable = account.holding(beneficiary), account.grantable(beneficiary)
        granted = {
            # At most what there is: the source may have left less than was promised, and a refusal would leave the
            # beneficiary with nothing although its room is there.
            resource: min(amount, held.get(resource, 0) + grantable.get(resource, 0))
            for resource, amount in wanted.items()
        }
        account = account.reserve(beneficiary, granted).close(earmark_id)
        self._write(account)
        return account.holding(beneficiary)

    def _account(self, host: HostKey) -> HostAccount:
        self._check_open()
        return self.account(host) or HostAccount(host=host)

    def _write(self, account: HostAccount) -> None:
        # An unchanged account is the same object; followers are called for changes only.
        if account is not self.account(account.host):
            self._changed[account.host] = account

    def _check_open(self) -> None:
        """Raise if this view can no longer be written to."""


class Speculation(_View):
    """A private copy, for what-if questions. It costs nothing to make, and cannot reach the ledger."""

    def speculate(self) -> "Speculation":
        copy = Speculation(self._base)
        copy._changed = dict(self._changed)
        return copy


class Transaction(_View):
    """Changes that happen together or not at all: leaving the ``with`` block commits, an exception discards."""

    def __init__(self, ledger: "Ledger", *, base: Mapping[HostKey, HostAccount]) -> None:
        super().__init__(base)
        self._ledger: Ledger | None = ledger
        self._generation = ledger.generation

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
        ledger._apply(self._changed, generation=self._generation)

    def discard(self) -> None:
        self._ledger = None

    def _check_open(self) -> None:
        if self._ledger is None:
            raise LedgerError(TRANSACTION_ENDED)


class Ledger:
    """All accounts."""

    def __init__(self) -> None:
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

    def earmarked_for(self, workload: WorkloadKey) -> dict[HostKey, dict[str, int]]:
        """Return the room that is kept for a workload, by host and resource, of hosts whose capacity is known."""
        room_by_host: dict[HostKey, dict[str, int]] = {}
        for host in self._earmarked:
            account = self._accounts[host]
            room = account.kept_room(workload)
            if room and account.capacity is not None:
                room_by_host[host] = {
                    resource: amount for resource, amount in room.items() if resource in account.capacity
                }
        return room_by_host

    def account(self, host: HostKey) -> HostAccount | None:
        return self._accounts.get(host)

    def with_earmarks(self) -> list[HostAccount]:
        """Return the accounts of hosts with earmarks and known capacity."""
        accounts = (self._accounts[host] for host in sorted(self._earmarked))
        return [account for account in accounts if account.capacity is not None]

    def account_named(self, name: str) -> HostAccount | None:
        """Return the account of the host that has a name now, if its capacity is known."""
        host = self._current.get(name)
        return None if host is None else self._accounts[host]

    def hosts(self) -> Iterable[HostKey]:
        return self._accounts.keys()

    def grantable(self, host: HostKey, workload: WorkloadKey) -> dict[str, int]:
        account = self._accounts.get(host)
        return {} if account is None else account.grantable(workload)

    def transaction(self) -> Transaction:
        return Transaction(self, base=self._accounts)

    def speculate(self) -> Speculation:
        # Copied by the next commit, not here: a speculation that ends before one costs nothing.
        self._lent = True
        return Speculation(self._accounts)

    def expired(self, *, now: Micros) -> list[tuple[HostKey, Earmark]]:
        """Return the earmarks whose deadline passed; the caller closes and reports them."""
        return [
            (host, earmark)
            for host in sorted(self._earmarked)
            for earmark in self._accounts[host].earmarks.values()
            if earmark.deadline is not None and earmark.deadline <= now
        ]

    def next_deadline(self) -> Micros | None:
        accounts = (self._accounts[host] for host in self._earmarked)
        deadlines = (earmark.deadline for account in accounts for earmark in account.earmarks.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @classmethod
    def rebuild_in_steps(
        cls,
        *,
        capacities: Iterable[tuple[HostKey, ResourceList | None]],
        observed: Iterable[tuple[HostKey, WorkloadKey, ResourceList]] = (),
        reservations: Iterable[tuple[HostKey, WorkloadKey, ResourceList]] = (),
        earmarks: Iterable[tuple[HostKey, Earmark]] = (),
    ) -> Steps["Ledger"]:
        """Restore the ledger after a crash, once everything is listed.

        Promises are restored even where they exceed the capacity: they were made.
        """
        ledger = cls()
        # In slices, because a hub may have 100,000 pods and the event loop must not wait for all of them.
        known = dict(capacities)
        uses: dict[HostKey, dict[WorkloadKey, ResourceList]] = {host: {} for host in known}
        for some in strides(observed):
            yield
            for host, workload, amounts in some:
                uses.setdefault(host, {})[workload] = amounts
        accounts: dict[HostKey, HostAccount] = {}
        for hosts in strides(uses.items()):
            yield
            for host, workloads in hosts:
                accounts[host] = HostAccount.begin(host, known.get(host), workloads)
        for reserved in strides(reservations):
            yield
            for host, workload, amounts in reserved:
                account = accounts.get(host, HostAccount(host=host))
                accounts[host] = account.restore(workload, checked_resources(amounts))
        for kept in strides(earmarks):
            yield
            for host, earmark in kept:
                accounts[host] = accounts.get(host, HostAccount(host=host)).restore_earmark(earmark)
        for restored in strides(accounts.items()):
            yield
            for host, account in restored:
                # Last, because whether the source of an earmark left is known once use and reservations are complete.
                ledger._accounts[host] = _with_freed(account)
                if account.earmarks:
                    ledger._earmarked.add(host)
                ledger._name(host, account)
        return ledger

    def _name(self, host: HostKey, account: HostAccount | None) -> None:
        if account is not None and account.capacity is not None:
            self._current[host.name] = host
        # Not if the name belongs to a recreated host: the old one may be removed after the new one was added.
        elif self._current.get(host.name) == host:
            del self._current[host.name]

    def _apply(self, changed: Mapping[HostKey, HostAccount | None], *, generation: int) -> None:
        # Another transaction committed since this one began, so what it checked may no longer hold.
        if generation != self.generation:
            raise LedgerError(LEDGER_CHANGED)
        if self._lent:
            # The accounts are immutable, so a shallow copy is enough, and only if a speculation was made since the
            # last one.
            self._accounts = dict(self._accounts)
            self._lent = False
        for host, account in changed.items():
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
        # After all accounts: a follower that reads other hosts sees the whole transaction.
        for follower in self._followers:
            for host in changed:
                follower(host, self._accounts.get(host))


def _with_freed(account: HostAccount) -> HostAccount:
    """Free the earmarks whose source left while no ledger was there to see it."""
    for earmark in tuple(account.earmarks.values()):
        if earmark.source is not None and not earmark.freed and not account.holds(earmark.source):
            account = account.restore_earmark(replace(earmark, freed=True))
    return account
