"""The hub rejects or bounds hostile request bodies.

Each of these bodies once took minutes or gigabytes, or ended the process.
"""

import gzip
import json
import zlib
from typing import Any

import pytest

from kubehub.serialization.body import DEPTH, LIMIT, SMALL, SMALL_PROTOBUF, SMALL_VALUES, VALUES
from security.wire import ADMIN, ALICE, Answer, Hub, ask, received, request, send

MAPS = "/api/v1/namespaces/{}/configmaps"
JSON, YAML = "application/json", "application/yaml"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def create_map(hub: Hub, namespace: str, body: bytes, type_: str = "application/json") -> Answer:
    """Create a ConfigMap with dryRun, so that requests of the same name are independent."""
    return await ask(hub, "POST", MAPS.format(namespace) + "?dryRun=All", body=body, type_=type_)


def head(
    hub: Hub, user: str, *headers: str, target: str = MAPS.format("default"), type_: str = JSON
) -> bytes:
    """The head of a POST, without a body."""
    return request("POST", target, token=hub.tokens[user], headers=[*headers, f"Content-Type: {type_}"])


# Size


async def test_large_body_is_rejected_with_413(hub: Hub) -> None:
    large = b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * (LIMIT + 1) + b'"}}'
    answer = await create_map(hub, "default", large)
    assert (answer.code, answer.message) == (413, f"Request entity too large: limit is {LIMIT}")


async def test_large_chunked_body_is_rejected_with_413(hub: Hub) -> None:
    piece = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
    chunked = head(hub, ADMIN, "Transfer-Encoding: chunked")
    (answer,) = await send(hub, chunked + piece * (LIMIT // 65_536 + 2) + b"0\r\n\r\n")
    assert (answer.code, answer.message) == (413, f"Request entity too large: limit is {LIMIT}")


async def test_huge_content_length_is_rejected_before_the_body(embedded: Hub) -> None:
    (answer,) = await send(embedded, head(embedded, ADMIN, "Content-Length: 999999999999"))
    assert answer.code == 413


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEW = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}


@pytest.mark.parametrize(
    ("type_", "limit"), [("application/json", SMALL), (YAML, SMALL), (PROTOBUF, SMALL_PROTOBUF)]
)
async def test_large_review_is_rejected_before_the_body(embedded: Hub, type_: str, limit: int) -> None:
    """Any user may post one, so the hub answers before the body arrives."""
    sent = head(embedded, ALICE, f"Content-Length: {limit + 1}", target=REVIEWS, type_=type_)
    (answer,) = await send(embedded, sent)
    assert (answer.code, answer.message) == (413, f"Request entity too large: limit is {limit}")


async def test_forbidden_write_is_rejected_before_the_body(hub: Hub) -> None:
    (answer,) = await send(hub, head(hub, ALICE, "Content-Length: 3000000"))
    assert answer.code == 403


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        (b'{"a":[' + b"1," * SMALL_VALUES + b"1]}", "application/json"),
        (
            b"{" + b",".join(b'"%d":1' % number for number in range(SMALL_VALUES + 1)) + b"}",
            "application/json",
        ),
        (b"a: [" + b"1," * SMALL_VALUES + b"1]", YAML),
        (b"{a: [" + b"1," * SMALL_VALUES + b"1]}", YAML),
        (b"{a: &a [1,1,1,1], b: [" + b"*a," * (SMALL_VALUES // 4) + b"1]}", YAML),
    ],
)
async def test_review_with_too_many_values_is_rejected(embedded: Hub, body: bytes, type_: str) -> None:
    answer = await ask(embedded, "POST", REVIEWS, user=ALICE, body=body, type_=type_)
    assert (answer.code, answer.message) == (413, f"Request entity too large: limit is {SMALL_VALUES} values")


async def test_review_within_its_limits_is_answered(embedded: Hub) -> None:
    attributes = REVIEW["spec"]["resourceAttributes"]
    long = {"spec": {"resourceAttributes": {**attributes, "name": ",[{" * 20_000}}}
    for body in (REVIEW, long):
        assert (await ask(embedded, "POST", REVIEWS, user=ALICE, body=body)).code == 201


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
async def test_compressed_body_is_rejected(hub: Hub, encoding: str) -> None:
    blanks = b" " * (LIMIT + 1)
    packed = zlib.compress(blanks) if encoding == "deflate" else gzip.compress(blanks)
    answer = await ask(
        hub, "POST", MAPS.format("default"), body=packed, headers=[f"Content-Encoding: {encoding}"]
    )
    assert answer.code == 400


async def test_patches_cannot_grow_an_object_beyond_the_request_limit(hub: Hub, namespace: str) -> None:
    """Each small patch adds to the object."""
    target = MAPS.format(namespace)
    assert (await ask(hub, "POST", target, body={"metadata": {"name": "x"}})).code == 201
    codes = []
    for number in range(4):
        body = {"data": {f"k{number}": "x" * 700_000}}
        codes.append((await ask(hub, "PATCH", f"{target}/x", body=body, type_=MERGE)).code)
    assert codes == [200, 422, 422, 422]


# Depth and number


def nested(depth: int, opened: bytes = b"[", closed: bytes = b"]") -> bytes:
    return b'{"metadata":{"name":"x"},"x":' + opened * depth + closed * depth + b"}"


@pytest.mark.parametrize("depth", [20_000, 1_000_000])
@pytest.mark.parametrize("opened", [b"[", b'{"a":'])
async def test_deeply_nested_body_is_rejected(hub: Hub, depth: int, opened: bytes) -> None:
    closed = b"]" if opened == b"[" else b"}"
    body = nested(depth // len(opened), opened, b"1" + closed)
    assert (await create_map(hub, "default", body)).code in (400, 413)


async def test_nesting_below_the_limit_and_brackets_in_strings_are_accepted(embedded: Hub) -> None:
    deep = nested(DEPTH - 1)
    texts = b'{"metadata":{"name":"x"},"data":{"a":"' + b"[{" * 100_000 + b'\\"' * 1_000 + b'"}}'
    for body in (deep, texts):
        assert (await create_map(embedded, "default", body)).code == 201


async def test_unterminated_string_is_rejected_in_one_pass(embedded: Hub) -> None:
    answer = await create_map(embedded, "default", b'{"' + b'\\"[]' * 700_000)
    assert answer.code == 400


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 1_000_000 + b"0]",
        b"[" + b"0," * 1_500_000 + b"0]",
        b'{"a":' + b'{"":0,' * 200 + b'"b":[' + b'"",' * 900_000 + b'""]' + b"}" * 200 + b"}",
        b'{"metadata":{"labels":{' + b",".join(b'"k%d":"v"' % n for n in range(200_000)) + b"}}}",
    ],
    ids=["lists", "numbers", "texts", "labels"],
)
async def test_body_with_too_many_values_is_rejected(embedded: Hub, body: bytes) -> None:
    answer = await create_map(embedded, "default", body)
    assert (answer.code, answer.message) == (413, f"Request entity too large: limit is {VALUES} values")


