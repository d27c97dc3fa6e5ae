"""Answers and the watch, in either order."""

import hypothesis.strategies as st
from hypothesis import given

from fairway.controllers.placement.unobserved_writes import UnobservedWrites

PAGE = ("ns1", "p-decision-1")


def test_response_is_newer_until_the_watch_reaches_it() -> None:
    ahead = UnobservedWrites()
    assert ahead.answered(PAGE, "12")
    assert ahead.reach("11") == []
    assert ahead.reach("12") == [PAGE]
    assert ahead.reach("13") == []


def test_response_older_than_the_watch_is_ignored() -> None:
    ahead = UnobservedWrites()
    ahead.reach("12")
    assert not ahead.answered(PAGE, "12")
    assert not ahead.answered(PAGE, "11")
    assert ahead.reach("20") == []


def test_own_deletion_needs_no_watch_event() -> None:
    ahead = UnobservedWrites()
    ahead.answered(PAGE, "12")
    ahead.forget(PAGE)
    assert ahead.reach("20") == []


def test_restored_history_drops_unobserved_writes() -> None:
    ahead = UnobservedWrites()
    ahead.reach("10")
    ahead.answered(PAGE, "12")
    assert ahead.restart() == [PAGE]
    assert ahead.answered(PAGE, "9"), "versions are given out anew"


def test_non_numeric_versions_are_taken_in_order() -> None:
    ahead = UnobservedWrites()
    assert ahead.reach("abc") == []
    assert ahead.answered(PAGE, "abc")
    assert ahead.reach("99") == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=30))
def test_every_write_is_reported_exactly_once(steps: list[tuple[bool, int]]) -> None:
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
