import copy
from typing import Any

import msgspec
import pytest

from kubehub.patches import apply as server_side
from kubehub.patches import managed_fields, merge_schema, ownership
from kubehub.patches.apply import LAST_APPLIED, apply
from kubehub.patches.merge import remove_fields
from kubehub.resource import Document
from kubehub.schema import Node, parse
from kubehub.status import Refusal

TEXT = {"type": "string"}
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
NODE = parse(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "text": TEXT,
                    "number": {"type": "integer"},
                    "truth": {"type": "boolean"},
                    "when": {"type": "string", "format": "date-time"},
                    "any": {"x-kubernetes-int-or-string": True},
                    "labels": {"type": "object", "additionalProperties": TEXT},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"a": TEXT, "b": TEXT},
                    },
                    "inner": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
                    "list": {"type": "array", "items": TEXT},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                    "items": {
                        "type": "array",
                        **BY_NAME,
                        "items": {
                            "type": "object",
                            "properties": {"name": TEXT, "value": TEXT, "more": TEXT},
                        },
                    },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": TEXT,
                            },
                        },
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "thing": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "properties": {"spec": TEXT},
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": TEXT}},
        },
    }
)
VERSION = "example.com/v1"


def thing(**spec: Any) -> Document:
    return {
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": spec,
    }


def applied(
    live: Document | None,
    body: Any,
    manager: str = "me",
    *,
    force: bool = False,
    time: str = "1",
    **more: Any,
) -> Document:
    given = copy.deepcopy((live, body))
    options: dict[str, Any] = {"api_version": VERSION, "kind": "Thing", "node": NODE} | more
    result = apply(live, body, manager=manager, force=force, time=time, **options)
    assert (live, body) == given
    return result


def updated(live: Document, spec: dict[str, Any], manager: str = "them", **more: Any) -> Document:
    new = copy.deepcopy(live)
    new["spec"] |= spec
    managed_fields.update(live, new, manager=manager, api_version=VERSION, time="2", node=NODE, **more)
    return new


def refusal(live: Document | None, body: Any, manager: str = "me", **more: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        applied(live, body, manager, **more)
    return refused.value


def owned(document: Document) -> dict[str, Any]:
    return {
        entry["manager"]: entry["fieldsV1"].get("f:spec", entry["fieldsV1"])
        for entry in document["metadata"].get("managedFields", ())
    }


def test_apply_creates_and_owns_the_applied_fields() -> None:
    body = thing(
        text="x", labels={"a": "b"}, set=["p"], items=[{"name": "n", "value": "v"}], ports=[{"port": 80}]
    )
    body["metadata"]["labels"] = {"l": "v"}
    created = applied(None, body)
    (entry,) = created["metadata"].pop("managedFields")
    assert created == body
    assert entry == {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": VERSION,
        "time": "1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:l": {}}},
            "f:spec": {
                "f:items": {'k:{"name":"n"}': {".": {}, "f:name": {}, "f:value": {}}},
                "f:labels": {"f:a": {}},
                "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
                "f:set": {'v:"p"': {}},
                "f:text": {},
            },
        },
    }


def test_applying_the_same_again_changes_nothing() -> None:
    live = applied(None, thing(text="x", set=["p", "q"]))
    assert applied(live, thing(set=["p", "q"], text="x"), time="2") is live


def test_apply_lists_all_conflicts() -> None:
    live = applied(None, thing(text="x", whole={"a": "1"}), "b")
    live = applied(live, thing(items=[{"name": "n", "value": "v"}]), "a")
    live = updated(live, {"number": 1}, "c", subresource="scale")
    body = thing(text="y", whole={"b": "1"}, items=[{"name": "n", "value": "w"}], number=2)
    refused = refusal(live, body)
    managers = ['"a"', '"b"', '"c" with subresource "scale" using example.com/v1']
    assert refused.message == server_side.CONFLICTS.format(
        4,
        f"conflicts with {managers[0]}:\n"
        '- .spec.items[name="n"].value\n'
        f"conflicts with {managers[1]}:\n"
        "- .spec.text\n"
        "- .spec.whole\n"
        f"conflicts with {managers[2]}:\n"
        "- .spec.number",
    )
    assert refused.details is not None
    assert [cause["message"] for cause in refused.details["causes"]] == [
        server_side.CONFLICT.format(managers[n]) for n in (0, 1, 1, 2)
    ]


