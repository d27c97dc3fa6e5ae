from typing import Any

import pytest

from kubehub.patches import strategic
from kubehub.patches.jsonpatch import REJECTED
from kubehub.patches.strategic import apply
from kubehub.schema import parse
from kubehub.status import Refusal

TEXT = {"type": "string"}
MERGED = {"x-kubernetes-patch-strategy": "merge"}
BY_NAME = {**MERGED, "x-kubernetes-patch-merge-key": "name"}
ENV = {"type": "array", **BY_NAME, "items": {"type": "object", "properties": {"name": TEXT, "value": TEXT}}}
CONTAINER = {
    "type": "object",
    "properties": {"name": TEXT, "image": TEXT, "env": ENV, "args": {"type": "array"}},
}
NODE = parse(
    {
        "type": "object",
        "properties": {
            "name": TEXT,
            "containers": {"type": "array", **BY_NAME, "items": CONTAINER},
            "finalizers": {"type": "array", **MERGED, "items": TEXT},
            "numbers": {"type": "array", **MERGED, "items": {"type": "integer"}},
            "lists": {"type": "array", **MERGED},
            "keyless": {"type": "array", **MERGED, "items": {"type": "object"}},
            "args": {"type": "array", "items": TEXT},
            "strategy": {
                "type": "object",
                "x-kubernetes-patch-strategy": "retainKeys",
                "properties": {"type": TEXT, "rolling": {"type": "object", "properties": {"surge": TEXT}}},
            },
            "whole": {
                "type": "object",
                "x-kubernetes-patch-strategy": "replace",
                "properties": {"a": TEXT, "b": TEXT},
            },
            "labels": {"type": "object", "additionalProperties": TEXT},
            "maps": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
        },
    }
)

A, B, C, D = ({"name": name, "image": name} for name in "abcd")


def refusal(document: dict[str, Any], patch: Any) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        apply(document, patch, NODE)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"name": "a"}, {"name": "b"}, {"name": "b"}),
        ({"name": "a"}, {"name": None}, {}),
        ({"labels": {"a": "1"}}, {"labels": {"b": "2", "a": None}}, {"labels": {"b": "2"}}),
        ({}, {"labels": {"a": None, "b": "2"}}, {"labels": {"b": "2"}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"args": ["a"]}, {"args": []}, {"args": []}),
        ({"args": "x"}, {"args": ["b", None]}, {"args": ["b", None]}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
        ({"finalizers": ["a", "b"]}, {"finalizers": ["c", "a"]}, {"finalizers": ["c", "a", "b"]}),
        ({"finalizers": []}, {"finalizers": []}, {"finalizers": []}),
        ({"numbers": [1]}, {"numbers": [2, 1, 2]}, {"numbers": [2, 1]}),
        ({"name": "a"}, None, {"name": "a"}),
    ],
)
def test_strategic_patch_merges_by_key(document: dict[str, Any], patch: Any, result: dict[str, Any]) -> None:
    before = repr((document, patch))
    assert apply(document, patch, NODE) == result
    assert repr((document, patch)) == before


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ({"containers": [{"name": "b", "$patch": "delete"}]}, "ac"),
        ({"containers": [{"name": "x", "$patch": "delete"}]}, "abc"),
        ({"containers": [{"$patch": "replace"}, D, B]}, "db"),
        ({"containers": [{"$patch": "replace"}]}, ""),
        ({"containers": [D, {"name": "a", "$patch": "delete"}]}, "dbc"),
        ({"$setElementOrder/containers": [{"name": n} for n in "cba"]}, "cba"),
        ({"$setElementOrder/containers": [{"name": n} for n in "cd"], "containers": [D]}, "abcd"),
        ({"$setElementOrder/containers": [{"name": n} for n in "da"], "containers": [D]}, "dabc"),
    ],
)
def test_strategic_patch_list_directives(patch: dict[str, Any], names: str) -> None:
    result = apply({"containers": [A, B, C]}, patch, NODE)
    assert [item["name"] for item in result["containers"]] == list(names)
    assert "$" not in repr(result)


def test_strategic_patch_sets_the_order_of_a_new_list() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [A, {"name": "z", "$patch": "delete"}, B],
        "$setElementOrder/args": ["x"],
    }
    assert apply({}, patch, NODE) == {"containers": [A, B]}