@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999999",
        b"9" * 1_000_000,
        b"0x10",
        b"01",
        b"+1",
        b"1.",
        b"'x'",
        b"\xff",
        b'"\xff\xfe"',
        b'"\\x41"',
        b'"\x00"',
        b"1,",
    ],
    ids=lambda value: str(value[:12]),
)
async def test_invalid_json_is_rejected(embedded: Hub, value: bytes) -> None:
    answer = await create_map(embedded, "default", b'{"metadata":{"name":"x"},"x":%s}' % value)
    assert answer.code == 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generation", b"9223372036854775808"),
        ("generation", b"1e40"),
        ("generation", b"-1.5"),
        ("labels", b'"text"'),
        ("labels", b'{"a":{}}'),
        ("name", b"{}"),
        ("name", b"1"),
        ("finalizers", b'{"a":"b"}'),
        ("ownerReferences", b'[["x"]]'),
        ("managedFields", b'"x"'),
        ("creationTimestamp", b'"yesterday"'),
        ("deletionGracePeriodSeconds", b'"x"'),
    ],
)
async def test_metadata_of_a_wrong_type_is_rejected(hub: Hub, field: str, value: bytes) -> None:
    body = b'{"metadata":{"name":"x","%s":%s}}' % (field.encode(), value)
    if field == "name":
        body = b'{"metadata":{"name":%s}}' % value
    answer = await create_map(hub, "default", body)
    assert answer.code == 400
    assert "cannot" in answer.message or "parsing time" in answer.message


@pytest.mark.parametrize("name", ["a" * 1_000_000, "a-." * 300_000 + "!", "x\x00y", "../x", "%2e", "é", ""])
async def test_invalid_name_is_rejected(hub: Hub, name: str) -> None:
    answer = await create_map(hub, "default", json.dumps({"metadata": {"name": name}}).encode())
    assert answer.code == 422


