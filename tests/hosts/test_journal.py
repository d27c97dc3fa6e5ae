from fairway.hosts.direction import Direction
from fairway.hosts.journal import NOTHING, Change, Journal


def change(number: int) -> Change:
    return Change(rows=(number,), columns={("label", str(number)): Direction.ANY})


def journal_of(count: int, *, limit: int = 4) -> Journal:
    journal = Journal(limit=limit)
    for number in range(count):
        journal.append(change(number))
    return journal


def listed(journal: Journal, generation: int) -> list[int] | None:
    changes = journal.since(generation)
    return None if changes is None else [change.rows[0] for change in changes]


def test_journal_generation_counts_changes() -> None:
    assert Journal().generation == 0
    assert journal_of(3).generation == 3


def test_journal_returns_changes_since_a_generation_in_order() -> None:
    journal = journal_of(4)
    assert listed(journal, 4) == []
    assert listed(journal, 3) == [3]
    assert listed(journal, 1) == [1, 2, 3]
    assert listed(journal, 0) == [0, 1, 2, 3]


def test_journal_keeps_only_newest_changes() -> None:
    journal = journal_of(6)
    assert listed(journal, 2) == [2, 3, 4, 5]
    assert listed(journal, 1) is None
    assert listed(journal, 0) is None


def test_forgotten_journal_cannot_be_followed() -> None:
    journal = journal_of(3)
    journal.forget()
    assert journal.generation == 4
    assert listed(journal, 3) is None
    assert listed(journal, 4) == []
    journal.append(change(9))
    assert listed(journal, 4) == [9]
    assert listed(journal, 3) is None


def test_empty_change_concerns_no_rows() -> None:
    assert Change(rows=(), columns={}) == NOTHING


def test_journal_returns_rows_by_column() -> None:
    journal = Journal(limit=4)
    for row, key in enumerate("abacb"):
        journal.append(Change(rows=(row,), columns={("label", key): Direction.ANY}))
    assert not journal.reaches(0)
    assert journal.reaches(1)
    a, b, c, d = (("label", key) for key in "abcd")
    assert journal.rows_since([a], 1) == [2]
    assert sorted(journal.rows_since([b, c, d], 1)) == [1, 3, 4]
    assert journal.rows_since([a, c], 4) == []
    assert journal.has_changed([d, b], 4)
    assert not journal.has_changed([a, c, d], 4)


def test_columns_of_forgotten_changes_are_dropped() -> None:
    journal = journal_of(9, limit=2)
    assert [journal.has_changed([("label", str(at))], 0) for at in range(9)] == [False] * 7 + [True] * 2
    journal.forget()
    assert not journal.has_changed([("label", "8")], 0)
