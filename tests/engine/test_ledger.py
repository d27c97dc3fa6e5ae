"""The rules of the ledger: reservations, earmarks, transfers, speculation and recovery."""

from collections.abc import Iterable

import pytest

from fairway.engine.ledger import (
    Earmark,
    HostAccount,
    InsufficientCapacity,
    Ledger,
    LedgerError,
    Transaction,
)
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.steps import finish

N1, N2 = HostKey("n1", "u1"), HostKey("n2", "u2")
A, B, C, D, E, X = (WorkloadKey("ns", name, name) for name in "abcdex")


def cu(amount: int) -> ResourceList:
    return {"cu": amount}


def seed() -> Ledger:
    """Two hosts of 10; on n1, A has 4, B 3 and X 3."""
    ledger = Ledger()
    with ledger.transaction() as tx:
        for host in (N1, N2):
            tx.set_capacity(host, cu(10))
        for workload, amount in ((A, 4), (B, 3), (X, 3)):
            tx.reserve(N1, workload, cu(amount))
    return ledger


def planned(
    ledger: Ledger, *, amount: int = 2, id_: str = "m1", beneficiary: WorkloadKey = A, of: WorkloadKey = B
) -> None:
    with ledger.transaction() as tx:
        tx.earmark(N1, Earmark(id=id_, beneficiary=beneficiary, source=of, amounts=cu(amount)))


def account(ledger: Ledger, host: HostKey = N1) -> HostAccount:
    host_account = ledger.account(host)
    assert host_account is not None
    return host_account


def state(ledger: Ledger) -> str:
    """Everything, to compare."""
    return repr((ledger.generation, [account(ledger, host) for host in ledger.hosts()]))


def left(ledger: Ledger, workload: WorkloadKey, host: HostKey = N1) -> int:
    return ledger.grantable(host, workload)["cu"]


def released(ledger: Ledger, *gone: WorkloadKey) -> None:
    with ledger.transaction() as tx:
        for workload in gone:
            tx.release(N1, workload)


def test_reservation_beyond_what_is_left_is_refused_and_names_the_holders() -> None:
    ledger = seed()
    with pytest.raises(InsufficientCapacity) as refused, ledger.transaction() as tx:
        tx.reserve(N1, A, cu(6))
    assert str(refused.value) == (
        "host n1 cannot grant ns/a 2m cu: 0 of 10m left; held by ns/a 4m, ns/b 3m, ns/x 3m"
    )
    assert account(ledger).holding(A) == cu(4)


def test_reservations_are_absolute_so_that_a_retry_changes_nothing() -> None:
    ledger = seed()
    before = account(ledger)
    with ledger.transaction() as tx:
        tx.reserve(N1, A, cu(4))
    assert account(ledger) == before


def test_promise_and_its_observation_are_counted_once() -> None:
    ledger = seed()
    with ledger.transaction() as tx:
        tx.observe(N1, A, cu(4))
    assert account(ledger).used == cu(10)
    with ledger.transaction() as tx:
        tx.confirm(N1, A, cu(3))
    assert (account(ledger).used, account(ledger).holding(A)) == (cu(9), cu(3))


def test_bind_reported_failed_but_observed_as_bound_is_counted_once() -> None:
    ledger = seed()
    released(ledger, A)
    for _ in range(2):
        with ledger.transaction() as tx:
            tx.observe(N1, A, cu(4))
    assert account(ledger).used == cu(10)


def test_release_keeps_observed_use_until_its_deletion() -> None:
    ledger = seed()
    with ledger.transaction() as tx:
        tx.observe(N1, B, cu(3))
        tx.release(N1, B)
    assert left(ledger, A) == 0
    with ledger.transaction() as tx:
        tx.observe(N1, B, None)
    assert left(ledger, A) == 3


def test_unknown_capacity_grants_nothing() -> None:
    ledger = Ledger()
    with pytest.raises(InsufficientCapacity, match="capacity unknown"), ledger.transaction() as tx:
        tx.reserve(N1, A, cu(1))
    with ledger.transaction() as tx:
        tx.set_capacity(N1, None)
    assert ledger.grantable(N1, A) == {}
    with ledger.transaction() as tx:
        tx.set_capacity(N1, cu(1))
    with pytest.raises(InsufficientCapacity, match="1m gpu: 0 of 0 left"), ledger.transaction() as tx:
        tx.reserve(N1, A, {"gpu": 1})


