from typing import Any

import pytest
from answers import answers, boat, causes_of

from every import every
from kubehub.schema import parse
from kubehub.schemas import cel_validation, structural
from kubehub.schemas.cel_escaping import escape
from kubehub.schemas.cel_rules import compile_rules
from kubehub.schemas.cel_types import declare
from kubehub.schemas.cel_validation import Rules
from kubehub.schemas.field_path import PathError, resolve

_, (SCENE, *CASES) = answers("rules")


def with_rule(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return schema | {"x-kubernetes-validations": [{"rule": rule, **more}]}


@every("case", CASES, ids=lambda case: case["rule"])
def test_cel_rules_match_recorded_answers(case: dict[str, Any]) -> None:
    node = parse(with_rule(SCENE["schema"], case["rule"]))
    declared = declare(node)
    assert declared is not None
    (rule,) = compile_rules(node, declared)
    if "error" in case:
        assert rule.error == case["error"].strip()
        return
    assert rule.error == ""
    assert rule.cost == case["cost"]
    for value, refused in zip(SCENE["values"], case["refused"], strict=True):
        texts = [cause.message for cause in Rules(node).check(value, None, path="self")]
        assert texts == refused or (refused is True and texts) or (refused is False and not texts)


def test_recorded_cel_answers_cover_all_rules() -> None:
    assert sum("error" in case for case in CASES) > 10
    assert sum(any(case.get("refused", ())) for case in CASES) > 100
    assert sum(case.get("cost", 0) > 1_000_000 for case in CASES) > 10


def refusals(schema: dict[str, Any], new: Any, old: Any = None, **root: Any) -> list[list[str]]:
    checker = structural.compile(boat(schema, **root))
    document = {"apiVersion": "v1", "kind": "Boat", "metadata": {"name": "a"}, "spec": new}
    return causes_of(checker.check(document, old=None if old is None else document | {"spec": old}))


TEXT = {"type": "string"}


def test_cel_rule_failure_has_its_message_or_the_rule() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}}
    assert refusals(with_rule(schema, "self.a == 'x'"), {"a": "y"}) == [
        ["spec", "FieldValueInvalid", "Invalid value: failed rule: self.a == 'x'"]
    ]
    assert refusals(with_rule(schema, "self.a == 'x'", message=" must be x "), {"a": "y"})[0][2] == (
        "Invalid value: must be x"
    )
    scalar = {"type": "object", "properties": {"a": with_rule(TEXT, "self == 'x'")}}
    assert refusals(scalar, {"a": "y"}) == [
        ["spec.a", "FieldValueInvalid", "Invalid value: \"y\": failed rule: self == 'x'"]
    ]


def test_cel_message_expression_is_evaluated() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}}
    computed = {"messageExpression": "'not ' + self.a", "message": "fixed"}
    assert (
        refusals(with_rule(schema, "self.a == 'x'", **computed), {"a": "y"})[0][2] == "Invalid value: not y"
    )
    assert refusals(with_rule(schema, "false", messageExpression="self.a", message="fixed"), {"a": "b\nc"})[
        0
    ][2] == ("Invalid value: fixed")
    assert refusals(with_rule(schema, "false", messageExpression="self.a", message="fixed"), {})[0][2] == (
        "Invalid value: fixed"
    )


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("FieldValueInvalid", "Invalid value: m"),
        ("FieldValueForbidden", "Forbidden: m"),
        ("FieldValueRequired", "Required value: m"),
        ("FieldValueDuplicate", "Duplicate value"),
    ],
)
def test_cel_rule_sets_reason_and_field_path(reason: str, message: str) -> None:
    schema = {"type": "object", "properties": {"a-b": {"type": "object", "additionalProperties": TEXT}}}
    schema = with_rule(schema, "false", message="m", reason=reason, fieldPath=".a-b['k.l']")
    assert refusals(schema, {}) == [["spec.a-b[k.l]", reason, message]]


def test_transition_rules_need_an_old_value() -> None:
    schema = {"type": "object", "properties": {"a": with_rule(TEXT, "self == oldSelf", message="is fixed")}}
    assert refusals(schema, {"a": "x"}) == []
    assert refusals(schema, {"a": "x"}, {"a": "x"}) == []
    assert refusals(schema, {"a": "x"}, {}) == []
    assert refusals(schema, {"a": "x"}, {"a": "y"}) == [
        ["spec.a", "FieldValueInvalid", 'Invalid value: "x": is fixed']
    ]


