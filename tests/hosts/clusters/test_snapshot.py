from typing import Any

import pytest

from fairway.api.placement import PLACEMENT_LABEL
from fairway.hosts import Table
from fairway.hosts.clusters import ClusterSnapshot, Fleet, cells, clusters_of
from fairway.hosts.column import Key
from fairway.testing.builders import binding, cluster, cluster_score, cluster_set, decision, score

ENV: Key = (cells.LABEL, "env")
CPU: Key = (cells.ALLOCATABLE, "cpu")
FREE: Key = (cells.SCORE, "default", "free")
HEALTH: Key = (cells.CALCULATOR, "health")


def fleet() -> Fleet:
    made = Fleet()
    made.load([cluster("a", labels={"env": "prod"}, allocatable={"cpu": "1"}), cluster("b")])
    made.upsert_score(score("a", {"free": 7}))
    made.upsert_cluster_score(cluster_score("a", "Health", 5))
    made.upsert_set(cluster_set("default"))
    made.upsert_binding(binding("default"))
    made.upsert_decision(decision("d", ["a", "elsewhere"], placement="p1"))
    return made


def seen(view: ClusterSnapshot) -> dict[str, Any]:
    row = view.hosts.row_of["a"]
    return {
        "names": sorted(view.hosts.row_of),
        "object": view.cluster(row),
        "env": view.codes(ENV).value(row),
        "cpu": float(view.numbers(CPU).values[row]),
        "free": int(view.score_column(FREE).values[row]),
        "health": int(view.score_column(HEALTH).values[row]),
        "sets": sorted(view.sets),
        "bindings": dict(view.bindings),
        "held": int(view.counts(cells.DECISIONS).values[row]),
        "absent_clusters": dict(view.decisions.absent_clusters),
        "mine": view.decisions.clusters_of(("ns1", "p1")),
        "score": view.score_object("a", "default"),
    }


def change_everything(made: Fleet) -> None:
    made.upsert_cluster(cluster("a", labels={"env": "dev"}, allocatable={"cpu": "9"}))
    made.upsert_cluster(cluster("elsewhere"))
    made.delete_cluster("b")
    made.upsert_score(score("a", {"free": 8}))
    made.upsert_cluster_score(cluster_score("a", "Health", 6))
    made.upsert_set(cluster_set("other"))
    made.delete_set("default")
    made.upsert_binding(binding("other"))
    made.upsert_decision(decision("d", ["b", "nowhere"], placement="p1"))


@pytest.mark.parametrize("read_before", [True, False], ids=["read before", "first read after"])
def test_held_snapshot_does_not_change(read_before: bool) -> None:
    expected = seen(fleet().snapshot())
    made = fleet()
    held = made.snapshot()
    if read_before:
        seen(held)
    change_everything(made)
    assert seen(held) == expected
    assert seen(made.snapshot()) != expected


def test_snapshot_keeps_its_generation() -> None:
    made = fleet()
    held = made.snapshot()
    made.delete_cluster("b")
    assert made.generation == held.generation + 1
    assert made.snapshot().generation == made.generation


def test_snapshots_without_changes_share_all_data() -> None:
    made = fleet()
    first, second = made.snapshot(), made.snapshot()
    assert first.hosts is second.hosts
    assert first.codes(ENV) is second.codes(ENV)
    assert first.counts(cells.DECISIONS) is second.counts(cells.DECISIONS)
    assert first.sets is second.sets
    assert first.decisions is second.decisions


def parts(made: Fleet) -> dict[str, object]:
    """Return the current data structures. The snapshot used for it is released at the end."""
    view = made.snapshot()
    return {
        "live": view.live,
        "rank": view.hosts.rank,
        "env": view.codes(ENV).codes,
        "cpu": view.numbers(CPU).values,
        "free": view.score_column(FREE).values,
        "counts": view.counts(cells.DECISIONS).values,
        "decisions": view.decisions,
        "scores": view.scores["default"],
    }


def replaced(before: dict[str, object], made: Fleet) -> set[str]:
    now = parts(made)
    return {key for key in before if now[key] is not before[key]}


def test_write_without_snapshot_copies_nothing() -> None:
    made = fleet()
    before = parts(made)
    made.upsert_cluster(cluster("a", labels={"env": "dev"}, allocatable={"cpu": "9"}))
    made.upsert_score(score("a", {"free": 8}))
    made.upsert_decision(decision("d", ["b"], placement="p1"))
    made.upsert_cluster(cluster("c"))
    assert replaced(before, made) == set()


def test_write_with_snapshot_copies_changed_columns_once() -> None:
    made = fleet()
    before = parts(made)
    held = made.snapshot()
    made.upsert_cluster(cluster("a", labels={"env": "dev"}, allocatable={"cpu": "1"}))
    assert replaced(before, made) == {"live", "rank", "env"}
    after = parts(made)
    made.upsert_cluster(cluster("a", labels={"env": "qa"}, allocatable={"cpu": "1"}))
    assert replaced(after, made) == set()
    assert held.codes(ENV).value(0) == "prod"


def test_released_snapshot_causes_no_copy() -> None:
    made = fleet()
    held = made.snapshot()
    before = parts(made)
    del held
    made.upsert_cluster(cluster("a", labels={"env": "dev"}))
    assert replaced(before, made) == set()


