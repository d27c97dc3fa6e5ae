"""A test over many cases runs all of them, and its failure names each that failed."""

import pytest

from every import every


def test_failure_names_every_failed_case(tmp_path_factory: pytest.TempPathFactory) -> None:
    seen: list[int] = []

    @every("case", range(5), ids=lambda case: f"case {case}")
    def check(case: int, factory: object) -> None:
        assert factory is tmp_path_factory
        seen.append(case)
        assert case % 2 == 0, f"{case} is odd"

    with pytest.raises(AssertionError, match=r"(?s)2 of 5 cases failed:\ncase 1: 1 is odd.*case 3: 3 is odd"):
        check(factory=tmp_path_factory)
    assert seen == [0, 1, 2, 3, 4]


def test_empty_list_of_cases_fails() -> None:
    @every("case", ())
    def check(case: int) -> None: ...

    with pytest.raises(AssertionError):
        check()
