import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from answers import answers, causes_of, definition

from every import every
from fairway.api import crds as own_crds
from kubehub.crd import cel_rules, definitions
from kubehub.resource import Resource, version_priority
from kubehub.schema import Node
from kubehub.schemas import structural
from kubehub.status import Refusal

_, CASES = answers("crds")
REFERENCE = Path(__file__).parents[5] / "shared" / "reference" / "crds"
NOW = "2026-03-01T12:00:00Z"


@every("case", CASES)
def test_crd_validation_matches_recorded_answers(case: dict[str, Any]) -> None:
    document = {"metadata": {"name": case["name"]}, "spec": copy.deepcopy(case["spec"])}
    old = None
    if "old" in case:
        old = {"metadata": {"name": case["name"]}, **copy.deepcopy(case["old"])}
        document["status"] = copy.deepcopy(case["old"]["status"])
    definitions.complete(document)
    definitions.store_version(document)
    assert causes_of(definitions.check_definition(document, old)) == case["causes"]
    if old is None:
        assert sorted(definitions.warnings(document)) == sorted(case["warnings"])


def test_recorded_crd_answers_cover_all_refusals() -> None:
    words = "\n".join(f"{field}: {message}" for case in CASES for field, _, message in case["causes"])
    for text in (
        "must be spec.names.plural",
        "spec.scope: ",
        "must have exactly one version marked as storage version",
        "must not be empty for specified object fields",
        "$ref is not supported",
        "must be empty to be structural",
        "must be specified",
        "entries must all be names of item properties",
        "must be atomic as item of a list",
        "must not have unknown fields",
        "must not specify anything other than name and generateName",
        "must not be set in top-level",
        "exceeds budget by factor",
        "oldSelf cannot be used on the uncorrelatable portion",
        "compilation failed",
        "must be a valid path",
        "field is immutable",
        "missing from spec.versions",
        "must be one of boolean,date,integer,number,string",
        "should be a json path under .spec",
        "must point to a field of type string, boolean or integer",
        "protected groups must have approval annotation",
    ):
        assert text in words, text
    assert sum(not case["causes"] for case in CASES) >= 10
    assert sum("old" in case for case in CASES) > 10


def faults(document: dict[str, Any], old: dict[str, Any] | None = None) -> list[list[str]]:
    definitions.complete(document)
    definitions.store_version(document)
    return causes_of(definitions.check_definition(document, old))


def test_valid_crd_is_defaulted_and_accepted() -> None:
    document = definition()
    assert faults(document) == []
    assert document["spec"]["names"] == {
        "kind": "Boat",
        "plural": "boats",
        "singular": "boat",
        "listKind": "BoatList",
    }
    assert document["spec"]["conversion"] == {"strategy": "None"}
    assert document["status"]["storedVersions"] == ["v1"]


def test_webhooks_are_refused_since_none_would_be_called() -> None:
    document = definition()
    document["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    assert faults(document) == [
        [
            "spec.conversion.strategy",
            "FieldValueNotSupported",
            'Unsupported value: "Webhook": supported values: "None"',
        ]
    ]


@pytest.mark.parametrize(
    ("rule", "limit"),
    [
        ("self.all(x, self.all(y, self.all(z, x + y + z != '')))", {}),
        ("self.all(x, x.matches('(a+)+$'))", {}),
        ("self.all(x, self.exists(y, y == x + x))", {"maxItems": 100_000}),
    ],
)
def test_crd_with_expensive_cel_rule_is_rejected(rule: str, limit: dict[str, Any]) -> None:
    texts: dict[str, Any] = {"type": "array", "items": {"type": "string"}, **limit}
    texts["x-kubernetes-validations"] = [{"rule": rule}]
    causes = faults(definition({"type": "object", "properties": {"l": texts}}))
    assert {cause[0].rpartition("properties")[2] for cause in causes} >= {
        "[l].x-kubernetes-validations[0].rule"
    }
    assert "exceeds budget by factor of" in "".join(cause[2] for cause in causes)
    texts |= {"maxItems": 10, "items": {"type": "string", "maxLength": 10}}
    assert faults(definition({"type": "object", "properties": {"l": texts}})) == []


