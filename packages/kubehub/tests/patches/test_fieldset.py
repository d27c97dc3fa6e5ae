from typing import Any

import pytest

from kubehub.patches import fieldset
from kubehub.patches.fieldset import (
    FieldSet,
    Malformed,
    contains,
    difference,
    intersection,
    of,
    prune,
    union,
)


def test_fieldset_contains_the_named_paths() -> None:
    assert of() == {}
    assert of(("a",), ("b", "c"), ("b",)) == {"f:a": {}, "f:b": {".": {}, "f:c": {}}}


def test_fieldset_union() -> None:
    assert union(of(("a",)), of(("a", "b"))) == {"f:a": {".": {}, "f:b": {}}}
    assert union(of(("a", "b")), of(("a",))) == {"f:a": {".": {}, "f:b": {}}}
    assert union(of(("a", "b"), ("a",)), of(("a", "c"))) == {"f:a": {".": {}, "f:b": {}, "f:c": {}}}
    assert union({}, of(("a",))) == union(of(("a",)), {}) == {"f:a": {}}


def test_difference_takes_exactly_the_paths() -> None:
    both = of(("a",), ("a", "b"), ("c",))
    assert difference(both, of(("a",))) == of(("a", "b"), ("c",))
    assert difference(both, of(("a", "b"))) == of(("a",), ("c",))
    assert difference(both, of(("a", "b"), ("a",))) == of(("c",))
    assert difference(of(("a", "b")), of(("a",))) == of(("a", "b"))
    assert difference(of(("a",)), of(("a", "b"))) == of(("a",))
    assert difference(both, both) == {}


def test_prune_takes_all_below_a_path() -> None:
    fields = of(("a",), ("a", "b"), ("c", "d"), ("c", "e"))
    assert prune(fields, of(("a",), ("c", "d"))) == of(("c", "e"))
    assert prune(fields, of(("c", "x"))) == fields
    assert prune(of(("a",)), of(("a", "b"))) == of(("a",))


def test_fieldset_intersection() -> None:
    left = of(("a",), ("a", "b"), ("c", "d"))
    assert intersection(left, of(("a", "b"), ("c",), ("c", "x"))) == of(("a", "b"))
    assert intersection(left, of(("a",), ("c", "d"))) == of(("a",), ("c", "d"))
    assert intersection(left, left) == left


def test_fieldset_contains_and_subset() -> None:
    fields = of(("a", "b"), ("c",))
    assert contains(fields, "f:a", "f:b")
    assert contains(fields, "f:c")
    assert not contains(fields, "f:a")
    assert not contains(fields, "f:c", "f:d")
    assert not contains(fields)
    assert fieldset.subset(of(("c",)), fields)
    assert not fieldset.subset(of(("a",)), fields)


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (fieldset.field("a.b"), "f:a.b"),
        (fieldset.key({"name": "a"}), 'k:{"name":"a"}'),
        (fieldset.key({"protocol": "TCP", "port": 80}), 'k:{"port":80,"protocol":"TCP"}'),
        (fieldset.key({"port": 80.0}), 'k:{"port":80}'),
        (fieldset.value("a/b"), 'v:"a/b"'),
        (fieldset.value('<&>"'), 'v:"\\u003c\\u0026\\u003e\\""'),
        (fieldset.value(1), "v:1"),
        (fieldset.value(1.5), "v:1.5"),
        (fieldset.value(True), "v:true"),
    ],
)
def test_fieldset_path_elements_are_canonical(element: str, text: str) -> None:
    assert element == text


def test_fieldset_paths_are_listed_in_message_order() -> None:
    fields = {
        "f:b": {'k:{"port":443}': {}, 'k:{"port":80}': {".": {}, "f:x": {}}},
        "f:a": {"v:10": {}, 'v:"x"': {}, "v:9": {}, "v:true": {}},
        "f:c": {"i:10": {}, "i:9": {}, ".": {}},
        "f:d": {'k:{"n":"a","t":null}': {}, 'k:{"n":"a","t":[1]}': {}},
    }
    assert [fieldset.format_path(path) for path in fieldset.paths(fields)] == [
        ".c",
        ".a[=9]",
        ".a[=10]",
        '.a[="x"]',
        ".a[=true]",
        ".b[port=80]",
        ".b[port=443]",
        ".b[port=80].x",
        ".c[9]",
        ".c[10]",
        '.d[n="a",t=[1]]',
        '.d[n="a",t=null]',
    ]


def test_ordered_fieldset_has_the_same_paths() -> None:
    fields: FieldSet = {"f:b": {"f:x": {}, ".": {}, 'k:{"a":10}': {}, 'k:{"a":9}': {}}, "f:a": {}}
    made = fieldset.sort(fields)
    assert made == fields
    assert list(made) == ["f:a", "f:b"]
    assert list(made["f:b"]) == [".", "f:x", 'k:{"a":9}', 'k:{"a":10}']


def test_fieldset_decodes_client_json() -> None:
    sent: dict[str, Any] = {
        "f:a": {".": {}},
        "f:b": None,
        "f:c": {".": 1, "f:d": {}},
        'k:{ "b" : 1.0, "a": "x" }': {},
        'v: "y"': {},
        "i:007": {},
        "z:later": {"f:x": {}},
        "f:e": {"z:later": {}},
    }
    assert fieldset.read(sent) == {
        "f:a": {},
        "f:b": {},
        "f:c": {".": {}, "f:d": {}},
        'k:{"a":"x","b":1}': {},
        'v:"y"': {},
        "i:7": {},
        "f:e": {},
    }
    assert fieldset.read({}) == {}


@pytest.mark.parametrize(
    "sent", [1, [], {"f": {}}, {"fa": {}}, {"f:a": 1}, {"k:x": {}}, {"k:[]": {}}, {"v:": {}}, {"i:x": {}}]
)
def test_malformed_fieldset_is_rejected(sent: Any) -> None:
    with pytest.raises(Malformed):
        fieldset.read(sent)
