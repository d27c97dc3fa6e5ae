"""What third-party plugins get cannot be modified, and what they write into their view reaches no other reader."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from fairway.hosts.clusters import Fleet, cells
from fairway.hosts.clusters.decisions import Holding
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.protection import protect, read_only, shield
from fairway.testing.builders import binding, cluster, cluster_score, cluster_set, score

ENV = cells.label("env")
CPU = (cells.SCORE, "usage", "cpu")


def fleet() -> Fleet:
    made = Fleet()
    made.load([cluster(name, labels={"env": "dev"}, allocatable={"cpu": "4"}) for name in ("a", "b")])
    made.upsert_set(cluster_set("default"))
    made.upsert_binding(binding("default"))
    made.upsert_score(score("a", {"cpu": 7}, name="usage"))
    made.upsert_cluster_score(cluster_score("a", "ratio", 5))
    made.hold(namespace="ns1", name="p-1", holding=Holding(("ns1", "p"), ("a",)))
    made.debit(("ns1", "p"), ["a"], {("usage", "cpu"): -5})
    return made


def image(snapshot: ClusterSnapshot) -> list[Any]:
    """Return all that plugins can read of a snapshot, as plain values."""
    codes = snapshot.codes(ENV)
    return [
        list(snapshot.hosts.names),
        dict(snapshot.hosts.row_of),
        snapshot.live.tolist(),
        snapshot.hosts.rank.tolist(),
        [codes.value(row) for row in range(2)],
        codes.bitmap(codes.code("dev") or 0).tolist(),
        snapshot.score_column(CPU).values.tolist(),
        [dict(snapshot.cluster(row).metadata.labels) for row in range(2)],
        [dict(snapshot.cluster(row).status.allocatable) for row in range(2)],
        sorted(snapshot.sets),
        dict(snapshot.bindings),
        snapshot.decisions.clusters_of(("ns1", "p")),
        snapshot.decisions.absent_clusters.copy()
        if isinstance(snapshot.decisions.absent_clusters, dict)
        else {},
        snapshot.debits.total("a", (cells.DEBIT, "usage", "cpu", "falls")),
        {name: dict(table) for name, table in snapshot.scores.items()},
        {name: dict(table) for name, table in snapshot.calculators.items()},
        snapshot.generation,
    ]


def _regain(array: Any) -> None:
    array.setflags(write=True)
    array[0] = 1


ATTACKS: dict[str, Callable[[Any], object]] = {
    "names": lambda view: view.hosts.names.__setitem__(0, "x"),
    "append a name": lambda view: view.hosts.names.append("x"),
    "clear names": lambda view: view.hosts.names.clear(),
    "row": lambda view: view.hosts.row_of.__setitem__("a", 9),
    "objects": lambda view: view.hosts.objects.__setitem__(0, None),
    "remove a host": lambda view: view.hosts.remove("a"),
    "add a host": lambda view: view.hosts.add("z", cluster("z")),
    "live": lambda view: view.live.__setitem__(0, 0),
    "regain live": lambda view: _regain(view.live),
    "rank": lambda view: view.hosts.rank.__setitem__(0, 0),
    "codes": lambda view: view.codes(ENV).codes.__setitem__(0, 0),
    "write a cell": lambda view: view.codes(ENV).write(0, "prod"),
    "values of codes": lambda view: view.codes(ENV).values.__setitem__(1, "prod"),
    "bitmap": lambda view: view.codes(ENV).bitmap(1).__setitem__(0, 0),
    "regain a bitmap": lambda view: _regain(view.codes(ENV).bitmap(1)),
    "scores": lambda view: view.score_column(CPU).values.__setitem__(0, 99),
    "write a score": lambda view: view.score_column(CPU).write(0, (99, 0)),
    "labels of a host": lambda view: view.host(0).metadata.labels.__setitem__("env", "prod"),
    "clear labels of a cluster": lambda view: view.cluster(0).metadata.labels.clear(),
    "amounts of an object": lambda view: view.hosts.objects[0].status.allocatable.update(cpu="9"),
    "sets": lambda view: view.sets.pop("default"),
    "bindings": lambda view: view.bindings.clear(),
    "decisions": lambda view: view.decisions.put("ns1", "p-1", None),
    "one decision": lambda view: view.decisions.of(("ns1", "p")).clear(),
    "absent_clusters": lambda view: view.decisions.absent_clusters.update(x=1),
    "debits": lambda view: view.debits.put("a", ("ns1", "p"), {}),
    "debits of a cluster": lambda view: view.debits.of("a").clear(),
    "score objects": lambda view: view.scores["usage"].clear(),
    "calculators": lambda view: view.calculators.clear(),
    "journal": lambda view: view.journal.append(None),
    "replace names": lambda view: setattr(view.hosts, "names", []),
    "replace columns": lambda view: view._columns.clear(),
    "derived": lambda view: view.derived("x", reads=None),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_plugin_changes_what_others_read(attack: Callable[[Any], object]) -> None:
    made = fleet()
    snapshot = made.snapshot()
    before = image(snapshot)
    assert image(protect(snapshot)) == before
    with suppress(TypeError, ValueError, AttributeError, KeyError):
        attack(protect(snapshot))
    assert image(snapshot) == before
    assert image(made.snapshot()) == before
    assert image(protect(snapshot)) == before


def test_array_cannot_regain_the_right_to_write() -> None:
    for array in (np.arange(3), np.zeros(0), np.ones((2, 2), dtype=np.bool_), np.arange(10)[::2]):
        view = read_only(array)
        assert np.array_equal(view, array)
        assert view.dtype == array.dtype
        assert not view.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        read_only(np.arange(3)).setflags(write=True)


def test_shielded_values_are_read_like_the_originals() -> None:
    given = {"a": [1, {"b": 2}], "c": ({"d": 1},)}
    shown = shield(given)
    assert shown["a"][1]["b"] == 2
    assert list(shown) == ["a", "c"]
    assert len(shown["a"]) == 2
    assert shown["a"][0:1][0] == 1
    with pytest.raises(TypeError):
        shown["c"][0]["d"] = 2
