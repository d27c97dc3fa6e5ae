"""Request bodies: decode JSON, YAML or protobuf into a document, within limits."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from kubehub import status
from kubehub.flowcontrol.yielding import Yielder
from kubehub.json_decoder import decode_value
from kubehub.resource import Document
from kubehub.serialization import protobuf
from kubehub.slicing import checkpoint
from kubewire.documents.parser import DocumentError, Rules, TooDeepError, TooLargeError, parse_yaml

LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a request body; kube-apiserver's limit."""
SMALL: Final = 64 * 1024
"""Bytes of a review or of DeleteOptions. Every user may post reviews, and legitimate ones are small."""
SMALL_PROTOBUF: Final = 16 * 1024
"""The same as protobuf, whose fields can be as short as two bytes."""
DEPTH: Final = 256
"""Levels of nesting. The deepest published CRDs have about 60."""
VALUES: Final = 100_000
"""Values in a body, at all levels. The largest published CRDs have about 30,000."""

SMALL_VALUES: Final = 2048
"""Values in a review or in DeleteOptions."""

_MANAGED_DEPTH: Final = 16
_QUICK: Final = 2 * SMALL_VALUES
"""Bytes; no body of that length can have more values than a review may have."""

TOO_DEEP: Final = f"the body nests deeper than {DEPTH} levels"
TOO_MANY_VALUES: Final = "Request entity too large: limit is {} values"
TOO_LARGE: Final = "Request entity too large: limit is {}"

