"""The ledger never overcommits, speculation changes nothing, and a ledger that is rebuilt equals the one before."""

from collections import Counter
from collections.abc import Callable, Sequence

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from engine.interleavings import BIGGEST, Move, play_all
from fairway.engine.ledger import Earmark, HostAccount, Ledger, LedgerError
from fairway.engine.ledger.ledger import Speculation, Transaction
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.steps import finish

HOSTS = (HostKey("n1", "u1"), HostKey("n2", "u2"))
WORKLOADS = tuple(WorkloadKey("ns", name, name) for name in "abcd")
RESOURCES = ("cpu", "memory")
EXTERNAL = ("capacity", "lose", "observe", "confirm")
"""Moves that report what is, whatever it does to the sum."""


class Simulation:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.earmarks = 0

    def play(self, moves: Sequence[Move]) -> None:
        for name, number in moves:
            host, workload, other = HOSTS[number % 2], WORKLOADS[number // 2 % 4], WORKLOADS[number // 8 % 4]
            amounts = {"cpu": number // 32 % 7, "memory": number // 224 % 7}
            self.move(name, host, workload, other, amounts, seed=number)
            self.check_sums()
        self.rebuild()

    def move(
        self,
        name: str,
        host: HostKey,
        workload: WorkloadKey,
        other: WorkloadKey,
        amounts: ResourceList,
        *,
        seed: int,
    ) -> None:
        ids = sorted(self.account(host).earmarks)
        picked = ids[seed // 1024 % len(ids)] if ids else "none"
        source = None if seed // 3136 % 3 == 0 else other
        self.earmarks += 1
        earmark = Earmark(id=f"e{self.earmarks}", beneficiary=workload, source=source, amounts=amounts)
        changes: dict[str, Callable[[Transaction | Speculation], object]] = {
            "capacity": lambda tx: tx.set_capacity(
                host, {resource: 4 + amount for resource, amount in amounts.items()}
            ),
            "lose": lambda tx: tx.set_capacity(host, None),
            "observe": lambda tx: tx.observe(host, workload, amounts),
            "vanish": lambda tx: tx.observe(host, workload, None),
            "reserve": lambda tx: tx.reserve(host, workload, amounts),
            "confirm": lambda tx: tx.confirm(host, workload, amounts),
            "release": lambda tx: tx.release(host, workload),
            "earmark": lambda tx: tx.earmark(host, earmark),
            "transfer": lambda tx: tx.transfer(host, picked, wanted=amounts),
            "close": lambda tx: tx.close(host, picked),
        }
        if name == "rebuild":
            self.rebuild()
        elif name == "speculate":
            self.speculate(list(changes.values()))
        else:
            if name == "transfer" and picked in ids:
                workload = self.account(host).earmarks[picked].beneficiary
            self.commit(changes[name], host, workload, external=name in EXTERNAL)

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
        workload: WorkloadKey,
        *,
        external: bool,
    ) -> None:
        before, state = self.account(host), dict(self.ledger._accounts)
        try:
            with self.ledger.transaction() as tx:
                change(tx)
        except LedgerError:
            assert self.ledger._accounts == state, "a refused change left something behind"
            return
        after = self.account(host)
        if not external:
            check_no_overcommit(before, after)
        for key, earmark in before.earmarks.items():
            if earmark.freed and earmark.beneficiary != workload and key in after.earmarks:
                assert after.earmarks[key].amounts == earmark.amounts, "room of another was taken"

    def rebuild(self) -> None:
        old = [self.account(host) for host in HOSTS]
        self.ledger = finish(
            Ledger.rebuild_in_steps(
                capacities=[(account.host, account.capacity) for account in old],
                observed=[(account.host, *use) for account in old for use in account.observed.items()],
                reservations=[
                    (account.host, *promise) for account in old for promise in account.reservations.items()
                ],
                earmarks=[
                    (account.host, earmark) for account in old for earmark in account.earmarks.values()
                ],
            )
        )
        for was in old:
            now = self.account(was.host)
            assert (now.used, now.reservations, now.earmarks.keys()) == (
                was.used,
                was.reservations,
                was.earmarks.keys(),
            )
            assert all(now.grantable(workload) == was.grantable(workload) for workload in WORKLOADS)

    def account(self, host: HostKey) -> HostAccount:
        return self.ledger.account(host) or HostAccount(host=host)

    def state(self) -> str:
        return repr([self.ledger.account(host) for host in HOSTS])

    def check_sums(self) -> None:
        for host in HOSTS:
            account = self.account(host)
            total = Counter[str]()
            for workload in WORKLOADS:
                total.update(account.holding(workload))
            assert account.used == {resource: amount for resource, amount in total.items() if amount}
            for workload in WORKLOADS:
                assert all(amount >= 0 for amount in account.grantable(workload).values())


def check_no_overcommit(before: HostAccount, after: HostAccount) -> None:
    """What is used and kept stays within the capacity, or does not grow where others exceeded it."""
    for resource in RESOURCES:
        room = (after.capacity or {}).get(resource, 0)
        assert promised(after, resource) <= max(room, promised(before, resource)), resource


def promised(account: HostAccount, resource: str) -> int:
    kept = sum(earmark.amounts.get(resource, 0) for earmark in account.earmarks.values() if earmark.freed)
    return account.used.get(resource, 0) + kept


MOVES = (
    *("capacity", "capacity", "observe", "vanish", "reserve", "reserve", "reserve", "confirm", "release"),
    *("earmark", "earmark", "transfer", "close", "lose", "speculate", "rebuild"),
)
moves = st.lists(st.tuples(st.sampled_from(sorted(set(MOVES))), st.integers(0, BIGGEST)), max_size=40)


@settings(max_examples=50, phases=[phase for phase in Phase if phase is not Phase.explain])
@given(moves=moves)
def test_ledger_never_overcommits_and_is_rebuilt_as_it_was(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_ledger_never_overcommits_in_random_interleavings() -> None:
    play_all(lambda moves: Simulation().play(moves), MOVES, longest=25)
