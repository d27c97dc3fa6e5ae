"""What must hold of patches, field sets and field ownership whatever the objects are."""

import contextlib
import copy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from kubehub.patches import (
    fieldset,
    jsonpatch,
    managed_fields,
    merge_schema,
    mergepatch,
    ownership,
    strategic,
)
from kubehub.patches.apply import apply
from kubehub.patches.fieldset import FieldSet
from kubehub.resource import Document
from kubehub.schema import parse
from kubehub.status import Refusal

VERSION = "example.com/v1"
TEXT = {"type": "string"}
SCALARS = ("text", "other", "number")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "fixed": TEXT,
        "text": TEXT,
        "other": TEXT,
        "number": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": TEXT},
        "inner": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": TEXT, "b": TEXT}},
        "list": {"type": "array", "items": TEXT},
        "set": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
            "items": TEXT,
        },
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
            "items": {"type": "object", "properties": {"name": TEXT, "a": TEXT, "b": TEXT}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
NODE = parse({"type": "object", "properties": {"spec": SCHEMA}})
SPEC_NODE = parse(SCHEMA)
ATOM = merge_schema.of(NODE)

letters = st.sampled_from("abc")
numbers = st.integers(0, 2)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def distinct(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    item = st.tuples(letters, some(**fields)).map(lambda pair: {"name": pair[0], **pair[1]})
    return st.lists(item, max_size=3, unique_by=lambda made: str(made["name"]))


free = st.recursive(
    st.one_of(st.booleans(), numbers, letters),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(letters, inner, min_size=1, max_size=2)
    ),
    max_leaves=4,
)
specs = st.fixed_dictionaries(
    {"fixed": st.just("x")},
    optional={
        "text": letters,
        "other": letters,
        "number": numbers,
        "labels": st.dictionaries(letters, letters, min_size=1, max_size=3),
        "inner": some(a=letters, b=letters).filter(bool),
        "whole": some(a=letters, b=letters),
        "list": st.lists(letters, max_size=2),
        "set": st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True),
        "items": distinct(a=letters, b=letters).filter(bool),
        "free": st.dictionaries(letters, free, min_size=1, max_size=2),
    },
)
"""No merged value is empty: an empty map or list has no owner."""
managers = st.sampled_from(["m1", "m2", "m3"])
writes = st.lists(st.tuples(st.sampled_from(["apply", "force", "update"]), managers, specs), max_size=5)


def thing(spec: dict[str, Any]) -> Document:
    return {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "a"}, "spec": copy.deepcopy(spec)}


def applied(live: Document | None, spec: dict[str, Any], manager: str, *, force: bool = False) -> Document:
    return apply(live, thing(spec), manager=manager, force=force, api_version=VERSION, time="t", node=NODE)


def updated(live: Document | None, spec: dict[str, Any], manager: str) -> Document:
    new = thing(spec)
    managed_fields.update(live, new, manager=manager, api_version=VERSION, time="t", node=NODE)
    return new


def after(history: list[tuple[str, str, dict[str, Any]]]) -> Document | None:
    """An object that has seen some writes; those that conflict are no writes."""
    live: Document | None = None
    for do, manager, spec in history:
        if do == "update":
            live = updated(live, spec, manager)
        else:
            live = attempted(live, spec, manager, force=do == "force") or live
    return live


def attempted(
    live: Document | None, spec: dict[str, Any], manager: str, *, force: bool = False
) -> Document | None:
    try:
        return applied(live, spec, manager, force=force)
    except Refusal as refused:
        if refused.code != 409:
            raise
        return None


objects = writes.map(after)


def owners(document: Document | None) -> managed_fields.Managers:
    return managed_fields.read(((document or {}).get("metadata") or {}).get("managedFields"), trusted=True)


def present(document: Document) -> FieldSet:
    return ownership.differences(ATOM, {}, document).added


# Server-side apply


@given(objects, specs, managers, st.booleans())
def test_second_apply_of_the_same_configuration_changes_nothing(
    live: Document | None, spec: dict[str, Any], manager: str, force: bool
) -> None:
    once = attempted(live, spec, manager, force=force)
    assume(once is not None)
    assert applied(once, spec, manager) is once


@given(objects, specs, managers)
def test_forced_apply_sets_owner_and_value(live: Document | None, spec: dict[str, Any], manager: str) -> None:
    result = applied(live, spec, manager, force=True)
    claimed = managed_fields.without_unowned(ownership.applied_fields(ATOM, thing(spec)))
    mine = owners(result).get((manager, managed_fields.APPLY, "", ""))
    assert (mine.fields if mine else {}) == claimed
    for name in (*SCALARS, "whole", "list"):
        if name in spec:
            assert result["spec"][name] == spec[name]
    assert set(spec.get("set", ())) <= set(result["spec"].get("set") or ())