def test_optional_old_self_is_evaluated_on_create() -> None:
    rule = "oldSelf.hasValue() ? self == oldSelf.value() : self.startsWith('a')"
    schema = {"type": "object", "properties": {"a": with_rule(TEXT, rule, optionalOldSelf=True, message="m")}}
    assert refusals(schema, {"a": "ab"}) == []
    assert len(refusals(schema, {"a": "b"})) == 1
    assert refusals(schema, {"a": "b"}, {"a": "b"}) == []
    assert len(refusals(schema, {"a": "ac"}, {"a": "ab"})) == 1


def test_old_self_of_list_items_is_found_by_key() -> None:
    item = with_rule(
        {"type": "object", "required": ["id"], "properties": {"id": TEXT, "n": {"type": "integer"}}},
        "self.n >= oldSelf.n",
        message="no way back",
    )
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"],
    }
    schema = {
        "type": "object",
        "properties": {
            "l": keyed,
            "m": {"type": "object", "additionalProperties": with_rule(TEXT, "self == oldSelf")},
        },
    }
    old = {"l": [{"id": "a", "n": 1}, {"id": "b", "n": 2}], "m": {"k": "v"}}
    assert (
        refusals(schema, {"l": [{"id": "b", "n": 2}, {"id": "a", "n": 1}], "m": {"k": "v", "new": "x"}}, old)
        == []
    )
    causes = refusals(schema, {"l": [{"id": "c", "n": 0}, {"id": "b", "n": 1}], "m": {"k": "w"}}, old)
    assert [cause[0] for cause in causes] == ["spec.l[1]", "spec.m[k]"]
    atomic = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
    assert refusals(atomic, {"l": [{"id": "a", "n": 0}]}, {"l": [{"id": "a", "n": 1}]}) == []


def test_unchanged_value_passes_failing_cel_rule_unless_it_uses_old_self() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": with_rule({"type": "object", "properties": {"x": TEXT}}, "self.x == 'good'"),
            "b": TEXT,
        },
    }
    old = {"a": {"x": "bad"}, "b": "1"}
    assert refusals(schema, old | {"b": "2"}, old) == []
    assert len(refusals(schema, {"a": {"x": "worse"}}, old)) == 1


def test_sets_and_maps_are_equal_in_any_order() -> None:
    schema = {
        "type": "object",
        "properties": {
            "s": with_rule(
                {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "self == oldSelf",
                message="m",
            )
        },
    }
    assert refusals(schema, {"s": ["a", "b"]}, {"s": ["b", "a"]}) == []
    assert len(refusals(schema, {"s": ["a"]}, {"s": ["b", "a"]})) == 1


def test_root_cel_rule_sees_only_name_of_metadata() -> None:
    root = {"x-kubernetes-validations": [{"rule": "self.metadata.name == 'b'", "message": "m"}]}
    assert refusals({"type": "object"}, {}, **root) == [["<nil>", "FieldValueInvalid", "Invalid value: m"]]
    root = {"x-kubernetes-validations": [{"rule": "has(self.metadata.labels)"}]}
    assert "undefined field 'labels'" in refusals({"type": "object"}, {}, **root)[0][2]


def test_formatted_strings_are_typed_in_cel_rules() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "on": {"type": "string", "format": "date"},
            "for": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"},
        },
    }
    rule = (
        "self.at - self.on < self.__for__ && self.raw == b'hi' "
        "&& self.at.getHours() == 3 && self.__for__ == duration('4h')"
    )
    value = {"at": "2026-03-01t03:00:00z", "on": "2026-03-01", "for": "4 hours", "raw": "aGk="}
    assert refusals(with_rule(schema, rule), value) == []


def test_integers_of_type_number_are_doubles_in_cel_rules() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "number"}, "l": {"type": "array", "items": {"type": "number"}}},
    }
    assert (
        refusals(with_rule(schema, "self.x / 2.0 == 0.5 && self.l[0] + 0.5 == 1.5"), {"x": 1, "l": [1]}) == []
    )


