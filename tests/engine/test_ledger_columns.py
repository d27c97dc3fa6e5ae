"""The columns of the ledger: what any workload may have, and the room that is kept for single ones."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from fairway.engine.ledger import Earmark, Ledger, LedgerColumns, LedgerError
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.resources import earmarked, grantable
from hosts.nodes.builders import node

HOSTS = (HostKey("n1", "u1"), HostKey("n2", "u2"))
WHO = tuple(WorkloadKey("ns", name, name) for name in "abc")

hosts, workloads = st.sampled_from(HOSTS), st.sampled_from(WHO)
amounts = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 5))
steps = st.one_of(
    st.tuples(st.just("set_capacity"), hosts, st.one_of(st.none(), amounts)),
    st.tuples(st.just("reserve"), hosts, workloads, amounts),
    st.tuples(st.just("release"), hosts, workloads),
    st.tuples(st.just("observe"), hosts, workloads, st.one_of(st.none(), amounts)),
    st.tuples(st.just("remove_host"), hosts),
    st.builds(
        lambda host, beneficiary, source, held, name: (
            "earmark",
            host,
            Earmark(id=name, beneficiary=beneficiary, source=source, amounts=held),
        ),
        hosts,
        workloads,
        st.one_of(st.none(), workloads),
        amounts,
        st.sampled_from("xy"),
    ),
)

SETUP = [("set_capacity", host, {"cpu": 9, "gpu": 9}) for host in HOSTS]


@given(
    steps=st.lists(steps, max_size=25).map(lambda more: [*SETUP, *more]),
    late=st.booleans(),
)
def test_columns_and_kept_room_equal_what_the_ledger_grants(steps: list[Any], late: bool) -> None:
    fleet, ledger = NodeFleet(), Ledger()
    fleet.load([node(host.name) for host in HOSTS])
    if not late:
        LedgerColumns(ledger, fleet)
    for name, *arguments in steps:
        try:
            with ledger.transaction() as transaction:
                getattr(transaction, name)(*arguments)
        except LedgerError:
            pass
    if late:
        LedgerColumns(ledger, fleet)
    view = fleet.snapshot()
    for host in HOSTS:
        row = view.hosts.row_of[host.name]
        for workload in WHO:
            granted, own = ledger.grantable(host, workload), ledger.earmarked_for(workload).get(host, {})
            for resource in ("cpu", "gpu"):
                left = int(view.counts(grantable(resource)).values[row]) + own.get(resource, 0)
                assert max(0, left) == granted.get(resource, 0)
                assert own.get(resource, 0) <= int(view.counts(earmarked(resource)).values[row])


def test_recreated_host_is_not_erased_with_the_account_of_the_old_one() -> None:
    fleet, ledger = NodeFleet(), Ledger()
    fleet.load([node("n1")])
    LedgerColumns(ledger, fleet)
    for host, cpu in ((HostKey("n1", "old"), 1), (HostKey("n1", "new"), 2)):
        with ledger.transaction() as transaction:
            transaction.set_capacity(host, {"cpu": cpu})
    with ledger.transaction() as transaction:
        transaction.remove_host(HostKey("n1", "old"))
    assert int(fleet.snapshot().counts(grantable("cpu")).values[0]) == 2
