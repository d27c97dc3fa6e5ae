"""Schema nodes: what a field may contain and how it merges.

Built-in kinds (from their field tables) and custom resources (from their CRD) become the same nodes, so that
validation, pruning, defaulting, strategic merge, server-side apply and OpenAPI each walk one structure. Nodes may
be cyclic (JSONSchemaProps contains itself), so they are built once and never modified.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from kubehub.slicing import checkpoint

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
    """The schema of one place in a document. ``type`` is empty when any value is allowed
    (``x-kubernetes-preserve-unknown-fields`` without a type) or both a number and a string are
    (``int_or_string``)."""

    type: str = ""
    properties: dict[str, "Node"] = field(default_factory=dict)
    additional: "Node | None" = None
    """The schema of a map's values; None when the object has only ``properties``."""
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
    """The OpenAPI schema of this node: value validations, description, rules."""
    name: str = ""
    """The name of a built-in type, such as ``io.k8s.api.core.v1.PodSpec``; empty for custom resources."""

    def child(self, key: str) -> "Node | None":
        """Return the node of an object's field or of a map's value."""
        return self.properties.get(key) or self.additional


@cache
def object_meta() -> Node:
    """Return the node of ``metadata``."""
    texts = Node(type=OBJECT, additional=Node(type=STRING))
    moment = {"format": "date-time"}
    owner = Node(
        type=OBJECT,
        map_type=ATOMIC,
        required=("apiVersion", "kind", "name", "uid"),
        properties={
            "apiVersion": Node(type=STRING),
            "blockOwnerDeletion": Node(type=BOOLEAN),
            "controller": Node(type=BOOLEAN),
            "kind": Node(type=STRING),
            "name": Node(type=STRING),
            "uid": Node(type=STRING),
        },
        name="io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
    )
    managed = Node(
        type=OBJECT,
        properties={
            "apiVersion": Node(type=STRING),
            "fieldsType": Node(type=STRING),
            "fieldsV1": Node(type=OBJECT, preserve_unknown=True),
            "manager": Node(type=STRING),
            "operation": Node(type=STRING),
            "subresource": Node(type=STRING),
            "time": Node(type=STRING, raw=moment, nullable=True),
        },
        name="io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
    )
    return Node(
        type=OBJECT,
        properties={
            "annotations": texts,
            "creationTimestamp": Node(type=STRING, raw=moment, nullable=True),
            "deletionGracePeriodSeconds": Node(type=INTEGER),
            "deletionTimestamp": Node(type=STRING, raw=moment, nullable=True),
            "finalizers": Node(type=ARRAY, items=Node(type=STRING), list_type=SET, strategies=("merge",)),
            "generateName": Node(type=STRING),
            "generation": Node(type=INTEGER),
            "labels": texts,
            "managedFields": Node(type=ARRAY, items=managed),
            "name": Node(type=STRING),
            "namespace": Node(type=STRING),
            "ownerReferences": Node(
                type=ARRAY,
                items=owner,
                list_type=MAP,
                list_keys=("uid",),
                merge_key="uid",
                strategies=("merge",),
            ),
            "resourceVersion": Node(type=STRING),
            "selfLink": Node(type=STRING),
            "uid": Node(type=STRING),
        },
        name="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    )


def parse(schema: Mapping[str, Any]) -> Node:
    """Build a node from the OpenAPI v3 schema of a CRD (no references), without validating the schema."""
    checkpoint()
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
        # Any value is allowed, but all fields of an object are pruned, because the schema declares none.
        node.additional = Node(nullable=True)
    items = schema.get("items")
    if isinstance(items, Mapping):
        node.items = parse(items)
    return node
