"""Schema nodes: what a field may hold and how it merges.

Built-in kinds (from their field tables) and custom ones (from their CRD) become the same nodes, so validation,
pruning, defaulting, strategic merge, server-side apply and OpenAPI each walk one structure. Nodes may be cyclic
(JSONSchemaProps holds itself), so they are built once and then only read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

OBJECT: Final = "object"
ARRAY: Final = "array"
STRING: Final = "string"
INTEGER: Final = "integer"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"

ATOMIC: Final = "atomic"
SET: Final = "set"
MAP: Final = "map"
GRANULAR: Final = "granular"


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class Node:
    """One place in a document. ``type`` is empty when anything goes (``x-kubernetes-preserve-unknown-fields``
    without a type) or when a number and a string are both welcome (``int_or_string``)."""

    type: str = ""
    properties: dict[str, "Node"] = field(default_factory=dict)
    additional: "Node | None" = None
    """The values of a map; None when the object has only ``properties``."""
    items: "Node | None" = None
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    """``x-kubernetes-embedded-resource``: apiVersion, kind and metadata are implied."""
    list_type: str = ATOMIC
    list_keys: tuple[str, ...] = ()
    map_type: str = GRANULAR
    merge_key: str = ""
    """Strategic merge: the key of a list of objects (``x-kubernetes-patch-merge-key``)."""
    strategies: tuple[str, ...] = ()
    """Strategic merge: ``merge``, ``replace``, ``retainKeys``."""
    required: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The OpenAPI schema this node was made of: value validations, description, rules."""
    name: str = ""
    """The name of a built-in type, such as ``io.k8s.api.core.v1.PodSpec``; empty for custom ones."""

    def child(self, key: str) -> "Node | None":
        """The node of a field of an object, whether named or of a map."""
        return self.properties.get(key) or self.additional


def parse(schema: Mapping[str, Any]) -> Node:
    """A node from an OpenAPI v3 schema as CRDs write it (no references). Doesn't judge the schema."""
    kind = schema.get("type", "")
    node = Node(
        type=kind,
        nullable=bool(schema.get("nullable", False)),
        int_or_string=bool(schema.get("x-kubernetes-int-or-string", False)),
        preserve_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields", False)),
        embedded=bool(schema.get("x-kubernetes-embedded-resource", False)),
        list_type=schema.get("x-kubernetes-list-type", ATOMIC),
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        map_type=schema.get("x-kubernetes-map-type", GRANULAR),
        merge_key=schema.get("x-kubernetes-patch-merge-key", ""),
        strategies=tuple(s for s in str(schema.get("x-kubernetes-patch-strategy", "")).split(",") if s),
        required=tuple(schema.get("required", ())),
        has_default="default" in schema,
        default=schema.get("default"),
        raw=schema,
    )
    for name, value in (schema.get("properties") or {}).items():
        node.properties[name] = parse(value)
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = parse(additional)
    elif additional is True:
        node.additional = Node(preserve_unknown=True)
    items = schema.get("items")
    if isinstance(items, Mapping):
        node.items = parse(items)
    return node
