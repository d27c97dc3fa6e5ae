"""Configuration files: typed values, and errors with file, line and field."""

from pathlib import Path

import pytest
from msgspec import Struct

from fairway.providers import document
from fairway.providers.document import Document, DocumentError, Seconds, format_path, parse, read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nothing", "f.yaml: is empty"),
        ("a: 1\n---\nb: 2", "f.yaml:3: is not valid YAML: has more than one document"),
        ("x:\n  a: 1\n  a: 3", "f.yaml:3: is not valid YAML: duplicate key 'a'"),
        ("a: [1, 2", "f.yaml:1: is not valid YAML: "),
        ("[" * 100, "f.yaml:1: is not valid YAML: nested more than 40 levels deep"),
        ("x" * (document.LARGEST + 1), f"f.yaml: {document.TOO_LARGE}"),
    ],
    ids=lambda value: value[:20],
)
def test_invalid_text_is_rejected_with_its_line(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text.encode(), place="f.yaml")
    assert str(caught.value).startswith(words)


def test_unquoted_times_and_words_are_text() -> None:
    assert parse(b"[22:00, no, 010]", place="f.yaml").value == ["22:00", "no", 10]


def test_unreadable_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.yaml: cannot be read \(No such file"):
        read(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(DocumentError, match=r"latin\.yaml:1: is not valid YAML"):
        read(tmp_path / "latin.yaml")


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    a_name: str = ""
    wait: Seconds = Seconds(0)


class Whole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    parts: tuple[Part, ...] = ()
    one: Part | None = None
    numbers: dict[str, float] = {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parts:\n- aName: x\n- aName: 7", "f.yaml:3: parts[1].aName: expected text, got a whole number"),
        ("parts:\n- {}\n- aname: 7", "f.yaml:3: parts[1].aname: is an unknown field; did you mean 'aName'?"),
        ("one:\n  zzz: 7", "f.yaml:2: one.zzz: is an unknown field; known are aName, wait"),
        ("one:\n  wait: soon", f"f.yaml:2: one.wait: {document.BAD_DURATION.format(given='soon')}"),
        ("one:\n  wait: -5", "f.yaml:2: one.wait: expected a duration"),
        ("numbers:\n  x: y", "f.yaml:1: numbers: expected a number, got text"),
        ("- 1", "f.yaml:1: expected a mapping, got a list"),
    ],
)
def test_conversion_error_has_line_and_field(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text.encode(), place="f.yaml").convert(Whole)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25)],
)
def test_durations_are_parsed_into_seconds(text: str, seconds: float) -> None:
    converted = parse(f"one: {{wait: {text}}}".encode(), place="f.yaml").convert(Whole)
    assert converted.one is not None
    assert converted.one.wait == seconds


def test_path_of_a_field_is_written_with_dots_and_brackets() -> None:
    assert format_path(("scores", 0, "query")) == "scores[0].query"
    assert format_path(("labels", "example.com/zone")) == "labels[example.com/zone]"
    assert Document({}, "x").error("no", "a", 1).line == 1


@pytest.mark.parametrize(
    ("field", "under", "message"),
    [
        ("shapes.web", (), "f:3: shapes.web: bad"),
        ("shapes.web[nvidia.com/gpu]", (), "f:4: shapes.web[nvidia.com/gpu]: bad"),
        ("shapes.web.memory", (), "f:3: shapes.web.memory: bad"),
        ("list[1].a", (), "f:7: list[1].a: bad"),
        ("list[2]", (), "f:5: list[2]: bad"),
        ("li", (), "f:1: li: bad"),
        ("", (), "f:1: bad"),
        ("web", ("shapes",), "f:3: shapes.web: bad"),
        ("", ("shapes",), "f:2: shapes: bad"),
        ("[nvidia.com/gpu]", ("shapes", "web"), "f:4: shapes.web[nvidia.com/gpu]: bad"),
    ],
)
def test_refusal_finds_the_line_of_a_written_field(field: str, under: tuple[str, ...], message: str) -> None:
    text = b"name: x\nshapes:\n  web:\n    nvidia.com/gpu: 1\nlist:\n- a: 1\n- a: 2\n"
    document = parse(text, place="f")
    assert str(document.error_at("bad", field=field, under=under)) == message