async def test_duplicate_keys_are_reported(hub: Hub) -> None:
    pairs = b",".join(b'"k%d":"v"' % number for number in range(30_000))
    body = b'{"metadata":{"name":"x"},"data":{"k1":"","k1":"",' + pairs + b"}}"
    answer = await ask(hub, "POST", MAPS.format("default") + "?fieldValidation=Strict&dryRun=All", body=body)
    assert answer.code == 400
    assert 'duplicate field "data.k1"' in answer.message or '"data[k1]"' in answer.message


async def test_number_of_reported_unknown_fields_is_limited(hub: Hub) -> None:
    unknown = {f"k{number}": 1 for number in range(3_000)}
    answer = await ask(
        hub,
        "POST",
        MAPS.format("default") + "?fieldValidation=Strict",
        body={"metadata": {"name": "x"}, **unknown},
    )
    assert (answer.code, answer.message.count("unknown field")) == (400, 100)


async def test_number_of_reported_causes_is_limited(embedded: Hub) -> None:
    labels = {f"k{number}!": "v" for number in range(20_000)}
    body = {"metadata": {"name": "x", "labels": labels}}
    answer = await ask(embedded, "POST", MAPS.format("default"), body=body)
    assert answer.code == 422
    assert len(answer.document["details"]["causes"]) == 500
    assert "and 19500 more" in answer.message


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (
            "/api/v1/nodes",
            {"spec": {"taints": [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(20_000)]}},
        ),
        (
            "/api/v1/namespaces/default/pods",
            {"spec": {"containers": [{"name": f"c{n}", "image": "x"} for n in range(6_000)]}},
        ),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            {"spec": {"request": "", "signerName": "a.b/c", "usages": [f"u{n}" for n in range(10_000)]}},
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            {"metadata": {"finalizers": [f"a.example/f{n}" for n in range(50_000)]}},
        ),
    ],
)
async def test_uniqueness_of_many_items_is_checked_in_linear_time(
    embedded: Hub, target: str, body: dict[str, Any]
) -> None:
    body["metadata"] = {"name": "wide", **body.get("metadata", {})}
    answer = await ask(embedded, "POST", f"{target}?dryRun=All", body=body)
    assert answer.code in (201, 422)


# YAML


def aliases(levels: int, width: int) -> bytes:
    lines = [b"a0: &a0 [x, x]"]
    for level in range(1, levels):
        below = b", ".join([b"*a%d" % (level - 1)] * width)
        lines.append(b"a%d: &a%d [%s]" % (level, level, below))
    return b"\n".join(lines)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"a: " + b"[" * 1_000_000, 400),
        (b"a: " + b"{a: " * 500_000, 400),
        (b"- " * 1_000_000, 400),
        (b"? " * 1_000_000, 400),
        (b"".join(b" " * depth + b"a:\n" for depth in range(1_500)), 400),
        (aliases(9, 9), 413),
        (aliases(40, 2), 413),
        (b"a: &a [*a]", 400),
        (b"a: &a {b: *a}", 400),
        (b"a: *nothing", 400),
        (b"a: &a " + b"x" * 1_000_000 + b"\nb: [" + b", ".join([b"*a"] * 1_000) + b"]", 413),
        (
            b"a: &a {" + b", ".join(b"k%d: 1" % n for n in range(9_000)) + b"}\nb:\n" + b"- <<: *a\n" * 900,
            413,
        ),
        (b"<<: 5", 400),
        (b"a: [" + b"a, " * 900_000 + b"a]", 413),
        (b"a: .inf", 400),
        (b"a: .nan", 400),
        (b"? [a, b]\n: c", 400),
        (b"~: a", 400),
        (b"a: 1\nb: [", 400),
        (b"a: \x00", 400),
        (b"a: \xff", 400),
        (b'a: "\\ud800"', 400),
        (b"%TAG !a! x\n" * 50_000 + b"--- a", 400),
        (b"".join(b"%%TAG !a%d! x\n" % n for n in range(50_000)) + b"--- a", 400),
        (b"!!python/object/apply:os.system [id]", 400),
    ],
    ids=lambda value: str(value[:16]) if isinstance(value, bytes) else None,
)
async def test_hostile_yaml_is_rejected(embedded: Hub, body: bytes, code: int) -> None:
    answer = await create_map(embedded, "default", body, YAML)
    assert answer.code == code


