"""The changes that a write reports: rows and columns, which determine what is computed again."""

from datetime import timedelta

from fairway.hosts.clusters import Fleet, cells
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.direction import Direction
from fairway.hosts.journal import NOTHING, Change
from fairway.testing.builders import binding, cluster, cluster_score, cluster_set, decision, score
from strategies import NOW


def fleet_of(*names: str) -> Fleet:
    fleet = Fleet()
    fleet.load([cluster(name, member_of="") for name in names])
    return fleet


def reported(change: Change) -> tuple[tuple[int, ...], set[Key]]:
    return change.rows, set(change.columns)


def test_unchanged_upsert_is_no_change() -> None:
    fleet = fleet_of("a")
    things = (score("a", {"free": 1}), cluster_score("a", "Health", 1), decision("d", ["a"]))
    fleet.upsert_score(things[0])
    fleet.upsert_cluster_score(things[1])
    fleet.upsert_decision(things[2])
    fleet.upsert_set(cluster_set("s"))
    fleet.upsert_binding(binding("s"))
    generation = fleet.generation
    assert fleet.upsert_cluster(cluster("a", member_of="")) == NOTHING
    assert fleet.upsert_score(things[0]) == NOTHING
    assert fleet.upsert_cluster_score(things[1]) == NOTHING
    assert fleet.upsert_decision(things[2]) == NOTHING
    assert fleet.upsert_set(cluster_set("s")) == NOTHING
    assert fleet.upsert_binding(binding("s")) == NOTHING
    assert fleet.generation == generation


def test_deleting_missing_object_is_no_change() -> None:
    fleet = fleet_of("a")
    assert fleet.delete_cluster("b") == NOTHING
    assert fleet.delete_score("a", "default") == NOTHING
    assert fleet.delete_cluster_score("a", "Health") == NOTHING
    assert fleet.delete_decision("ns1", "d") == NOTHING
    assert fleet.delete_set("s") == NOTHING
    assert fleet.delete_binding("ns1", "s") == NOTHING


def test_changed_cluster_reports_row_and_columns() -> None:
    change = fleet_of("a", "b").upsert_cluster(cluster("b", member_of="", labels={"env": "prod"}))
    assert reported(change) == ((1,), {("label", "env")})


def test_change_without_column_is_a_change() -> None:
    change = fleet_of("a").upsert_cluster(cluster("a", member_of="", version="v9"))
    assert change.rows == (0,)


def test_added_and_deleted_hosts_report_membership() -> None:
    fleet = fleet_of("a")
    assert MEMBERSHIP in fleet.upsert_cluster(cluster("b")).columns
    assert MEMBERSHIP in fleet.delete_cluster("b").columns


def test_score_change_reports_object_and_changed_scores() -> None:
    fleet = fleet_of("a")
    created = fleet.upsert_score(score("a", {"free": 1, "busy": 2}))
    assert reported(created) == (
        (0,),
        {("scores", "default"), ("score", "default", "free"), ("score", "default", "busy")},
    )
    changed = fleet.upsert_score(score("a", {"free": 1, "busy": 3}))
    assert changed.columns.keys() == {("scores", "default"), ("score", "default", "busy")}
    until = fleet.upsert_score(score("a", {"free": 1, "busy": 3}, valid_until=NOW + timedelta(1)))
    assert until.columns.keys() == created.columns.keys()
    assert fleet.delete_score("a", "default").columns.keys() == created.columns.keys()


def test_scores_before_their_cluster_are_kept() -> None:
    fleet = fleet_of("a")
    assert fleet.upsert_score(score("b", {"free": 7})).rows == ()
    assert fleet.upsert_cluster_score(cluster_score("b", "Health", 8)).rows == ()
    fleet.snapshot().score_column(("score", "default", "free"))
    fleet.upsert_cluster(cluster("b"))
    view = fleet.snapshot()
    assert view.score_column(("score", "default", "free")).values[1] == 7
    assert view.score_column(("calculator", "health")).values[1] == 8


def test_decision_change_reports_clusters_and_owners() -> None:
    fleet = fleet_of("a", "b", "c")
    made = fleet.upsert_decision(decision("d", ["a", "elsewhere"], placement="p1"))
    assert reported(made) == ((0,), {cells.DECISIONS, ("own-decisions", "ns1", "p1")})
    moved = fleet.upsert_decision(decision("d", ["b", "elsewhere"], placement="p2"))
    assert set(moved.rows) == {0, 1}
    assert moved.columns.keys() == {
        cells.DECISIONS,
        ("own-decisions", "ns1", "p1"),
        ("own-decisions", "ns1", "p2"),
    }
    relabelled = fleet.upsert_decision(decision("d", ["b", "elsewhere"]))
    assert reported(relabelled) == ((), {("own-decisions", "ns1", "p2")})


