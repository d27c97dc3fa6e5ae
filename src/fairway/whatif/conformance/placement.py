"""Run recorded placement scenarios and compare decisions, conditions and events."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from fairway.engine.profile import Profile
from fairway.whatif.conformance.differences import Difference, differences
from fairway.whatif.conformance.recording import Result, Row, compared_result
from fairway.whatif.conformance.replay import answers

_POSITION = re.compile(r"compilation failed:.*?<input>:\d+:\d+:", re.DOTALL)


def run(rows: Iterable[Row], /, *, profile: Profile | None = None) -> Iterator[Result]:
    for row in rows:
        name, now, objects, schedule, expected = (
            row[key] for key in ("name", "now", "objects", "schedule", "expected")
        )
        scenario = {"now": now, "objects": objects, "schedule": schedule}
        yield compared_result(name, partial(_compare, scenario, expected, profile))


def _compare(scenario: Row, expected: list[Row], profile: Profile | None) -> Iterator[Difference]:
    got = answers(scenario, profile=profile)
    return differences(_comparable(expected), _comparable(got), path="expected")


def _comparable(value: Any) -> Any:
    """Compare only the position of an expression error, not its message."""
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, str) and "compilation failed:" in value:
        match = _POSITION.search(value)
        return value[: match.end()] if match else value
    return value
