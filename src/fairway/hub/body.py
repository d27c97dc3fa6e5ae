"""Request bodies: JSON, YAML or protobuf into one document, within limits."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import yaml

from fairway.hub import protobuf, status
from fairway.hub.resource import Document

LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a request body; as kube-apiserver's."""
DEPTH: Final = 256
"""Levels of nesting. The deepest published definitions have some sixty."""

_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)

_decode = msgspec.json.Decoder().decode


def _too_deep() -> status.Refusal:
    return status.bad_request(f"the body nests deeper than {DEPTH} levels")


def check_depth(raw: bytes) -> None:
    """Raises a 400; bodies with few brackets pass at the cost of counting them."""
    if raw.count(b"{") + raw.count(b"[") <= DEPTH:
        return
    depth = 0
    for token in _STRUCTURE.finditer(raw):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
            if depth > DEPTH:
                raise _too_deep()
        elif mark in (b"}", b"]"):
            depth -= 1


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def value(raw: bytes, content_type: str) -> Any:
    """Any JSON or YAML value. Raises a 400 or a 415."""
    media = media_type(content_type)
    if media in ("application/yaml", "text/yaml", "application/apply-patch+yaml") and raw[:1] not in (
        b"{",
        b"[",
    ):
        return _yaml(raw)
    check_depth(raw)
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def document(raw: bytes, content_type: str, *, group: str, version: str, kind: str) -> Document:
    """An object of that kind, unless it says otherwise. A body without a type is JSON."""
    if not raw:
        return {}
    if media_type(content_type) == "application/vnd.kubernetes.protobuf":
        return protobuf.decode(raw, group=group, version=version, kind=kind)
    found = value(raw, content_type)
    if not isinstance(found, dict):
        raise status.bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_go_name(found)} into Go value of type struct"
        )
    return found


def _go_name(found: object) -> str:
    return {list: "array", str: "string", bool: "bool", int: "number", float: "number"}.get(
        type(found), "null"
    )


def _yaml(raw: bytes) -> Any:
    if raw.count(b"&") and raw.count(b"*") > 100:
        raise status.bad_request("the YAML body uses too many aliases; write the values out")
    try:
        found = yaml.load(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        encoded = msgspec.json.encode(found)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        told = str(error).replace("\n", " ")
        raise status.bad_request(f"error converting YAML to JSON: {told}") from error
    if len(encoded) > LIMIT:
        raise status.too_large(f"the body holds more than {LIMIT} bytes once its aliases are written out")
    check_depth(encoded)
    return _decode(encoded)


def duplicates(raw: bytes) -> list[str]:
    """Dotted paths of keys that occur twice in an object; what strict field validation refuses."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> Any:
        keys = [key for key, _ in pairs]
        repeated = (
            [key for key in dict.fromkeys(keys) if keys.count(key) > 1] if len(set(keys)) < len(keys) else []
        )
        return _Node(dict(pairs), repeated)

    try:
        tree = json.loads(raw, object_pairs_hook=collect)
    except (ValueError, RecursionError):
        return []
    _walk(tree, "", found.append)
    return found


class _Node:
    __slots__ = ("fields", "repeated")

    def __init__(self, fields: dict[str, Any], repeated: list[str]) -> None:
        self.fields, self.repeated = fields, repeated


def _walk(value: Any, path: str, report: Callable[[str], None]) -> None:
    if isinstance(value, _Node):
        for key in value.repeated:
            report(f"{path}.{key}".lstrip("."))
        for key, child in value.fields.items():
            _walk(child, f"{path}.{key}".lstrip("."), report)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _walk(child, f"{path}[{index}]", report)
