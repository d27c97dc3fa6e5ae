"""Answers and the watch, in either order."""

import hypothesis.strategies as st
from hypothesis import given

from fairway.controllers.placement.unobserved_writes import UnobservedWrites

PAGE = ("ns1", "p-decision-1")


def test_an_answer_is_news_until_the_watch_has_come_as_far() -> None:
    ahead = UnobservedWrites()
    assert ahead.answered(PAGE, "12")
    assert ahead.reach("11") == []
    assert ahead.reach("12") == [PAGE]
    assert ahead.reach("13") == []


def test_an_answer_that_the_watch_has_overtaken_is_old() -> None:
    ahead = UnobservedWrites()
    ahead.reach("12")
    assert not ahead.answered(PAGE, "12")
    assert not ahead.answered(PAGE, "11")
    assert ahead.reach("20") == []


def test_what_we_deleted_need_not_be_told() -> None:
    ahead = UnobservedWrites()
    ahead.answered(PAGE, "12")
    ahead.forget(PAGE)
    assert ahead.reach("20") == []


def test_a_history_that_went_back_has_not_had_our_writes() -> None:
    ahead = UnobservedWrites()
    ahead.reach("10")
    ahead.answered(PAGE, "12")
    assert ahead.restart() == [PAGE]
    assert ahead.answered(PAGE, "9"), "versions are given out anew"


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    ahead = UnobservedWrites()
    assert ahead.reach("abc") == []
    assert ahead.answered(PAGE, "abc")
    assert ahead.reach("99") == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=30))
def test_nothing_is_forgotten_and_nothing_is_told_twice(steps: list[tuple[bool, int]]) -> None:
    ahead, reached, waiting = UnobservedWrites(), 0, dict[tuple[str, str], int]()
    for watch, version in steps:
        if watch:
            reached = max(reached, version)
            passed = {key for key, own in waiting.items() if own <= reached}
            assert set(ahead.reach(str(reached))) == passed
            waiting = {key: own for key, own in waiting.items() if key not in passed}
        else:
            key = ("ns1", str(version % 3))
            assert ahead.answered(key, str(version)) == (version > reached)
            if version > reached:
                waiting[key] = version
