from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from fairway.api.cluster import ClusterClaim, ManagedCluster, Taint
from fairway.hosts.clusters import Fleet, cells
from fairway.hosts.column import MEMBERSHIP, CodeColumn, CountColumn, Key, NumberColumn, ScoreColumn
from fairway.testing.builders import cluster
from strategies import NOW

FULL = cluster(
    "c1",
    labels={"env": "prod"},
    claims={"region": "eu"},
    taints=[Taint(key="gpu", value="v", effect="NoSelect", timeAdded=NOW)],
    allocatable={"cpu": "1500m"},
    capacity={"cpu": "2"},
    version="v1.31.0",
    member_of="",
)
BARE = cluster("c1", member_of="")


@pytest.mark.parametrize(
    ("key", "full", "bare"),
    [
        pytest.param(("label", "env"), "prod", None, id="a label"),
        pytest.param(("claim", "region"), "eu", None, id="a claim"),
        pytest.param(cells.TAINTS, (("gpu", "v", "NoSelect"),), (), id="taints without their times"),
        pytest.param(cells.DELETING, None, None, id="not being deleted"),
        pytest.param(("allocatable", "cpu"), 1.5, None, id="allocatable"),
        pytest.param(("capacity", "cpu"), 2.0, None, id="capacity"),
        pytest.param(("path", "status", "version", "kubernetes"), "v1.31.0", "", id="a plain path"),
        pytest.param(
            ("path", "metadata", "labels", "env"), (True, "prod"), (False, None), id="a path into a map"
        ),
        pytest.param(
            ("path", "metadata", "labels", "nope"), (True, None), (False, None), id="a missing key of a map"
        ),
        pytest.param(
            ("path", "metadata", "deletionTimestamp"), cells.UNSET, cells.UNSET, id="a path to nothing"
        ),
        pytest.param(
            ("path", "nowhere", "at", "all"), cells.UNSET, cells.UNSET, id="a path that does not exist"
        ),
        pytest.param(
            ("path", "status", "version"), b'{"kubernetes":"v1.31.0"}', b"{}", id="a path to an object"
        ),
    ],
)
def test_cell_values_of_a_cluster(key: Key, full: object, bare: object) -> None:
    read = cells.cell_reader(key)
    assert (read(FULL), read(BARE)) == (full, bare)


def test_deleting_cell_of_a_cluster() -> None:
    assert cells.cell_reader(cells.DELETING)(cluster("c1", deleting=NOW)) is True


def with_claims(*pairs: tuple[str, str]) -> ManagedCluster:
    claims = tuple(ClusterClaim(name=name, value=value) for name, value in pairs)
    return structs.replace(BARE, status=structs.replace(BARE.status, clusterClaims=claims))


def test_last_of_duplicate_claims_is_in_the_cell() -> None:
    twice = with_claims(("region", "eu"), ("zone", "1"), ("region", "us"))
    assert cells.cell_reader(("claim", "region"))(twice) == "us"
    assert cells.claims_of(twice) == {"region": "us", "zone": "1"}


def test_invalid_quantity_counts_as_not_reported() -> None:
    odd = cluster("c1", allocatable={"cpu": "plenty", "memory": "1Gi"})
    assert cells.cell_reader(("allocatable", "cpu"))(odd) is None
    assert cells.cell_reader(("allocatable", "memory"))(odd) == 2**30


@pytest.mark.parametrize("text", ["1.99999999999999999999e99999", "-1e2147483647", "0e2147483647"])
def test_excessive_quantity_counts_as_not_reported(text: str) -> None:
    assert cells.cell_reader(("allocatable", "cpu"))(cluster("c1", allocatable={"cpu": text})) is None


@pytest.mark.parametrize(
    "key", [("score", "default", "cpu"), ("calculator", "x"), cells.DECISIONS, ("set", "x")]
)
def test_score_columns_are_not_cells_of_clusters(key: Key) -> None:
    with pytest.raises(KeyError):
        cells.cell_reader(key)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (("label", "env"), CodeColumn),
        (cells.TAINTS, CodeColumn),
        (("path", "spec"), CodeColumn),
        (("allocatable", "cpu"), NumberColumn),
        (("capacity", "cpu"), NumberColumn),
        (("score", "default", "cpu"), ScoreColumn),
        (("calculator", "x"), ScoreColumn),
        (cells.DECISIONS, CountColumn),
    ],
)
def test_column_kind_of_each_cell(key: Key, kind: type) -> None:
    assert type(cells.new_column(key, capacity=64, stamp=3)) is kind
    assert cells.new_column(key, capacity=64, stamp=3).stamp == 3


def changed(new: ManagedCluster, old: ManagedCluster = FULL) -> set[Key]:
    return cells.changed_columns(old, new)


def edited(part: str, **fields: Any) -> ManagedCluster:
    inner = structs.replace(getattr(FULL, part), **fields)
    return structs.replace(FULL, **{part: inner})


LATER = Taint(key="gpu", value="v", effect="NoSelect", timeAdded=NOW + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(FULL, set(), id="the very same"),
        pytest.param(edited("metadata", resourceVersion="2"), set(), id="a new version of the same"),
        pytest.param(
            edited("metadata", labels={"env": "dev"}), {("label", "env")}, id="another value of a label"
        ),
        pytest.param(
            edited("metadata", labels={"tier": "gold"}),
            {("label", "env"), ("label", "tier")},
            id="a label gone, another come",
        ),
        pytest.param(edited("status", clusterClaims=()), {("claim", "region")}, id="a claim gone"),
        pytest.param(edited("spec", taints=()), {cells.TAINTS}, id="a taint gone"),
        pytest.param(edited("spec", taints=(LATER,)), {cells.TAINTS}, id="a taint of another time"),
        pytest.param(edited("metadata", deletionTimestamp=NOW), {cells.DELETING}, id="being deleted"),
        pytest.param(
            edited("status", allocatable={"cpu": "1"}), {("allocatable", "cpu")}, id="less allocatable"
        ),
        pytest.param(
            edited("status", capacity={}), {("capacity", "cpu")}, id="capacity not reported any more"
        ),
        pytest.param(edited("spec", leaseDurationSeconds=9), set(), id="field without a column"),
    ],
)
def test_changed_columns_of_two_cluster_versions(new: ManagedCluster, expected: set[Key]) -> None:
    assert changed(new) == expected


def test_columns_of_new_cluster() -> None:
    assert cells.all_columns(FULL) == {
        MEMBERSHIP,
        cells.TAINTS,
        cells.DELETING,
        ("label", "env"),
        ("claim", "region"),
        ("allocatable", "cpu"),
        ("capacity", "cpu"),
    }


def test_path_change_is_reported_once_its_column_exists() -> None:
    key: Key = ("path", "status", "version", "kubernetes")
    fleet = Fleet()
    fleet.upsert_cluster(FULL)
    assert fleet.upsert_cluster(edited("status", version=BARE.status.version)).columns == {}
    fleet.snapshot().codes(key)
    assert fleet.upsert_cluster(FULL).columns.keys() == {key}
