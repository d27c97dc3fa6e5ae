from fairway.hosts.clusters import ClusterSnapshot, Fleet, cells
from fairway.hosts.clusters.objects import delete, load, upsert
from fairway.hosts.journal import NOTHING
from fairway.testing.builders import binding, cluster, cluster_score, cluster_set, decision, placement, score

OBJECTS = (
    score("a", {"free": 7}),
    cluster_score("a", "Health", 5),
    cluster("a"),
    cluster_set("default"),
    binding("default"),
    decision("d", ["a"], placement="p1"),
)


def state(view: ClusterSnapshot) -> dict[str, object]:
    return {
        "hosts": dict(view.hosts.row_of),
        "sets": sorted(view.sets),
        "bindings": dict(view.bindings),
        "held": view.decisions.clusters_of(("ns1", "p1")),
        "free": view.score_column((cells.SCORE, "default", "free")).values[:1].tolist(),
        "health": view.score_column((cells.CALCULATOR, "health")).values[:1].tolist(),
    }


def test_load_equals_single_upserts_of_every_kind() -> None:
    single, whole = Fleet(), Fleet()
    for obj in OBJECTS:
        assert upsert(single, obj) != NOTHING
    load(whole, OBJECTS)
    assert state(whole.snapshot()) == state(single.snapshot())
    assert upsert(single, placement("p1")) == NOTHING


def test_delete_removes_objects_of_every_kind() -> None:
    fleet = Fleet()
    load(fleet, OBJECTS)
    for obj in OBJECTS:
        assert delete(fleet, obj) != NOTHING
    assert state(fleet.snapshot()) == state(Fleet().snapshot())
    assert delete(fleet, placement("p1")) == NOTHING
