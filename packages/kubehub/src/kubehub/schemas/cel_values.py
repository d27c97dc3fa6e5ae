"""Convert JSON values to CEL values.

Most are used unchanged. Converted are times, durations and bytes, integers declared as number, sets and maps
declared as lists, and fields whose names need escaping.
"""

import binascii
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from kubecel.containers import Keyed
from kubecel.errors import Failure
from kubecel.instants import parse_timestamp
from kubecel.scalars import Duration
from kubehub.schema import ARRAY, MAP, OBJECT, SET, Node
from kubehub.schemas.cel_escaping import SELECTABLE, escape
from kubehub.schemas.formats import parse_duration

Convert = Callable[[Any], Any]


def converter(node: Node) -> Convert | None:
    """Return None if values are used unchanged."""
    if node.int_or_string:
        return None
    match node.type:
        case "object":
            return _object(node)
        case "array":
            return _list(node)
        case "string":
            return _TEXTS.get(node.raw.get("format") or "")
        case "number":
            return _fraction
    return None


def _object(node: Node) -> Convert | None:
    if node.properties:
        inner = {key: converter(child) for key, child in node.properties.items()}
        names: dict[str, str] = {key: escape(key) or key for key in node.properties}
        plain = all(convert_child is None for convert_child in inner.values()) and all(
            key == name for key, name in names.items()
        )
        if plain and not any(child.nullable for child in node.properties.values()):
            return None

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                return value
            out: dict[str, Any] = {}
            for key, child in value.items():
                convert_child = inner.get(key)
                # A null field counts as absent.
                if child is not None or key not in names:
                    name: Any = names.get(key, key)
                    out[name] = child if convert_child is None else convert_child(child)
                    if key in SELECTABLE:
                        out[key] = out[name]
            return out

        return convert
    entry = converter(node.additional) if node.additional is not None else None
    if entry is None:
        return None
    convert_entry = entry

    def convert_map(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {key: child if child is None else convert_entry(child) for key, child in value.items()}

    return convert_map


def _list(node: Node) -> Convert | None:
    convert_item = converter(node.items) if node.items is not None else None
    keyed = node.list_type in (SET, MAP) and node.items is not None and node.items.type not in ("", ARRAY)
    keyed = keyed and (node.list_type == MAP or (node.items is not None and node.items.type != OBJECT))
    if convert_item is None and not keyed:
        return None
    names = tuple(escape(key) or key for key in node.list_keys)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            return value
        items = (
            value
            if convert_item is None
            else [item if item is None else convert_item(item) for item in value]
        )
        return Keyed(items, names) if keyed else items

    return convert


def _fraction(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _duration(value: Any) -> Any:
    nanos = parse_duration(value) if isinstance(value, str) else None
    return value if nanos is None else Duration(nanos)


def _time(value: Any) -> Any:
    return _parse(value, value.upper()) if isinstance(value, str) else value


def _date(value: Any) -> Any:
    return _parse(value, f"{value}T00:00:00Z") if isinstance(value, str) else value


def _parse(value: str, text: str) -> Any:
    try:
        return parse_timestamp(text) or parse_timestamp(f"{text}Z") or value
    except Failure:
        return value


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return value


_TEXTS = {"duration": _duration, "date": _date, "date-time": _time, "byte": _bytes}
