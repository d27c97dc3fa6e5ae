import pytest

from fairway.hosts import bitmap
from fairway.hosts.clusters import ClusterSnapshot, Fleet, cells
from fairway.hosts.column import NEVER, Key
from fairway.hosts.hosts import FIRST_CAPACITY
from fairway.testing.builders import cluster, cluster_score, decision, score

COUNT = FIRST_CAPACITY + 10
ENV: Key = (cells.LABEL, "env")
CPU: Key = (cells.ALLOCATABLE, "cpu")
FREE: Key = (cells.SCORE, "default", "free")
HEALTH: Key = (cells.CALCULATOR, "health")
PATH: Key = (cells.PATH, "metadata", "labels", "env")


def touch(view: ClusterSnapshot) -> None:
    """Create the columns and a bitmap of each code column, so that growth has to keep them."""
    for key in (ENV, PATH, cells.TAINTS, cells.DELETING):
        view.codes(key).bitmap(1)
    view.numbers(CPU)
    view.score_column(FREE)
    view.score_column(HEALTH)
    view.counts(cells.DECISIONS)


def name(at: int) -> str:
    return f"c{at:03d}"


def add(fleet: Fleet, at: int) -> None:
    fleet.upsert_cluster(
        cluster(name(at), labels={"env": ("prod", "dev")[at % 2]}, allocatable={"cpu": str(at)})
    )


def grown(*, read: bool) -> Fleet:
    fleet = Fleet()
    for at in range(COUNT):
        fleet.upsert_score(score(name(at), {"free": at}))
        fleet.upsert_cluster_score(cluster_score(name(at), "Health", -at))
    fleet.upsert_decision(decision("d", [name(at) for at in range(0, COUNT, 3)]))
    for at in range(COUNT):
        add(fleet, at)
        if read and at in (0, FIRST_CAPACITY - 1):
            touch(fleet.snapshot())
    return fleet


@pytest.mark.parametrize("read", [True, False], ids=["columns in use", "no columns yet"])
def test_fleet_beyond_capacity_keeps_all_data(read: bool) -> None:
    view = grown(read=read).snapshot()
    assert view.capacity == 2 * FIRST_CAPACITY
    assert bitmap.count(view.live) == COUNT
    assert view.hosts.in_name_order() == [name(at) for at in range(COUNT)]
    for at in range(COUNT):
        row = view.hosts.row_of[name(at)]
        env = ("prod", "dev")[at % 2]
        assert view.codes(ENV).value(row) == env
        assert view.codes(PATH).value(row) == (True, env)
        assert view.numbers(CPU).values[row] == at
        assert (view.score_column(FREE).values[row], view.score_column(FREE).expires[row]) == (at, NEVER)
        assert view.score_column(HEALTH).values[row] == -at
        assert view.counts(cells.DECISIONS).values[row] == (at % 3 == 0)
    prod = view.codes(ENV).code("prod")
    assert prod is not None
    assert bitmap.count(view.codes(ENV).bitmap(prod) & view.live) == COUNT // 2


def test_snapshot_before_growth_keeps_its_size() -> None:
    fleet = Fleet()
    for at in range(FIRST_CAPACITY):
        add(fleet, at)
    held = fleet.snapshot()
    touch(held)
    add(fleet, FIRST_CAPACITY)
    assert (held.capacity, len(held.hosts)) == (FIRST_CAPACITY, FIRST_CAPACITY)
    assert len(held.codes(ENV).codes) == FIRST_CAPACITY
    assert fleet.snapshot().capacity == 2 * FIRST_CAPACITY
    assert len(fleet.snapshot().codes(ENV).codes) == 2 * FIRST_CAPACITY


def test_free_row_is_used_before_growth() -> None:
    fleet = Fleet()
    for at in range(FIRST_CAPACITY):
        add(fleet, at)
    fleet.delete_cluster(name(7))
    add(fleet, FIRST_CAPACITY)
    view = fleet.snapshot()
    assert view.capacity == FIRST_CAPACITY
    assert view.hosts.row_of[name(FIRST_CAPACITY)] == 7


def test_load_reserves_capacity_and_last_duplicate_wins() -> None:
    fleet = Fleet()
    fleet.upsert_decision(decision("d", ["c000", "later"]))
    fleet.load([cluster("c000", labels={"env": "old"}), *(cluster(name(at)) for at in range(COUNT))])
    view = fleet.snapshot()
    assert (len(fleet), view.capacity) == (COUNT, 2 * FIRST_CAPACITY)
    assert view.codes(ENV).value(view.hosts.row_of["c000"]) is None
    assert view.counts(cells.DECISIONS).values[view.hosts.row_of["c000"]] == 1
    assert dict(view.decisions.absent_clusters) == {"later": 1}


def test_load_into_existing_fleet_adds_hosts() -> None:
    fleet = Fleet()
    add(fleet, 0)
    fleet.load([cluster("z")])
    assert sorted(fleet.snapshot().hosts.row_of) == ["c000", "z"]
