"""Built-in objects are encoded as by Kubernetes, and rejected with its messages."""

from typing import Any

import pytest
from hypothesis import given
from random_documents import documents

from kubehub import builtin
from kubehub.builtin.canonical import TOO_DEEP, Malformed, canonical
from kubehub.builtin.rfc3339 import InstantError, micros_of, seconds_of
from kubehub.resource import Document

CRD = builtin.kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
POD = builtin.kind("", "v1", "Pod")


def written(api_version: str, kind: str, **document: Any) -> Document:
    group, _, version = api_version.rpartition("/")
    converted = canonical(
        builtin.kind(group, version, kind), {"apiVersion": api_version, "kind": kind} | document
    )
    assert not converted.unknown
    return {key: value for key, value in converted.document.items() if key not in ("kind", "apiVersion")}


def refusal(api_version: str, kind: str, **document: Any) -> str:
    with pytest.raises(Malformed) as caught:
        written(api_version, kind, **document)
    return str(caught.value)


def schema(**properties: Any) -> Any:
    versions = [{"schema": {"openAPIV3Schema": {"properties": properties}}}]
    converted = written("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"versions": versions})
    return converted["spec"]["versions"][0]["schema"]["openAPIV3Schema"].get("properties")


def test_canonical_object_has_required_fields_and_no_empty_ones() -> None:
    assert written("v1", "Namespace") == {"metadata": {}, "spec": {}, "status": {}}
    given_metadata: Document = {
        "name": "a",
        "labels": {},
        "finalizers": [],
        "annotations": None,
        "generation": 0,
    }
    assert written("v1", "ConfigMap", metadata=given_metadata, data={}) == {"metadata": {"name": "a"}}
    assert written("apps/v1", "ControllerRevision") == {"metadata": {}, "data": None, "revision": 0}
    assert written("rbac.authorization.k8s.io/v1", "Role", rules=[]) == {"metadata": {}, "rules": None}
    assert written("v1", "Event", firstTimestamp="0001-01-01T00:00:00Z") == {
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }


def test_zero_value_is_encoded_where_it_differs_from_absent() -> None:
    assert written("v1", "DeleteOptions", gracePeriodSeconds=0, preconditions={}) == {
        "gracePeriodSeconds": 0,
        "preconditions": {},
    }
    volumes = [{"name": "a", "emptyDir": {}}]
    assert written("v1", "Pod", spec={"volumes": volumes})["spec"]["volumes"] == volumes


def test_null_field_is_dropped_and_null_item_becomes_empty() -> None:
    document = written(
        "v1", "Pod", metadata={"labels": {"a": None}, "finalizers": [None]}, spec={"containers": [None]}
    )
    assert document["metadata"] == {"labels": {"a": ""}, "finalizers": [""]}
    assert document["spec"]["containers"] == [{"name": "", "resources": {}}]
    assert written("v1", "Secret", data={"a": None, "b": ""})["data"] == {"a": "", "b": ""}


def test_fields_are_ordered_by_type_and_map_keys_by_name() -> None:
    document = written("v1", "Secret", type="t", data={"b": "", "a": ""}, metadata={"uid": "u", "name": "n"})
    assert list(document) == ["metadata", "data", "type"]
    assert list(document["metadata"]) == ["name", "uid"]
    assert list(document["data"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
        ("2020-01-02T03:04:05.999999999+02:00", "2020-01-02T01:04:05Z"),
        ("2020-01-02T03:04:05,5-00:30", "2020-01-02T03:34:05Z"),
        ("2020-11-20T2:00:00Z", "2020-11-20T02:00:00Z"),
        ("0099-01-02T03:04:05Z", "0099-01-02T03:04:05Z"),
    ],
)
def test_times_are_converted_to_utc(given_text: str, expected: str) -> None:
    metadata = {"creationTimestamp": given_text, "deletionTimestamp": given_text}
    assert written("v1", "Pod", metadata=metadata)["metadata"] == dict.fromkeys(metadata, expected)


def test_micro_times_are_normalized() -> None:
    spec = {"renewTime": "2020-01-02T03:04:05.000006+01:00"}
    assert written("coordination.k8s.io/v1", "Lease", spec=spec)["spec"] == {
        "renewTime": "2020-01-02T02:04:05.000006Z"
    }


def test_quantities_outside_resource_lists_keep_billionths() -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "0.1m"}}
    assert written("v1", "Pod", spec={"volumes": [volume]})["spec"]["volumes"][0]["emptyDir"] == {
        "sizeLimit": "100u"
    }


