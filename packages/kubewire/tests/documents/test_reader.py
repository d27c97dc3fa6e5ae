import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewire.documents.parser import (
    ALIAS_BOMB,
    ALIAS_OF_ITSELF,
    ALIAS_UNKNOWN,
    BAD_KEY,
    BAD_MERGE,
    FILE_RULES,
    TOO_DEEP,
    DocumentError,
    Rules,
    TooDeepError,
    TooLargeError,
)
from kubewire.documents.reader import Document, json_documents, value_of, yaml_document, yaml_documents
from kubewire.documents.scalars import NOT_JSON
from kubewire.documents.writer import dump_yaml


def values(text: str) -> list[object]:
    return [document.value for document in yaml_documents(text.encode())]


def test_yaml_documents_have_number_and_line() -> None:
    text = "# hello\na: 1\n---\n---\n# empty above\nb:\n  c: 2\n"
    assert list(yaml_documents(text.encode())) == [
        Document(value={"a": 1}, number=1, line=2),
        Document(value={"b": {"c": 2}}, number=3, line=6),
    ]


def test_yaml_list_items_have_lines() -> None:
    text = "kind: List\nitems:\n- a: {b: [{c: 1}]}\n- a: 2\n  b: [x]\n-\n  a: 3\n"
    (document,) = yaml_documents(text.encode())
    assert document.item_lines == (3, 4, 7)


def test_yaml_timestamps_stay_text_and_scalars_resolve_like_kubectl() -> None:
    assert values("a: 2026-01-01T00:00:00Z\nb: on\nc: 'on'\nd: 010\ne: 1e3\non: 1\n") == [
        {"a": "2026-01-01T00:00:00Z", "b": True, "c": "on", "d": 8, "e": 1000, "on": 1}
    ]


def test_yaml_aliases_and_merge_keys_are_expanded() -> None:
    text = "base: &b {x: 1, y: 2}\none: {x: 5, <<: *b, y: 3}\ntwo: *b\nthree: {<<: [{z: 9}, *b], x: 0}\n"
    assert values(text) == [
        {
            "base": {"x": 1, "y": 2},
            "one": {"x": 1, "y": 3},
            "two": {"x": 1, "y": 2},
            "three": {"x": 0, "y": 2, "z": 9},
        }
    ]


def test_yaml_str_tag_makes_text() -> None:
    assert values("a: !!str 1\nb: !!int '2'\n") == [{"a": "1", "b": 2}]


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (bomb(), ALIAS_BOMB.partition("{")[0], 5),
        ("a: &a\n  b: *a\n", ALIAS_OF_ITSELF.format("a"), 2),
        ("a: *nowhere\n", ALIAS_UNKNOWN.format("nowhere"), 1),
        ("a: 1\nb: 2\na: 3\n", "duplicate key 'a'", 3),
        ("? [a, b]\n: 1\n", BAD_KEY, 1),
        ("a: !!python/object:os.system 1\n", "the tag tag:yaml.org,2002:python/object:os.system", 1),
        ("a: !thing {}\n", "the tag !thing is not supported", 1),
        ("a: {<<: {b: 1}, <<: {c: 1}}\n", "duplicate key '<<'", 1),
        ("a: {<<: 3}\n", BAD_MERGE, 1),
        ("a: 1\nb: .inf\n", NOT_JSON.format("+Inf"), 2),
        ("[" * (FILE_RULES.depth + 1) + "]" * (FILE_RULES.depth + 1), TOO_DEEP.format(FILE_RULES.depth), 1),
        ("[" * 100_000, TOO_DEEP.format(FILE_RULES.depth), 1),
        ("a: 1\n b: 2\n", "mapping values are not allowed", 2),
        ("a: [1, 2\nb: 3\n", "did not find expected", 2),
        ("a:\n\t- b\n", "tab in the indentation", 2),
        ("a: \x07\n", "control characters are not allowed", 1),
    ],
)
def test_malformed_yaml_is_rejected_with_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(DocumentError) as caught:
        values(text)
    assert message in str(caught.value)
    assert caught.value.line == line
    assert caught.value.notation == "YAML"