@pytest.mark.parametrize(
    "text",
    [
        "9" * 200_000,
        "0x" + "f" * 1_000_000,
        "1" + ":59" * 100_000,
        "1" + "_" * 1_000_000 + "1.5",
        "2020-01-01",
        "1:30",
        "!!binary aGk=",
        "!!python/name:os.system id",
        "! 5",
    ],
    ids=lambda text: text[:12],
)
async def test_yaml_strings_stay_strings(embedded: Hub, text: str) -> None:
    answer = await create_map(
        embedded, "default", f"metadata: {{name: x}}\ndata: {{a: {text}}}".encode(), YAML
    )
    assert answer.code == 201
    assert isinstance(answer.document["data"]["a"], str)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a: y", None),
        ("a: 0777", None),
        ("1: x", {"1": "x"}),
        ("true: x", {"true": "x"}),
        ("a: '1'", {"a": "1"}),
        ("a: &b x\n  b: *b", {"a": "x", "b": "x"}),
        ("a: 2020-01-01", {"a": "2020-01-01"}),
        ("<<: {a: x, b: x}\n  b: z", {"a": "x", "b": "z"}),
        ("b: z\n  <<: {a: x, b: x}", {"a": "x", "b": "x"}),
        ("<<: [{a: x}, {a: z, b: z}]", {"a": "x", "b": "z"}),
    ],
)
async def test_yaml_scalars_are_read_as_kubernetes_does(
    hub: Hub, text: str, kept: dict[str, str] | None
) -> None:
    answer = await create_map(hub, "default", f"metadata: {{name: x}}\ndata:\n  {text}\n".encode(), YAML)
    if kept is None:
        assert answer.code == 400
    else:
        assert (answer.code, answer.document["data"]) == (201, kept)


# Protobuf


def field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    low = b""
    while value > 127:
        low += bytes([value & 127 | 128])
        value >>= 7
    return low + bytes([value])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 1_000,
        b"\x08\x01" * 1_400_000,
        field(2, b"\x78\x01" * 1_400_000),
        field(2, field(2, b"") * 1_400_000),
        field(2, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        field(2, _varint(1 << 3 | 2) + b"\xff\xff\xff\xff\x7f"),
        field(2, b"\x0b" * 100_000),
        field(1, field(1, b"v1") + field(2, b"Nonsense")) + field(2, b""),
    ],
    ids=range(9),
)
async def test_hostile_protobuf_is_rejected(embedded: Hub, data: bytes) -> None:
    assert (await create_map(embedded, "default", b"k8s\x00" + data, PROTOBUF)).code in (400, 422)


async def test_json_inside_protobuf_with_too_many_values_is_rejected(embedded: Hub) -> None:
    """managedFields hold JSON as bytes."""
    inner = field(1, b'{"f:x":' + b'{"f:a":' * 400 + b"{}" + b"}" * 401)
    entry = field(1, b"m") + field(2, b"Update") + field(3, b"v1") + field(6, b"FieldsV1") + field(7, inner)
    body = b"k8s\x00" + field(2, field(1, field(1, b"x") + field(17, entry)))
    assert (await create_map(embedded, "default", body, PROTOBUF)).code == 400


# Patches


@pytest.fixture
async def wide(embedded: Hub, embedded_ns: str) -> str:
    """The path of a large ConfigMap."""
    body = {
        "metadata": {"name": "wide", "finalizers": [f"a.example/f{n}" for n in range(3_000)]},
        "data": {f"k{n}": "v" for n in range(10_000)},
    }
    assert (await ask(embedded, "POST", MAPS.format(embedded_ns), body=body)).code == 201
    return MAPS.format(embedded_ns) + "/wide"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([{"op": "add", "path": "/data/x", "value": "1"}] * 20_000, 413),
        ([{"op": "add", "path": "/data/x", "value": "1"}] * 10_000, 200),
        ([{"op": "copy", "from": "/data", "path": "/metadata/annotations"}] * 100, 422),
        ([{"op": "copy", "from": "", "path": "/data/x"}] * 50, 422),
        ([{"op": "add", "path": "/metadata/finalizers/0", "value": "a.example/x"}] * 10_000, 200),
        ([{"op": "add", "path": "/a" * 1_000_000, "value": 1}], 422),
        ([{"op": "test", "path": "", "value": {}}] * 10_000, 422),
        ([{"op": "replace", "path": "", "value": []}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "add", "path": "/metadata/finalizers/99999999999999999999", "value": "x"}], 422),
        ([{"op": "add", "path": "/metadata/finalizers/-1", "value": "a.example/x"}], 200),
        ([{"op": "add", "path": "/metadata/finalizers/" + "9" * 10_000, "value": "x"}], 422),
        ([{"op": "nonsense", "path": "/data"}], 422),
        ([{"op": 1, "path": []}], 400),
        ([5], 400),
        ({"op": "add"}, 400),
        ("text", 400),
    ],
    ids=lambda value: json.dumps(value)[:40] if not isinstance(value, int) else None,
)
async def test_hostile_json_patch_is_rejected(embedded: Hub, wide: str, body: object, code: int) -> None:
    answer = await ask(embedded, "PATCH", wide, body=body, type_=JSON_PATCH)
    assert answer.code == code


