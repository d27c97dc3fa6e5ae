"""Configuration files: what they mean, and where they are wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from fairway.providers import document
from fairway.providers.document import Document, DocumentError, Seconds, parse, read, written


def value(text: str) -> Any:
    return parse(text.encode(), place="f.yaml").value


def refusal(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse(text.encode(), place="f.yaml")
    return str(caught.value)


def test_scalars_are_what_they_look_like() -> None:
    text = "[1, -2, 1.5, 1e3, .5, 22:00, no, yes, on, 0x10, 010, true, null, ~, '7', 1_000, 2026-03-02, '']"
    assert value(text) == [
        *(1, -2, 1.5, 1000.0, 0.5, "22:00", "no", "yes", "on", "0x10", 10, True, None, None),
        *("7", "1_000", "2026-03-02", ""),
    ]


def test_anchors_stand_for_what_they_name() -> None:
    assert value("a: &x {b: [1]}\nc: *x\nd: [*x]") == {"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f.yaml: is empty"),
        ("# nothing", "f.yaml: is empty"),
        ("a: 1\n---\nb: 2", "f.yaml:2: has more than one document"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: the key 'a' is given twice"),
        ("x:\n  a: 1\n  a: 3", "f.yaml:3: x: the key 'a' is given twice"),
        ("a: [1, 2", "f.yaml:1: is not YAML: "),
        ("a:\n\tb: 1", "f.yaml:2: is not YAML: "),
        ("a: *b", "f.yaml:1: the alias *b has no anchor &b before it"),
        ("a: &b [*b]", "f.yaml:1: the alias *b has no anchor &b before it"),
        ("? [a]\n: 1", "f.yaml:1: a key must be text"),
        ("a: \x00", "f.yaml: is not YAML: "),
        ("[" * 100, f"f.yaml:1: {document.TOO_DEEP}"),
    ],
)
def test_what_is_no_document(text: str, words: str) -> None:
    assert refusal(text).startswith(words)


def test_no_file_stands_for_more_than_a_machine_can_hold() -> None:
    lines = ["a0: &a0 [" + ",".join("x" * 10) + "]"]
    lines += [f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
    assert document.TOO_MANY in refusal("\n".join(lines))
    assert document.TOO_LARGE in refusal("x" * (document.LARGEST + 1))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.yaml: cannot be read \(No such file"):
        read(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(DocumentError, match=r"latin\.yaml: is not YAML"):
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
def test_every_refusal_has_a_line_and_a_field(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text.encode(), place="f.yaml").convert(Whole)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25)],
)
def test_durations(text: str, seconds: float) -> None:
    found = parse(f"one: {{wait: {text}}}".encode(), place="f.yaml").convert(Whole)
    assert found.one is not None
    assert found.one.wait == seconds


def test_paths_are_written_as_people_do() -> None:
    assert written(("scores", 0, "query")) == "scores[0].query"
    assert written(("labels", "example.com/zone")) == "labels[example.com/zone]"
    assert Document({}, "x").error("no", "a", 1).line == 1


# No digits in texts: what looks like a number differs between YAML 1.1, which PyYAML writes, and 1.2.
TEXT = st.text("ab :#-'\"{}[],&*!|>%@`\\\n\té")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.text("xyz", min_size=1), PLAIN, min_size=1))
def test_what_was_written_is_what_is_read(whole: dict[str, Any]) -> None:
    assert value(yaml.safe_dump(whole)) == whole
    assert value(yaml.safe_dump(whole, default_flow_style=True)) == whole


@pytest.mark.parametrize(
    ("field", "under", "said"),
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
def test_a_field_as_it_is_written_has_its_line(field: str, under: tuple[str, ...], said: str) -> None:
    text = b"name: x\nshapes:\n  web:\n    nvidia.com/gpu: 1\nlist:\n- a: 1\n- a: 2\n"
    document = parse(text, place="f")
    assert str(document.refusal("bad", field=field, under=under)) == said
