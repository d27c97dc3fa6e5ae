import copy
from typing import Any

import msgspec
import pytest
from answers import answers, boat, causes_of

from every import every
from fairway.api import crds as own_crds
from kubehub.crd import definitions
from kubehub.schema import Node, object_meta
from kubehub.schemas import structural
from kubehub.schemas.structural import NESTED_TOO_DEEPLY, RULES_NOT_CHECKED
from kubehub.status import Refusal

_, CASES = answers("structural")


def thing(spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default", "resourceVersion": "1"},
        "spec": copy.deepcopy(spec),
    }


@every("case", CASES)
def test_schema_validation_matches_recorded_answers(case: dict[str, Any]) -> None:
    checker = structural.compile(boat(case["schema"]))
    document, old = thing(case["spec"]), None
    assert checker.prune(document) == case["unknown"]
    checker.default(document)
    assert document["spec"] == case["becomes"]
    if "old" in case:
        old = thing(case["old"])
        checker.prune(old)
        checker.default(old)
    assert causes_of(checker.check(document, old=old)) == case["causes"]


def test_recorded_schema_answers_cover_all_refusals() -> None:
    messages = "\n".join(cause[2] for case in CASES for cause in case["causes"])
    for words in (
        "must be of type integer",
        "Required value",
        "Unsupported value",
        "Too long: may not be more than",
        "should match '",
        "should be less than or equal to",
        "should be greater than",
        "should be a multiple of",
        "should have at least 1 items",
        "Too many: ",
        "should have at least 1 properties",
        "should be at least",
        "(anyOf)",
        "(oneOf). Found none valid",
        "(allOf)",
        "(not)",
        "Duplicate value: {",
        'Duplicate value: "',
    ):
        assert words in messages, words
    assert sum("old" in case for case in CASES) > 20
    assert sum(bool(case["unknown"]) for case in CASES) > 40


def messages(schema: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    checker = structural.compile(boat(schema))
    before = None if old is None else thing(old)
    return [f"{c.field}: {c.message}" for c in checker.check(thing(spec), old=before)]


def test_wrong_type_has_kubernetes_message() -> None:
    schema = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    assert messages(schema, {"replicas": "string"}) == [
        'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"'
    ]


def test_list_is_rejected_where_a_formatted_string_is_expected() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    assert messages(schema, {"at": []}) == [
        'spec.at: Invalid value: "array": spec.at in body must be of type string: "array"'
    ]


def test_numbers_beyond_64_bits_are_fractions() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number"}}}
    assert messages(schema, {"n": 2**63, "x": 2**63}) == [
        'spec.n: Invalid value: "number": spec.n in body must be of type integer: "number"',
        '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.n',
    ]
    assert messages(schema, {"n": 2**63 - 1, "x": 10**400}) == []


def test_bounds_are_exact_even_between_integers() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number", "minimum": 1.5, "enum": [1, 2]}}}
    assert messages(schema, {"x": 1}) == [
        "spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 1.5"
    ]
    assert messages(schema, {"x": 2.5}) == ['spec.x: Unsupported value: 2.5: supported values: "1", "2"']


def test_unchanged_invalid_value_passes_an_update() -> None:
    schema = {
        "type": "object",
        "properties": {
            "level": {"type": "integer", "maximum": 5},
            "name": {"type": "string"},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port"],
                "items": {
                    "type": "object",
                    "required": ["port"],
                    "properties": {"port": {"type": "integer", "maximum": 5}, "note": {"type": "string"}},
                },
            },
        },
    }
    old = {"level": 9, "name": "a", "ports": [{"port": 8}, {"port": 9}]}
    assert messages(schema, old | {"name": "b"}, old) == []
    assert messages(schema, old | {"ports": [{"port": 9}, {"port": 8}]}, old) == []
    changed = messages(schema, old | {"level": 10, "ports": [{"port": 9}, {"port": 8, "note": "x"}]}, old)
    assert [text.partition(":")[0] for text in changed] == ["spec.level"]
    assert len(messages(schema, old)) == 3


def test_status_write_validates_only_the_status() -> None:
    node = boat({"type": "object", "required": ["x"]})
    node.properties["status"] = Node(type="object", properties={"n": Node(type="integer")})
    checker = structural.compile(node)
    document = thing({}) | {"status": {"n": "a"}}
    causes = checker.check(document, old=thing({}), subresource="status")
    assert causes_of(causes) == [
        [
            "status.n",
            "FieldValueTypeInvalid",
            'Invalid value: "string": n in body must be of type integer: "string"',
        ]
    ]
    assert checker.check(document, old=document, subresource="status") == []
    assert checker.check(thing({}), old=document, subresource="status") == []


