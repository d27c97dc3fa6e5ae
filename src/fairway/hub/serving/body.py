"""Request bodies: JSON, YAML or protobuf into one document, within limits."""

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

import msgspec
import yaml

from fairway.hub import status
from fairway.hub.resource import Document
from fairway.hub.serving import protobuf, yaml_body

LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a request body; as kube-apiserver's."""
DEPTH: Final = 256
"""Levels of nesting. The deepest published definitions have some sixty."""
VALUES: Final = 100_000
"""Values in a body, at every level. The largest published definitions have some thirty thousand; whatever has more is
made to keep the hub busy."""

_MANAGED_DEPTH: Final = 16

TOO_DEEP: Final = f"the body nests deeper than {DEPTH} levels"
TOO_MANY_VALUES: Final = f"Request entity too large: limit is {VALUES} values"
TOO_LARGE: Final = f"Request entity too large: limit is {LIMIT}"

# A text without an end is one, too: else every quote in it would be looked at again.
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS: Final = b"[{]}"
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_decode = msgspec.json.Decoder().decode


def check_shape(raw: bytes, *, kept: bool = False) -> None:
    """Raises a 400 or a 413; bodies with few brackets and commas pass at the cost of counting them.

    Objects that are ``kept`` also say who manages each of their fields, at the same depth or little below it.
    """
    most, deepest = (2 * VALUES, DEPTH + _MANAGED_DEPTH) if kept else (VALUES, DEPTH)
    opened = raw.count(b"{") + raw.count(b"[")
    if opened <= deepest and opened + raw.count(b",") <= most:
        return
    bare = _TEXT.sub(b"", raw)
    if bare.count(b"{") + bare.count(b"[") + bare.count(b",") > most:
        raise status.too_large(TOO_MANY_VALUES)
    marks = bare.translate(None, _OTHERS)
    if max(accumulate(map(_STEPS.__getitem__, marks)), default=0) > deepest:
        raise status.bad_request(TOO_DEEP)


_YAML: Final = ("application/yaml", "text/yaml", "application/apply-patch+yaml")


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def value(raw: bytes, content_type: str) -> Any:
    """Any JSON or YAML value. Raises a 400 or a 415."""
    written_as_yaml = media_type(content_type) in _YAML
    if written_as_yaml and raw[:1] not in (b"{", b"["):
        return _yaml(raw)
    check_shape(raw)
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if written_as_yaml:
            return _yaml(raw)
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def document(raw: bytes, content_type: str, *, group: str, version: str, kind: str) -> Document:
    """An object of that kind, unless it says otherwise. A body without a type is JSON."""
    if not raw:
        return {}
    if media_type(content_type) == "application/vnd.kubernetes.protobuf":
        decoded = protobuf.decode(raw, group=group, version=version, kind=kind)
        check_shape(msgspec.json.encode(decoded))  # it can hold values written as JSON
        return decoded
    found = value(raw, content_type)
    if found is None:
        return {}
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
    try:
        found = yaml_body.load(raw, yaml_body.Bounds(depth=DEPTH, values=VALUES, size=LIMIT))
    except yaml_body.TooDeep:
        raise status.bad_request(TOO_DEEP) from None
    except yaml_body.TooMuch:
        raise status.too_large(TOO_MANY_VALUES) from None
    except (yaml.YAMLError, ValueError) as error:
        told = str(error).replace("\n", " ")
        raise status.bad_request(f"error converting YAML to JSON: {told}") from error
    return _decode(msgspec.json.encode(found))  # so that nothing in it is shared


def duplicates(raw: bytes) -> list[str]:
    """Dotted paths of keys that occur twice in an object; what strict field validation refuses."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> Any:
        fields = dict(pairs)
        repeated = []
        if len(fields) < len(pairs):
            repeated = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
        return _Node(fields, repeated)

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