def test_set_and_binding_changes_are_reported() -> None:
    fleet = fleet_of()
    fleet.upsert_set(cluster_set("other"))
    assert fleet.upsert_set(cluster_set("s")).columns.keys() == {("set", "s")}
    assert fleet.upsert_set(cluster_set("s", kind="Odd")).columns.keys() == {("set", "s")}
    assert fleet.delete_set("s").columns.keys() == {("set", "s")}
    assert list(fleet.snapshot().sets) == ["other"]
    assert fleet.upsert_binding(binding("s")).columns.keys() == {("bindings", "ns1")}
    assert fleet.upsert_binding(binding("t")).columns.keys() == {("bindings", "ns1")}
    assert fleet.delete_binding("ns1", "s").columns.keys() == {("bindings", "ns1")}
    assert fleet.snapshot().bindings["ns1"] == {"t"}


def test_managed_cluster_score_column_is_maintained() -> None:
    fleet = fleet_of("a", "b")
    fleet.upsert_cluster_score(cluster_score("b", "Health", 1))
    column = fleet.snapshot().score_column(("calculator", "health"))
    fleet.upsert_cluster_score(cluster_score("b", "Health", 2))
    fleet.upsert_cluster_score(cluster_score("a", "Health", 3))
    assert fleet.snapshot().score_column(("calculator", "health")) is column
    assert column.values[:2].tolist() == [3, 2]


def test_calculators_are_case_insensitive_and_removed_with_last_score() -> None:
    fleet = fleet_of("a")
    fleet.upsert_cluster_score(cluster_score("a", "Health", 1))
    assert list(fleet.snapshot().calculators) == ["health"]
    assert fleet.delete_cluster_score("a", "HEALTH").columns.keys() == {("calculator", "health")}
    assert fleet.snapshot().calculators == {}


def test_new_host_reports_decisions_and_cluster_scores_made_before_it() -> None:
    fleet = fleet_of("a")
    fleet.upsert_decision(decision("d", ["b"]))
    fleet.upsert_cluster_score(cluster_score("b", "Health", 1))
    fleet.snapshot().score_column(("calculator", "health"))
    change = fleet.upsert_cluster(cluster("b", member_of=""))
    assert {cells.DECISIONS, ("calculator", "health")} <= change.columns.keys()


def test_new_host_without_decisions_reports_none() -> None:
    assert cells.DECISIONS not in fleet_of("a").upsert_cluster(cluster("b", member_of="")).columns


def test_cluster_score_reports_the_row_of_its_cluster() -> None:
    fleet = fleet_of("a", "b")
    key = ("calculator", "health")
    assert reported(fleet.upsert_cluster_score(cluster_score("b", "Health", 1))) == ((1,), {key})
    assert reported(fleet.delete_cluster_score("b", "Health")) == ((1,), {key})
    assert reported(fleet.upsert_cluster_score(cluster_score("elsewhere", "Health", 1))) == ((), {key})


def test_numbers_report_their_direction_and_labels_any() -> None:
    cpu, env, free = ("allocatable", "cpu"), ("label", "env"), ("score", "default", "free")
    fleet = Fleet()
    fleet.load([cluster("a", allocatable={"cpu": "2"}, labels={"env": "b"})])
    fleet.upsert_score(score("a", {"free": 5}))
    fleet.upsert_decision(decision("d", ["a"]))
    unread = fleet.upsert_cluster(cluster("a", allocatable={"cpu": "1"}, labels={"env": "b"}))
    assert unread.columns[cpu] is Direction.ANY  # there is no column to compare with
    view = fleet.snapshot()
    view.numbers(cpu), view.codes(env), view.score_column(free)
    up = fleet.upsert_cluster(cluster("a", allocatable={"cpu": "3"}, labels={"env": "a"}))
    assert (up.columns[cpu], up.columns[env]) == (Direction.UP, Direction.ANY)
    down = fleet.upsert_cluster(cluster("a", allocatable={"cpu": "2500m"}, labels={"env": "a"}))
    assert down.columns[cpu] is Direction.DOWN
    gone = fleet.upsert_cluster(cluster("a", labels={"env": "a"}))
    assert gone.columns[cpu] is Direction.ANY
    assert fleet.upsert_score(score("a", {"free": 6})).columns[free] is Direction.UP
    assert fleet.upsert_score(score("a", {"free": 4})).columns[free] is Direction.DOWN
    later = fleet.upsert_score(score("a", {"free": 3}, valid_until=NOW))
    assert later.columns[free] is Direction.ANY  # the last one may have expired
    assert fleet.delete_score("a", "default").columns[free] is Direction.ANY
    assert fleet.upsert_decision(decision("e", ["a"])).columns[cells.DECISIONS] is Direction.UP
    assert fleet.upsert_decision(decision("e", ["b"])).columns[cells.DECISIONS] is Direction.ANY
    assert fleet.delete_decision("ns1", "d").columns[cells.DECISIONS] is Direction.DOWN


def test_changes_name_their_hosts_also_deleted_ones() -> None:
    fleet = fleet_of("a")
    added = fleet.upsert_cluster(cluster("b"))
    assert (added.hosts, added.added) == (("b",), True)
    changed = fleet.upsert_decision(decision("d", ["b", "elsewhere"]))
    assert (changed.hosts, changed.added) == (("b",), False)
    deleted = fleet.delete_cluster("b")
    assert (deleted.hosts, deleted.added) == (("b",), False)
    assert set(deleted.columns.values()) == {Direction.ANY}
