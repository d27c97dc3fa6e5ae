import copy
from typing import Any, ClassVar

import pytest

from kubehub.patches import fieldset, managed_fields
from kubehub.patches.managed_fields import ANCIENT, manager_name, update
from kubehub.resource import Document
from kubehub.schema import parse

TEXT = {"type": "string"}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "number": {"type": "number"},
        "labels": {"type": "object", "additionalProperties": TEXT},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": TEXT, "b": TEXT}},
        "list": {"type": "array", "items": TEXT},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
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
    },
}
NODE = parse(
    {"type": "object", "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"x": TEXT}}}}
)


def thing(spec: Any = None, **more: Any) -> Document:
    document: Document = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, **more}
    return document | ({"spec": spec} if spec is not None else {})


def written(
    old: Document | None, new: Document, manager: str = "m", time: str = "1", **more: Any
) -> Document:
    new = copy.deepcopy(new)
    if old is not None and "managedFields" not in new["metadata"]:
        new["metadata"]["managedFields"] = old["metadata"].get("managedFields")
    update(old, new, manager=manager, api_version="example.com/v1", time=time, node=NODE, **more)
    return new


def owned(document: Document) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in document["metadata"].get("managedFields", ())}


def test_change_from_true_to_one_is_owned() -> None:
    first = written(None, thing({"free": {"a": 1, "b": [1]}}))
    assert owned(written(first, thing({"free": {"a": True, "b": [True]}}), "other"))["other"] == {
        "f:spec": {"f:free": {"f:a": {}, "f:b": {}}}
    }


def test_repeated_items_are_owned_as_one() -> None:
    once, twice = thing({"set": ["p", "q"]}), thing({"set": ["p", "p", "q"]})
    first = written(None, twice)
    assert owned(first)["m"]["f:spec"]["f:set"] == {".": {}, 'v:"p"': {}, 'v:"q"': {}}
    assert owned(written(first, thing({"set": ["p", "p", "q", "q"]}), "o"))["o"] == {
        "f:spec": {"f:set": {'v:"q"': {}}}
    }
    second = written(first, once, "other")
    assert owned(second)["m"]["f:spec"]["f:set"] == {".": {}, 'v:"q"': {}}
    assert owned(second)["other"] == {"f:spec": {"f:set": {'v:"p"': {}}}}
    ports = thing({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]})
    more = thing({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "c"}]})
    assert owned(written(written(None, ports), more, "o"))["o"] == {
        "f:spec": {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {}}}
    }


def test_managed_fields_entries_are_ordered() -> None:
    entries = [
        managed_fields.Entry(
            manager=m, operation=o, api_version=v, subresource=s, time=t, fields=fieldset.of(("x",))
        )
        for o, t, m, v, s in [
            ("Update", "", "z", "v1", ""),
            ("Update", "1", "a", "v2", ""),
            ("Apply", "9", "z", "v1", ""),
            ("Update", "1", "a", "v1", "status"),
            ("Update", "1", "a", "v1", ""),
            ("Update", "0", "z", "v2", ""),
        ]
    ]
    document = thing()
    managed_fields.write(document, {entry.key: entry for entry in entries})
    assert [
        (e["operation"], e.get("time"), e["manager"], e["apiVersion"], e.get("subresource"))
        for e in document["metadata"]["managedFields"]
    ] == [
        ("Apply", "9", "z", "v1", None),
        ("Update", None, "z", "v1", None),
        ("Update", "0", "z", "v2", None),
        ("Update", "1", "a", "v1", None),
        ("Update", "1", "a", "v1", "status"),
        ("Update", "1", "a", "v2", None),
    ]


class TestWhatTheClientSends:
    first = written(None, thing({"text": "x", "number": 1}))

    def sent(self, entries: Any, **more: Any) -> dict[str, Any]:
        new = thing({"text": "y", "number": 1})
        new["metadata"]["managedFields"] = entries
        update(self.first, new, manager="o", api_version="example.com/v1", time="2", node=NODE, **more)
        return owned(new)

    kept: ClassVar[dict[str, Any]] = {
        "m": {"f:spec": {".": {}, "f:number": {}}},
        "o": {"f:spec": {"f:text": {}}},
    }

    @pytest.mark.parametrize("entries", [None, [{"manager": "x"}], ["x"], [1]])
    def test_omitted_or_malformed_managed_fields_keep_the_stored_ones(self, entries: Any) -> None:
        assert self.sent(entries) == self.kept

    @pytest.mark.parametrize(
        "change",
        [
            {"operation": "Delete"},
            {"apiVersion": ""},
            {"fieldsType": "FieldsV2"},
            {"fieldsV1": {"x": {}}},
            {"manager": 1},
        ],
    )
    def test_malformed_managed_fields_entry_voids_all_sent_entries(self, change: dict[str, Any]) -> None:
        entry = self.first["metadata"]["managedFields"][0]
        assert self.sent([entry | {"manager": "mine"} | change]) == self.kept

    @pytest.mark.parametrize("entries", [[], [{}]])
    def test_empty_managed_fields_remove_all_managers(self, entries: Any) -> None:
        assert self.sent(entries) == {}

    def test_reset_does_not_work_through_a_subresource(self) -> None:
        assert self.sent([], subresource="status") == self.kept

    def test_create_is_tracked_despite_sent_managed_fields(self) -> None:
        new = thing({"text": "y"})
        new["metadata"]["managedFields"] = []
        assert owned(written(None, new)) == {"m": {"f:spec": {".": {}, "f:text": {}}}}

    def test_managed_fields_sent_by_the_client_are_used(self) -> None:
        entry = self.first["metadata"]["managedFields"][0] | {
            "manager": "p",
            "fieldsV1": {"f:spec": {"f:number": {}}},
        }
        assert self.sent([entry]) == {"p": {"f:spec": {"f:number": {}}}, "o": {"f:spec": {"f:text": {}}}}


