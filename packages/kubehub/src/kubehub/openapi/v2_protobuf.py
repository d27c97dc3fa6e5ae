"""OpenAPI v2 in protobuf, the only encoding in which kubectl requests it.

kubectl uses v2 for what v3 can't answer: a ``List`` in a file, and kinds that aren't served. A message is a table
of its fields: name in JSON, number in protobuf, and encoding. ``*`` stands for all other names, ``=`` for a message
that only wraps its content. Names that start with ``x-`` are extensions and encoded as YAML, of which JSON is a
subset.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kubehub.resource import Document

MEDIA: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED: Final = ("proto-openapi.spec.v2@v1.0+protobuf", "proto-openapi.spec.v2.v1.0+protobuf")
"""The media types that clients send: the older one is no valid media type, but more frequent."""

_VARINT, _FIXED, _BYTES = 0, 1, 2
_EXTENSION: Final = "x-"

_VALUE: Final = "type 5 text, format 6 text, default 9 any, uniqueItems 19 flag"
_MESSAGES: Final = {
    "Document": "swagger 1 text, info 2 Info, paths 8 Paths, definitions 9 Definitions, security 12 each Requirement,"
    " securityDefinitions 13 Securities, x- 16",
    "Info": "title 1 text, version 2 text, description 3 text, x- 7",
    "Paths": "* 2 named PathItem, x- 1",
    "PathItem": "get 2 Operation, put 3 Operation, post 4 Operation, delete 5 Operation, options 6 Operation,"
    " head 7 Operation, patch 8 Operation, parameters 9 each Parameter, x- 10",
    "Operation": "tags 1 each text, summary 2 text, description 3 text, operationId 5 text, produces 6 each text,"
    " consumes 7 each text, parameters 8 each Parameter, responses 9 Responses, schemes 10 each text,"
    " deprecated 11 flag, security 12 each Requirement, x- 13",
    "Responses": "* 1 named ResponseValue, x- 2",
    "ResponseValue": "= 1 Response",
    "Response": "description 1 text, schema 2 SchemaItem, x- 5",
    "SchemaItem": "= 1 Schema",
    "Parameter": "= 1 AnyParameter",
    "BodyParameter": "description 1 text, name 2 text, in 3 text, required 4 flag, schema 5 Schema, x- 6",
    "PathParameter": f"required 1 flag, in 2 text, description 3 text, name 4 text, {_VALUE}, x- 22",
    "QueryParameter": "required 1 flag, in 2 text, description 3 text, name 4 text, allowEmptyValue 5 flag,"
    " type 6 text, format 7 text, default 10 any, uniqueItems 20 flag, x- 23",
    "HeaderParameter": f"required 1 flag, in 2 text, description 3 text, name 4 text, {_VALUE}, x- 22",
    "Definitions": "* 1 named Schema",
    "Schema": "$ref 1 text, format 2 text, title 3 text, description 4 text, default 5 any, multipleOf 6 real,"
    " maximum 7 real, exclusiveMaximum 8 flag, minimum 9 real, exclusiveMinimum 10 flag, maxLength 11 whole,"
    " minLength 12 whole, pattern 13 text, maxItems 14 whole, minItems 15 whole, uniqueItems 16 flag,"
    " maxProperties 17 whole, minProperties 18 whole, required 19 each text, enum 20 each any,"
    " additionalProperties 21 Additional, type 22 Type, items 23 Items, allOf 24 each Schema,"
    " properties 25 Definitions, readOnly 27 flag, externalDocs 29 Documentation, example 30 any, x- 31",
    "Items": "= 1 Schema",
    "Documentation": "description 1 text, url 2 text, x- 3",
    "Requirement": "* 1 named Texts",
    "Texts": "= 1 each text",
    "Securities": "* 1 named Security",
    "Security": "= 2 ApiKey",
    "ApiKey": "type 1 text, name 2 text, in 3 text, description 4 text, x- 5",
}

_Writer = Callable[[int, Any], bytes]


def encode(document: Document) -> bytes:
    """Encode the whole document, as ``MEDIA``."""
    return _encode_message("Document", document)


def _encode_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _frame(number: int, payload: bytes) -> bytes:
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(payload)) + payload


def _encode_text(number: int, value: str) -> bytes:
    return _frame(number, value.encode())


def _encode_bool(number: int, value: bool) -> bytes:
    return _encode_varint(number << 3 | _VARINT) + _encode_varint(value)


def _encode_integer(number: int, value: int) -> bytes:
    return _encode_varint(number << 3 | _VARINT) + _encode_varint(value & (1 << 64) - 1)


def _encode_double(number: int, value: float) -> bytes:
    return _encode_varint(number << 3 | _FIXED) + struct.pack("<d", value)


def _encode_any(number: int, value: Any) -> bytes:
    return _frame(number, _frame(2, msgspec.json.encode(value)))


def _encode_entry(number: int, name: str, value: bytes) -> bytes:
    return _frame(number, _encode_text(1, name) + value)


def _encode_additional(number: int, value: bool | Document) -> bytes:
    inner = _encode_bool(2, value) if isinstance(value, bool) else _frame(1, _encode_message("Schema", value))
    return _frame(number, inner)


def _encode_types(number: int, value: str | list[str]) -> bytes:
    types = [value] if isinstance(value, str) else value
    return _frame(number, b"".join(_encode_text(1, text) for text in types))


def _encode_parameter(number: int, value: Document) -> bytes:
    if value["in"] == "body":
        return _frame(number, _frame(1, _encode_message("BodyParameter", value)))
    place, name = {
        "header": (1, "HeaderParameter"),
        "query": (3, "QueryParameter"),
        "path": (4, "PathParameter"),
    }[value["in"]]
    return _frame(number, _frame(2, _frame(place, _encode_message(name, value))))


_WRITERS: Final[Mapping[str, _Writer]] = {
    "text": _encode_text,
    "flag": _encode_bool,
    "whole": _encode_integer,
    "real": _encode_double,
    "any": _encode_any,
    "Additional": _encode_additional,
    "Type": _encode_types,
    "AnyParameter": _encode_parameter,
}


def _writer(words: list[str]) -> _Writer:
    if words[0] == "each":
        one = _writer(words[1:])
        return lambda number, values: b"".join(one(number, value) for value in values)
    if words[0] == "named":
        one = _writer(words[1:])
        return lambda number, values: b"".join(
            _encode_entry(number, name, one(2, value)) for name, value in values.items()
        )
    name = words[0]
    return _WRITERS.get(name) or (lambda number, value: _frame(number, _encode_message(name, value)))


def _table(text: str) -> Mapping[str, tuple[int, _Writer]]:
    rows = (row.split() for row in text.split(", "))
    return {row[0]: (int(row[1]), _writer(row[2:] or ["any"])) for row in rows}


_TABLES: Final = {name: _table(text) for name, text in _MESSAGES.items()}


def _encode_message(name: str, value: Any) -> bytes:
    table = _TABLES[name]
    if "=" in table:
        number, write = table["="]
        return write(number, value)
    parts = []
    rest: Document = {}
    for key, child in value.items():
        row = table.get(key)
        if row is not None:
            parts.append(row[1](row[0], child))
        elif _EXTENSION in table and key.startswith(_EXTENSION):
            parts.append(_encode_entry(table[_EXTENSION][0], key, _encode_any(2, child)))
        else:
            rest[key] = child
    if rest and "*" in table:
        number, write = table["*"]
        parts.append(write(number, rest))
    return b"".join(parts)
