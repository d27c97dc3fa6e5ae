"""The ledger never overcommits, speculation changes nothing, and after any crash it equals what was promised.

A promise is made once it is persisted. The simulation persists the entries of a commit one by one, and may crash after
any of them; the ledger is then rebuilt from objects, journal and observations.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from engine.interleavings import BIGGEST, Move, play_all
from fairway.engine.ledger import Earmark, Entry, HostAccount, Ledger, LedgerError, Recorded, Reservation
from fairway.engine.ledger.ledger import Speculation, Transaction
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey

HOSTS = (HostKey("n1", "u1"), HostKey("n2", "u2"))
WORKLOADS = tuple(WorkloadKey("ns", name, name) for name in "abcd")
RESOURCES = ("cpu", "memory")
EXTERNAL = ("capacity", "lose", "observe", "confirm")
"""Moves that report what is, whatever it does to the sum."""


class Simulation:
    def __init__(self) -> None:
        self.ledger = Ledger(epoch=1)
        self.objects: dict[tuple[HostKey, WorkloadKey | str], Entry] = {}
        self.journal: list[Entry] = []
        self.earmarks = 0

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            host, who, other = HOSTS[number % 2], WORKLOADS[number // 2 % 4], WORKLOADS[number // 8 % 4]
            amounts = {"cpu": number // 32 % 7, "memory": number // 224 % 7}
            self.move(name, host, who, other, amounts, seed=number)
            self.check_sums()
        self.crash(after=None)

    def move(
        self,
        name: str,
        host: HostKey,
        who: WorkloadKey,
        other: WorkloadKey,
        amounts: ResourceList,
        *,
        seed: int,
    ) -> None:
        ids = sorted(self.account(host).earmarks)
        picked = ids[seed // 1024 % len(ids)] if ids else "none"
        recorded = Recorded.JOURNAL if seed // 1568 % 2 else Recorded.OBJECT
        source = None if seed // 3136 % 3 == 0 else other
        self.earmarks += 1
        earmark = Earmark(id=f"e{self.earmarks}", beneficiary=who, source=source, amounts=amounts)
        changes: dict[str, Callable[[Transaction | Speculation], object]] = {
            "capacity": lambda tx: tx.set_capacity(
                host, {each: 4 + amount for each, amount in amounts.items()}
            ),
            "lose": lambda tx: tx.set_capacity(host, None),
            "observe": lambda tx: tx.observe(host, who, amounts),
            "vanish": lambda tx: tx.observe(host, who, None),
            "reserve": lambda tx: tx.reserve(host, who, amounts, recorded=recorded),
            "confirm": lambda tx: tx.confirm(host, who, amounts),
            "release": lambda tx: tx.release(host, who),
            "earmark": lambda tx: tx.earmark(host, earmark),
            "transfer": lambda tx: tx.transfer(host, picked, wanted=amounts),
            "close": lambda tx: tx.close(host, picked),
        }
        if name == "crash":
            self.crash(after=None)
        elif name == "speculate":
            self.speculate(list(changes.values()))
        else:
            if name == "transfer" and picked in ids:
                who = self.account(host).earmarks[picked].beneficiary
            self.commit(changes[name], host, who, external=name in EXTERNAL, seed=seed)

    def speculate(self, changes: list[Callable[[Transaction | Speculation], object]]) -> None:
        before = self.state()
        copy = self.ledger.speculate()
        for change in changes:
            try:
                change(copy)
            except LedgerError:
                continue
        assert self.state() == before, "a speculative copy leaked"

    def commit(
        self,
        change: Callable[[Transaction | Speculation], object],
        host: HostKey,
        who: WorkloadKey,
        *,
        external: bool,
        seed: int,
    ) -> None:
        before, state = self.account(host), dict(self.ledger._accounts)
        try:
            with self.ledger.transaction(epoch=self.ledger.epoch) as tx:
                change(tx)
        except LedgerError:
            assert self.ledger._accounts == state, "a refused change left something behind"
            return
        after = self.account(host)
        if not external:
            check_no_overcommit(before, after)
        for key, earmark in before.earmarks.items():
            if earmark.freed and earmark.beneficiary != who and key in after.earmarks:
                assert after.earmarks[key].amounts == earmark.amounts, "room of another was taken"
        crash_after = seed // 6272 % 12
        for at, entry in enumerate(tx.entries):
            if at == crash_after:
                self.crash(after=(before, after))
                return
            self.persist(entry)

    def persist(self, entry: Entry) -> None:
        if entry.recorded is Recorded.JOURNAL:
            self.journal.append(entry)
        elif entry.value is None:
            self.objects.pop((entry.host, entry.subject), None)
        else:
            self.objects[entry.host, entry.subject] = entry

    def crash(self, *, after: tuple[HostAccount, HostAccount] | None) -> None:
        """Rebuild. Without ``after``, everything was persisted; with it, only a part of that change."""
        old = [self.account(host) for host in HOSTS]
        if after is not None:
            # What is observed does not depend on what was persisted; a promise does.
            old = [after[1] if each.host == after[1].host else each for each in old]
        ledger = Ledger.rebuild(
            epoch=self.ledger.epoch + 1,
            capacities=[(each.host, each.capacity) for each in old],
            observed=[(each.host, who, amounts) for each in old for who, amounts in each.observed.items()],
            objects=self.objects.values(),
            journal=self.journal,
        )
        stale = self.ledger
        self.ledger = ledger
        promised = {key: entry.value for key, entry in self.persisted().items() if entry.value is not None}
        restored: dict[tuple[HostKey, WorkloadKey | str], Reservation | Earmark] = {}
        for host in HOSTS:
            account = self.account(host)
            restored.update({(host, who): each for who, each in account.reservations.items()})
            restored.update({(host, id_): each for id_, each in account.earmarks.items()})
        assert {key: amounts(value) for key, value in restored.items()} == {
            key: amounts(value) for key, value in promised.items()
        }, "differs from what was promised"
        for each in old:
            now = self.account(each.host)
            if after is None:
                assert (now.used, now.reservations, now.earmarks.keys()) == (
                    each.used,
                    each.reservations,
                    each.earmarks.keys(),
                )
                assert all(now.grantable(who) == each.grantable(who) for who in WORKLOADS)
            elif each.host == after[1].host:
                for resource, amount in now.used.items():
                    allowed = max((state.used.get(resource, 0) for state in after), default=0)
                    assert amount <= max(allowed, (now.capacity or {}).get(resource, 0))
        assert stale.epoch < ledger.epoch
        self.journal = ledger.journal()

    def persisted(self) -> dict[tuple[HostKey, WorkloadKey | str], Entry]:
        return {**{(entry.host, entry.subject): entry for entry in self.journal}, **self.objects}

    def account(self, host: HostKey) -> HostAccount:
        return self.ledger.account(host) or HostAccount(host=host)

    def state(self) -> str:
        return repr([self.ledger.account(host) for host in HOSTS])

    def check_sums(self) -> None:
        for host in HOSTS:
            account = self.account(host)
            total = Counter[str]()
            for who in WORKLOADS:
                total.update(account.holding(who))
            assert account.used == {resource: amount for resource, amount in total.items() if amount}
            for who in WORKLOADS:
                assert all(amount >= 0 for amount in account.grantable(who).values())


def amounts(value: Reservation | Earmark) -> ResourceList:
    return value.amounts


def check_no_overcommit(before: HostAccount, after: HostAccount) -> None:
    """What is used and kept stays within the capacity, or does not grow where others exceeded it."""
    for resource in RESOURCES:
        room = (after.capacity or {}).get(resource, 0)
        assert promised(after, resource) <= max(room, promised(before, resource)), resource


def promised(account: HostAccount, resource: str) -> int:
    kept = sum(each.amounts.get(resource, 0) for each in account.earmarks.values() if each.freed)
    return account.used.get(resource, 0) + kept


MOVES = (
    *("capacity", "capacity", "observe", "vanish", "reserve", "reserve", "reserve", "confirm", "release"),
    *("earmark", "earmark", "transfer", "close", "lose", "speculate", "crash"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=40)


@settings(max_examples=50, phases=[each for each in Phase if each is not Phase.explain])
@given(moves=moves)
def test_ledger_never_overcommits_and_survives_a_crash_at_any_point(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_ledger_never_overcommits_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=25)