def test_object_without_managed_fields_stays_untracked() -> None:
    assert "managedFields" not in written(None, thing())["metadata"]
    assert "managedFields" not in written(thing({"text": "x"}), thing({"text": "y"}))["metadata"]


def test_at_most_ten_update_entries_are_kept() -> None:
    document = written(None, thing({"labels": {}}), "m00", "00")
    for number in range(1, 13):
        labels = document["spec"]["labels"] | {f"l{number:02}": ""}
        document = written(document, thing({"labels": labels}), f"m{number:02}", f"{number:02}")
    entries = document["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == [ANCIENT, *(f"m{n:02}" for n in range(4, 13))]
    assert entries[0]["time"] == "03"
    assert entries[0]["fieldsV1"] == {
        "f:spec": {".": {}, "f:labels": {".": {}, "f:l01": {}, "f:l02": {}, "f:l03": {}}}
    }


def test_oldest_update_entries_are_merged_per_version() -> None:
    entries = [
        managed_fields.Entry(
            manager=f"m{n:02}",
            operation=managed_fields.UPDATE,
            api_version=f"v{n % 3}",
            subresource="status" if n == 0 else "",
            time="0",
            fields=fieldset.of((f"f{n:02}",)),
        )
        for n in range(12)
    ]
    kept = managed_fields.cap_updates({entry.key: entry for entry in entries})
    assert {key[0:1] + key[2:] for key in kept} == {
        (ANCIENT, "v0", ""),
        (ANCIENT, "v1", ""),
        *((f"m{n:02}", f"v{n % 3}", "") for n in range(12) if n not in (0, 1, 3, 4)),
    }


def test_merged_update_entry_is_extended() -> None:
    entries = [
        managed_fields.Entry(
            manager=name,
            operation=managed_fields.UPDATE,
            api_version="v1",
            time="0",
            fields=fieldset.of((name,)),
        )
        for name in ("aaa", ANCIENT, *(f"m{n:02}" for n in range(9)))
    ]
    kept = managed_fields.cap_updates({entry.key: entry for entry in entries})
    assert len(kept) == 10
    assert kept[ANCIENT, "Update", "v1", ""].fields == fieldset.of((ANCIENT,), ("m00",))


def test_apply_entries_are_not_limited() -> None:
    entries = [
        managed_fields.Entry(
            manager=f"m{n}", operation=managed_fields.APPLY, api_version="v1", fields=fieldset.of(("x",))
        )
        for n in range(12)
    ]
    managers = {entry.key: entry for entry in entries}
    assert managed_fields.cap_updates(managers) == managers


def test_managed_fields_follow_a_schema_that_became_atomic() -> None:
    first = written(None, thing({"labels": {"a": "b"}, "set": ["p"], "ports": [{"port": 1}], "text": "x"}))
    spec = copy.deepcopy(SPEC)
    for name in ("labels", "set", "ports"):
        spec["properties"][name] |= {"x-kubernetes-map-type": "atomic", "x-kubernetes-list-type": "atomic"}
    new = copy.deepcopy(first)
    node = parse({"type": "object", "properties": {"spec": spec}})
    update(first, new, manager="o", api_version="example.com/v1", time="2", node=node)
    assert owned(new) == {
        "m": {"f:spec": {".": {}, "f:labels": {}, "f:ports": {}, "f:set": {}, "f:text": {}}}
    }


@pytest.mark.parametrize(
    ("field_manager", "agent", "name"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "Mozilla", "Mozilla"),
        ("", "", ""),
        ("", "a\tb\x00/c", "ab"),
        ("", "ä" * 100, "ä" * 64),
    ],
)
def test_manager_name_comes_from_options_or_user_agent(field_manager: str, agent: str, name: str) -> None:
    assert manager_name(field_manager, agent) == name