def test_times_accept_every_rfc3339_form() -> None:
    assert seconds_of(-1) == "1969-12-31T23:59:59Z"
    assert micros_of(1, 999_999_999) == "1970-01-01T00:00:01.999999Z"
    assert seconds_of(-62135596800) is None
    with pytest.raises(InstantError):
        seconds_of(2**62)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        (1.5, "1500m"),
        (5, "5"),
        ("2e3", "2e3"),
        (None, "0"),
        ("1.9999999999999999999e99999", "1999999999999999999900e99978"),
        ("1e99999", "1e99999"),
        ("10e2147483647", "10e2147483647"),
        ("1e4294967297", "10"),
        ("-1.00000000000000000001e-99999", "-1e-3"),
        ("756228724393762078970E-164", "1e-3"),
        ("100u", "1m"),
        (" 1500m ", "1500m"),
    ],
)
def test_quantities_become_canonical(given_value: Any, expected: str) -> None:
    assert written("v1", "ResourceQuota", spec={"hard": {"cpu": given_value}})["spec"]["hard"] == {
        "cpu": expected
    }


def test_base64_is_reencoded() -> None:
    assert written("v1", "Secret", data={"a": "YW\nJj\r\n"})["data"] == {"a": "YWJj"}


def test_json_schema_accepts_booleans_and_lists() -> None:
    """kube-apiserver encodes ``items: null`` the first time and drops it the next time; the hub drops it at once."""
    assert schema(
        a={"items": [{"type": "x"}], "additionalProperties": True, "maximum": 1.0, "default": None},
        b={"items": [], "additionalProperties": False, "enum": [None, 1], "minimum": 0.5},
        c={"items": {}, "additionalProperties": {"unheard": 1}, "dependencies": {"a": ["x"], "b": 5}},
        d={"items": 5, "default": {"free": [None]}, "multipleOf": 1e30},
    ) == {
        "a": {"items": [{"type": "x"}], "additionalProperties": True, "maximum": 1},
        "b": {"additionalProperties": False, "enum": [None, 1], "minimum": 0.5},
        "c": {"items": {}, "additionalProperties": {}, "dependencies": {"a": ["x"], "b": None}},
        "d": {"default": {"free": [None]}, "multipleOf": 1e30},
    }


def test_unknown_fields_are_dropped_and_named() -> None:
    converted = canonical(
        POD,
        {
            "metadata": {"name": "a", "foo": 1},
            "spec": {"containers": [{}, {"bar": None, "resources": {"limits": {}, "x": 1}}], "zz": {}},
            "extra": 1,
        },
    )
    assert converted.unknown == (
        "metadata.foo",
        "spec.containers[1].bar",
        "spec.containers[1].resources.x",
        "spec.zz",
        "extra",
    )
    assert converted.document["metadata"] == {"name": "a"}
    properties = {"a.b": {"foo": 1}, "c": {"items": {"unheard": 1}}}
    versions = [{"schema": {"openAPIV3Schema": {"properties": properties}}}]
    assert canonical(CRD, {"spec": {"versions": versions}}).unknown == (
        "spec.versions[0].schema.openAPIV3Schema.properties.a.b.foo",
    )