def test_host_that_shrinks_below_its_promises_grants_nothing_and_never_goes_negative() -> None:
    ledger = seed()
    with ledger.transaction() as tx:
        tx.set_capacity(N1, cu(5))
        tx.observe_unattributed(N1, cu(2))
    assert left(ledger, A) == 0
    with pytest.raises(InsufficientCapacity), ledger.transaction() as tx:
        tx.reserve(N1, A, cu(5))
    with ledger.transaction() as tx:
        tx.reserve(N1, A, cu(1))
    assert account(ledger).used == cu(9)


def _release_and_ask_for_too_much(tx: Transaction) -> None:
    tx.release(N1, X)
    tx.reserve(N2, C, cu(11))


def test_transaction_happens_as_a_whole_or_not_at_all() -> None:
    ledger = seed()
    before = state(ledger)
    tx = ledger.transaction()
    with pytest.raises(InsufficientCapacity), tx:
        _release_and_ask_for_too_much(tx)
    assert state(ledger) == before
    with pytest.raises(LedgerError, match="has ended"):
        tx.release(N1, X)


def test_transaction_that_another_one_overtook_is_refused() -> None:
    ledger = seed()
    slow = ledger.transaction()
    slow.reserve(N2, C, cu(10))
    with ledger.transaction() as tx:
        tx.reserve(N2, D, cu(10))
    with pytest.raises(LedgerError, match="changed during the transaction"):
        slow.commit()
    assert account(ledger, N2).used == cu(10)


def test_planned_earmark_keeps_nothing_until_its_source_leaves() -> None:
    ledger = seed()
    planned(ledger)
    released(ledger, X)
    assert (left(ledger, C), left(ledger, A)) == (3, 3)
    released(ledger, B)
    assert (left(ledger, C), left(ledger, A)) == (4, 6)


def test_freed_room_goes_to_its_beneficiary_only_and_the_rest_to_the_pool() -> None:
    """E leaves 3 of which 2 are D's: one is free for all workloads."""
    ledger = seed()
    planned(ledger, beneficiary=A, of=B, id_="m1")
    planned(ledger, beneficiary=D, of=X, id_="m2")
    released(ledger, X)
    assert (left(ledger, A), left(ledger, D), left(ledger, C)) == (1, 3, 1)
    in_the_way = r"1m of 10m left; .*; kept for ns/d 2m \(m2\)"
    with pytest.raises(InsufficientCapacity, match=in_the_way), ledger.transaction() as tx:
        tx.reserve(N1, C, cu(2))
    with ledger.transaction() as tx:
        tx.reserve(N1, D, cu(2))
    assert "m2" not in account(ledger).earmarks
    assert left(ledger, C) == 1


def test_transfer_removes_the_source_grows_the_beneficiary_and_closes_the_earmark_at_once() -> None:
    ledger = seed()
    planned(ledger)
    with ledger.transaction() as tx:
        assert tx.transfer(N1, "m1", wanted=cu(6)) == cu(6)
    after = account(ledger)
    assert (after.holding(A), after.holds(B), after.used, after.earmarks) == (cu(6), False, cu(9), {})
    with pytest.raises(LedgerError, match="no earmark m1"), ledger.transaction() as tx:
        tx.transfer(N1, "m1", wanted=cu(6))


@pytest.mark.parametrize(("wanted", "granted"), [(9, 7), (5, 5), (4, 4), (2, 2)])
def test_transfer_grants_what_is_wanted_now_up_to_earmark_and_free_room(wanted: int, granted: int) -> None:
    ledger = seed()
    planned(ledger)
    with ledger.transaction() as tx:
        assert tx.transfer(N1, "m1", wanted=cu(wanted)) == cu(granted)
    assert account(ledger).used == cu(3 + granted)


def test_earmark_ends_with_its_beneficiary() -> None:
    ledger = seed()
    planned(ledger)
    released(ledger, A)
    assert account(ledger).earmarks == {}


def test_earmarks_of_one_source_never_exceed_what_it_holds() -> None:
    ledger = seed()
    planned(ledger, amount=2, beneficiary=A, id_="m1")
    with pytest.raises(LedgerError, match="earmarks of ns/b on host n1 exceed what it holds: cu 4 of 3"):
        planned(ledger, amount=2, beneficiary=D, id_="m2")
    planned(ledger, amount=1, beneficiary=D, id_="m2")
    planned(ledger, amount=2, beneficiary=A, id_="m1")  # replaces itself


def test_source_that_shrank_frees_no_more_than_it_left() -> None:
    ledger = seed()
    planned(ledger)
    with ledger.transaction() as tx:
        tx.reserve(N1, B, cu(1))
        tx.reserve(N1, C, cu(2))
    released(ledger, B)
    assert account(ledger).earmarks["m1"].amounts == cu(1)
    assert (left(ledger, A), left(ledger, D)) == (1, 0)


