from collections.abc import Callable, Sequence

from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.forms import points_of
from fairway.engine.ledger import Entry, Ledger
from fairway.engine.points import CommitContext
from fairway.engine.status import Code
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet.direction import Direction
from fairway.fleet.resources import grantable
from fairway.plugins.reserve_capacity import ReserveCapacity

HOSTS = (HostKey("n1", "u1"), HostKey("n2", "u2"))


def books(
    *capacities: int, persist: Callable[[Sequence[Entry]], None] = lambda _entries: None
) -> tuple[Ledger, ReserveCapacity]:
    ledger = Ledger(epoch=4)
    with ledger.transaction(epoch=4) as tx:
        for host, capacity in zip(HOSTS, capacities, strict=True):
            tx.set_capacity(host, {"cpu": capacity})
    return ledger, ReserveCapacity(ledger=ledger, persist=persist)


def context(cpu: int) -> CommitContext:
    workload = Workload(key=WorkloadKey("ns", "a", "1"), spec=None, demand={"cpu": cpu}, wanted=2)
    return CommitContext(workload=workload, hosts=HOSTS, started=0)


def used(ledger: Ledger) -> list[int]:
    return [account.used.get("cpu", 0) for host in HOSTS if (account := ledger.account(host)) is not None]


def test_demand_is_reserved_on_all_hosts_and_given_back_as_often_as_asked() -> None:
    entries: list[Entry] = []
    ledger, plugin = books(2000, 1000, persist=entries.extend)
    assert plugin.reserve(context(1000)).code is Code.SUCCESS
    assert used(ledger) == [1000, 1000]
    assert [entry.host for entry in entries] == list(HOSTS)
    for _ in range(2):
        plugin.unreserve(context(1000))
    assert used(ledger) == [0, 0]
    assert [entry.value for entry in entries[2:]] == [None, None]


def test_refusal_on_one_host_reserves_on_none_and_names_what_is_in_the_way() -> None:
    entries: list[Entry] = []
    ledger, plugin = books(2000, 500, persist=entries.extend)
    status = plugin.reserve(context(1000))
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE,
        "host n2 cannot grant ns/a 1 cpu: 500m of 500m left",
    )
    assert (used(ledger), entries) == ([0, 0], [])


def test_deposed_leader_neither_reserves_nor_releases() -> None:
    ledger, plugin = books(2000, 2000)
    plugin.reserve(context(1000))
    ledger.fence(5)
    assert plugin.reserve(context(2000)).code is Code.ERROR
    plugin.unreserve(context(1000))
    assert used(ledger) == [1000, 1000]


def test_rejected_workload_wakes_when_more_of_its_resources_can_be_granted() -> None:
    _, plugin = books(0, 0)
    depends = Dependencies.of([plugin.commit_reads(context(1000))])
    freed = Event(label="freed", hosts=frozenset({"n1"}), columns={grantable("cpu"): Direction.UP})
    assert depends.concerned_by(freed)
    assert plugin.releases(context(1000)) == freed.columns
    taken = Event(label="taken", hosts=frozenset({"n1"}), columns={grantable("cpu"): Direction.DOWN})
    assert not depends.concerned_by(taken)
    assert points_of(ReserveCapacity) == {"Reserve", "Releases", "CommitReader"}