@given(objects, specs, managers)
def test_apply_without_force_takes_no_field_from_others(
    live: Document | None, spec: dict[str, Any], manager: str
) -> None:
    assume(owners(live))
    result = attempted(live, spec, manager)
    assume(result is not None)
    assert result is not None
    there = present(result)
    for key, entry in owners(live).items():
        if key[:2] != (manager, managed_fields.APPLY):
            kept = owners(result).get(key)
            assert fieldset.intersection(entry.fields, there) == (kept.fields if kept else {})


@given(objects, specs, specs, managers)
def test_field_no_longer_applied_is_removed_unless_owned_by_others(
    live: Document | None, first: dict[str, Any], second: dict[str, Any], manager: str
) -> None:
    before = applied(live, first, manager, force=True)
    result = applied(before, second, manager, force=True)
    others = [entry for key, entry in owners(before).items() if key[:2] != (manager, managed_fields.APPLY)]
    for name in set(SCALARS) & set(first) - set(second):
        held = any(fieldset.contains(entry.fields, "f:spec", f"f:{name}") for entry in others)
        assert (name in result["spec"]) == held
    for item in set(first.get("set", ())) - set(second.get("set", ())):
        path = ("f:spec", "f:set", fieldset.value(item))
        held = any(fieldset.contains(entry.fields, *path) for entry in others)
        assert (item in (result["spec"].get("set") or ())) == held


@given(objects)
def test_every_owned_field_exists(live: Document | None) -> None:
    assume(live is not None)
    assert live is not None
    for entry in owners(live).values():
        assert entry.fields
        assert fieldset.subset(entry.fields, present(live))


@given(objects, specs, managers)
def test_update_owns_only_the_fields_it_changed(
    live: Document | None, spec: dict[str, Any], manager: str
) -> None:
    assume(owners(live))
    assert live is not None
    new = updated(live, spec, manager)
    changes = ownership.differences(ATOM, live, new, skipped=managed_fields.UNOWNED)
    changed = fieldset.union(changes.added, changes.modified)
    for key, entry in owners(new).items():
        if key[:2] == (manager, managed_fields.UPDATE):
            assert fieldset.subset(changed, entry.fields)
        else:
            assert not fieldset.intersection(changed, entry.fields)
        assert not fieldset.intersection(changes.removed, entry.fields)


@given(specs, specs)
def test_differences_list_added_and_removed_fields(first: dict[str, Any], second: dict[str, Any]) -> None:
    changes = ownership.differences(ATOM, thing(first), thing(second))
    back = ownership.differences(ATOM, thing(second), thing(first))
    assert (changes.added, changes.removed) == (back.removed, back.added)
    assert changes.modified == back.modified
    assert bool(changes) == (not ownership.json_equal(without_order(first), without_order(second)))
    kept = fieldset.difference(present(thing(first)), changes.removed)
    assert fieldset.union(kept, changes.added) == present(thing(second))


def without_order(spec: dict[str, Any]) -> dict[str, Any]:
    """Ownership ignores the order in sets and keyed lists."""
    listed = {
        "set": sorted(spec.get("set", ())),
        "items": sorted(spec.get("items", ()), key=lambda i: str(i["name"])),
    }
    return spec | {name: listed[name] for name in listed if name in spec}


# Field sets

paths = st.lists(st.lists(letters, min_size=1, max_size=3).map(tuple), max_size=6).map(frozenset)


def made(model: frozenset[tuple[str, ...]]) -> FieldSet:
    return fieldset.of(*model)


