"""Query parameters and bodies of requests."""

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from kubewire.api.encoding import encode
from kubewire.api.resource import KubeStruct, Resource

Match = Literal["Exact", "NotOlderThan"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class Patch(enum.Enum):
    """The value is the content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"

    @property
    def repeatable(self) -> bool:
        """Whether the patch is idempotent."""
        return self in (Patch.APPLY, Patch.MERGE)


Pairs = list[tuple[str, str]]


def selector_query(labels: str, fields: str) -> Pairs:
    parameters = (("labelSelector", labels), ("fieldSelector", fields))
    return [(name, value) for name, value in parameters if value]


def limit_query(limit: int) -> Pairs:
    return [("limit", str(limit))] if limit else []


@lru_cache(maxsize=256)
def write_query(dry_run: bool, field_manager: str, force: bool = False) -> tuple[tuple[str, str], ...]:
    """Cached, because a client writes with the same few options."""
    parameters = (
        ("fieldManager", field_manager),
        ("dryRun", "All" if dry_run else ""),
        ("force", "true" if force else ""),
    )
    return tuple((name, value) for name, value in parameters if value)


def document(resource: Resource[Any], body: Mapping[str, Any] | KubeStruct) -> dict[str, Any]:
    """The body with apiVersion and kind, which Structs omit as their defaults."""
    if isinstance(body, Mapping):
        return {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    version = getattr(body, "apiVersion", resource.api_version)
    kind = getattr(body, "kind", resource.kind)
    return {"apiVersion": version, "kind": kind, **encode(cast("Struct", body))}


def delete_options(
    preconditions: Mapping[str, str | None],
    propagation: Propagation | None,
    grace_period: int | None,
    dry_run: bool,
) -> bytes:
    wanted = {name: value for name, value in preconditions.items() if value is not None}
    options: dict[str, Any] = {
        "preconditions": wanted or None,
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace_period,
        "dryRun": ["All"] if dry_run else None,
    }
    filled = {name: value for name, value in options.items() if value is not None}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **filled})


class _Kind(Struct):
    kind: str = ""


def is_status(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Kind).kind == "Status"
    except msgspec.DecodeError:
        return False
