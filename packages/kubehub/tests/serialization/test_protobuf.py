"""Protobuf bodies decode to the documents that JSON gives, and arbitrary bytes do no harm."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_documents import documents, encoded

from every import every
from kubehub import builtin
from kubehub.builtin.canonical import canonical
from kubehub.resource import Document
from kubehub.serialization import protobuf
from kubehub.status import Refusal

# One line per kind, with every field of every type somewhere: the output of Kubernetes' own encoders.
GOLDEN = [
    json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
]

# What kubectl sent for: create ns, create cm, create service clusterip --tcp=80:http, create role, create quota,
# create pdb --min-available=50%, create token.
CAPTURED: dict[str, Document] = {
    "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhoKEgoCdDESABoAIgAqADIAOABCABIAGgIKABoAIgA=": {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": "t1"},
        "spec": {},
        "status": {},
    },
    "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEiYKFAoCYzESABoCdDEiACoAMgA4AEIAEgYKAWESAWISBgoBehIBeRoAIgA=": {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "c1", "namespace": "t1"},
        "data": {"a": "b", "z": "y"},
    },
    "azhzAAoNCgJ2MRIHU2VydmljZRJxCiMKBHN2YzESABoCdDEiACoAMgA4AEIAWgsKA2FwcBIEc3ZjMRJGCh4KBzgwLWh0dHASA1RDUBhQ"
    "IgoIARAAGgRodHRwKAASCwoDYXBwEgRzdmMxGgAiCUNsdXN0ZXJJUDoAQgBSAFoAYABoABoCCgAaACIA": {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "svc1", "namespace": "t1", "labels": {"app": "svc1"}},
        "spec": {
            "ports": [{"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
            "selector": {"app": "svc1"},
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    },
    "azhzAAokChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgRSb2xlEiUKFAoCcjESABoCdDEiACoAMgA4AEIAEg0KA2dldBIAGgRw"
    "b2RzGgAiAA==": {
        "kind": "Role",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "r1", "namespace": "t1"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
    },
    "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI2ChQKAnExEgAaAnQxIgAqADIAOABCABIcCgoKA2NwdRIDCgExCg4KBm1lbW9yeRIECgIx"
    "RxoAGgAiAA==": {
        "kind": "ResourceQuota",
        "apiVersion": "v1",
        "metadata": {"name": "q1", "namespace": "t1"},
        "spec": {"hard": {"cpu": "1", "memory": "1G"}},
        "status": {},
    },
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOQoUCgJwMRIAGgJ0MSIAKgAyADgAQgASFQoJCAEQABoDNTAlEggK"
    "BgoBYRIBYhoKCAAYACAAKAAwABoAIgA=": {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": "p1", "namespace": "t1"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
}

POD = b"\x0a\x09\x0a\x02v1\x12\x03Pod"


def refused(raw: bytes, **expected: Any) -> str:
    with pytest.raises(Refusal) as caught:
        protobuf.decode(raw, **expected)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


@every("line", GOLDEN, ids=lambda line: f"{line['json']['apiVersion']}.{line['json']['kind']}")
def test_protobuf_of_kubernetes_is_decoded(line: Any) -> None:
    decoded = protobuf.decode(base64.b64decode(line["protobuf"]))
    assert decoded == line["json"]
    assert list(decoded) == list(line["json"])


@every("line", GOLDEN, ids=lambda line: f"{line['json']['apiVersion']}.{line['json']['kind']}")
def test_decoded_protobuf_is_canonical(line: Any) -> None:
    group, _, version = line["json"]["apiVersion"].rpartition("/")
    converted = canonical(builtin.kind(group, version, line["json"]["kind"]), line["json"])
    assert converted.document == line["json"]
    assert not converted.unknown


@pytest.mark.parametrize(("body", "document"), CAPTURED.items())
def test_protobuf_of_kubectl_is_decoded(body: str, document: Document) -> None:
    assert protobuf.decode(base64.b64decode(body)) == document


@given(documents())
def test_protobuf_and_json_give_the_same(document: Document) -> None:
    group, _, version = document["apiVersion"].rpartition("/")
    made = builtin.kind(group, version, document["kind"])
    expected = canonical(made, document).document
    assert protobuf.decode(encoded(made, expected)) == expected


def test_options_of_a_deletion_in_any_group() -> None:
    body = b"\x08\x00\x22\x0aForeground\x12\x05\x0a\x03uid"
    meta = b"\x0a\x07apps/v1\x12\x0dDeleteOptions"
    raw = protobuf.MAGIC + b"\x0a" + bytes([len(meta)]) + meta + b"\x12" + bytes([len(body)]) + body
    assert protobuf.decode(raw) == {
        "kind": "DeleteOptions",
        "apiVersion": "apps/v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "uid"},
        "propagationPolicy": "Foreground",
    }


def test_protobuf_body_without_a_kind_has_the_expected_kind() -> None:
    raw = protobuf.MAGIC + b"\x12\x05\x0a\x03\x0a\x01a"
    assert protobuf.decode(raw, group="coordination.k8s.io", version="v1", kind="Lease") == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "a"},
        "spec": {},
    }


def test_numbers_of_a_list_may_be_packed() -> None:
    def pod(groups: bytes) -> bytes:
        spec = b"\x72" + bytes([len(groups)]) + groups
        body = b"\x12" + bytes([len(spec)]) + spec
        return protobuf.MAGIC + POD + b"\x12" + bytes([len(body)]) + body

    minus_one = b"\xff" * 9 + b"\x01"
    apart = b"\x20\x01\x20\xac\x02\x20" + minus_one
    packed = b"\x22\x0d\x01\xac\x02" + minus_one
    contexts = [protobuf.decode(pod(groups))["spec"]["securityContext"] for groups in (apart, packed)]
    assert contexts == [{"supplementalGroups": [1, 300, -1]}] * 2


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            b"k8s",
            "the object provided is unrecognized (must be of type Pod): provided data does not appear to be a "
            "protobuf message, expected prefix [107 56 115 0] (6b3873)",
        ),
        (
            b"",
            f"the object provided is unrecognized (must be of type Pod): {protobuf.NOT_PROTOBUF} (<empty>)",
        ),
        (
            b"x" * 31,
            f"the object provided is unrecognized (must be of type Pod): {protobuf.NOT_PROTOBUF} ({'78' * 30} ...)",
        ),
        (
            b"k8s\x00\xff\xff",
            "the object provided is unrecognized (must be of type Pod): unexpected EOF (6b387300ffff)",
        ),
        (
            b"k8s\x00" + POD + b"\x12\x03\x0a\x05a",
            'Pod in version "v1" cannot be handled as a Pod: unexpected EOF',
        ),
        (
            b"k8s\x00" + POD + b"\x12\x02\x08\x05",
            'Pod in version "v1" cannot be handled as a Pod: proto: wrong wireType = 0 for field Metadata',
        ),
        (
            b"k8s\x00" + POD + b"\x12\x02\x0b\x05",
            'Pod in version "v1" cannot be handled as a Pod: proto: illegal wireType 3',
        ),
        (
            b"k8s\x00" + POD + b"\x12\x01\x02",
            'Pod in version "v1" cannot be handled as a Pod: proto: illegal tag 0 (wire type 2)',
        ),
        (
            b"k8s\x00" + POD + b"\x12\x0b" + b"\xff" * 10 + b"\x01",
            'Pod in version "v1" cannot be handled as a Pod: proto: integer overflow',
        ),
        (
            b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Xod\x12\x00",
            'Xod in version "v1" cannot be handled as a Pod: no kind "Xod" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_refuses_in_the_words_of_kubernetes(raw: bytes, message: str) -> None:
    assert refused(raw, kind="Pod") == message


def test_refuses_quantities_and_times_and_free_form_values_that_are_none() -> None:
    quota = (
        b"k8s\x00\x0a\x13\x0a\x02v1\x12\x0dResourceQuota\x12\x0c\x12\x0a\x0a\x08\x0a\x01a\x12\x03\x0a\x01x"
    )
    assert refused(quota).endswith("^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    late = b"k8s\x00" + POD + b"\x12\x0e\x0a\x0c\x42\x0a\x08" + b"\xff" * 8 + b"\x7f"
    assert refused(late).endswith("year outside of range [0,9999]")
    revision = b"\x0a\x1d\x0a\x07apps/v1\x12\x12ControllerRevision"
    assert protobuf.NOT_JSON.partition("{")[0] in refused(
        b"k8s\x00" + revision + b"\x12\x05\x12\x03\x0a\x01{"
    )


def test_protobuf_depth_is_bounded() -> None:
    made = builtin.type_of(
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    )
    schema: Document = {}
    for _ in range(200):
        schema = {"not": schema}
    body = encoded(made, {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
    assert refused(body).endswith(protobuf.TOO_DEEP)


BODIES = st.sampled_from([base64.b64decode(line["protobuf"]) for line in GOLDEN])


def outcome(raw: bytes) -> Document | Refusal:
    try:
        return protobuf.decode(raw, kind="Pod")
    except Refusal as refusal:
        return refusal


@given(BODIES, st.data())
def test_damaged_bodies_are_refused_or_read(body: bytes, data: st.DataObject) -> None:
    raw = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(4, len(raw))) :]
    result = outcome(bytes(raw))
    if isinstance(result, Refusal):
        assert (result.code, bool(result.message)) == (400, True)
    else:
        assert json.loads(json.dumps(result)) == result


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    result = outcome(protobuf.MAGIC + POD + raw)
    assert result.code == 400 if isinstance(result, Refusal) else result["kind"] == "Pod"