def test_earmarks_of_a_source_that_shrank_share_what_it_left() -> None:
    ledger = seed()
    for id_, workload, amount in (("m1", A, 1), ("m2", D, 2)):
        planned(ledger, id_=id_, beneficiary=workload, amount=amount)
    with ledger.transaction() as tx:
        tx.reserve(N1, B, cu(2))
        tx.reserve(N1, C, cu(1))
    released(ledger, B)
    assert {id_: earmark.amounts for id_, earmark in account(ledger).earmarks.items()} == {
        "m1": cu(1),
        "m2": cu(1),
    }


def test_growth_uses_up_one_earmark_after_the_other() -> None:
    ledger = seed()
    planned(ledger, id_="m1", amount=2, of=B)
    planned(ledger, id_="m2", amount=3, of=X)
    released(ledger, B, X)
    with ledger.transaction() as tx:
        tx.reserve(N1, A, cu(7))
    assert {id_: earmark.amounts for id_, earmark in account(ledger).earmarks.items()} == {"m2": cu(2)}


def test_room_of_a_source_that_returned_can_be_earmarked_again() -> None:
    ledger = seed()
    planned(ledger, id_="m1", amount=2)
    released(ledger, B)
    with ledger.transaction() as tx:
        tx.reserve(N1, B, cu(1))
    planned(ledger, id_="m2", amount=1, beneficiary=D)
    assert set(account(ledger).earmarks) == {"m1", "m2"}


def test_earmark_of_free_room_is_kept_at_once_and_cannot_be_promised_twice() -> None:
    ledger = seed()
    with ledger.transaction() as tx:
        tx.earmark(N2, Earmark(id="n", beneficiary=A, amounts=cu(8), deadline=5))
    assert (left(ledger, A, N2), left(ledger, B, N2)) == (10, 2)
    for workload in (A, B):
        with pytest.raises(InsufficientCapacity), ledger.transaction() as tx:
            tx.earmark(N2, Earmark(id="m", beneficiary=workload, amounts=cu(3)))
    assert ledger.next_deadline() == 5
    assert ledger.expired(now=4) == []
    with ledger.transaction() as tx:
        for host, earmark in ledger.expired(now=5):
            tx.close(host, earmark.id)
    assert left(ledger, B, N2) == 10


def test_recreated_host_has_no_promises_of_the_old_one() -> None:
    ledger = seed()
    again = HostKey("n1", "u9")
    with ledger.transaction() as tx:
        tx.remove_host(N1)
        tx.set_capacity(again, cu(10))
    assert ledger.account(N1) is None
    assert left(ledger, A, again) == 10


def test_speculation_leaves_the_ledger_byte_identical() -> None:
    ledger = seed()
    planned(ledger)
    before = state(ledger)
    copy = ledger.speculate()
    copy.transfer(N1, "m1", wanted=cu(6))
    copy.reserve(N2, B, cu(3))
    deeper = copy.speculate()
    deeper.remove_host(N2)
    assert state(ledger) == before
    assert copy.account(N2) is not None


def test_speculation_does_not_see_later_commits() -> None:
    ledger = seed()
    copy = ledger.speculate()
    released(ledger, X)
    old = copy.account(N1)
    assert old is not None
    assert (left(ledger, A), old.grantable(A)["cu"]) == (3, 0)


def rebuilt(
    *, reserved: int = 0, earmarks: Iterable[tuple[HostKey, Earmark]] = (), **observed: int
) -> Ledger:
    seen = [(N1, WorkloadKey("ns", name, name), cu(amount)) for name, amount in observed.items()]
    return finish(
        Ledger.rebuild_in_steps(
            capacities=[(N1, cu(10))],
            observed=seen,
            reservations=[(N1, A, cu(reserved))] if reserved else (),
            earmarks=earmarks,
        )
    )


def test_rebuild_after_the_source_left_still_keeps_the_room() -> None:
    earmarks = [(N1, Earmark(id="m1", beneficiary=A, source=B, amounts=cu(2)))]
    assert left(rebuilt(earmarks=earmarks, a=4, b=3, x=3), C) == 0
    ledger = rebuilt(earmarks=earmarks, a=4, x=3)
    assert (left(ledger, C), left(ledger, A)) == (1, 3)


def test_rebuild_restores_promises_beyond_the_capacity_and_grants_nothing_more() -> None:
    ledger = rebuilt(reserved=8, b=5)
    assert account(ledger).used == cu(13)
    assert left(ledger, C) == 0