# Matches an unterminated string, too; otherwise every quote in it would be scanned again.
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS: Final = b"[{]}"
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_REVIEWS: Final = ("authentication.k8s.io", "authorization.k8s.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a request body."""

    size: int = LIMIT
    values: int = VALUES


_LARGE_LIMITS: Final = Limits()
_SMALL_LIMITS: Final = Limits(size=SMALL, values=SMALL_VALUES)
_PROTOBUF_LIMITS: Final = Limits(size=SMALL_PROTOBUF, values=SMALL_VALUES)


def limits(*, group: str, verb: str, content_type: str) -> Limits:
    """Return the limits of a request by group and verb."""
    if group not in _REVIEWS and not verb.startswith("delete"):
        return _LARGE_LIMITS
    return _PROTOBUF_LIMITS if media_type(content_type) == PROTOBUF else _SMALL_LIMITS


async def prepare(raw: bytes, content_type: str, limits: Limits) -> bytes:
    """Convert YAML to JSON, yielding between steps, and check the number of values.

    Raises a 400 or a 413.
    """
    media = media_type(content_type)
    if media in _YAML and not _is_json(raw):
        return msgspec.json.encode(await _decode_yaml(raw, limits.values))
    if limits.values < VALUES and media != PROTOBUF and _count_values(raw) > limits.values:
        raise status.too_large(TOO_MANY_VALUES.format(limits.values))
    return raw


def _is_json(raw: bytes) -> bool:
    """Return whether YAML that starts like JSON is JSON."""
    if raw[:1] not in (b"{", b"["):
        return False
    if len(raw) <= _QUICK and b"*" not in raw:
        return True  # either decoder is fast enough
    try:
        check_shape(raw)
        decode_value(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _yaml_rules(values: int) -> Rules:
    return Rules(
        depth=DEPTH,
        values=values,
        aliased=values,
        aliased_size=LIMIT,
        strict=False,
        resolve_keys=True,
        step=_YAML_STEP,
    )


async def _decode_yaml(raw: bytes, values: int) -> Any:
    """Decode the first document, yielding between steps."""
    yielder = Yielder()
    try:
        for parsed in parse_yaml(raw, _yaml_rules(values)):
            if parsed is not None:
                return parsed.value
            await yielder.step()
    except DocumentError as error:
        raise _yaml_refusal(error, values) from error
    return None


def _count_values(raw: bytes) -> int:
    """Count the values in a JSON text, slightly overestimated."""
    if raw.count(b",") + raw.count(b"{") + raw.count(b"[") <= SMALL_VALUES:
        return 0
    bare = _TEXT.sub(b"", raw)
    return bare.count(b",") + bare.count(b"{") + bare.count(b"[")


def check_shape(raw: bytes, *, kept: bool = False) -> None:
    """Check depth and number of values. Raises a 400 or a 413.

    Bodies with few brackets and commas pass after these were counted. ``kept``: the object is stored, with
    managedFields as deep as, or slightly deeper than, its other fields.
    """
    most, deepest = (2 * VALUES, DEPTH + _MANAGED_DEPTH) if kept else (VALUES, DEPTH)
    opened = raw.count(b"{") + raw.count(b"[")
    if opened <= deepest and opened + raw.count(b",") <= most:
        return
    bare = _TEXT.sub(b"", raw)
    if bare.count(b"{") + bare.count(b"[") + bare.count(b",") > most:
        raise status.too_large(TOO_MANY_VALUES.format(VALUES))
    marks = bare.translate(None, _OTHERS)
    if max(accumulate(map(_STEPS.__getitem__, marks)), default=0) > deepest:
        raise status.bad_request(TOO_DEEP)


_YAML: Final = ("application/yaml", "text/yaml", "application/apply-patch+yaml")
_YAML_STEP: Final = 64
"""Events that are parsed in one step."""


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def value(raw: bytes, content_type: str) -> Any:
    """Decode any JSON or YAML value. Raises a 400 or a 415."""
    written_as_yaml = media_type(content_type) in _YAML
    if written_as_yaml and raw[:1] not in (b"{", b"["):
        return _parse_yaml(raw)
    check_shape(raw)
    try:
        return decode_value(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if written_as_yaml:
            return _parse_yaml(raw)
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def document(raw: bytes, content_type: str, *, group: str, version: str, kind: str) -> Document:
    """Decode an object, by default of that kind. A body without a content type is JSON."""
    if not raw:
        return {}
    if media_type(content_type) == PROTOBUF:
        decoded = protobuf.decode(raw, group=group, version=version, kind=kind)
        check_shape(msgspec.json.encode(decoded))  # it can contain values encoded as JSON
        return decoded
    content = value(raw, content_type)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise status.bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_go_name(content)} into Go value of type struct"
        )
    return content


def _go_name(parsed: object) -> str:
    return {list: "array", str: "string", bool: "bool", int: "number", float: "number"}.get(
        type(parsed), "null"
    )


def _parse_yaml(raw: bytes) -> Any:
    try:
        parsed = next(filter(None, parse_yaml(raw, _yaml_rules(VALUES))), None)
    except DocumentError as error:
        raise _yaml_refusal(error, VALUES) from error
    return decode_value(msgspec.json.encode(parsed and parsed.value))  # copy what aliases shared


def _yaml_refusal(error: DocumentError, values: int) -> status.Refusal:
    if isinstance(error, TooDeepError):
        return status.bad_request(TOO_DEEP)
    if isinstance(error, TooLargeError):
        return status.too_large(TOO_MANY_VALUES.format(values))
    message = str(error) if str(error).startswith("json: ") else f"yaml: line {error.line}: {error}"
    return status.bad_request(f"error converting YAML to JSON: {message}")


def duplicates(raw: bytes) -> list[str]:
    """Return the dotted paths of duplicate keys, which strict field validation rejects."""
    if not _has_duplicates(raw):
        return []
    paths: list[str] = []

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
    _walk(tree, "", paths.append)
    return paths


def _has_duplicates(raw: bytes) -> bool:
    """Return whether a JSON text contains more keys than its decoded value. Checking each key is ten times slower."""
    try:
        pending: list[Any] = [[decode_value(raw)]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    keys = 0
    while pending:
        checkpoint()
        container = pending.pop()
        if type(container) is dict:
            keys += len(container)
            container = container.values()
        pending.extend(inner for inner in container if type(inner) in (dict, list))
    return raw.count(b":") > keys and _TEXT.sub(b"", raw).count(b":") > keys


class _Node:
    __slots__ = ("fields", "repeated")

    def __init__(self, fields: dict[str, Any], repeated: list[str]) -> None:
        self.fields, self.repeated = fields, repeated


def _walk(value: Any, path: str, report: Callable[[str], None]) -> None:
    checkpoint()
    if isinstance(value, _Node):
        for key in value.repeated:
            report(f"{path}.{key}".lstrip("."))
        for key, child in value.fields.items():
            _walk(child, f"{path}.{key}".lstrip("."), report)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _walk(child, f"{path}[{index}]", report)