async def test_patches_cannot_nest_an_object_beyond_the_limit(embedded: Hub, embedded_ns: str) -> None:
    """Each patch adds to the depth of managedFields, which the hub stores unchanged."""
    target = MAPS.format(embedded_ns)
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
    }
    body = {"metadata": {"name": "x", "managedFields": [entry]}, "data": {}}
    assert (await ask(embedded, "POST", target, body=body)).code == 201
    path, codes = "/metadata/managedFields/0/fieldsV1/f:data", []
    for _ in range(8):
        value: dict[str, Any] = {}
        for _ in range(200):
            value = {"f:a": value}
        operation = {"op": "add", "path": f"{path}/f:a", "value": value}
        answer = await ask(embedded, "PATCH", f"{target}/x", body=[operation], type_=JSON_PATCH)
        codes.append(answer.code)
        path += "/f:a" * 200
    assert set(codes[2:]) <= {400, 422}
    assert (await ask(embedded, "GET", f"{target}/x")).code == 200
    assert (await ask(embedded, "DELETE", f"{target}/x")).code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"a.example/f{n}" for n in range(50_000)]}},
            200,
        ),
        ({"metadata": {"finalizers": [f"a.example/g{n}" for n in range(30_000)]}}, 200),
        ({"metadata": {"$setElementOrder/finalizers": [f"a.example/f{n}" for n in range(50_000)]}}, 200),
        ({"data": {"$retainKeys": [f"q{n}" for n in range(50_000)]}}, 200),
        ({"$patch": "nonsense"}, 500),
        ({"metadata": {"ownerReferences": [{"uid": [1], "$patch": "delete"}]}}, 200),
        ({"metadata": {"ownerReferences": [{"$patch": "delete"}]}}, 200),
        ({"metadata": {"ownerReferences": [{"uid": [1]}]}}, 422),
        ({"data": {"$patch": ["x"]}}, 500),
        ({"data": {"$retainKeys": 5}}, 400),
        ({"data": {"$retainKeys": [[]]}}, 200),
        ([], 400),
    ],
    ids=lambda value: json.dumps(value)[:40] if not isinstance(value, int) else None,
)
async def test_hostile_strategic_patch_is_rejected(embedded: Hub, wide: str, body: object, code: int) -> None:
    """As kube-apiserver, the hub reports most faults of such a patch as a 500 without a reason."""
    answer = await ask(embedded, "PATCH", wide, body=body, type_=STRATEGIC)
    assert answer.code == code
    assert answer.document.get("reason") != "InternalError"


async def test_hostile_apply_patch_is_rejected(embedded: Hub, embedded_ns: str) -> None:
    target = MAPS.format(embedded_ns) + "/x?fieldManager="
    data = {f"k{number}": "v" for number in range(30_000)}

    def body(value: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x"},
            "data": dict.fromkeys(data, value),
        }

    assert (await ask(embedded, "PATCH", f"{target}a", body=body("1"), type_=APPLY)).code == 201
    refused = await ask(embedded, "PATCH", f"{target}b", body=body("2"), type_=APPLY)
    assert refused.code == 409
    assert refused.message.startswith("Apply failed with 30000 conflicts")
    assert len(refused.document["details"]["causes"]) == 500
    assert (await ask(embedded, "PATCH", f"{target}b&force=true", body=body("2"), type_=APPLY)).code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"f:data": {"f:" + "a" * 100_000: {}}},
        {'k:{"a"': {}},
        {"k:[]": {}},
        {"v:": {}},
        {"v:{": {}},
        {"i:99999999999999999999": {}},
        {"i:x": {}},
        {"": {}},
        {".": 5},
        {"f:data": []},
        {"f:data": {"f:a": None}},
    ],
    ids=str,
)
async def test_odd_managed_fields_are_rejected_or_ignored(
    embedded: Hub, embedded_ns: str, fields: dict[str, Any]
) -> None:
    target = MAPS.format(embedded_ns)
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    body = {"metadata": {"name": "x", "managedFields": [{**entry, "fieldsV1": fields}]}, "data": {"a": "1"}}
    made = await ask(embedded, "POST", target, body=body)
    assert made.code in (201, 400, 422)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "2"}}
    answer = await ask(embedded, "PATCH", f"{target}/x?fieldManager=m&force=true", body=applied, type_=APPLY)
    assert answer.code in (200, 201)


