"""Every record is one line, in both formats."""

import io
import json
import logging
import math
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.observe import logs
from fairway.observe.logs import Format

FORGED = "all is well\n2026-03-01T12:00:00.000000Z ERROR fairway the hub is lost\r\x1b[2J\u202e\u2028\x85"


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.fixture(autouse=True)
def without_shared_hub_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore logs of a shared hub that runs in a thread of this process."""
    ours, handler = threading.get_ident(), logging.Handler.filter
    monkeypatch.setattr(
        logs.Lines, "filter", lambda self, record: record.thread == ours and handler(self, record)
    )


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def lines(form: Format, message: object, *args: object, **options: Any) -> list[str]:
    stream = io.StringIO(newline="")
    logs.configure(format=form, level="debug", stream=stream)
    root = logging.getLogger()
    root.handlers[:] = [
        handler for handler in root.handlers if isinstance(handler, logs.Lines)
    ]  # the handlers of pytest are special
    logging.getLogger("fairway.test").error(message, *args, **options)
    text = stream.getvalue()
    assert text.endswith("\n")
    return text[:-1].split("\n")


def written(message: object, *args: object, **options: Any) -> dict[str, Any]:
    (line,) = lines("json", message, *args, **options)
    record = json.loads(line)
    assert isinstance(record, dict)
    return record


def text_of(message: object, *args: object, **options: Any) -> str:
    (line,) = lines("text", message, *args, **options)
    return line


# JSON


def test_json_log_line_has_ordered_fields() -> None:
    record = written("placement %s moved", "ns1/p1", extra={"placement": "ns1/p1", "clusters": 3})
    assert list(record) == ["ts", "level", "logger", "msg", "placement", "clusters"]
    assert record["level"] == "error"
    assert record["logger"] == "fairway.test"
    assert record["msg"] == "placement ns1/p1 moved"
    assert record["clusters"] == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", record["ts"])


def test_log_time_always_has_a_fraction() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "m", (), None)
    record.created = 1_772_366_400.0
    assert json.loads(logs.Json().format(record))["ts"] == "2026-03-01T12:00:00.000000Z"


def test_json_log_line_has_traceback_in_one_field() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        record = written("it broke", exc_info=True)
    assert record["msg"] == "it broke"
    assert record["error"].startswith("Traceback (most recent call last):\n")
    assert record["error"].endswith("ValueError: first\nsecond")


def test_json_log_line_has_stack_info() -> None:
    assert "test_logs.py" in written("here", stack_info=True)["stack"]


def test_extra_fields_do_not_replace_standard_fields() -> None:
    record = written("m", extra={"level": "mine", "error": "mine", "ts": 1})
    assert (record["level"], record["level_"]) == ("error", "mine")
    assert (record["error_"], record["ts_"]) == ("mine", 1)


def test_log_values_that_json_lacks_become_text() -> None:
    record = written(
        "m",
        extra={
            "nan": math.nan,
            "big": 2**60,
            "bytes": b"x",
            "nested": {1: [Unprintable(), None, True]},
            "surrogate": "\udc80",
        },
    )
    assert record["nan"] == "nan"
    assert record["big"] == str(2**60)
    assert record["bytes"] == "b'x'"
    assert record["nested"] == {"1": [logs.UNPRINTABLE.format(type="Unprintable"), None, True]}
    assert record["surrogate"] == "\udc80"


def test_self_referencing_log_value_is_truncated() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "[...]" in json.dumps(written("m", extra={"loop": loop}))


def test_json_log_line_is_ascii() -> None:
    (line,) = lines("json", "Zürich \x7f \u2028")
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["msg"] == "Zürich \x7f \u2028"


# Text


def test_text_log_line_has_time_level_logger_message_fields() -> None:
    line = text_of("placement moved", extra={"placement": "ns1/p1", "why": "a b", "n": 3, "on": True})
    moment, rest = line.split(" ", 1)
    assert moment.endswith("Z")
    assert rest == 'ERROR   fairway.test placement moved placement=ns1/p1 why="a b" n=3 on=true'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines", '"two\\nlines"'),
        ("\x1b[0m", '"\\x1b[0m"'),
        ("\u202e", '"\\u202e"'),
        ("\U000e0001", '"\\U000e0001"'),
        (None, "null"),
        ([1, "a"], '"[1, \\"a\\"]"'),
        ("Zürich", "Zürich"),
        (1.5, "1.5"),
    ],
)
def test_ambiguous_value_in_text_log_is_quoted(value: object, shown: str) -> None:
    assert text_of("m", extra={"key": value}).endswith(f" key={shown}")


def test_text_log_line_has_traceback_in_one_line() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        line = text_of("it broke", exc_info=True)
    assert line.endswith('ValueError: boom"')
    assert 'error="Traceback (most recent call last):\\n' in line


# Both


@pytest.mark.parametrize("form", logs.FORMATS)
def test_log_values_cannot_forge_a_line(form: Format) -> None:
    for options in ({}, {"extra": {"name_": FORGED, FORGED: "x", "list": [FORGED]}}):
        (line,) = lines(form, FORGED, **options)
        assert line.isprintable()
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize("form", logs.FORMATS)
def test_log_message_with_wrong_arguments_is_logged(form: Format) -> None:
    (line,) = lines(form, "only %s", "one", "two")
    assert "only %s" in line
    assert "two" in line


@pytest.mark.parametrize("form", logs.FORMATS)
def test_unprintable_log_value_keeps_the_rest_of_the_line(form: Format) -> None:
    (line,) = lines(form, Unprintable(), extra={"key": Unprintable(), "other": "kept"})
    assert "kept" in line
    assert logs.UNPRINTABLE.format(type="Unprintable") in line


@pytest.mark.parametrize("form", logs.FORMATS)
def test_long_log_field_is_truncated(form: Format) -> None:
    (line,) = lines(form, "x" * 10**6, extra={"key": "y" * 10**6})
    assert len(line) < 3 * logs.LONGEST_TEXT
    assert "967232 more characters" in line


@pytest.mark.parametrize("form", logs.FORMATS)
@settings(max_examples=40)
@given(message=st.text(), value=st.recursive(st.text() | st.floats() | st.integers() | st.none(), st.lists))
def test_any_log_record_is_one_line(form: Format, message: str, value: object) -> None:
    (line,) = lines(form, "%s", message, extra={"key": value})
    assert len(line.splitlines()) == 1
    if form == "json":
        assert json.loads(line)["msg"] == message


# Setting up


def test_log_level_is_case_insensitive() -> None:
    stream = io.StringIO()
    logs.configure(format="text", level="WARNING", stream=stream)
    logging.getLogger("fairway.test").info("quiet")
    logging.getLogger("fairway.test").warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_unknown_log_format_or_level_lists_known_ones() -> None:
    with pytest.raises(
        ValueError, match=re.escape(logs.UNKNOWN_LEVEL.format(given="loud", known="debug, info"))
    ):
        logs.configure(format="text", level="loud")
    given_format: Any = "xml"
    with pytest.raises(ValueError, match="unknown log format 'xml': use one of text, json"):
        logs.configure(format=given_format, level="info")


def test_configuring_logs_again_replaces_the_handler() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure(format="text", level="info", stream=first)
    logs.configure(format="json", level="info", stream=second)
    logging.getLogger("fairway.test").info("once")
    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["msg"] == "once"


def test_configuring_logs_keeps_other_handlers() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    logs.configure(format="text", level="info", stream=io.StringIO())
    assert other in logging.getLogger().handlers


def test_logs_go_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="json", level="info")
    logging.getLogger("fairway.test").info("hello")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["msg"] == "hello"


def test_python_warnings_are_logged() -> None:
    stream = io.StringIO()
    logs.configure(format="json", level="info", stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    record = json.loads(stream.getvalue())
    assert record["logger"] == "py.warnings"
    assert "old ways" in record["msg"]


def test_closed_log_stream_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    logs.configure(format="text", level="info", stream=stream)
    stream.close()
    monkeypatch.setattr(sys, "stderr", None)
    logging.getLogger("fairway.test").info("into the void")
