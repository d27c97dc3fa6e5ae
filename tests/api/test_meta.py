from datetime import UTC, datetime, timedelta, timezone

import msgspec

from kubewire.api.encoding import encode
from kubewire.api.meta import Condition, OwnerReference, find_condition, format_time, set_condition

EARLY = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATE = EARLY + timedelta(hours=1)
READY = Condition(type="Ready", status="True", reason="Up", message="", lastTransitionTime=EARLY)
OTHER = Condition(type="Other", status="False", reason="Down", message="", lastTransitionTime=EARLY)


def fresh(status: str = "True", reason: str = "Up") -> Condition:
    return Condition(type="Ready", status=status, reason=reason, message="")


def test_new_condition_is_appended() -> None:
    assert set_condition((OTHER,), fresh(), now=EARLY) == (OTHER, READY)


def test_unchanged_condition_returns_the_same_tuple() -> None:
    conditions = (READY, OTHER)
    assert set_condition(conditions, fresh(), now=LATE) is conditions


def test_transition_time_changes_only_with_the_status() -> None:
    (reworded, _) = set_condition((READY, OTHER), fresh(reason="StillUp"), now=LATE)
    assert (reworded.reason, reworded.lastTransitionTime) == ("StillUp", EARLY)
    (turned, _) = set_condition((READY, OTHER), fresh(status="False"), now=LATE)
    assert (turned.status, turned.lastTransitionTime) == ("False", LATE)


def test_given_transition_time_is_used_only_on_a_transition() -> None:
    given = msgspec.structs.replace(fresh(status="False"), lastTransitionTime=LATE)
    assert set_condition((), given, now=EARLY)[0].lastTransitionTime == LATE
    assert set_condition((READY,), given, now=EARLY)[0].lastTransitionTime == LATE
    same = msgspec.structs.replace(fresh(), lastTransitionTime=LATE)
    assert set_condition((READY,), same, now=LATE)[0].lastTransitionTime == EARLY


def test_find_condition_by_type() -> None:
    assert find_condition((OTHER, READY), "Ready") is READY
    assert find_condition((OTHER,), "Ready") is None


def test_format_time_is_utc_and_truncates_fractions() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(moment) == "2025-12-31T22:00:00Z"


def test_format_time_handles_first_and_last_year() -> None:
    first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12)))
    assert (format_time(first), format_time(last)) == ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")


def test_required_metadata_fields_are_encoded_when_empty() -> None:
    assert encode(OwnerReference()) == {"apiVersion": "", "kind": "", "name": "", "uid": ""}
    assert encode(READY) == {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
        "reason": "Up",
        "message": "",
    }
