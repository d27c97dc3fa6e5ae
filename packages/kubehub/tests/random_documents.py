"""Random documents of the built-in kinds, generated from their field tables, and a protobuf encoder for them."""

import base64
import struct
from datetime import datetime
from typing import Any

import msgspec
from hypothesis import strategies as st

from kubehub import builtin
from kubehub.builtin.shapes import DICTIONARY, LIST, MESSAGE, UNION, WRAPPED, Shape, Type
from kubehub.resource import Document

KINDS = tuple(
    builtin.kind(resource.group, resource.version, resource.kind) for resource in builtin.resources()
)

_TEXTS = st.sampled_from(["", "a", "kube-system", "ü"])
_FREE = st.sampled_from([{"a": 1}, {}, {"kind": "X", "b": [1, None, "c"]}])
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXTS,
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "double": st.floats(-1e20, 1e20),
    "bytes": st.binary(max_size=3).map(lambda raw: base64.b64encode(raw).decode()),
    "Time": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+02:00", "0001-01-01T00:00:00Z"]),
    "MicroTime": st.sampled_from(["2026-01-02T03:04:05.000006Z", "1969-12-31T23:59:59.999999-07:00"]),
    "Quantity": st.sampled_from(["1", "1000m", "0.5", "1024Mi", "2e3", 5, 1.5, "-1", "0"]),
    "IntOrString": st.sampled_from([0, 80, "http", "50%", ""]),
    "RawExtension": _FREE,
    "FieldsV1": _FREE,
    "JSON": st.sampled_from([1, "x", {"a": None}, [1], True]),
}


@st.composite
def documents(draw: st.DrawFn, made: Type | None = None) -> Document:
    """Generate an object as a client might write it: fields missing, empty and null, in any order."""
    chosen = made or draw(st.sampled_from(KINDS))
    api_version = f"{chosen.group}/{chosen.version}" if chosen.group else chosen.version
    return {"apiVersion": api_version, "kind": chosen.name} | _message(draw, chosen, 5)


def _message(draw: st.DrawFn, made: Type, depth: int) -> Document:
    names = [name for name in made.fields if not (made.kind and name in ("kind", "apiVersion"))]
    if depth <= 0 or not names:
        return {}
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=4))
    return {name: draw(st.none() | _value(made.fields[name].shape, depth - 1)) for name in chosen}


@st.composite
def _value(draw: st.DrawFn, shape: Shape, depth: int) -> Any:
    if shape.kind == MESSAGE:
        assert shape.type is not None
        return _message(draw, shape.type, depth)
    if shape.kind == UNION:
        assert shape.type is not None
        return draw(_value(draw(st.sampled_from(list(shape.type.fields.values()))).shape, depth))
    if shape.element is not None:
        values = _value(shape.element, depth - 1)
        few = 2 if depth > 0 else 0
        if shape.kind == DICTIONARY:
            return draw(st.dictionaries(_TEXTS, values, max_size=few))
        return draw(st.lists(values, max_size=few))
    return draw(_SCALARS[shape.kind])


def encoded(made: Type, document: Document) -> bytes:
    """Encode a canonical document as protobuf, as Kubernetes' generated code does."""
    api_version = f"{made.group}/{made.version}" if made.group else made.version
    meta = _bytes(1, api_version.encode()) + _bytes(2, made.name.encode())
    return b"k8s\x00" + _bytes(1, meta) + _bytes(2, encoded_message(made, document)) + _bytes(3, b"")


def encoded_message(made: Type, document: Document) -> bytes:
    parts = []
    for number, field in sorted(made.numbers.items()):
        if not field.name:
            assert field.shape.type is not None
            parts.append(_bytes(number, encoded_message(field.shape.type, document)))
        elif document.get(field.name) is not None:
            parts.append(_field(number, field.shape, document[field.name]))
    return b"".join(parts)


def _field(number: int, shape: Shape, value: Any) -> bytes:
    element = shape.element
    if shape.kind == LIST:
        assert element is not None
        return b"".join(_field(number, element, item) for item in value)
    if shape.kind == DICTIONARY:
        assert element is not None
        entries = (_bytes(1, key.encode()) + _field(2, element, item) for key, item in value.items())
        return b"".join(_bytes(number, entry) for entry in entries)
    if shape.kind in ("int32", "int64", "bool"):
        return _varint(number << 3) + _varint(int(value))
    if shape.kind == "double":
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    return _bytes(number, _content(shape, value))


def _content(shape: Shape, value: Any) -> bytes:
    match shape.kind:
        case "string":
            return str(value).encode()
        case "bytes":
            return base64.b64decode(value)
        case "Time" | "MicroTime":
            if value is None:
                return b""
            moment = datetime.fromisoformat(value)
            whole = int(moment.replace(microsecond=0).timestamp())
            return _varint(1 << 3) + _varint(whole) + _varint(2 << 3) + _varint(moment.microsecond * 1000)
        case "Quantity":
            return _bytes(1, str(value).encode())
        case "IntOrString":
            if isinstance(value, str):
                return _varint(1 << 3) + _varint(1) + _bytes(3, value.encode())
            return _varint(1 << 3) + _varint(0) + _varint(2 << 3) + _varint(value)
    if shape.kind == WRAPPED:
        assert shape.element is not None
        return b"".join(_field(1, shape.element, item) for item in value)
    if shape.kind == MESSAGE:
        assert shape.type is not None
        return encoded_message(shape.type, value)
    if shape.kind == UNION:
        assert shape.type is not None
        return _union(shape.type, value)
    return b"" if value is None else _bytes(1, msgspec.json.encode(value))


def _union(made: Type, value: Any) -> bytes:
    forms = {dict: "schema", bool: "allows", list: "schemas" if "schemas" in made.fields else "strings"}
    if value is None:
        return b""
    field = made.fields[forms[type(value)]]
    return _field(field.number, field.shape, value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
