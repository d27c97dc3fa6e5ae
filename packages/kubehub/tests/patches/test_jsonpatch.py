from typing import Any

import pytest

from kubehub.patches import jsonpatch
from kubehub.patches.jsonpatch import apply
from kubehub.status import Refusal


def op(kind: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **more}


def refusal(document: dict[str, Any], operations: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        apply(document, operations)
    return refused.value


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        ({}, op("add", "/a", value=1), {"a": 1}),
        ({"a": 1}, op("add", "/a", value={"b": []}), {"a": {"b": []}}),
        ({"a": [1, 2]}, op("add", "/a/1", value=9), {"a": [1, 9, 2]}),
        ({"a": [1, 2]}, op("add", "/a/2", value=9), {"a": [1, 2, 9]}),
        ({"a": [1, 2]}, op("add", "/a/-", value=9), {"a": [1, 2, 9]}),
        ({"a": [1, 2]}, op("add", "/a/-1", value=9), {"a": [1, 2, 9]}),
        ({"a": [1, 2]}, op("add", "/a/-3", value=9), {"a": [9, 1, 2]}),
        ({}, op("add", "/a"), {"a": None}),
        ({}, op("add", "/a~1b~0c", value=1), {"a/b~c": 1}),
        ({}, op("add", "/", value=1), {"": 1}),
        ({"": {"a": 1}}, op("remove", "//a"), {"": {}}),
        ({"a": 1, "b": 2}, op("remove", "/a"), {"b": 2}),
        ({"a": [1, 2, 3]}, op("remove", "/a/0"), {"a": [2, 3]}),
        ({"a": [1, 2, 3]}, op("remove", "/a/-1"), {"a": [1, 2]}),
        ({"a": 1}, op("replace", "/a", value=2), {"a": 2}),
        ({}, op("replace", "/a", value=2), {"a": 2}),
        ({"a": [1, 2]}, op("replace", "/a/1", value=3), {"a": [1, 3]}),
        ({"a": 1}, op("replace", "", value={"b": 2}), {"b": 2}),
        ({"a": {"b": 1}}, op("move", "/c", **{"from": "/a/b"}), {"a": {}, "c": 1}),
        ({"a": [1, 2, 3]}, op("move", "/a/0", **{"from": "/a/2"}), {"a": [3, 1, 2]}),
        ({"a": {"b": 1}}, op("copy", "/c", **{"from": "/a"}), {"a": {"b": 1}, "c": {"b": 1}}),
        ({}, op("copy", "/c", **{"from": "/a"}), {"c": None}),
        ({"a": {"b": [1, None]}}, op("test", "/a", value={"b": [1, None]}), {"a": {"b": [1, None]}}),
        ({"a": 1}, op("test", "", value={"a": 1}), {"a": 1}),
        ({}, op("test", "/a"), {}),
        ({}, op("test", "/a", value=None), {}),
        ({"a": 1}, op("remove", "a/a"), {}),
    ],
)
def test_jsonpatch_operation_is_applied(
    document: dict[str, Any], operation: dict[str, Any], result: dict[str, Any]
) -> None:
    before = repr(document)
    assert apply(document, [operation]) == result
    assert repr(document) == before


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        ({"a": 1}, op("test", "/a", value=2)),
        ({"a": 1}, op("test", "/a", value=1.0)),
        ({"a": 1}, op("test", "/a", value=True)),
        ({"a": {"b": 1}}, op("test", "/a", value={"b": 1, "c": 2})),
        ({"a": [1]}, op("test", "/a", value=[1, 1])),
        ({"a": 1}, op("test", "/b", value=1)),
        ({}, op("add", "/a/b", value=1)),
        ({"a": None}, op("add", "/a/b", value=1)),
        ({"a": "x"}, op("add", "/a/b", value=1)),
        ({"a": [1]}, op("add", "/a/3", value=1)),
        ({"a": [1]}, op("add", "/a/-3", value=1)),
        ({"a": [1]}, op("add", "/a/x", value=1)),
        ({"a": [1]}, op("add", "/a/²", value=1)),
        ({"a": 1}, op("add", "", value={})),
        ({}, op("remove", "/a")),
        ({"a": [1]}, op("remove", "/a/1")),
        ({"a": [1]}, op("remove", "/a/-")),
        ({"a": [1]}, op("replace", "/a/1", value=2)),
        ({"a": [1]}, op("replace", "/a/-", value=2)),
        ({"a": 1}, op("replace", "", value=1)),
        ({"a": 1}, op("replace", "")),
        ({}, op("move", "/b", **{"from": "/a"})),
        ({"a": 1}, op("move", "/b")),
        ({"a": 1}, op("copy", "/x/y", **{"from": "/a"})),
        ({}, {"op": "add"}),
        ({}, {"path": "/a", "value": 1}),
        ({}, op("", "/a", value=1)),
        ({}, op("merge", "/a", value=1)),
        ({}, None),
    ],
)
def test_jsonpatch_that_does_not_fit_is_rejected(document: dict[str, Any], operation: Any) -> None:
    refused = refusal(document, [operation])
    assert refused.document() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": jsonpatch.REJECTED,
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


