"""Amounts that follow from no object of a host: written by name, and kept while the host is not there."""

from typing import Any

from fairway.clusters import cells
from fairway.fleet import Snapshot, Table
from fairway.fleet.direction import Direction
from fairway.fleet.journal import NOTHING
from fairway.fleet.resources import grantable
from fairway.testing.builders import cluster

CPU = grantable("cpu")


def table_of(*names: str) -> Table[Any]:
    table: Table[Any] = Table(schema=cells)
    table._load({name: cluster(name) for name in names})
    return table


def amounts(view: Snapshot[Any]) -> dict[str, int]:
    return {name: int(view.counts(CPU).values[row]) for name, row in view.hosts.row_of.items()}


def test_amounts_report_host_and_direction_and_only_changes() -> None:
    table = table_of("a", "b")
    up = table.set_amounts("b", {CPU: 5})
    assert (up.rows, up.hosts, up.columns) == ((1,), ("b",), {CPU: Direction.UP})
    assert table.set_amounts("b", {CPU: 5}) is NOTHING
    assert table.set_amounts("b", {CPU: -5}).columns == {CPU: Direction.DOWN}
    assert amounts(table.snapshot()) == {"a": 0, "b": -5}


def test_amounts_wait_for_their_host_and_survive_its_absence() -> None:
    table = table_of("a")
    assert table.set_amounts("b", {CPU: 5}).rows == ()
    assert CPU in table._put("b", cluster("b")).columns
    table._drop("b")
    table._put("b", cluster("b"))
    assert amounts(table.snapshot()) == {"a": 0, "b": 5}


def test_amounts_survive_a_load_and_growth() -> None:
    table: Table[Any] = Table(schema=cells)
    table.set_amounts("c7", {CPU: 7})
    table._load({f"c{at}": cluster(f"c{at}") for at in range(300)})
    for at in range(300, 600):
        table._put(f"c{at}", cluster(f"c{at}"))
    found = amounts(table.snapshot())
    assert {name: amount for name, amount in found.items() if amount} == {"c7": 7}


def test_held_snapshot_keeps_its_amounts() -> None:
    table = table_of("a")
    unread, held = table.snapshot(), table.snapshot()
    assert amounts(held) == {"a": 0}
    table.set_amounts("a", {CPU: 0})
    same = table.snapshot()
    table.set_amounts("a", {CPU: 1})
    later = table.snapshot()
    table.set_amounts("a", {CPU: 2})
    views = (unread, held, same, later, table.snapshot())
    assert [amounts(view)["a"] for view in views] == [0, 0, 0, 1, 2]