def test_every_held_snapshot_keeps_its_data() -> None:
    made = fleet()
    made.snapshot().codes(ENV)
    held: list[ClusterSnapshot] = []
    for number in range(4):
        made.upsert_cluster(cluster("a", labels={"env": str(number)}))
        made.upsert_decision(decision("d", ["a"] * number))
        held.append(made.snapshot())
    assert [view.codes(ENV).value(0) for view in held] == ["0", "1", "2", "3"]
    assert [view.cluster(0).metadata.labels["env"] for view in held] == ["0", "1", "2", "3"]
    assert [int(view.counts(cells.DECISIONS).values[0]) for view in held] == [0, 1, 2, 3]


def test_column_is_created_on_first_use_and_maintained() -> None:
    made = fleet()
    first = made.snapshot().codes(ENV)
    made.upsert_cluster(cluster("b", labels={"env": "qa"}))
    second = made.snapshot().codes(ENV)
    assert first is second
    assert second.value(1) == "qa"


def test_column_created_by_old_snapshot_is_private() -> None:
    made = fleet()
    held = made.snapshot()
    made.upsert_cluster(cluster("a", labels={"env": "dev"}))
    assert held.codes(ENV).value(0) == "prod"
    assert made.snapshot().codes(ENV).value(0) == "dev"
    assert held.codes(ENV) is held.codes(ENV)


def test_snapshot_rows_of_names_keep_the_given_order() -> None:
    assert fleet().snapshot().rows_named(["b", "nobody", "a", "b"]) == [1, 0, 1]


def test_snapshot_of_empty_fleet_has_no_hosts() -> None:
    view = fleet().snapshot()
    assert not view.none().any()
    assert len(view.none()) == len(view.live)


def test_owner_of_decision_is_that_of_its_label() -> None:
    made = fleet()
    loose = decision("loose", ["a"])
    assert PLACEMENT_LABEL not in loose.metadata.labels
    made.upsert_decision(loose)
    view = made.snapshot()
    assert view.decisions.clusters_of(("ns1", "p1")) == ["a", "elsewhere"]
    assert view.decisions.clusters_of(("ns1", "")) == []
    assert int(view.counts(cells.DECISIONS).values[0]) == 2
    made.upsert_decision(decision("d2", ["b"], placement="p1"))
    assert sorted(made.snapshot().decisions.clusters_of(("ns1", "p1"))) == ["a", "b", "elsewhere"]
    made.upsert_decision(decision("d", ["a", "elsewhere"], placement="p2"))
    assert made.snapshot().decisions.clusters_of(("ns1", "p1")) == ["b"]
    assert made.snapshot().decisions.clusters_of(("ns1", "p2")) == ["a", "elsewhere"]


def test_held_snapshot_causes_one_copy_of_score_table() -> None:
    made = fleet()
    held = made.snapshot()
    then = dict(held.scores["default"]), dict(held.calculators["health"])
    made.upsert_score(score("a", {"free": 8}))
    made.upsert_cluster_score(cluster_score("a", "Health", 6))
    first = made.snapshot()
    tables = first.scores["default"], first.calculators["health"]
    assert (tables[0] is held.scores["default"], tables[1] is held.calculators["health"]) == (False, False)
    del first
    made.upsert_score(score("b", {"free": 9}))
    made.upsert_cluster_score(cluster_score("b", "Health", 7))
    second = made.snapshot()
    assert (second.scores["default"] is tables[0], second.calculators["health"] is tables[1]) == (True, True)
    assert (dict(held.scores["default"]), dict(held.calculators["health"])) == then


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "one by one"])
def test_held_snapshot_keeps_deleted_score_table(loaded: bool) -> None:
    made = fleet()
    held: list[tuple[ClusterSnapshot, dict[str, dict[str, Any]]]] = []
    for value in range(4):
        if loaded:
            made.load_scores([score("a", {"free": value})])
        else:
            made.upsert_score(score("a", {"free": value}))
        view = made.snapshot()
        held.append((view, {name: dict(table) for name, table in view.scores.items()}))
        made.delete_score("a", "default")
        view = made.snapshot()
        held.append((view, {name: dict(table) for name, table in view.scores.items()}))
    for view, then in held:
        assert view.scores == then


def test_every_held_snapshot_keeps_the_scores_of_its_time() -> None:
    made = fleet()
    held = [made.snapshot()]
    for value in (8, 9):
        made.upsert_score(score("a", {"free": value}))
        made.upsert_cluster_score(cluster_score("a", "Health", value))
        held.append(made.snapshot())
    for view, free, health in zip(held, (7, 8, 9), (5, 8, 9), strict=True):
        assert (view.score_column(FREE).values[0], view.score_column(HEALTH).values[0]) == (free, health)


def test_namespace_without_bindings_is_removed() -> None:
    made = fleet()
    made.delete_binding("ns1", "default")
    assert made.snapshot().bindings == {}


def test_snapshot_of_another_kind_of_host_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a snapshot of ManagedClusters; got Snapshot"):
        clusters_of(Table(schema=cells).snapshot())
