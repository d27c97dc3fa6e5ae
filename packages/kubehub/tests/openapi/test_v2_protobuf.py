"""OpenAPI v2 in protobuf. The client suite shows that kubectl can decode all of it."""

import pytest

from kubehub import builtin
from kubehub.openapi import documents, v2_protobuf

PLAIN = {"swagger": "2.0", "info": {"title": "K", "version": "1"}}
LIST = {"definitions": {"a": {"type": "array", "items": {"$ref": "b"}}}}
VALUES = {"definitions": {"a": {"minimum": 0, "maxLength": 300, "readOnly": True, "default": {}}}}
EXTENSIONS = {"definitions": {"a": {"properties": {"x-b": {}}, "x-c": 1}}}
PATHS = {
    "paths": {
        "/a": {
            "get": {
                "parameters": [{"name": "n", "in": "query", "type": "string"}],
                "responses": {"200": {"schema": {"$ref": "b"}}},
            }
        }
    }
}
SECURITY = {"security": [{"k": []}], "securityDefinitions": {"k": {"type": "apiKey"}}}


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(PLAIN, b"\n\x032.0\x12\x06\n\x01K\x12\x011", id="plain"),
        pytest.param(
            LIST,
            b"J\x19\n\x17\n\x01a\x12\x12" + b"\xb2\x01\x07\n\x05array" + b"\xba\x01\x05\n\x03\n\x01b",
            id="types and items are wrapped once more",
        ),
        pytest.param(
            VALUES,
            b"J\x1c\n\x1a\n\x01a\x12\x15I" + bytes(8) + b"X\xac\x02" + b"\xd8\x01\x01" + b"*\x04\x12\x02{}",
            id="numbers, flags and what may be anything",
        ),
        pytest.param(
            EXTENSIONS,
            b"J \n\x1e\n\x01a\x12\x19"
            + b"\xca\x01\t\n\x07\n\x03x-b\x12\x00"
            + b"\xfa\x01\n\n\x03x-c\x12\x03\x12\x011",
            id="a property may be called like an extension",
        ),
        pytest.param(
            PATHS,
            b"B8\x126\n\x02/a\x120\x12."
            + b'B\x18\n\x16\x12\x14\x1a\x12"\x01n\x12\x05query2\x06string'
            + b"J\x12\n\x10\n\x03200\x12\t\n\x07\x12\x05\n\x03\n\x01b",
            id="parameters by their place",
        ),
        pytest.param(
            SECURITY,
            b"b\x07\n\x05\n\x01k\x12\x00" + b"j\x11\n\x0f\n\x01k\x12\n\x12\x08\n\x06apiKey",
            id="security",
        ),
    ],
)
def test_openapi_v2_protobuf_encodes_every_field(document: dict[str, object], wanted: bytes) -> None:
    assert v2_protobuf.encode(document) == wanted


def test_everything_served_can_be_written() -> None:
    resources = list(builtin.resources())
    written = v2_protobuf.encode(documents.swagger(resources))
    assert all(resource.kind.encode() in written for resource in resources)
    assert b"fieldValidation" in written