@pytest.mark.parametrize(
    ("patch", "finalizers"),
    [
        ({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}, ["b", "c"]),
        ({"finalizers": ["d"], "$deleteFromPrimitiveList/finalizers": ["a"]}, ["d", "b", "c"]),
        ({"finalizers": ["a"], "$deleteFromPrimitiveList/finalizers": ["a"]}, ["a", "b", "c"]),
        ({"$setElementOrder/finalizers": ["c", "a"]}, ["b", "c", "a"]),
        ({"$setElementOrder/finalizers": ["d", "a"], "finalizers": ["d"]}, ["d", "a", "b", "c"]),
    ],
)
def test_strategic_patch_primitive_list_directives(patch: dict[str, Any], finalizers: list[str]) -> None:
    assert apply({"finalizers": ["a", "b", "c"]}, patch, NODE) == {"finalizers": finalizers}


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ([], 400, strategic.UNDECODABLE.format("array")),
        ({"$deleteFromPrimitiveList": ["a"]}, 400, strategic.BAD_DELETE_FROM),
        ({"$setElementOrder": ["a"]}, 400, strategic.BAD_SET_ORDER),
        ({"$setElementOrder/keyless": [{"b": 1}]}, 400, strategic.BAD_SET_ORDER),
        ({"$retainKeys": "x"}, 400, strategic.BAD_RETAIN_KEYS),
        ({"$retainKeys": ["name"], "args": []}, 400, strategic.BAD_RETAIN_KEYS),
        ({"$patch": "bogus"}, 500, strategic.UNKNOWN_DIRECTIVE.format("bogus", "map[$patch:bogus]")),
        ({"$patch": 1}, 500, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        ({"$patch": None}, 500, f"unknown patch type: {strategic.NO_TYPE} in map: map[$patch:<nil>]"),
        ({"containers": [{"image": "x"}]}, 500, strategic.NO_MERGE_KEY.format("map[image:x]", "name")),
        ({"containers": [{"$patch": "delete"}]}, 500, strategic.NO_MERGE_KEY.format("map[$patch:delete]", "name")),
        ({"containers": [{"$patch": "merge"}]}, 500, strategic.MERGE_DIRECTIVE),
        ({"containers": [{"$patch": "x", "name": "a"}]}, 500, "unknown patch type: x in map: map[$patch:x name:a]"),
        ({"containers": ["x"]}, 500, strategic.MIXED_LIST.format("[[map[image:a name:a]] [x]]")),
        ({"lists": [["a"]]}, 422, REJECTED),
        ({"keyless": [{"a": 1}]}, 500, strategic.NO_KEY_DECLARED.format("struct")),
        ({"$setElementOrder/containers": "x"}, 500, strategic.WRONG_TYPE.format("[]interface {}", "string")),
        ({"$setElementOrder/containers": None}, 500, strategic.WRONG_TYPE.format("[]interface {}", "%!s(<nil>)")),
        ({"$setElementOrder/finalizers": ["a"]}, 500, strategic.EMPTY_LISTS),
        ({"$setElementOrder/containers": ["a"], "containers": [A]}, 500,
         strategic.WRONG_TYPE.format("map[string]interface {}", "string")),
        ({"$setElementOrder/containers": [{"name": "a"}], "containers": ["x"]}, 500,
         strategic.WRONG_TYPE.format("map[string]interface {}", "string")),
        ({"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}, 500,
         strategic.WRONG_ORDER.format("[b]", "[a]")),
        ({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [B, A]}, 500,
         strategic.WRONG_ORDER.format("[map[image:b name:b] map[image:a name:a]]", "[map[name:a] map[name:b]]")),
        ({"maps": {"x": {"a": "1"}}}, 500, strategic.NOT_A_STRUCT.format("map")),
        ({"unknown": {"a": {"b": 1}}}, 500, strategic.NO_FIELD.format("", '"unknown"')),
    ],
)  # fmt: skip
def test_invalid_strategic_patch_is_rejected(patch: Any, code: int, words: str) -> None:
    document = {
        "containers": [A],
        "finalizers": [],
        "lists": [["b"]],
        "keyless": [{"b": 1}],
        "maps": {"x": {"a": "2"}},
        "unknown": {"a": {"c": 1}},
    }
    assert refusal(document, patch) == (code, words)


def test_strategic_patch_result_shares_nothing() -> None:
    document: dict[str, Any] = {"labels": {}, "args": []}
    patch: dict[str, Any] = {"containers": [{"name": "a", "args": []}]}
    result = apply(document, patch, NODE)
    result["labels"]["a"] = result["containers"][0]["image"] = "x"
    assert (document, patch) == ({"labels": {}, "args": []}, {"containers": [{"name": "a", "args": []}]})
