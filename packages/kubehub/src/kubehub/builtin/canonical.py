"""Rewrite objects of built-in kinds as kube-apiserver encodes them.

kube-apiserver decodes a built-in object into a Go struct and encodes that again, so that unknown and empty fields
are dropped, fields without omitempty appear, times become UTC and quantities canonical. Clients see the result, and
what they compare (an apply, a hash, a diff) depends on it.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Final

from kubehub.builtin.rfc3339 import InstantError, micros, seconds
from kubehub.builtin.shapes import COLLECTIONS, DICTIONARY, MESSAGE, PLAIN, WRAPPED, Shape, Type
from kubehub.resource import Document
from kubehub.slicing import checkpoint
from kubewire.api.quantity import TOO_LONG, Quantity, QuantityError, SuffixError

NOT_A_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NOT_A_SUFFIX: Final = "unable to parse quantity's suffix"
NOT_A_SCHEMA: Final = "boolean or JSON schema expected"
NOT_BASE64: Final = "illegal base64 data at input byte"
TOO_DEEP: Final = "exceeded max depth"

_MAX_DEPTH: Final = 200
_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_MILLI: Final = -3
_WITHOUT_EXPONENT: Final = 1e21

_Step = str | int | tuple[str, str]
"""A path element together with its form in decoding errors, which omit map keys."""


class Malformed(ValueError):
    """The document isn't one of this kind; with kube-apiserver's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    document: Document
    unknown: tuple[str, ...]
    """The paths of unknown fields, such as ``spec.containers[0].foo``."""


def canonical(type_: Type, document: Document) -> Canonical:
    """Return a new document, which may share free-form parts with the given one. Raises Malformed."""
    walk = _Walk()
    result = walk.message(type_, document)
    if walk.fault is not None:
        raise walk.fault
    return Canonical(document=result, unknown=tuple(walk.unknown))


def zero_value(shape: Shape) -> Any:
    """The encoding of a required field without a value."""
    if shape.kind == MESSAGE:
        assert shape.type is not None
        return encode_fields(shape.type, {})
    if shape.kind in PLAIN:
        return PLAIN[shape.kind]
    return {"Quantity": "0", "IntOrString": 0}.get(shape.kind)


def encode_fields(type_: Type, values: Document) -> Document:
    """Encode an object: in order, without empty fields, with those that are always encoded."""
    result: Document = {}
    for name, field in type_.fields.items():
        value = values.get(name)
        if value or (value is not None and field.pointer):
            result[name] = value
        elif value is None or field.shape.kind in COLLECTIONS:
            if field.shown:
                result[name] = None if field.pointer else zero_value(field.shape)
        elif field.shown:
            result[name] = value
    return result


