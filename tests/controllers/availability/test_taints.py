"""Patches change only Fairway's own taints in the user's list."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api import Taint
from fairway.api.cluster import CONDITION_AVAILABLE, EFFECTS, TAINT_UNAVAILABLE, TAINT_UNREACHABLE
from fairway.controllers.availability.taints import changes, wanted
from kubehub.patches import jsonpatch, mergepatch
from kubewire.api.lease import parse_micro_time
from kubewire.api.meta import Condition

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STAMP = "2026-03-01T12:00:00Z"

TAINTS = st.fixed_dictionaries(
    {
        "key": st.sampled_from([TAINT_UNREACHABLE, TAINT_UNAVAILABLE, "mine"]),
        "effect": st.sampled_from(EFFECTS),
    },
    optional={
        "value": st.sampled_from(["", "x"]),
        "timeAdded": st.sampled_from([None, "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5Z"]),
    },
)
CONDITIONS = st.none() | st.sampled_from(["True", "False", "Unknown"]).map(
    lambda status: Condition(type=CONDITION_AVAILABLE, status=status)
)


def patched(
    taints: list[dict[str, Any]], available: Condition | None, **options: Any
) -> list[dict[str, Any]]:
    document: dict[str, Any] = {"spec": {"taints": taints}} if taints else {}
    typed = msgspec.convert(taints, tuple[Taint, ...])
    made = changes(typed, available, now=NOW, **options)
    if not made:
        return taints
    apply = mergepatch.apply if isinstance(made, dict) else jsonpatch.apply
    patched_taints: list[dict[str, Any]] = apply(document, made)["spec"]["taints"]
    return patched_taints


def is_ours(taint: dict[str, Any]) -> bool:
    return (
        taint["key"] in (TAINT_UNREACHABLE, TAINT_UNAVAILABLE)
        and taint["effect"] == "NoSelect"
        and not taint.get("value")
    )


@given(taints=st.lists(TAINTS, max_size=5), available=CONDITIONS)
def test_foreign_taints_stay_unchanged_except_for_a_missing_time(
    taints: list[dict[str, Any]], available: Condition | None
) -> None:
    after = patched(taints, available)
    theirs = [
        taint if taint.get("timeAdded") else {**taint, "timeAdded": STAMP}
        for taint in taints
        if not is_ours(taint)
    ]
    assert [taint for taint in after if not is_ours(taint)] == theirs


@given(taints=st.lists(TAINTS, max_size=5), available=CONDITIONS)
def test_own_taint_matches_the_condition_and_keeps_its_time(
    taints: list[dict[str, Any]], available: Condition | None
) -> None:
    key = wanted(available)
    ours = [taint for taint in patched(taints, available) if is_ours(taint)]
    assert {taint["key"] for taint in ours} == ({key} if key else set())
    before = [taint.get("timeAdded") or STAMP for taint in taints if is_ours(taint) and taint["key"] == key]
    assert [taint["timeAdded"] for taint in ours] == (before or [STAMP] if key else [])


@given(taints=st.lists(TAINTS, max_size=5), available=CONDITIONS, stamped=st.booleans())
def test_second_patch_of_taints_is_empty(
    taints: list[dict[str, Any]], available: Condition | None, stamped: bool
) -> None:
    once = patched(taints, available, stamped=stamped)
    assert not changes(msgspec.convert(once, tuple[Taint, ...]), available, now=NOW, stamped=stamped)


@given(taints=st.lists(TAINTS, max_size=5), available=CONDITIONS)
def test_unstamped_taint_changes_have_no_time(
    taints: list[dict[str, Any]], available: Condition | None
) -> None:
    typed = msgspec.convert(taints, tuple[Taint, ...])
    assert "timeAdded" not in repr(changes(typed, available, now=NOW, stamped=False))


@pytest.mark.parametrize(
    ("status", "key"),
    [(None, TAINT_UNREACHABLE), ("Unknown", TAINT_UNREACHABLE), ("False", TAINT_UNAVAILABLE), ("True", "")],
)
def test_taint_follows_the_condition(status: str | None, key: str) -> None:
    assert wanted(None if status is None else Condition(type=CONDITION_AVAILABLE, status=status)) == key


@pytest.mark.parametrize("text", ["", "soon", "2026-03-01", "2026-03-01T12:00:00", "12:00:00Z"])
def test_invalid_micro_time_is_rejected(text: str) -> None:
    assert parse_micro_time(text) is None


def test_micro_time_is_parsed() -> None:
    assert parse_micro_time("2026-03-01T12:00:00.000000Z") == NOW
    assert parse_micro_time("2026-03-01T14:00:00+02:00") == NOW
