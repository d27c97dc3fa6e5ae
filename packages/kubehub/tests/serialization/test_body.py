"""Request bodies: decoding, and the limits on size, depth and values."""

import json

import pytest

from kubehub.serialization import body
from kubehub.status import Refusal


def read(raw: bytes, content_type: str = "application/json") -> object:
    return body.document(raw, content_type, group="", version="v1", kind="ConfigMap")


def test_body_decodes_json_yaml_and_empty() -> None:
    assert read(b'{"a": [1, "x"]}') == {"a": [1, "x"]}
    assert read(b"a:\n- 1\n- x\n", "application/yaml") == {"a": [1, "x"]}
    assert read(b'{"a": 1}', "application/yaml") == {"a": 1}
    assert read(b"") == {}


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        (b"{", "application/json"),
        (b"[1]", "application/json"),
        (b'"text"', "application/json"),
        (b'{"a": "\xff"}', "application/json"),
        (b"a: [", "application/yaml"),
        (b"!!python/object/apply:os.system ['true']", "application/yaml"),
        (b"k8s\x00\xff\xff\xff", "application/vnd.kubernetes.protobuf"),
        (b"no magic", "application/vnd.kubernetes.protobuf"),
    ],
)
def test_unreadable_body_is_a_bad_request(raw: bytes, content_type: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(raw, content_type)
    assert refused.value.code == 400


def test_body_nesting_is_bounded() -> None:
    deepest = b'{"a":' + b"[" * (body.DEPTH - 1) + b"]" * (body.DEPTH - 1) + b"}"
    assert read(deepest)
    with pytest.raises(Refusal):
        read(b'{"a":' + b"[" * body.DEPTH + b"]" * body.DEPTH + b"}")
    with pytest.raises(Refusal):
        read(b"[" * 100_000)
    # Brackets in strings don't nest.
    assert read(json.dumps({"a": "[" * 10_000, "b": ["{", '"['] * 500}).encode())


def test_yaml_aliases_are_counted_in_full() -> None:
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9) if i else 'x'}]" for i in range(9))
    with pytest.raises(Refusal):
        read(levels.encode(), "application/yaml")


def test_duplicate_keys_are_found() -> None:
    assert body.duplicates(b'{"a": 1, "b": {"c": 1, "c": 2}, "d": [{"e": 1, "e": 1}], "a": 2}') == [
        "a",
        "b.c",
        "d[0].e",
    ]
    assert body.duplicates(b'{"a": {"a": 1}}') == []