@given(paths, paths)
def test_field_sets_are_sets(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> None:
    first, other = made(left), made(right)
    assert fieldset.union(first, other) == made(left | right)
    assert fieldset.difference(first, other) == made(left - right)
    assert fieldset.intersection(first, other) == made(left & right)
    assert fieldset.subset(first, other) == (left <= right)
    below = {path for path in left if not any(path[: len(prefix)] == prefix for prefix in right)}
    assert fieldset.prune(first, other) == made(frozenset(below))


@given(paths)
def test_field_sets_equal_their_paths(model: frozenset[tuple[str, ...]]) -> None:
    fields = made(model)
    assert {tuple(e[2:] for e in path) for path in fieldset.paths(fields)} == model
    assert all(fieldset.contains(fields, *(f"f:{name}" for name in path)) for path in model)
    assert fieldset.read(fields) == fieldset.sort(fields) == fields


# Patches


def merge_diff(before: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in before if name not in then}
    for name, value in then.items():
        if name not in before or not isinstance(value, dict) or not isinstance(before[name], dict):
            patch[name] = value
        else:
            patch[name] = merge_diff(before[name], value)
    return patch


def strategic_diff(before: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """As kubectl writes it: only what changes in merged lists, and their order."""
    patch = merge_diff(before, then)
    if "set" in before and "set" in then:
        patch["set"] = [item for item in then["set"] if item not in before["set"]]
        patch["$deleteFromPrimitiveList/set"] = [item for item in before["set"] if item not in then["set"]]
        patch["$setElementOrder/set"] = then["set"]
    if "items" in before and "items" in then:
        old = {item["name"]: item for item in before["items"]}
        new = {item["name"]: item for item in then["items"]}
        patch["items"] = [
            merge_diff(old.get(name, {}), item) | {"name": name}
            for name, item in new.items()
            if item != old.get(name)
        ] + [{"name": name, "$patch": "delete"} for name in old if name not in new]
        patch["$setElementOrder/items"] = [{"name": name} for name in new]
    return patch


@given(specs, specs)
def test_merge_patch_of_the_difference_gives_the_new_object(
    before: dict[str, Any], then: dict[str, Any]
) -> None:
    given_both = copy.deepcopy((before, then))
    assert mergepatch.apply(before, merge_diff(before, then)) == then
    assert (before, then) == given_both


@given(specs, specs)
def test_strategic_patch_of_the_difference_gives_the_new_object(
    before: dict[str, Any], then: dict[str, Any]
) -> None:
    patch = strategic_diff(before, then)
    given_both = copy.deepcopy((before, patch))
    assert strategic.apply(before, patch, SPEC_NODE) == then
    assert (before, patch) == given_both


@given(specs, specs)
def test_strategic_patch_is_idempotent(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = strategic.apply(document, patch, SPEC_NODE)
    assert strategic.apply(once, patch, SPEC_NODE) == once
    plain = parse({"type": "object"})
    assert strategic.apply(document, patch, plain) == mergepatch.apply(document, patch)


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), numbers, st.just(0.5), st.sampled_from(["a", "b", "delete", "replace"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "items",
                    "set",
                    "labels",
                    "name",
                    "list",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/items",
                    "$setElementOrder/set",
                    "$setElementOrder/list",
                    "$deleteFromPrimitiveList/set",
                    "$deleteFromPrimitiveList/items",
                    "op",
                    "path",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)


@given(specs, anything)
def test_any_patch_gets_a_response(spec: dict[str, Any], body: Any) -> None:
    given_both = copy.deepcopy((spec, body))
    with contextlib.suppress(Refusal):
        strategic.apply(spec, body, SPEC_NODE)
    with contextlib.suppress(Refusal):
        mergepatch.apply(spec, body)
    with contextlib.suppress(Refusal):
        jsonpatch.apply(spec, body)
    with contextlib.suppress(Refusal):
        jsonpatch.apply(spec, [body])
    with contextlib.suppress(Refusal):
        apply(thing(spec), body, manager="m", force=True, api_version=VERSION, time="t", node=NODE)
    with contextlib.suppress(Refusal):
        applied(updated(None, spec, "m"), body, "n")
    assert (spec, body) == given_both


@given(specs, anything)
def test_any_managed_fields_are_handled(spec: dict[str, Any], entries: Any) -> None:
    new = thing(spec)
    new["metadata"]["managedFields"] = entries
    old = updated(None, spec, "m")
    managed_fields.update(old, new, manager="n", api_version=VERSION, time="t", node=NODE)
    forgotten = entries in ([], [{}])
    assert owners(new) == ({} if forgotten else owners(old))


@given(specs, st.sampled_from(["text", "labels", "new"]), free)
def test_json_patch_is_undone_by_its_inverse(document: dict[str, Any], name: str, value: Any) -> None:
    path = f"/{name}"
    undo: list[dict[str, Any]] = [
        {"op": "test", "path": path, "value": value},
        {"op": "remove", "path": path},
    ]
    if name in document:
        undo.append({"op": "add", "path": path, "value": document[name]})
    changed = jsonpatch.apply(document, [{"op": "add", "path": path, "value": value}])
    assert changed == document | {name: value}
    assert jsonpatch.apply(changed, undo) == document
    moved = jsonpatch.apply(changed, [{"op": "move", "from": path, "path": "/there"}])
    assert name not in moved
    assert jsonpatch.apply(moved, [{"op": "move", "from": "/there", "path": path}]) == changed