def test_null_field_is_absent_for_cel_rules() -> None:
    schema = {"type": "object", "properties": {"a": TEXT | {"nullable": True}}}
    assert refusals(with_rule(schema, "!has(self.a)"), {"a": None}) == []


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a", "a"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("in", "__in__"),
        ("namespace", "__namespace__"),
        ("a b", None),
        ("é", None),
        ("1a", None),
        ("", None),
    ],
)
def test_names_that_are_no_identifiers_are_escaped(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


@pytest.mark.parametrize("name", ["a-b", "a.b", "a/b", "in", "namespace", "a__b"])
def test_escaped_names_reach_their_fields(name: str) -> None:
    schema = {"type": "object", "properties": {name: TEXT}}
    assert refusals(with_rule(schema, f"self.{escape(name)} == 'x'"), {name: "x"}) == []


def test_cel_rules_have_limits_of_their_own_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel_validation, "WORK_BUDGET", 1 << 40)
    numbers = {"type": "array", "items": {"type": "integer"}}
    costly = "self.all(x, self.all(y, x + y >= 0))"
    schema = {"type": "object", "properties": {"l": with_rule(numbers, costly)}}
    ((field, _, message),) = refusals(schema, {"l": list(range(2000))})
    assert field == "spec.l"
    assert message == 'Invalid value: "array": ' + cel_validation.RULE_TOO_COSTLY.format(
        "operation cancelled: actual cost limit exceeded", costly
    )
    many = {"type": "object", "properties": {"l": {"type": "array", "items": with_rule(numbers, costly)}}}
    causes = refusals(many, {"l": [list(range(200))] * 60})
    assert causes == [
        [causes[0][0], "FieldValueInvalid", f'Invalid value: "array": {cel_validation.OUT_OF_BUDGET}']
    ]


def test_cel_rules_beyond_the_work_limit_reject_the_request() -> None:
    """At any cost: finding all matches costs next to nothing."""
    busy = "self.findAll('a').size() > 0"
    schema = {"type": "object", "properties": {"a": with_rule(TEXT, busy), "b": with_rule(TEXT, busy)}}
    assert refusals(schema, {"a": "a" * 1000, "b": "a" * 1000}) == []
    ((field, _, message),) = refusals(schema, {"a": "a" * 1000, "b": "a" * 100_000})
    assert field == "spec.b"
    assert message == 'Invalid value: "string": ' + cel_validation.RULE_TOO_MUCH_WORK.format(
        f"operation cancelled: work limit of {cel_validation.WORK_BUDGET} units exceeded", busy
    )


def test_cel_rule_evaluation_error_is_reported() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert refusals(with_rule(schema, "self.a / self.b == 1"), {"a": 1, "b": 0})[0][2] == (
        'Invalid value: "object": division by zero evaluating rule: self.a / self.b == 1'
    )
    assert refusals(with_rule(schema, "self.a == 1"), {})[0][2] == (
        'Invalid value: "object": no such key: a evaluating rule: self.a == 1'
    )


def test_cel_field_paths_are_resolved() -> None:
    node = parse(
        {
            "type": "object",
            "properties": {
                "a": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"b": TEXT}},
                },
                "it's": TEXT,
            },
        }
    )
    assert resolve(".a.k.b", node)[0] == "a[k].b"
    assert resolve(".a['x.y'].b", node)[0] == "a[x.y].b"
    assert resolve(r"['it\'s']", node)[0] == "it's"
    for path, words in (
        ("a", "expected [ or . but got: a"),
        (".", "unexpected end of JSON path"),
        (".z", "does not refer to a valid field"),
        (".a[k]", "expected single quoted string but got k"),
        (".a['k'.b", "expected ] but got ."),
        (r".a['\q']", "invalid string literal: invalid escape char \\q"),
        (".a.k.b.c", "does not refer to a valid field"),
    ):
        with pytest.raises(PathError) as error:
            resolve(path, node)
        assert str(error.value) == words
    with pytest.raises(PathError, match="array notation is not allowed"):
        resolve(".a['k']", node, brackets=False)


def test_schemas_without_rules_have_no_rules() -> None:
    assert not Rules(boat({"type": "object", "properties": {"a": TEXT}}))
    assert Rules(boat({"type": "object", "properties": {"a": with_rule(TEXT, "true")}}))