class _Walk:
    """Types with their own decoder end the walk at their first error. A plain type mismatch is reported only if
    there is no such error."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.fault: Malformed | None = None
        self._path: list[_Step] = []
        self._struct = ""

    def message(self, type_: Type, document: Document) -> Document:
        path, fields = self._path, type_.fields
        outer, self._struct = self._struct, type_.name
        if len(path) > _MAX_DEPTH:
            raise Malformed(TOO_DEEP)
        values: Document = {}
        for name, value in document.items():
            field = fields.get(name)
            if field is None:
                self.unknown.append(self._place(name))
            elif value.__class__ is str and field.shape.kind == "string":
                values[name] = value
            elif value is not None:
                path.append((name, f"{type_.embedded[name]}.{name}") if name in type_.embedded else name)
                values[name] = self._value(field.shape, value)
                path.pop()
        self._struct = outer
        return encode_fields(type_, values)

    def _value(self, shape: Shape, value: Any) -> Any:
        kind = shape.kind
        if kind == "string":
            if value.__class__ is str:
                return value
        elif kind == MESSAGE:
            if isinstance(value, dict):
                assert shape.type is not None
                return self.message(shape.type, value)
        elif kind == DICTIONARY:
            if isinstance(value, dict):
                return self._dictionary(shape, value)
        elif kind in COLLECTIONS:
            if isinstance(value, list):
                return self._list(shape, value)
        elif kind == "bool":
            if isinstance(value, bool):
                return value
        elif kind in _LIMITS:
            if _is_integer(value, _LIMITS[kind]):
                return value
        elif kind == "double":
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return int(value) if abs(value) < _WITHOUT_EXPONENT and value == int(value) else float(value)
        elif kind == "bytes":
            if isinstance(value, str):
                return self._bytes(value)
        else:
            return self._special(shape, value)
        self._add_fault(self._mismatch(shape.go, value))
        return None

    def _element(self, shape: Shape, value: Any) -> Any:
        if value is not None:
            return self._value(shape, value)
        return "" if shape.kind == "bytes" else [] if shape.kind == WRAPPED else zero_value(shape)

    def _list(self, shape: Shape, value: list[Any]) -> list[Any]:
        assert shape.element is not None
        path, result = self._path, []
        for index, item in enumerate(value):
            checkpoint()
            path.append(index)
            result.append(self._element(shape.element, item))
            path.pop()
        return result

    def _dictionary(self, shape: Shape, value: Document) -> Document:
        """Sorted, as kube-apiserver encodes maps."""
        assert shape.element is not None
        path, result = self._path, {}
        # Maps of quantities are resource lists, which kube-apiserver rounds up to thousandths.
        amounts = shape.element.kind == "Quantity"
        for key, item in value.items():
            checkpoint()
            path.append((key, ""))
            if amounts and item is not None:
                result[key] = _quantity(item, power=_MILLI)
            else:
                result[key] = self._element(shape.element, item)
            path.pop()
        return dict(sorted(result.items()))

    def _bytes(self, value: str) -> str | None:
        text = value.replace("\n", "").replace("\r", "")
        try:
            return base64.b64encode(base64.b64decode(text, validate=True)).decode()
        except (binascii.Error, ValueError):
            self._add_fault(Malformed(f"{NOT_BASE64} {_first_illegal(text)}"))
            return None

    def _special(self, shape: Shape, value: Any) -> Any:
        kind = shape.kind
        if kind == "Time" or kind == "MicroTime":
            if not isinstance(value, str):
                raise self._mismatch("string", value)
            try:
                return seconds(value) if kind == "Time" else micros(value)
            except InstantError as fault:
                raise Malformed(str(fault)) from fault
        if kind == "Quantity":
            return _quantity(value)
        if kind == "IntOrString":
            if isinstance(value, str) or _is_integer(value, _LIMITS["int32"]):
                return value
            raise self._mismatch("int32", value)
        return self._union(shape.type, value) if shape.type is not None else value

    def _union(self, type_: Type, value: Any) -> Any:
        for field in type_.fields.values():
            accepted = {MESSAGE: dict, "bool": bool}.get(field.shape.kind, list)
            if isinstance(value, accepted):
                inner = _Walk()
                inner._path, inner._struct = self._path, self._struct
                converted = inner._value(field.shape, value)
                if inner.fault is not None:
                    raise inner.fault
                # Unknown fields in there are dropped, but not reported, as in kube-apiserver.
                return None if converted == [] else converted
        if "allows" in type_.fields:
            raise Malformed(NOT_A_SCHEMA)
        return None

    def _place(self, name: str) -> str:
        text = ""
        for step in (*self._path, name):
            text += f"[{step}]" if isinstance(step, int) else f".{step if isinstance(step, str) else step[0]}"
        return text[1:]

    def _add_fault(self, fault: Malformed) -> None:
        if self.fault is None:
            self.fault = fault

    def _mismatch(self, go: str, value: Any) -> Malformed:
        word = _json_type(value)
        if word == "number" and go in _LIMITS:
            word = f"number {value}"
        names = (
            step if isinstance(step, str) else step[1] for step in self._path if not isinstance(step, int)
        )
        path = ".".join(filter(None, names))
        return Malformed(
            f"json: cannot unmarshal {word} into Go struct field {self._struct}.{path} of type {go}"
        )


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _is_integer(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _quantity(value: Any, *, power: int | None = None) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Malformed(NOT_A_QUANTITY)
    try:
        quantity = Quantity.parse(value.strip(" ") if isinstance(value, str) else value)
        return str(quantity if power is None else quantity.rounded_up(power))
    except QuantityError as fault:
        raise Malformed(quantity_fault(fault)) from fault


def quantity_fault(fault: QuantityError) -> str:
    """Return kube-apiserver's message for an invalid quantity; it has none for one that is too long."""
    if TOO_LONG in str(fault):
        return f"a quantity {TOO_LONG}"
    return NOT_A_SUFFIX if isinstance(fault, SuffixError) else NOT_A_QUANTITY


def _first_illegal(text: str) -> int:
    """Return the offset of the first invalid base64 character."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for index, character in enumerate(text):
        if character not in alphabet:
            return index
    return len(text) // 4 * 4