@pytest.mark.parametrize(
    ("live", "body", "result"),
    [
        ("abc", "c", "abc"),
        ("abc", "ca", "bca"),
        ("abc", "xb", "axbc"),
        ("abc", "cba", "cba"),
        ("abcd", "dxa", "bcdxa"),
        ("", "ba", "ba"),
        ("abc", "", "abc"),
    ],
)
def test_apply_merges_list_items_in_order(live: str, body: str, result: str) -> None:
    first = applied(None, thing(set=list(live)), "they")
    assert "".join(applied(first, thing(set=list(body)))["spec"]["set"]) == result
    first = applied(None, thing(items=[{"name": n} for n in live]), "they")
    merged = applied(first, thing(items=[{"name": n} for n in body]))["spec"]["items"]
    assert "".join(item["name"] for item in merged) == result


def test_apply_replaces_duplicate_live_list_items() -> None:
    live = updated(applied(None, thing(set=["p"])), {"set": ["p", "p", "q"]})
    assert applied(live, thing(set=["p"]), force=True)["spec"]["set"] == ["p", "q"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"number": "1"}, f".spec.number: {ownership.EXPECTED_NUMBER.format('string')}"),
        ({"number": True}, ".spec.number: expected numeric (int or float), got bool"),
        ({"number": [1]}, ".spec.number: expected numeric (int or float), got []interface {}"),
        ({"text": 1.5}, f".spec.text: {ownership.EXPECTED_TEXT.format('1.5')}"),
        (
            {"text": {"b": [1, None, "x"], "a": True}},
            ".spec.text: expected string, got &value.valueUnstructured{Value:map[string]interface {}"
            '{"a":true, "b":[]interface {}{1, interface {}(nil), "x"}}}',
        ),
        ({"truth": "x"}, f".spec.truth: {ownership.EXPECTED_TRUTH.format('x')}"),
        (
            {"when": {"b": 1, "a": [None, 2.0]}},
            f".spec.when: {ownership.EXPECTED_SCALAR.format('map[a:[<nil> 2] b:1]')}",
        ),
        ({"inner": "x"}, f".spec.inner: {ownership.EXPECTED_MAP.format('x')}"),
        ({"list": {"a": 1}}, f".spec.list: {ownership.EXPECTED_LIST.format('map[a:1]')}"),
        ({"list": ["a", 1]}, ".spec.list[1]: expected string, got &value.valueUnstructured{Value:1}"),
        ({"labels": {"a": 1}}, ".spec.labels.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"bogus": 1}, f".spec.bogus: {ownership.NOT_DECLARED}"),
        ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
        ({"set": [{}]}, f".spec.set: {ownership.BAD_ITEM.format(0, merge_schema.MAP_IN_SET)}"),
        ({"set": ["a", []]}, f".spec.set: {ownership.BAD_ITEM.format(1, merge_schema.LIST_IN_SET)}"),
        ({"set": [None]}, f".spec.set: {ownership.BAD_ITEM.format(0, merge_schema.NULL_IN_SET)}"),
        ({"items": [None]}, f".spec.items: {ownership.BAD_ITEM.format(0, merge_schema.NULL_ITEM)}"),
        ({"items": ["x"]}, f".spec.items: {ownership.BAD_ITEM.format(0, merge_schema.ITEM_NOT_MAP)}"),
        (
            {"items": [{"value": "x"}]},
            ".spec.items: element 0: " + merge_schema.NO_KEYS.format(keys='"name"'),
        ),
        (
            {"items": [{"name": "a"}, {"name": "a", "value": 1}]},
            'errors:\n  .spec.items: duplicate entries for key [name="a"]\n'
            '  .spec.items[name="a"].value: expected string, got &value.valueUnstructured{Value:1}',
        ),
    ],
)
def test_apply_rejects_values_of_the_wrong_type(spec: dict[str, Any], words: str) -> None:
    refused = refusal(None, thing(**spec))
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == server_side.NOT_TYPED.format("ns/a; example.com/v1, Kind=Thing", words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], server_side.UNDECODABLE.format("array")),
        (None, server_side.WRONG_KIND.format("/, Kind=")),
        ({"kind": "Thing"}, "invalid object type: /, Kind=Thing"),
        ({"apiVersion": "v1", "kind": "Thing"}, "invalid object type: /v1, Kind=Thing"),
        ({"apiVersion": VERSION, "kind": "Other"}, "invalid object type: example.com/v1, Kind=Other"),
        (
            {"apiVersion": VERSION, "kind": "Thing", "metadata": {"managedFields": []}},
            server_side.HAS_MANAGED_FIELDS,
        ),
    ],
)
def test_apply_rejects_malformed_bodies(body: Any, words: str) -> None:
    refused = refusal(None, body)
    assert (refused.code, refused.reason, refused.message) == (400, "BadRequest", words)


