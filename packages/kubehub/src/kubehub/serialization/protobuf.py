"""Decode protobuf bodies of the built-in kinds into the documents that JSON gives.

client-go and kubectl's typed commands send protobuf and don't fall back when it is refused. The field tables have
the numbers and types. The hub sends no protobuf: every client that accepts it accepts JSON as well.
"""

import base64
import struct
from typing import Any, Final

import msgspec

from kubehub import builtin, status
from kubehub.budget import Budget, Exhausted
from kubehub.builtin.canonical import encode_fields, quantity_fault, zero_value
from kubehub.builtin.rfc3339 import InstantError, micros_of, seconds_of
from kubehub.builtin.shapes import DICTIONARY, LIST, MESSAGE, UNION, WRAPPED, Field, Shape, Type
from kubehub.json_decoder import decode_value as _json
from kubehub.resource import Document
from kubewire.api.quantity import Quantity, QuantityError

MAGIC: Final = b"k8s\x00"

# kube-apiserver's messages.
NOT_PROTOBUF: Final = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
CUT_OFF: Final = "unexpected EOF"
OVERFLOW: Final = "proto: integer overflow"
WRONG_WIRE_TYPE: Final = "proto: wrong wireType = {0} for field {1}"
ILLEGAL_TAG: Final = "proto: illegal tag {0} (wire type {1})"
ILLEGAL_WIRE_TYPE: Final = "proto: illegal wireType {0}"
NOT_REGISTERED: Final = 'no kind "{0}" is registered for version "{1}" in scheme "pkg/runtime/scheme.go:111"'
# Our messages: kube-apiserver has no such limits, or detects them later.
TOO_DEEP: Final = "exceeded max depth"
TOO_MANY_FIELDS: Final = "exceeded max number of fields"
NOT_JSON: Final = "a free-form value is not JSON: {0}"

_MAX_DEPTH: Final = 100
_MAX_FIELDS: Final = 100_000
"""At all levels. A field can be as short as two bytes, and takes far longer to decode than to send."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SHOWN_BYTES: Final = 30
_SCALAR_WIRE_TYPES: Final = {"int32": _VARINT, "int64": _VARINT, "bool": _VARINT, "double": _FIXED64}
_LAYOUTS: Final = {
    "Time": {1: _VARINT, 2: _VARINT},
    "MicroTime": {1: _VARINT, 2: _VARINT},
    "Quantity": {1: _BYTES},
    "IntOrString": {1: _VARINT, 2: _VARINT, 3: _BYTES},
}
_FREE_FORM: Final = {1: _BYTES}


class _Malformed(ValueError):
    """The bytes are not a message of the type."""


_fields: Final = Budget(_MAX_FIELDS)
"""The budget of the body that is being decoded, without awaiting."""


def decode(raw: bytes, *, group: str = "", version: str = "v1", kind: str = "") -> Document:
    """Decode the object of a body. ``kind`` applies if the body doesn't contain one.

    Raises a 400 with kube-apiserver's message.
    """
    told_version, told_kind = "", ""
    _fields.renew()
    try:
        if not raw.startswith(MAGIC):
            raise _Malformed(NOT_PROTOBUF)
        told_version, told_kind, data = _decode_envelope(memoryview(raw)[len(MAGIC) :])
        expected_version = f"{group}/{version}" if group else version
        api_version, name = told_version or expected_version, told_kind or kind
        told_group, _, short = api_version.rpartition("/")
        try:
            type_ = builtin.kind(told_group, short, name)
        except KeyError:
            raise _Malformed(NOT_REGISTERED.format(name, api_version)) from None
        document = _decode_message(type_, data, 0)
    except (_Malformed, Exhausted) as error:
        fault = TOO_MANY_FIELDS if isinstance(error, Exhausted) else error
        if told_kind:
            short = told_version.rpartition("/")[2]
            message = f'{told_kind} in version "{short}" cannot be handled as a {kind or told_kind}: {fault}'
        else:
            message = f"the object provided is unrecognized (must be of type {kind}): {fault} ({_format_bytes(raw)})"
        raise status.bad_request(message) from error
    return {"kind": name, "apiVersion": api_version} | document


def _format_bytes(raw: bytes) -> str:
    if not raw:
        return "<empty>"
    return raw[:_SHOWN_BYTES].hex() + (" ..." if len(raw) > _SHOWN_BYTES else "")


def _decode_envelope(data: memoryview) -> tuple[str, str, memoryview]:
    """Decode a ``runtime.Unknown``: the object's API version and kind, and the object."""
    version, kind, body = "", "", memoryview(b"")
    for number, wire_type, value in _split_fields(data):
        if number in (1, 2) and wire_type != _BYTES:
            raise _Malformed(WRONG_WIRE_TYPE.format(wire_type, "TypeMeta" if number == 1 else "Raw"))
        if number == 1:
            for inner, inner_type, text in _split_fields(value):
                if inner in (1, 2) and inner_type != _BYTES:
                    raise _Malformed(
                        WRONG_WIRE_TYPE.format(inner_type, "APIVersion" if inner == 1 else "Kind")
                    )
                if inner == 1:
                    version = _text(text)
                elif inner == 2:
                    kind = _text(text)
        elif number == 2:
            body = value
    return version, kind, body


def _split_fields(data: memoryview) -> "list[tuple[int, int, Any]]":
    """List field number, wire type and value: an unsigned integer or a view of the bytes."""
    fields: list[tuple[int, int, Any]] = []
    position, end = 0, len(data)
    while position < end:
        tag, position = _decode_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise _Malformed(ILLEGAL_TAG.format(number, wire_type))
        value: Any
        if wire_type == _VARINT:
            value, position = _decode_varint(data, position)
        elif wire_type == _BYTES:
            length, position = _decode_varint(data, position)
            value = data[position : position + length]
            position += length
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
            value = data[position : position + length]
            position += length
        else:
            raise _Malformed(ILLEGAL_WIRE_TYPE.format(wire_type))
        if position > end:
            raise _Malformed(CUT_OFF)
        _fields.spend(1)
        fields.append((number, wire_type, value))
    return fields


