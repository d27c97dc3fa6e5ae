"""JSON patch (RFC 6902), with kube-apiserver's deviations.

``replace`` sets a missing field, ``add`` without a value sets null, ``test`` treats a missing field as null, and an
index may count from the end.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kubehub.patches.merge import copy_json
from kubehub.resource import Document
from kubehub.status import Refusal, bad_request, invalid, invalid_value, too_large

MAX_OPERATIONS: Final = 10_000
MAX_COPIED: Final = 3 * 1024 * 1024
"""Bytes of JSON that the copies of a patch may add; a few operations could double a document over and over."""

REJECTED: Final = "the server rejected our request due to an error in our request"
UNDECODABLE: Final = "error decoding patch: json: cannot unmarshal {0} into Go {1}"
TOO_MANY: Final = "Request entity too large: The allowed maximum operations in a JSON patch is {0}, got {1}"
UNKNOWN_FIELD: Final = 'json patch unknown field "[{0}].{1}"'
NOT_AN_OBJECT: Final = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct "
    '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_LONGEST_INDEX: Final = 18
_TEXTS: Final = ("op", "path", "from")
_FIELDS: Final = (*_TEXTS, "value")


def misfit_refusal() -> Refusal:
    """Build kube-apiserver's refusal for a patch that doesn't fit the object; it has no reason."""
    return Refusal(code=422, reason="Invalid", message=REJECTED, details={})


class _Misfit(Exception):
    """The patch doesn't fit the document."""


def unknown_fields(operations: Any) -> list[str]:
    """Return unknown fields of the operations, which strict validation rejects."""
    return [
        UNKNOWN_FIELD.format(index, name)
        for index, operation in enumerate(operations or ())
        for name in operation or ()
        if name not in _FIELDS
    ]


def apply(document: Document, operations: Any) -> Document:
    """Return the patched document, which shares nothing with the given one. ``operations`` is the decoded,
    unchecked body. Raises Refusal."""
    checked = _check_operations(operations)
    if len(checked) > MAX_OPERATIONS:
        raise too_large(TOO_MANY.format(MAX_OPERATIONS, len(checked)))
    try:
        result = _Patch(copy_json(document)).run(checked)
    except _Misfit:
        raise misfit_refusal() from None
    if not isinstance(result, dict):
        shown = msgspec.json.encode(result).decode()
        raise invalid("", "", "", [invalid_value("patch", shown, NOT_AN_OBJECT)])
    return result


def _check_operations(operations: Any) -> list[dict[str, Any] | None]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise bad_request(UNDECODABLE.format(json_kind(operations), "value of type []handlers.jsonPatchOp"))
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise bad_request(UNDECODABLE.format(json_kind(operation), "value of type handlers.jsonPatchOp"))
        for name in _TEXTS:
            text = operation.get(name)
            if text is not None and not isinstance(text, str):
                field = f"struct field jsonPatchOp.{name} of type string"
                raise bad_request(UNDECODABLE.format(json_kind(text), field))
    return operations


def json_kind(value: Any) -> str:
    """Return the JSON type, as Go's decoder names it."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


class _Patch:
    """A document that is being patched."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._copied = 0
        self._verbs: dict[str, Callable[[dict[str, Any]], None]] = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }

    def run(self, operations: list[dict[str, Any] | None]) -> Any:
        for operation in operations:
            verb = self._verbs.get((operation or {}).get("op") or "")
            if operation is None or verb is None:
                raise _Misfit
            verb(operation)
        return self._document

    def _add(self, operation: dict[str, Any]) -> None:
        _add(*self._resolve(_text(operation, "path")), copy_json(operation.get("value")))

    def _remove(self, operation: dict[str, Any]) -> None:
        _remove(*self._resolve(_text(operation, "path")))

    def _replace(self, operation: dict[str, Any]) -> None:
        path, value = _text(operation, "path"), copy_json(operation.get("value"))
        if path == "":
            if not isinstance(value, dict | list):
                raise _Misfit
            self._document = value
            return
        holder, key = self._resolve(path)
        if isinstance(holder, list):
            holder[_index(key, len(holder))] = value
        else:
            holder[key] = value

    def _move(self, operation: dict[str, Any]) -> None:
        holder, key = self._resolve(_text(operation, "from"))
        value = _get(holder, key)
        _remove(holder, key)
        _add(*self._resolve(_text(operation, "path")), value)

    def _copy(self, operation: dict[str, Any]) -> None:
        value = _get(*self._resolve(_text(operation, "from")))
        holder, key = self._resolve(_text(operation, "path"))
        self._copied += len(msgspec.json.encode(value))
        if self._copied > MAX_COPIED:
            raise _Misfit
        _add(holder, key, copy_json(value))

    def _test(self, operation: dict[str, Any]) -> None:
        path = _text(operation, "path")
        actual = self._document if path == "" else _get(*self._resolve(path))
        if not _identical(actual, operation.get("value")):
            raise _Misfit

    def _resolve(self, path: str) -> tuple[Any, str]:
        """Return the parent of a path's last element, and that element. Anything before the first slash is ignored."""
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        if not parts:
            raise _Misfit
        holder = self._document
        for part in parts[:-1]:
            holder = _get(holder, part)
            if not isinstance(holder, dict | list):
                raise _Misfit
        return holder, parts[-1]


def _text(operation: dict[str, Any], name: str) -> str:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _Misfit
    return text


def _index(key: str, length: int) -> int:
    """Return an index below ``length``; negative ones count from the end."""
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _LONGEST_INDEX:
        raise _Misfit
    index = int(key)
    if not -length <= index < length:
        raise _Misfit
    return index % length


def _get(holder: Any, key: str) -> Any:
    return holder[_index(key, len(holder))] if isinstance(holder, list) else holder.get(key)


def _add(holder: Any, key: str, value: Any) -> None:
    if not isinstance(holder, list):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    else:
        holder.insert(_index(key, len(holder) + 1), value)


def _remove(holder: Any, key: str) -> None:
    if isinstance(holder, list):
        del holder[_index(key, len(holder))]
    elif key in holder:
        del holder[key]
    else:
        raise _Misfit


def _identical(left: Any, right: Any) -> bool:
    """Compare as encoded: 1 isn't 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(
            _identical(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_identical, left, right))
    return bool(left == right)