MISMATCH = "json: cannot unmarshal {} into Go struct field {} of type {}"
DATE_TIME = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("kind", "document", "words"),
    [
        ("Pod", {"metadata": {"name": 5}}, ("number", "ObjectMeta.metadata.name", "string")),
        ("Pod", {"metadata": {"uid": True}}, ("bool", "ObjectMeta.metadata.uid", "types.UID")),
        ("Pod", {"metadata": {"labels": {"a": 5}}}, ("number", "ObjectMeta.metadata.labels", "string")),
        ("Pod", {"spec": []}, ("array", "Pod.spec", "v1.PodSpec")),
        ("Pod", {"spec": {"containers": "x"}}, ("string", "PodSpec.spec.containers", "[]v1.Container")),
        ("Pod", {"spec": {"priority": 2**31}}, ("number 2147483648", "PodSpec.spec.priority", "int32")),
        ("Pod", {"spec": {"priority": 1.0}}, ("number 1.0", "PodSpec.spec.priority", "int32")),
        ("Pod", {"spec": {"priority": "x"}}, ("string", "PodSpec.spec.priority", "int32")),
        (
            "Pod",
            {"spec": {"restartPolicy": {}}},
            ("object", "PodSpec.spec.restartPolicy", "v1.RestartPolicy"),
        ),
        ("Pod", {"spec": {"hostNetwork": "yes"}}, ("string", "PodSpec.spec.hostNetwork", "bool")),
        ("Pod", {"spec": {"overhead": []}}, ("array", "PodSpec.spec.overhead", "v1.ResourceList")),
        ("Pod", {"spec": {"nodeSelector": 1}}, ("number", "PodSpec.spec.nodeSelector", "map[string]string")),
        ("Pod", {"spec": {"volumes": [{"name": 5}]}}, ("number", "Volume.spec.volumes.name", "string")),
        (
            "Pod",
            {"spec": {"volumes": [{"configMap": 5}]}},
            ("number", "Volume.spec.volumes.VolumeSource.configMap", "v1.ConfigMapVolumeSource"),
        ),
        (
            "Service",
            {"spec": {"ports": [{"targetPort": 1.5}]}},
            ("number 1.5", "ServicePort.spec.ports.targetPort", "int32"),
        ),
        (
            "Pod",
            {"metadata": {"creationTimestamp": 5}},
            ("number", "ObjectMeta.metadata.creationTimestamp", "string"),
        ),
        ("Secret", {"data": {"a": 5}}, ("number", "Secret.data", "[]uint8")),
    ],
)
def test_value_of_wrong_type_is_malformed(kind: str, document: Document, words: tuple[str, str, str]) -> None:
    assert refusal("v1", kind, **document) == MISMATCH.format(*words)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zz", f'parsing time "zz" as "{DATE_TIME}": cannot parse "zz" as "2006"'),
        ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        ("2020-13-20T20:00:00Z", 'parsing time "2020-13-20T20:00:00Z": month out of range'),
        ("2020-11-20T20:00:61Z", 'parsing time "2020-11-20T20:00:61Z": second out of range'),
        (
            "2020-11-20T20:00:00+25:00",
            'parsing time "2020-11-20T20:00:00+25:00": time zone offset hour out of range',
        ),
        ("2020-02-20T20:00:00Zx", 'parsing time "2020-02-20T20:00:00Zx": extra text: "x"'),
        (
            "2020-02-20T00:00:00",
            f'parsing time "2020-02-20T00:00:00" as "{DATE_TIME}": cannot parse "" as "Z07:00"',
        ),
        (
            "2020-02-20 00:00:00Z",
            f'parsing time "2020-02-20 00:00:00Z" as "{DATE_TIME}": cannot parse " 00:00:00Z" as "T"',
        ),
    ],
)
def test_invalid_time_is_malformed(text: str, told: str) -> None:
    assert refusal("v1", "Pod", metadata={"creationTimestamp": text}) == told


def test_micro_time_needs_six_digits() -> None:
    told = refusal("coordination.k8s.io/v1", "Lease", spec={"renewTime": "2020-01-01T00:00:00Z"})
    assert told.endswith('as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"')


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            "abc",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (True, "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("5mm", "unable to parse quantity's suffix"),
        ("5x", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("1e9223372036854775808", "unable to parse quantity's suffix"),
        ("1" * 4001, "a quantity is longer than 4,000 characters"),
    ],
)
def test_invalid_quantity_is_malformed(value: Any, told: str) -> None:
    assert refusal("v1", "ResourceQuota", spec={"hard": {"cpu": value}}) == told


def test_invalid_base64_and_json_schema_are_rejected() -> None:
    assert refusal("v1", "Secret", data={"a": "***"}) == "illegal base64 data at input byte 0"
    assert refusal("v1", "Secret", data={"a": "YWJjY"}) == "illegal base64 data at input byte 4"
    with pytest.raises(Malformed, match="boolean or JSON schema expected"):
        schema(a={"additionalProperties": 5})


def test_first_type_mismatch_is_reported_unless_a_special_type_fails() -> None:
    assert "metadata.name" in refusal("v1", "Pod", metadata={"name": 5, "uid": 5})
    assert "parsing time" in refusal("v1", "Pod", metadata={"name": 5, "creationTimestamp": "x"})


def test_canonical_encoding_bounds_the_depth() -> None:
    deep: Document = {}
    for _ in range(300):
        deep = {"not": deep}
    with pytest.raises(Malformed, match=TOO_DEEP):
        schema(a=deep)


@given(documents())
def test_canonical_encoding_is_idempotent(document: Document) -> None:
    group, _, version = document["apiVersion"].rpartition("/")
    made = builtin.kind(group, version, document["kind"])
    first = canonical(made, document)
    assert first.unknown == ()
    again = canonical(made, first.document)
    assert again.document == first.document
    assert list(again.document) == list(first.document)
