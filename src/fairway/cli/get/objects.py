"""Complete objects for `-o yaml` and `-o json`.

Fairway's typed objects contain only the fields it uses. Here spec and status are kept as the hub sent them.
managedFields are omitted, as kubectl does.
"""

from dataclasses import replace
from typing import Any

from msgspec import Struct

from kubewire.api.encoding import encode
from kubewire.api.meta import ObjectMeta
from kubewire.client import Resource


class Whole(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None


def whole(resource: Resource[Any]) -> Resource[Whole]:
    """Return the resource with a type that keeps all fields."""
    return replace(resource, type=Whole)


def document_of(thing: Whole, resource: Resource[Any]) -> dict[str, Any]:
    """Return the object as kubectl shows it. Items of a list may lack apiVersion and kind."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **encode(thing)}