def test_embedded_resources_keep_kind_and_metadata() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"data": {"type": "string"}},
    }
    checker = structural.compile(boat(schema))
    document = thing(
        {"apiVersion": "v1", "kind": "C", "metadata": {"name": "x", "odd": 1}, "data": "d", "other": 1}
    )
    assert checker.prune(document) == ["spec.metadata.odd", "spec.other"]
    assert document["spec"] == {"apiVersion": "v1", "kind": "C", "metadata": {"name": "x"}, "data": "d"}
    assert checker.check(document) == []
    document["spec"] |= {"kind": "not.a-kind", "metadata": {"name": "a/b", "labels": {"x": "-"}}}
    del document["spec"]["apiVersion"]
    assert [cause.field for cause in checker.check(document)] == [
        "spec.apiVersion",
        "spec.kind",
        "spec.metadata.name",
        "spec.metadata.labels",
    ]


def test_metadata_drops_unknown_and_empty_fields() -> None:
    checker = structural.compile(boat({"type": "object"}))
    document = thing({})
    document["metadata"] |= {"labels": {}, "annotations": {"a": None}, "generation": 0, "color": "red"}
    assert checker.prune(document) == ["metadata.color"]
    assert document["metadata"] == {
        "name": "a",
        "namespace": "default",
        "resourceVersion": "1",
        "annotations": {"a": ""},
    }


def test_defaults_belong_to_each_document_alone() -> None:
    checker = structural.compile(
        boat({"type": "object", "properties": {"l": {"type": "array", "default": [{}]}}})
    )
    first, second = thing({}), thing({})
    checker.default(first)
    checker.default(second)
    first["spec"]["l"][0]["x"] = 1
    assert second["spec"]["l"] == [{}]


def test_cyclic_schema_is_checked_to_the_depth_of_the_document() -> None:
    tree = Node(type="object", required=("name",))
    tree.properties = {"name": Node(type="string", has_default=True, default="leaf"), "next": tree}
    checker = structural.compile(tree)
    document: dict[str, Any] = {"next": {"next": {"odd": 1, "next": {}}}}
    assert checker.prune(document) == ["next.next.odd"]
    checker.default(document)
    assert document["next"]["next"]["next"] == {"name": "leaf"}
    assert checker.check(document) == []
    del document["next"]["name"]
    document["next"]["next"]["name"] = 5
    assert [cause.field for cause in checker.check(document)] == ["next.next.name", "next.name"]


def nested(depth: int, key: str = "next") -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(depth):
        document = {key: document}
    return document


@pytest.mark.parametrize("work", ["prune", "default", "check"])
def test_deeply_nested_document_is_rejected(work: str) -> None:
    tree = Node(type="object")
    tree.properties = {"next": tree, "name": Node(type="string", has_default=True, default="x")}
    checker = structural.compile(tree)
    with pytest.raises(Refusal, match=NESTED_TOO_DEEPLY) as refused:
        getattr(checker, work)(nested(10_000))
    assert refused.value.code == 400


def test_depth_below_unchecked_fields_is_accepted() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    checker = structural.compile(boat(schema))
    document = thing({}) | {"spec": {"any": nested(10_000)}}
    assert checker.prune(document) == []
    checker.default(document)
    assert checker.check(document) == []
    lists: Any = []
    for _ in range(10_000):
        lists = [lists]
    with pytest.raises(Refusal, match=NESTED_TOO_DEEPLY):
        structural.compile(boat({"type": "object", "properties": {"n": {"type": "integer"}}})).prune(
            {"spec": {"n": lists}}
        )


def test_patterns_are_matched_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}
    assert messages(schema, {"s": "a" * 5000 + "b"}) != []
    assert messages(schema, {"s": "a" * 5000}) == []


def test_pattern_beyond_its_work_limit_rejects_the_string() -> None:
    schema = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(?:[a-z]{1,500}x){1,2}"}}}
    (text,) = messages(schema, {"s": "q" * 1_000_000})
    assert "is too long to be matched with" in text


def test_rules_wait_for_values_of_the_right_kind() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n > 1"}],
    }
    assert messages(schema, {"n": "a"})[-1] == f"<nil>: Invalid value: null: {RULES_NOT_CHECKED}"
    assert messages(schema, {"n": 1}) == ["spec: Invalid value: failed rule: self.n > 1"]


def test_own_kinds_are_valid_by_their_crds() -> None:
    (definition,) = (crd for crd in own_crds() if crd["spec"]["names"]["kind"] == "ManagedCluster")
    definitions.complete(definition)
    (resource,) = definitions.resources_of(definition)
    checker = structural.compile(resource.node)
    document: dict[str, Any] = {
        "metadata": {"name": "east"},
        "spec": {
            "hubAcceptsClient": True,
            "taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "2026-03-01T12:00:00Z"}],
        },
        "status": {"capacity": {"cpu": "4", "pods": 110}, "conditions": []},
    }
    assert checker.prune(document) == []
    checker.default(document)
    assert document["spec"]["leaseDurationSeconds"] == 60
    assert checker.check(document) == []


def test_pruning_twice_changes_nothing() -> None:
    for case in CASES[:80]:
        checker = structural.compile(boat(case["schema"]))
        document = thing(case["spec"])
        checker.prune(document)
        once = msgspec.json.encode(document)
        assert checker.prune(document) == []
        assert msgspec.json.encode(document) == once


def test_every_object_has_the_same_metadata() -> None:
    assert object_meta() is object_meta()
    assert object_meta().properties["ownerReferences"].list_keys == ("uid",)
