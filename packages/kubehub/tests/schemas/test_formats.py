from typing import Any

import pytest
from answers import answers

from kubehub.schemas.formats import parse_duration, recognized, text_format

HEADER, CASES = answers("formats")


@pytest.mark.parametrize("case", CASES, ids=[case["format"] for case in CASES])
def test_formats_have_the_recorded_texts(case: dict[str, Any]) -> None:
    has_format = text_format(case["format"])
    assert has_format is not None
    assert [text for text in HEADER["texts"] if has_format(text)] == case["accepted"]


def test_recorded_format_answers_cover_every_format() -> None:
    for case in CASES:
        if case["format"] != "password":
            assert 0 < len(case["accepted"]) < len(HEADER["texts"]), case["format"]


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("string", "date-time", True),
        ("string", "datetime", True),
        ("", "uuid", True),
        ("string", "int32", False),
        ("string", "color", False),
        ("integer", "int32", True),
        ("integer", "double", False),
        ("number", "double", True),
        ("number", "int64", False),
        ("boolean", "byte", False),
    ],
)
def test_format_of_another_type_is_ignored(kind: str, name: str, meant: bool) -> None:
    assert recognized(kind, name) is meant


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("3 days", 259_200),
        ("2 weeks", 1_209_600),
        ("1 hour 5 min", 3900),
        ("-5s", -5),
        ("0", 0),
    ],
)
def test_durations_are_read_in_words_too(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds * 1_000_000_000


@pytest.mark.parametrize("text", ["", "5", "5 parsecs", "soon", "9" * 30 + " s"])
def test_invalid_duration_is_rejected(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize("name", sorted({case["format"] for case in CASES}))
def test_formats_of_long_texts_are_checked_in_linear_time(name: str) -> None:
    """Nothing here may backtrack: with backtracking each of these would take forever."""
    has_format = text_format(name)
    assert has_format is not None
    for part in ("a", "a.", "-", "1", "1:", '"', "a@", " ", "((", "é"):
        has_format(part * 20_000 + "!")