def _decode_varint(data: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    end = len(data)
    while position < end:
        byte = data[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift >= 64:
            raise _Malformed(OVERFLOW)
    raise _Malformed(CUT_OFF)


def _decode_message(type_: Type, data: memoryview, depth: int) -> Document:
    values: Document = {}
    _add_fields(type_, data, values, depth)
    for name, value in values.items():
        if type_.fields[name].shape.kind == DICTIONARY:
            values[name] = dict(sorted(value.items()))
    return encode_fields(type_, values)


def _add_fields(type_: Type, data: memoryview, values: Document, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _Malformed(TOO_DEEP)
    for number, wire_type, value in _split_fields(data):
        field = type_.numbers.get(number)
        if field is None:
            continue
        shape = field.shape
        if not field.name:
            assert shape.type is not None
            _add_fields(shape.type, _expect(_BYTES, wire_type, value, shape.type.name), values, depth + 1)
        elif shape.kind == LIST:
            assert shape.element is not None
            values.setdefault(field.name, []).extend(_items(field, shape.element, wire_type, value, depth))
        elif shape.kind == DICTIONARY:
            key, item = _decode_entry(field, wire_type, value, depth)
            values.setdefault(field.name, {})[key] = item
        else:
            values[field.name] = _decode_value(field, shape, wire_type, value, depth)


def _items(field: Field, shape: Shape, wire_type: int, value: Any, depth: int) -> list[Any]:
    if wire_type == _BYTES and _SCALAR_WIRE_TYPES.get(shape.kind) == _VARINT:
        packed, position = [], 0
        while position < len(value):
            number, position = _decode_varint(value, position)
            _fields.spend(1)
            packed.append(_decode_value(field, shape, _VARINT, number, depth))
        return packed
    return [_decode_value(field, shape, wire_type, value, depth)]


def _decode_entry(field: Field, wire_type: int, value: Any, depth: int) -> tuple[str, Any]:
    shape = field.shape.element
    assert shape is not None
    key, decoded = "", None
    for number, inner_type, inner in _split_fields(_expect(_BYTES, wire_type, value, field.name)):
        if number == 1:
            key = _text(_expect(_BYTES, inner_type, inner, field.name))
        elif number == 2:
            decoded = _decode_value(field, shape, inner_type, inner, depth)
    if decoded is None and shape.kind not in (UNION, "JSON"):
        decoded = "" if shape.kind == "bytes" else [] if shape.kind == WRAPPED else zero_value(shape)
    return key, decoded


def _decode_value(field: Field, shape: Shape, wire_type: int, value: Any, depth: int) -> Any:
    kind = shape.kind
    _expect(_SCALAR_WIRE_TYPES.get(kind, _BYTES), wire_type, value, field.name)
    if kind == "string":
        return _text(value)
    if kind == MESSAGE:
        assert shape.type is not None
        return _decode_message(shape.type, value, depth + 1)
    if kind == "bool":
        return value != 0
    if kind == "int32":
        return _signed(value & 0xFFFF_FFFF, 32)
    if kind == "int64":
        return _signed(value, 64)
    if kind == "double":
        number = struct.unpack("<d", value)[0]
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == UNION:
        assert shape.type is not None
        return _decode_union(shape.type, value, depth + 1)
    if kind == WRAPPED:
        assert shape.element is not None
        return [
            _decode_value(field, shape.element, inner_type, inner, depth)
            for number, inner_type, inner in _split_fields(value)
            if number == 1
        ]
    return _decode_special(kind, value)


def _decode_special(kind: str, data: memoryview) -> Any:
    layout = _LAYOUTS.get(kind, _FREE_FORM)
    parts = {
        number: _expect(layout[number], wire_type, value, kind)
        for number, wire_type, value in _split_fields(data)
        if number in layout
    }
    try:
        if kind == "Time" or kind == "MicroTime":
            since, nanos = _signed(parts.get(1, 0), 64), _signed(parts.get(2, 0) & 0xFFFF_FFFF, 32)
            if not since and not nanos:
                return None
            return seconds_of(since) if kind == "Time" else micros_of(since, nanos)
        if kind == "Quantity":
            return str(Quantity.parse(_text(parts.get(1, b"0"))))
        if kind == "IntOrString":
            return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0) & 0xFFFF_FFFF, 32)
        raw = parts.get(1)
        return None if raw is None else _json(raw)
    except QuantityError as fault:
        raise _Malformed(quantity_fault(fault)) from fault
    except InstantError as fault:
        raise _Malformed(str(fault)) from fault
    except (msgspec.DecodeError, RecursionError) as fault:
        raise _Malformed(NOT_JSON.format(fault)) from fault


def _decode_union(type_: Type, data: memoryview, depth: int) -> Any:
    values: Document = {}
    _add_fields(type_, data, values, depth)
    for listed in ("schemas", "strings"):
        if values.get(listed):
            return values[listed]
    return (
        values["schema"]
        if "schema" in values
        else values.get("allows", False if "allows" in type_.fields else None)
    )


def _expect(wanted: int, wire_type: int, value: Any, name: str) -> Any:
    if wire_type != wanted:
        raise _Malformed(WRONG_WIRE_TYPE.format(wire_type, name[:1].upper() + name[1:]))
    return value


def _text(value: "memoryview | bytes") -> str:
    return str(value, "utf-8", "replace")


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