@pytest.mark.parametrize(
    ("text", "rules", "error"),
    [
        ("[a, b, {c: d}]", Rules(values=4), TooLargeError),
        ("[&a [b, c], *a]", Rules(values=6), TooLargeError),
        ("[&a [b, c], *a]", Rules(aliased=2), TooLargeError),
        ("[&a [b, c], *a]", Rules(aliased_size=8), TooLargeError),
        ("[&a [[b]], [*a]]", Rules(depth=3), TooDeepError),
    ],
)
def test_yaml_limits_count_expanded_aliases(text: str, rules: Rules, error: type[DocumentError]) -> None:
    names = ("values", "aliased", "aliased_size", "depth")
    wider = replace(rules, **{name: getattr(rules, name) + 1 for name in names})
    assert yaml_document(text.encode(), wider) is not None
    with pytest.raises(error):
        yaml_document(text.encode(), rules)


def test_lenient_rules_accept_duplicate_keys_and_unknown_tags() -> None:
    lenient = Rules(strict=False, resolve_keys=True)
    document = yaml_document(b"a: 1\na: !x 2\nyes: !!binary aGk=\n0x10: 3\n", lenient)
    assert document is not None
    assert document.value == {"a": "2", "true": "hi", "16": 3}


scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1, max_size=8), documents, min_size=1))
def test_written_yaml_reads_back_here_and_with_pyyaml(document: dict[str, object]) -> None:
    text = dump_yaml(document)
    assert values(text) == [document]
    assert yaml.safe_load(text) == document


@pytest.mark.parametrize("text", ["1e3", "010", "on", "1.30", "~", "0o7", "2026-01-01", "<<", "1:30", ""])
def test_ambiguous_text_is_quoted_in_yaml(text: str) -> None:
    assert dump_yaml({"a": text}) == f"a: '{text}'\n"


def test_written_yaml_lines_have_about_110_columns() -> None:
    assert [len(line) > 80 for line in dump_yaml({"a": "word " * 40}).splitlines()] == [True, True]


def test_json_list_yields_items_with_lines() -> None:
    text = b'\n{"kind": "List",\n "items": [\n  {"a": 1},\n  {"a": {"b":\n 2}},\n  {"a": 1}]}\n'
    items = list(json_documents(text))
    assert [(value_of(item), item.number, item.line) for item in items] == [
        ({"a": 1}, 1, 4),
        ({"a": {"b": 2}}, 2, 5),
        ({"a": 1}, 3, 7),
    ]
    assert [text[item.offset :][: len(item.raw or b"")] for item in items] == [item.raw for item in items]


def test_json_object_array_and_lines_are_distinguished() -> None:
    one = b' {"kind": "Placement", "spec": {}}'
    assert [value_of(item) for item in json_documents(one)] == [{"kind": "Placement", "spec": {}}]
    assert [value_of(item) for item in json_documents(b"[1,\n2]")] == [1, 2]
    lines = list(json_documents(b'{"a": 1}\n\n  {"b": 2}\n'))
    assert [(value_of(item), item.number, item.line, item.offset) for item in lines] == [
        ({"a": 1}, 1, 1, 0),
        ({"b": 2}, 3, 3, 12),
    ]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (b'{"a": 1,\n "b": }\n', 2, 7),
        (b'{"a": 1}\n{"b": 1,}\n', 2, 9),
        (b'{"a": [1, 2\n', 2, 1),
        (b"[" * 100_000, 1, 0),
        (b'{"a": "\xed\xa0\x80"}', 1, 0),
    ],
)
def test_malformed_json_is_rejected_with_its_place(text: bytes, line: int, column: int) -> None:
    with pytest.raises(DocumentError) as caught:
        [value_of(item) for item in json_documents(text)]
    assert (caught.value.line, caught.value.notation) == (line, "JSON")
    if column:
        assert caught.value.column == column


@given(st.lists(documents))
def test_json_items_decode_like_json_loads(items: list[object]) -> None:
    text = json.dumps({"kind": "FooList", "items": items}, indent=1).encode()
    assert [value_of(item) for item in json_documents(text)] == items
