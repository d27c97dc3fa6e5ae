"""Validation compared with an independent JSON Schema validator, on keywords that mean the same in both."""

from typing import Any

import jsonschema_rs
from hypothesis import given, settings
from hypothesis import strategies as st

from kubehub.schema import parse
from kubehub.schemas import structural

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-5, 12),
    st.sampled_from([0.5, 2.5, -1.5, 100.25]),
    st.sampled_from(["", "a", "ab", "abc", "b1", "ünï", "x" * 9]),
)


def values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    )


# Null has a meaning of its own in Kubernetes.
COMMON = values(SCALARS)
VALUES = values(SCALARS | st.none())
BOUNDS = st.integers(-2, 6)
CONDITIONS: dict[str, st.SearchStrategy[Any]] = {
    "minimum": BOUNDS,
    "maximum": BOUNDS,
    "minLength": st.integers(0, 3),
    "maxLength": st.integers(0, 4),
    "pattern": st.sampled_from(["^a", "b$", "[0-9]", "^$", "^(a|b)+$"]),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 3),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(0, 3),
    "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
    "enum": st.lists(st.sampled_from(["a", "ab", 1, 2, True]), min_size=1, max_size=3, unique_by=repr),
    "multipleOf": st.integers(1, 3),
}


@st.composite
def conditions(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(CONDITIONS)), max_size=2, unique=True))
    schema = {name: draw(CONDITIONS[name]) for name in names}
    if "multipleOf" in schema:
        schema["type"] = "integer"
    if depth < 2 and draw(st.integers(0, 4)) == 0:
        junctor = draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))
        schema[junctor] = draw(st.lists(conditions(depth + 1), min_size=1, max_size=3))
    if depth < 2 and draw(st.integers(0, 8)) == 0:
        schema["not"] = draw(conditions(depth + 1))
    return schema


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    kind = draw(st.sampled_from(["object", "array", "string", "integer", "number", "boolean", ""]))
    schema = draw(conditions(depth))
    schema.pop("type", None)
    if schema.get("multipleOf") and kind != "integer":
        del schema["multipleOf"]
    if kind:
        schema["type"] = kind
    if kind == "object" and depth < 3:
        if draw(st.booleans()):
            schema["properties"] = draw(st.dictionaries(NAMES, schemas(depth + 1), max_size=3))
        else:
            schema["additionalProperties"] = draw(schemas(depth + 1))
    if kind == "array" and depth < 3:
        schema["items"] = draw(schemas(depth + 1))
    return schema


@given(schema=schemas(), value=COMMON)
@settings(max_examples=120)
def test_structural_checker_agrees_with_jsonschema(schema: dict[str, Any], value: Any) -> None:
    judge = jsonschema_rs.validator_for(schema | {"$schema": "http://json-schema.org/draft-04/schema#"})
    ours = not structural.compile(parse(schema)).check(value)
    assert ours == judge.is_valid(value)


@given(schema=schemas(), value=VALUES)
def test_every_document_gets_an_answer_of_causes(schema: dict[str, Any], value: Any) -> None:
    checker = structural.compile(parse({"type": "object", "properties": {"spec": schema}}))
    document = {"spec": value}
    checker.prune(document)
    checker.default(document)
    for cause in checker.check(document):
        assert cause.field
        assert cause.message


@given(schema=schemas(), old=VALUES, new=VALUES)
def test_document_accepted_on_create_is_accepted_on_update(
    schema: dict[str, Any], old: Any, new: Any
) -> None:
    checker = structural.compile(parse({"type": "object", "properties": {"spec": schema}}))
    fresh = checker.check({"spec": new})
    assert {*checker.check({"spec": new}, old={"spec": old})} <= {*fresh}