# Options, reviews and warnings

ROOTS = {
    "core": "/api/v1/namespaces/default",
    "authn": "/apis/authentication.k8s.io/v1",
    "authz": "/apis/authorization.k8s.io/v1",
}


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("DELETE", "core/configmaps/x", {"preconditions": "x"}),
        ("DELETE", "core/configmaps/x", {"preconditions": {"uid": 5}}),
        ("DELETE", "core/configmaps/x", {"gracePeriodSeconds": "x"}),
        ("DELETE", "core/configmaps/x", {"gracePeriodSeconds": 10**30}),
        ("DELETE", "core/configmaps/x", {"dryRun": "All"}),
        ("DELETE", "core/configmaps/x", {"propagationPolicy": []}),
        ("DELETE", "core/configmaps", {"dryRun": {}}),
        ("POST", "core/pods/x/binding", {"metadata": "x"}),
        ("POST", "core/pods/x/binding", {"target": []}),
        ("POST", "core/pods/x/eviction", {"deleteOptions": "x"}),
        ("POST", "core/serviceaccounts/default/token", {"spec": "x"}),
        ("POST", "core/serviceaccounts/default/token", {"spec": {"expirationSeconds": "x"}}),
        ("POST", "core/serviceaccounts/default/token", {"spec": {"audiences": "x"}}),
        ("POST", "core/serviceaccounts/default/token", {"spec": {"boundObjectRef": []}}),
        ("POST", "authn/tokenreviews", {"spec": []}),
        ("POST", "authn/tokenreviews", {"spec": {"token": 5}}),
        ("POST", "authz/subjectaccessreviews", {"spec": {"groups": "x"}}),
        ("POST", "authz/subjectaccessreviews", {"spec": {"extra": {"a": "b"}}}),
        ("POST", "authz/selfsubjectaccessreviews", {"spec": {"resourceAttributes": "x"}}),
        ("POST", "authz/selfsubjectrulesreviews", {"spec": {"namespace": 5}}),
    ],
    ids=str,
)
async def test_options_and_reviews_of_a_wrong_type_are_rejected(
    hub: Hub, method: str, target: str, body: dict[str, Any]
) -> None:
    short, _, rest = target.partition("/")
    answer = await ask(hub, method, f"{ROOTS[short]}/{rest}", body=body)
    assert answer.code in (400, 404, 422)


@pytest.mark.parametrize("body", [b"null", b"[]", b"5", b'"x"', b"true", b"", b" ", b"{", b"}"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_body_that_is_not_an_object_is_rejected(hub: Hub, method: str, body: bytes) -> None:
    target = MAPS.format("default") if method == "POST" else MAPS.format("default") + "/x"
    type_ = MERGE if method == "PATCH" else "application/json"
    answer = await ask(hub, method, target, body=body, type_=type_)
    assert answer.code in (400, 404, 422)


@pytest.mark.parametrize("name", ["a\r\nX-Forged: yes", "a\x00b", "\x7f", "é☃", "x" * 50_000, '"\\'])
async def test_warning_cannot_inject_a_header(hub: Hub, name: str) -> None:
    answer = await ask(
        hub, "POST", MAPS.format("default") + "?dryRun=All", body={"metadata": {"name": "x"}, name: 1}
    )
    assert answer.code == 201
    assert "x-forged" not in answer.headers
    assert answer.document["metadata"]["name"] == "x"


async def test_size_of_warnings_is_limited(hub: Hub) -> None:
    unknown = {f"k{number}": 1 for number in range(5_000)}
    target = MAPS.format("default") + "?dryRun=All"
    sent = request("POST", target, token=hub.tokens[ADMIN], body={"metadata": {"name": "x"}, **unknown})
    head = (await received(hub, sent)).partition(b"\r\n\r\n")[0]
    assert b"201 Created" in head
    assert head.count(b"Warning: 299") == 100
