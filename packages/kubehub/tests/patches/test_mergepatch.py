from typing import Any

import pytest

from kubehub.patches import mergepatch
from kubehub.patches.mergepatch import apply
from kubehub.status import Refusal


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_mergepatch_is_applied(
    document: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    before = repr((document, patch))
    assert apply(document, patch) == result
    assert repr((document, patch)) == before


def test_mergepatch_drops_nulls_in_lists_unless_they_replace_an_object() -> None:
    patch = {"a": [None, {"b": None, "c": [{"d": None}]}]}
    without: dict[str, Any] = {"a": [None, {"c": [{}]}]}
    assert apply({}, patch) == apply({"a": [1]}, patch) == apply({"a": "x"}, patch) == without
    assert apply({"a": {}}, patch) == patch


def test_mergepatch_keeps_the_order_of_fields() -> None:
    assert list(apply({"a": 1, "b": 2, "c": 3}, {"d": 4, "b": 5, "a": None})) == ["b", "c", "d"]


def test_mergepatch_result_shares_nothing() -> None:
    document: dict[str, Any] = {"a": {"b": []}}
    patch: dict[str, Any] = {"c": {"d": []}}
    result = apply(document, patch)
    result["a"]["b"].append(1)
    result["c"]["d"].append(1)
    assert (document, patch) == ({"a": {"b": []}}, {"c": {"d": []}})


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (None, mergepatch.NO_PATCH),
        ([], mergepatch.UNDECODABLE.format("array")),
        (
            1,
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
    ],
)
def test_malformed_mergepatch_is_rejected(patch: Any, words: str) -> None:
    with pytest.raises(Refusal) as refused:
        apply({}, patch)
    assert (refused.value.code, refused.value.message) == (400, words)
