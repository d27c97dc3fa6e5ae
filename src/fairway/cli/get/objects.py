"""Objects as the hub has them, for `-o yaml` and `-o json`.

The typed objects Fairway works with know only the fields it has a use for. Whoever asks for YAML wants the others as
well, so here everything below spec and status is left as it came. Who manages which field is left out, as kubectl
does.
"""

from dataclasses import replace
from typing import Any

from msgspec import Struct

from fairway.api.kinds import encode
from fairway.api.meta import ObjectMeta
from fairway.kube import Resource


class Whole(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None


def whole(resource: Resource[Any]) -> Resource[Whole]:
    """The same resource, read whole."""
    return replace(resource, type=Whole)


def document_of(thing: Whole, resource: Resource[Any]) -> dict[str, Any]:
    """As kubectl shows it. Items of a list may come without saying what they are."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **encode(thing)}