def test_rules_that_are_too_much_work_to_compile_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected rule is not compiled."""
    monkeypatch.setattr(cel_rules, "TOTAL_COMPILE_WORK", 1_000)
    text = {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self != ''"}] * 50}
    ((field, _, message),) = faults(definition({"type": "object", "properties": {"a": text}}))
    assert "[a].x-kubernetes-validations[" in field
    assert cel_rules.TOO_LONG.format(1_000) in message
    monkeypatch.setattr(cel_rules, "TOTAL_COMPILE_WORK", 1_000_000)
    assert faults(definition({"type": "object", "properties": {"a": text}})) == []


def test_crd_with_deeply_nested_schema_is_rejected() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(3000):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(Refusal) as refused:
        faults(definition(schema))
    assert refused.value.code == 400


def test_names_of_an_established_crd_are_immutable() -> None:
    old = definition()
    faults(old)
    definitions.establish(old, (), now=NOW)
    new = copy.deepcopy(old)
    new["spec"] |= {"scope": "Cluster", "group": "lake.example"}
    new["spec"]["names"] |= {"kind": "Ship", "plural": "ships"}
    assert [cause[0] for cause in faults(new, old)] == [
        "spec.group",
        "spec.names.kind",
        "spec.names.plural",
        "spec.scope",
    ]
    old["status"]["conditions"] = []
    assert [cause[0] for cause in faults(new, old)] == ["spec.group", "spec.names.plural"]


def test_stored_version_of_a_crd_cannot_be_removed() -> None:
    old = definition()
    faults(old)
    new = copy.deepcopy(old)
    new["spec"]["versions"] = [new["spec"]["versions"][0] | {"name": "v2"}]
    ((field, _, message),) = faults(new, old)
    assert field == "status.storedVersions[0]"
    assert message.startswith(
        'Invalid value: "v1": missing from spec.versions; v1 was previously a storage version'
    )


# --- establishing ------------------------------------------------------------------------------------------------


def conditions(document: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in document["status"]["conditions"]]


def test_crd_is_established_on_create() -> None:
    document = definition()
    document["spec"]["names"] |= {"shortNames": ["bt"], "categories": ["all"]}
    faults(document)
    assert definitions.establish(document, (), now=NOW)
    assert conditions(document) == [
        ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    assert document["status"]["acceptedNames"] == document["spec"]["names"]
    assert document["status"]["storedVersions"] == ["v1"]
    assert definitions.is_established(document)
    assert not definitions.establish(document, definitions.resources_of(document), now="2027-01-01T00:00:00Z")
    assert {c["lastTransitionTime"] for c in document["status"]["conditions"]} == {NOW}


def served(**names: Any) -> Resource:
    return Resource(group="sea.example", version="v1", namespaced=True, node=Node(), **names)


@pytest.mark.parametrize(
    ("other", "reason", "message"),
    [
        ({"kind": "Boat", "plural": "x"}, "KindConflict", '"Boat" is already in use'),
        (
            {"kind": "X", "plural": "x", "list_kind": "BoatList"},
            "ListKindConflict",
            '"BoatList" is already in use',
        ),
        ({"kind": "X", "plural": "x", "singular": "boat"}, "SingularConflict", '"boat" is already in use'),
        (
            {"kind": "X", "plural": "x", "short_names": ("boats",)},
            "PluralConflict",
            '"boats" is already in use',
        ),
        ({"kind": "X", "plural": "bt"}, "ShortNamesConflict", '"bt" is already in use'),
        (
            {"kind": "X", "plural": "bt", "short_names": ("bo",)},
            "ShortNamesConflict",
            '["bt" is already in use, "bo" is already in use]',
        ),
    ],
)
def test_names_in_use_are_not_accepted(other: dict[str, Any], reason: str, message: str) -> None:
    document = definition()
    document["spec"]["names"]["shortNames"] = ["bt", "bo"]
    faults(document)
    definitions.establish(document, [served(**other)], now=NOW)
    assert conditions(document) == [
        ("NamesAccepted", "False", reason, message),
        ("Established", "False", "NotAccepted", "not all names are accepted"),
    ]
    assert not definitions.is_established(document)
    assert definitions.establish(document, (), now="2027-01-01T00:00:00Z")
    assert definitions.is_established(document)
    assert document["status"]["acceptedNames"] == document["spec"]["names"]


def test_other_groups_may_have_the_same_names() -> None:
    document = definition()
    faults(document)
    elsewhere = Resource(
        group="lake.example", version="v1", kind="Boat", plural="boats", namespaced=True, node=Node()
    )
    definitions.establish(document, [elsewhere], now=NOW)
    assert definitions.is_established(document)


def test_established_crd_stays_established_when_a_new_name_conflicts() -> None:
    document = definition()
    faults(document)
    definitions.establish(document, (), now=NOW)
    document["spec"]["names"]["shortNames"] = ["bt"]
    definitions.establish(document, [served(kind="X", plural="x", short_names=("bt",))], now=NOW)
    assert [(c[0], c[1]) for c in conditions(document)] == [
        ("NamesAccepted", "False"),
        ("Established", "True"),
    ]
    assert "shortNames" not in document["status"]["acceptedNames"]


# --- serving -----------------------------------------------------------------------------------------------------


def test_crd_defines_its_served_resources() -> None:
    document = definition(
        {"type": "object", "properties": {"size": {"type": "integer"}}},
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=[
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "format": "int32", "priority": 1}
        ],
        selectableFields=[{"jsonPath": ".spec.size"}],
    )
    old = copy.deepcopy(document["spec"]["versions"][0]) | {
        "name": "v1beta1",
        "storage": False,
        "deprecated": True,
        "additionalPrinterColumns": [],
        "subresources": {},
    }
    gone = old | {"name": "v1alpha1", "served": False}
    document["spec"]["versions"] += [old, gone]
    document["spec"]["names"] |= {"shortNames": ["bt"], "categories": ["fleet"]}
    assert faults(document) == []
    new, older = definitions.resources_of(document)
    assert (new.key, new.api_version, new.kind, new.list_kind) == (
        "boats.sea.example",
        "sea.example/v1",
        "Boat",
        "BoatList",
    )
    assert (new.singular, new.short_names, new.categories) == ("boat", ("bt",), ("fleet",))
    assert new.namespaced
    assert new.custom
    assert [*new.subresources] == ["status", "scale"]
    assert new.subresources["scale"].kind == "Scale"
    assert new.scale is not None
    assert (new.scale.spec_path, new.scale.selector_path) == (".spec.size", ".status.selector")
    (column,) = new.columns
    assert (column.name, column.path, column.format, column.priority) == ("Size", ".spec.size", "int32", 1)
    assert new.selectable == ("spec.size",)
    assert new.deprecation == ""
    assert older.storage_version == new.storage_version == "v1"
    assert older.deprecation == "sea.example/v1beta1 Boat is deprecated; use sea.example/v1 Boat"
    assert [(c.name, c.type, c.path) for c in older.columns] == [
        ("Age", "date", ".metadata.creationTimestamp")
    ]
    assert older.subresources == {}
    assert older.scale is None


def test_crd_root_schema_has_metadata_and_type() -> None:
    node = definitions.root_node(
        {
            "type": "object",
            "required": ["apiVersion", "kind", "metadata", "spec"],
            "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}},
                "spec": {"type": "object"},
            },
        }
    )
    assert node.required == ("spec",)
    meta = node.properties["metadata"]
    assert meta.properties["ownerReferences"].list_keys == ("uid",)
    assert causes_of(structural.compile(node).check({"metadata": {"name": "abcdef"}, "spec": {}})) == [
        ["metadata.name", "FieldValueTooLong", "Too long: may not be more than 5 bytes"]
    ]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("v2", "v1"),
        ("v10", "v9"),
        ("v1", "v2beta1"),
        ("v1beta2", "v1beta1"),
        ("v1beta1", "v1alpha2"),
        ("v1alpha1", "foo"),
    ],
)
def test_api_versions_are_ordered_by_priority(better: str, worse: str) -> None:
    assert version_priority(better) > version_priority(worse)


# --- definitions of others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", own_crds(), ids=lambda document: document["metadata"]["name"])
def test_own_crds_are_valid(document: dict[str, Any]) -> None:
    assert faults(document) == []
    assert definitions.warnings(document) == []
    for resource in definitions.resources_of(document):
        structural.compile(resource.node)


def test_published_crds_of_ocm_are_valid() -> None:
    if not REFERENCE.is_dir():
        pytest.skip("the published CRDs are not beside this checkout")
    documents = [yaml.safe_load(path.read_text()) for path in sorted(REFERENCE.glob("*.yaml"))]
    assert len(documents) > 10
    for document in documents:
        document.pop("status", None)
        assert faults(document) == [], document["metadata"]["name"]
        assert definitions.establish(document, (), now=NOW)
        for resource in definitions.resources_of(document):
            checker = structural.compile(resource.node)
            empty = {"metadata": {"name": "a"}, "unheard": 1}
            assert checker.prune(empty) == ["unheard"]
            checker.default(empty)
            checker.check(empty)
