from fairway.hosts import bitmap
from fairway.hosts.bitmap import Mask, Rows
from fairway.hosts.clusters import ClusterSnapshot, Fleet, cells
from fairway.hosts.column import Key
from fairway.hosts.derived import Derived
from fairway.hosts.snapshot import DERIVED_LIMIT
from fairway.testing.builders import cluster

ENV: Key = (cells.LABEL, "env")


class Question:
    """Computes whether a cluster is in production, and records its calls."""

    def __init__(self, *, reads: frozenset[Key] | None = frozenset({ENV})) -> None:
        self.derived = Derived(reads=reads)
        self.asked: list[str] = []

    def answer(self, snapshot: ClusterSnapshot, *among: str) -> list[str]:
        names = snapshot.hosts.names

        def compute(rows: Rows) -> Mask:
            self.asked += [names[row] for row in rows.tolist()]
            prod = [snapshot.cluster(row).metadata.labels.get("env") == "prod" for row in rows.tolist()]
            return bitmap.unpack(bitmap.from_rows([at for at, yes in enumerate(prod) if yes], 64))[
                : len(prod)
            ]

        rows = snapshot.rows_named(list(among)) if among else bitmap.rows_of(snapshot.live)
        bits = self.derived.holds(snapshot, among=bitmap.from_rows(rows, snapshot.capacity), compute=compute)
        return [names[row] for row in bitmap.rows_of(bits).tolist()]

    def newly_asked(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


def fleet_of(**envs: str) -> Fleet:
    fleet = Fleet()
    for name, env in envs.items():
        fleet.upsert_cluster(cluster(name, labels={"env": env}))
    return fleet


def test_derived_rows_are_computed_once() -> None:
    fleet, question = fleet_of(a="prod", b="dev", c="prod"), Question()
    assert question.answer(fleet.snapshot(), "a", "b") == ["a"]
    assert question.newly_asked() == ["a", "b"]
    assert question.answer(fleet.snapshot()) == ["a", "c"]
    assert question.newly_asked() == ["c"]
    assert question.answer(fleet.snapshot(), "b", "c") == ["c"]
    assert question.newly_asked() == []


def test_change_in_read_column_recomputes_derived_row() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question()
    question.answer(fleet.snapshot())
    question.newly_asked()
    fleet.upsert_cluster(cluster("b", labels={"env": "prod"}))
    assert question.answer(fleet.snapshot()) == ["a", "b"]
    assert question.newly_asked() == ["b"]


def test_change_in_unread_column_keeps_derived_row() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question()
    question.answer(fleet.snapshot())
    question.newly_asked()
    fleet.upsert_cluster(cluster("b", labels={"env": "dev", "other": "x"}, allocatable={"cpu": "1"}))
    assert question.answer(fleet.snapshot()) == ["a"]
    assert question.newly_asked() == []


def test_any_change_recomputes_derived_row_with_unknown_reads() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question(reads=None)
    question.answer(fleet.snapshot())
    question.newly_asked()
    fleet.upsert_cluster(cluster("b", labels={"env": "dev", "other": "x"}))
    question.answer(fleet.snapshot())
    assert question.newly_asked() == ["b"]


def test_added_and_deleted_hosts_recompute_derived_rows() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question()
    question.answer(fleet.snapshot())
    question.newly_asked()
    fleet.delete_cluster("a")
    assert question.answer(fleet.snapshot()) == []
    fleet.upsert_cluster(cluster("z"))
    assert question.answer(fleet.snapshot()) == []
    assert question.newly_asked() == ["z"]


def test_old_snapshot_gets_old_derived_rows() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question()
    held = fleet.snapshot()
    fleet.upsert_cluster(cluster("b", labels={"env": "prod"}))
    assert question.answer(fleet.snapshot()) == ["a", "b"]
    question.newly_asked()
    assert question.answer(held) == ["a"]
    assert question.newly_asked() == ["a", "b"]
    assert question.answer(fleet.snapshot()) == ["a", "b"]
    assert question.newly_asked() == []


def test_snapshot_keeps_derived_rows_after_changes() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question()
    held = fleet.snapshot()
    question.answer(held, "a")
    fleet.upsert_cluster(cluster("b", labels={"env": "prod"}))
    assert question.answer(held) == ["a"]
    assert question.newly_asked() == ["a", "b"]
    assert question.answer(fleet.snapshot()) == ["a", "b"]
    assert question.newly_asked() == ["b"]


def test_too_many_changes_recompute_all_derived_rows() -> None:
    fleet, question = fleet_of(a="prod", b="dev"), Question()
    question.answer(fleet.snapshot())
    question.newly_asked()
    fleet.load_scores([])
    assert question.answer(fleet.snapshot()) == ["a"]
    assert question.newly_asked() == ["a", "b"]


def test_grown_fleet_recomputes_all_derived_rows() -> None:
    fleet, question = fleet_of(a="prod"), Question()
    question.answer(fleet.snapshot())
    for number in range(300):
        fleet.upsert_cluster(cluster(f"c{number}", labels={"env": "dev"}))
    assert question.answer(fleet.snapshot(), "a", "c299") == ["a"]


def test_derived_results_are_shared_by_name_and_the_least_recently_used_is_dropped() -> None:
    snapshot = fleet_of(a="prod").snapshot()
    first, second = (snapshot.derived(name, reads=None) for name in ("first", "second"))
    assert snapshot.derived("first", reads=None) is first
    for number in range(DERIVED_LIMIT - 1):
        snapshot.derived(number, reads=None)
    assert snapshot.derived("first", reads=None) is first
    assert snapshot.derived("second", reads=None) is not second
