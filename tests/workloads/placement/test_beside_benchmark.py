"""The comparison of two versions at toy size."""

from pathlib import Path

from benchmarks import beside

from fairway.testing.builders import placement

ROOT = Path(__file__).parents[3]


def test_comparison_measures_every_row_of_both_versions() -> None:
    rows = beside.compare(ROOT, clusters=20, rounds=1, decisions=1)
    assert [row for row, *_ in rows] == ["fresh", beside.OWN, "one row changed"]
    assert all(early > 0 and late > 0 and ratio == late / early for _, early, late, ratio in rows)


def test_placements_alone_in_their_policy_share_no_policy_and_no_tolerations() -> None:
    first, second = (beside.alone(placement("p"), number).spec for number in (1, 2))
    assert first.prioritizerPolicy != second.prioritizerPolicy
    assert first.tolerations != second.tolerations
