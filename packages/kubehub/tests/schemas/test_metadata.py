from typing import Any

import pytest
from answers import answers, causes_of

from every import every
from kubehub.schema import Node, object_meta
from kubehub.schemas import metadata, structural
from kubehub.schemas.metadata import check_changed, check_new, finalizer_warnings
from kubehub.schemas.object_meta import decoding_error
from kubewire.api import naming

_, CASES = answers("metadata")
CHECKER = structural.compile(Node(type="object", properties={"metadata": object_meta()}))


@every("case", CASES)
def test_metadata_validation_matches_recorded_answers(case: dict[str, Any]) -> None:
    document = {"metadata": case["metadata"]}
    assert decoding_error(case["metadata"]) == case.get("malformed")
    if "malformed" in case:
        return
    assert CHECKER.prune(document) == case["unknown"]
    assert causes_of(check_new(document["metadata"], namespaced=True)) == case["causes"]
    assert finalizer_warnings(document) == case["warnings"]


def test_recorded_metadata_answers_cover_all_faults() -> None:
    assert sum("malformed" in case for case in CASES) > 10
    fields = {cause[0] for case in CASES for cause in case.get("causes", ())}
    assert {
        "metadata.name",
        "metadata.generateName",
        "metadata.namespace",
        "metadata.labels",
        "metadata.annotations",
        "metadata.finalizers",
        "metadata.ownerReferences",
        "metadata.managedFields[0].manager",
        "metadata.generation",
    } <= fields


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (naming.subdomain, ["a", "a.b", "a-b.c", "1"], ["", "A", "a_b", ".a", "a..b", "a" * 254]),
        (naming.label, ["a", "a-b", "1"], ["", "a.b", "-a", "a" * 64]),
        (naming.dns1035_label, ["a", "a1", "a-b"], ["", "1a", "a.b", "A"]),
        (naming.path_segment, ["A:b", "system:x", "a b", "..."], [".", "..", "a/b", "a%2"]),
    ],
)
def test_name_rules_return_kubernetes_messages(
    rule: naming.NameRule, good: list[str], bad: list[str]
) -> None:
    assert [name for name in good if rule(name, False)] == []
    assert [name for name in bad if not rule(name, False)] == []


def test_generate_name_may_end_in_a_dash() -> None:
    assert naming.subdomain("web-", True) == []
    assert naming.subdomain("web-", False) == [naming.BAD_SUBDOMAIN]
    assert naming.label("-", True) == [naming.BAD_LABEL]
    assert naming.path_segment(".", True) == []


def test_long_names_are_checked_in_linear_time() -> None:
    for text in ("a" * 200_000 + "_", "a." * 100_000, "-" * 200_000):
        assert naming.subdomain(text)
        assert naming.label_key(text)


def test_annotations_may_have_256_kibibytes_in_all() -> None:
    fitting = {"annotations": {"a": "x" * (metadata.ANNOTATIONS_LIMIT - 1)}, "name": "a"}
    assert check_new(fitting, namespaced=False) == []
    beyond = {"annotations": {"a": "é" * (metadata.ANNOTATIONS_LIMIT // 2)}, "name": "a"}
    assert causes_of(check_new(beyond, namespaced=False)) == [
        ["metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes"]
    ]


def test_cluster_scoped_object_with_a_namespace_is_rejected() -> None:
    assert causes_of(check_new({"name": "a", "namespace": "b"}, namespaced=False)) == [
        ["metadata.namespace", "FieldValueForbidden", "Forbidden: not allowed on this type"]
    ]
    assert causes_of(check_new({"name": "a"}, namespaced=True)) == [
        ["metadata.namespace", "FieldValueRequired", "Required value"]
    ]


OLD = {
    "name": "a",
    "namespace": "b",
    "uid": "1",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-03-01T12:00:00Z",
    "finalizers": ["a.b/c"],
}


def changes(**fields: Any) -> list[list[str]]:
    return causes_of(check_changed(OLD | fields, OLD))


def test_identity_metadata_is_immutable() -> None:
    assert changes() == []
    assert changes(name="x") == [
        ["metadata.name", "FieldValueInvalid", 'Invalid value: "x": field is immutable']
    ]
    assert [
        cause[0] for cause in changes(uid="2", namespace="c", creationTimestamp="2026-03-01T12:00:01Z")
    ] == ["metadata.creationTimestamp", "metadata.namespace", "metadata.uid"]
    assert changes(creationTimestamp="2026-03-01T13:00:00+01:00") == []
    assert changes(deletionTimestamp="2026-03-01T12:00:00Z") == [
        [
            "metadata.deletionTimestamp",
            "FieldValueInvalid",
            'Invalid value: "2026-03-01T12:00:00Z": field is immutable',
        ]
    ]


def test_update_needs_a_resource_version() -> None:
    assert changes(resourceVersion="", generation=1) == [
        ["metadata.generation", "FieldValueInvalid", "Invalid value: 1: must not be decremented"],
        [
            "metadata.resourceVersion",
            "FieldValueInvalid",
            'Invalid value: "": must be specified for an update',
        ],
    ]


def test_finalizers_cannot_be_added_during_deletion() -> None:
    old = OLD | {"deletionTimestamp": "2026-03-01T12:00:00Z"}
    assert check_changed(old | {"finalizers": []}, old) == []
    (cause,) = check_changed(old | {"finalizers": ["x/y", "a.b/c"]}, old)
    assert cause.message == (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"x/y"}'
    )


def test_field_managers_have_printable_names() -> None:
    assert metadata.check_manager("kubectl-client-side-apply") == []
    assert [cause.message for cause in metadata.check_manager("a\tb")] == [
        'Invalid value: "a\\tb": invalid character U+0009 (at position 1)'
    ]
    assert [cause.reason for cause in metadata.check_manager("x" * 129)] == ["FieldValueTooLong"]