def test_later_operations_see_what_earlier_ones_did() -> None:
    operations = [
        op("add", "/a", value=[]),
        op("add", "/a/-", value={"b": 1}),
        op("copy", "/a/-", **{"from": "/a/0"}),
        op("replace", "/a/0/b", value=2),
    ]
    assert apply({}, operations) == {"a": [{"b": 2}, {"b": 1}]}


def test_added_value_is_not_shared_with_the_patch() -> None:
    value: dict[str, Any] = {"b": []}
    result = apply({}, [op("add", "/a", value=value), op("add", "/a/b/-", value=1)])
    assert (result, value) == ({"a": {"b": [1]}}, {"b": []})


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ({"op": "add"}, jsonpatch.UNDECODABLE.format("object", "value of type []handlers.jsonPatchOp")),
        ("x", jsonpatch.UNDECODABLE.format("string", "value of type []handlers.jsonPatchOp")),
        (["x"], jsonpatch.UNDECODABLE.format("string", "value of type handlers.jsonPatchOp")),
        ([[]], jsonpatch.UNDECODABLE.format("array", "value of type handlers.jsonPatchOp")),
        ([{"op": 1}], jsonpatch.UNDECODABLE.format("number", "struct field jsonPatchOp.op of type string")),
        (
            [{"path": True}],
            jsonpatch.UNDECODABLE.format("bool", "struct field jsonPatchOp.path of type string"),
        ),
    ],
)
def test_malformed_jsonpatch_is_rejected(operations: Any, words: str) -> None:
    refused = refusal({}, operations)
    assert (refused.code, refused.reason, refused.message) == (400, "BadRequest", words)


def test_empty_jsonpatch_changes_nothing() -> None:
    assert apply({"a": 1}, None) == apply({"a": 1}, []) == {"a": 1}


def test_jsonpatch_with_too_many_operations_is_rejected() -> None:
    test = op("test", "/a", value=1)
    assert apply({"a": 1}, [test] * jsonpatch.MAX_OPERATIONS) == {"a": 1}
    refused = refusal({"a": 1}, [test] * 10_001)
    assert (refused.code, refused.reason) == (413, "RequestEntityTooLarge")
    assert refused.message == jsonpatch.TOO_MANY.format(10_000, 10_001)


def test_jsonpatch_limits_the_size_of_copies() -> None:
    document = {"a": ["x" * 1000]}
    doubling = [op("copy", "/a/-", **{"from": "/a"}) for _ in range(40)]
    assert refusal(document, doubling).code == 422
    assert len(apply(document, doubling[:8])["a"]) == 9


def test_jsonpatch_that_makes_the_object_a_list_is_rejected() -> None:
    refused = refusal({"a": 1}, [op("replace", "", value=[])])
    assert refused.code == 422
    assert refused.message == f' "" is invalid: patch: Invalid value: "[]": {jsonpatch.NOT_AN_OBJECT}'


def test_jsonpatch_unknown_operation_fields_are_listed() -> None:
    operations = [op("test", "/a"), op("add", "/b", value=1, foo=2, bar=3), None]
    unknown = jsonpatch.unknown_fields(operations)
    assert unknown == [jsonpatch.UNKNOWN_FIELD.format(1, "foo"), 'json patch unknown field "[1].bar"']
    assert jsonpatch.unknown_fields(None) == []
