"""Amounts that follow from no object of a host: written by name, and kept while the host is not there."""

from typing import Any

from fairway.hosts import Snapshot, Table
from fairway.hosts.clusters import cells
from fairway.hosts.direction import Direction
from fairway.hosts.journal import NOTHING
from fairway.hosts.resources import grantable
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
    by_name = amounts(table.snapshot())
    assert {name: amount for name, amount in by_name.items() if amount} == {"c7": 7}


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


def test_fork_and_its_origin_do_not_see_each_others_changes() -> None:
    table = table_of("a", "b")
    table.set_amounts("a", {CPU: 1})
    fork = table.fork()
    fork.set_amounts("a", {CPU: 2})
    table.set_amounts("b", {CPU: 3})
    held = fork.snapshot()
    fork.set_amounts("b", {CPU: 4})
    assert amounts(table.snapshot()) == {"a": 1, "b": 3}
    assert amounts(held) == {"a": 2, "b": 0}
    assert amounts(fork.snapshot()) == {"a": 2, "b": 4}


def test_fork_reads_columns_that_its_origin_creates_once() -> None:
    table = table_of("a", "b")
    label = cells.label("env")
    fork = table.fork()
    fork.set_amounts("a", {CPU: 2})
    column = fork.snapshot().codes(label)
    assert table.snapshot().codes(label) is column
    table._put("c", cluster("c"))
    assert fork.fork().snapshot().hosts.row_of.keys() == {"a", "b"}
    assert fork.snapshot().codes(cells.label("tier")).value(0) is None


def test_fork_does_not_use_results_of_its_origin_at_an_equal_generation() -> None:
    table = table_of("a")
    fork = table.fork()
    fork.set_amounts("a", {CPU: 2})
    table.set_amounts("a", {CPU: 3})
    mine, theirs = fork.snapshot(), table.snapshot()
    assert mine.generation == theirs.generation
    assert [has_two(view) for view in (mine, theirs, mine)] == [True, False, True]


def has_two(view: Snapshot[Any]) -> bool:
    derived = view.derived("two", reads=frozenset({CPU}))
    two = derived.holds(view, among=view.live, compute=lambda rows: view.counts(CPU).values[rows] == 2)
    return bool(two.any())
