"""Node tree → structural OpenAPI v3 schema, the dialect CustomResourceDefinitions are written in."""

from copy import deepcopy
from inspect import cleandoc
from typing import Any, Final

from msgspec import Struct

from kubewire.api.annotation import NO_DEFAULT, Field
from kubewire.api.shape import Form, Node, shape_of

Schema = dict[str, Any]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

_TYPES: Final[dict[Form, Schema]] = {
    Form.TEXT: {"type": "string"},
    Form.INTEGER: {"type": "integer"},
    Form.BOOLEAN: {"type": "boolean"},
    Form.TIME: {"type": "string", "format": "date-time"},
    Form.BYTES: {"type": "string", "format": "byte"},
    Form.QUANTITY: {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    },
    Form.INT_OR_TEXT: {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
    Form.LIST: {"type": "array"},
    Form.MAP: {"type": "object"},
    Form.OBJECT: {"type": "object"},
    Form.RAW: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}

_KEYWORDS: Final = (
    ("description", "description"),
    ("enum", "enum"),
    ("pattern", "pattern"),
    ("format", "format"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("max_items", "maxItems"),
    ("list_type", "x-kubernetes-list-type"),
    ("map_keys", "x-kubernetes-list-map-keys"),
    ("map_type", "x-kubernetes-map-type"),
    ("nullable", "nullable"),
    ("embedded", "x-kubernetes-embedded-resource"),
)

_ROOT_DESCRIPTIONS: Final = {
    "apiVersion": "The version of the schema this object is written in.",
    "kind": "The kind of this object.",
}


def object_schema(struct: type[Struct]) -> Schema:
    """For a whole Kubernetes object: the API server itself knows what ``metadata`` holds."""
    schema = node_schema(shape_of(struct))
    schema["description"] = cleandoc(struct.__doc__ or struct.__name__)
    for name, description in _ROOT_DESCRIPTIONS.items():
        schema["properties"][name] = {"type": "string", "description": description}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def node_schema(node: Node) -> Schema:
    schema = deepcopy(_TYPES[node.form])
    schema.update(_keywords(node.rules))
    if node.form is Form.LIST and node.items:
        schema["items"] = node_schema(node.items)
    elif node.form is Form.MAP and node.items:
        schema["additionalProperties"] = node_schema(node.items)
    elif node.form is Form.OBJECT:
        schema["properties"] = {name: node_schema(child) for name, child in node.properties}
        if required := sorted(name for name, child in node.properties if child.rules.required):
            schema["required"] = required
    return schema


def _keywords(rules: Field) -> Schema:
    schema: Schema = {}
    for name, keyword in _KEYWORDS:
        value = getattr(rules, name)
        if value is None or value is False or value in ("", ()):
            continue
        schema[keyword] = list(value) if isinstance(value, tuple) else value
    if rules.validations:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in rules.validations
        ]
    if rules.default is not NO_DEFAULT:
        schema["default"] = deepcopy(rules.default)
    return schema
