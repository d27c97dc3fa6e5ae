"""Encode Structs as the API server reads them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from kubewire.api.meta import PartialMeta, format_time


def encode(obj: Struct) -> dict[str, Any]:
    """Return JSON-like builtins. A Kubernetes object gets its ``apiVersion`` and ``kind``."""
    body = cast("dict[str, Any]", _with_times_written(msgspec.to_builtins(obj, builtin_types=(datetime,))))
    metadata = getattr(obj, "metadata", None)
    if isinstance(metadata, PartialMeta):
        body["metadata"].pop("unreadable", None)
    version, kind = getattr(obj, "apiVersion", None), getattr(obj, "kind", None)
    # msgspec omits them as defaults.
    return body if metadata is None or version is None else {"apiVersion": version, "kind": kind, **body}


def without_nulls(value: Any) -> Any:
    """Remove nulls, as the API server does. Nulls in lists are kept, to be rejected."""
    if isinstance(value, Mapping):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return [without_nulls(child) for child in value] if isinstance(value, list) else value


def _with_times_written(value: Any) -> Any:
    """Write times in the containers of ``value``, which are modified."""
    if isinstance(value, dict):
        for key, child in value.items():
            if isinstance(child, _NOT_WRITTEN):
                value[key] = _with_times_written(child)
        return value
    if isinstance(value, list | tuple):
        return [_with_times_written(child) for child in value]
    return format_time(value) if isinstance(value, datetime) else value


_NOT_WRITTEN: Final = (dict, list, tuple, datetime)
"""Most values of an object are strings."""
