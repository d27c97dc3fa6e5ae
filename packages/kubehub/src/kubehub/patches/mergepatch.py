"""JSON merge patch (RFC 7386), with kube-apiserver's deviation.

Where the RFC keeps an array unchanged, kube-apiserver drops null fields of the objects in it, unless the array
replaces an object.
"""

from typing import Any, Final

from kubehub.patches.jsonpatch import json_kind
from kubehub.patches.merge import copy_json
from kubehub.resource import Document
from kubehub.status import bad_request

UNDECODABLE: Final = (
    "error decoding patch: json: cannot unmarshal {0} into Go value of type map[string]interface {{}}"
)
NO_PATCH: Final = "Invalid JSON Patch"


def apply(document: Document, patch: Any) -> Document:
    """Return the patched document, which shares nothing with the given ones. ``patch`` is the decoded, unchecked
    body. Raises Refusal."""
    if patch is None:
        raise bad_request(NO_PATCH)
    if not isinstance(patch, dict):
        raise bad_request(UNDECODABLE.format(json_kind(patch)))
    return _merge(document, patch)


def _merge(document: Document, patch: Document) -> Document:
    result = {name: None if name in patch else copy_json(value) for name, value in document.items()}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
            continue
        current = document.get(name)
        if not isinstance(current, dict):
            result[name] = _drop_nulls(value)
        elif isinstance(value, dict):
            result[name] = _merge(current, value)
        else:
            result[name] = copy_json(value)
    return result


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_drop_nulls(inner) for inner in value]
    return value