class TestKubectlAfterClientSideApply:
    def live(self, note: str, text: str = "x") -> Document:
        document = thing(text=text, number=1)
        document["metadata"]["annotations"] = {LAST_APPLIED: note}
        managed_fields.update(
            None, document, manager="kubectl-client-side-apply", api_version=VERSION, time="0", node=NODE
        )
        return document

    def note(self, **spec: Any) -> str:
        return msgspec.json.encode(thing(**spec)).decode()

    def test_kubectl_takes_over_client_side_applied_fields(self) -> None:
        result = applied(self.live(self.note(text="x", number=1)), thing(text="<y>"), "kubectl")
        assert result["spec"] == {"text": "<y>", "number": 1}
        assert owned(result)["kubectl"] == {"f:text": {}}
        assert result["metadata"]["annotations"][LAST_APPLIED] == (
            '{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"ns"},'
            '"spec":{"text":"\\u003cy\\u003e"}}\n'
        )

    @pytest.mark.parametrize("note", ["", "garbage", "[]", '{"apiVersion":"v1"}'])
    def test_apply_conflicts_without_the_last_applied_annotation(self, note: str) -> None:
        assert refusal(self.live(note), thing(text="y"), "kubectl").code == 409

    def test_kubectl_conflicts_on_fields_changed_since_client_side_apply(self) -> None:
        refused = refusal(self.live(self.note(text="w", number=1)), thing(text="y", number=2), "kubectl")
        assert refused.message.endswith('kubectl-client-side-apply" using example.com/v1: .spec.text')

    def test_last_applied_annotation_does_not_contain_itself(self) -> None:
        body = thing(text="x")
        body["metadata"]["annotations"] = {LAST_APPLIED: "old", "a": "b"}
        live = self.live(self.note(text="x", number=1))
        noted = msgspec.json.decode(
            applied(live, body, "kubectl", force=True)["metadata"]["annotations"][LAST_APPLIED]
        )
        assert noted["metadata"]["annotations"] == {"a": "b"}


def test_removing_a_part_removes_an_atomic_value_and_keeps_the_rest_of_others() -> None:
    schema = merge_schema.of(NODE).child("spec")
    value = {name: {"a": "1", "b": "2"} for name in ("whole", "inner")} | {"list": ["x"]}
    gone: dict[str, Any] = {"f:whole": {"f:a": {}}, "f:inner": {"f:a": {}}, "f:list": {'v:"x"': {}}}
    assert remove_fields(schema, value, gone) == {"whole": None, "inner": {"b": "2"}, "list": None}


def test_merge_schema_of_cyclic_schema_is_cyclic() -> None:
    node = Node(type="object")
    node.properties["self"] = node
    node.properties["items"] = Node(type="array", items=node)
    schema = merge_schema.of(node)
    below = schema.fields["self"]
    assert below.fields["self"] is below
    assert below.fields["items"].item is below
    assert merge_schema.of(node) is schema


def test_list_type_for_apply_follows_the_patch_strategy() -> None:
    item = Node(type="object", properties={"name": Node(type="string"), "x": Node(type="string")})
    node = Node(
        type="object",
        properties={
            "merged": Node(type="array", items=item, merge_key="name", strategies=("merge",)),
            "set": Node(type="array", items=Node(type="string"), strategies=("merge",)),
            "whole": Node(
                type="array",
                items=item,
                merge_key="name",
                strategies=("merge",),
                raw={"x-kubernetes-list-type": "atomic"},
            ),
            "plain": Node(type="array", items=item),
        },
    )
    items = [{"name": "n"}]
    value = {"merged": items, "set": ["s"], "whole": items, "plain": items}
    assert ownership.applied_fields(merge_schema.of(node), value) == {
        "f:merged": {'k:{"name":"n"}': {".": {}, "f:name": {}}},
        "f:set": {'v:"s"': {}},
        "f:whole": {},
        "f:plain": {},
    }
