"""The types of the built-in kinds, in JSON and protobuf."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kubehub.schema import BOOLEAN, INTEGER, NUMBER, OBJECT, STRING, Node

LIST: Final = "list"
WRAPPED: Final = "wrapped"
"""A list that protobuf wraps into a message."""
DICTIONARY: Final = "dictionary"
MESSAGE: Final = "message"
UNION: Final = "union"
"""One of several forms that JSON doesn't name."""

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

SCALARS: Final[Mapping[str, Node]] = {
    "string": Node(type=STRING),
    "int32": Node(type=INTEGER, raw={"format": "int32"}),
    "int64": Node(type=INTEGER, raw={"format": "int64"}),
    "bool": Node(type=BOOLEAN),
    "double": Node(type=NUMBER, raw={"format": "double"}),
    "bytes": Node(type=STRING, raw={"format": "byte"}),
    "Time": Node(type=STRING, nullable=True, raw={"format": "date-time"}, name=f"{_META}.Time"),
    "MicroTime": Node(type=STRING, nullable=True, raw={"format": "date-time"}, name=f"{_META}.MicroTime"),
    "Quantity": Node(int_or_string=True, name="io.k8s.apimachinery.pkg.api.resource.Quantity"),
    "IntOrString": Node(int_or_string=True, name="io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
    "RawExtension": Node(
        type=OBJECT, preserve_unknown=True, nullable=True, name="io.k8s.apimachinery.pkg.runtime.RawExtension"
    ),
    "FieldsV1": Node(type=OBJECT, preserve_unknown=True, nullable=True, name=f"{_META}.FieldsV1"),
    "JSON": Node(preserve_unknown=True, nullable=True, name=f"{_EXTENSIONS}.JSON"),
}
PLAIN: Final[Mapping[str, object]] = {
    "string": "", "int32": 0, "int64": 0, "bool": False, "double": 0.0, "bytes": None,
}  # fmt: skip
"""Scalars that are plain JSON scalars, and their empty values."""
GO_NAMES: Final[Mapping[str, str]] = {
    "double": "float64", "bytes": "[]uint8", "Time": "v1.Time", "MicroTime": "v1.MicroTime",
    "Quantity": "resource.Quantity", "IntOrString": "intstr.IntOrString", "FieldsV1": "v1.FieldsV1",
    "RawExtension": "runtime.RawExtension", "JSON": "v1.JSON",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """The type of a field, a list item or a map value. ``kind`` is a scalar's name or one of the above."""

    kind: str
    go: str
    """Its Go name, which decoding errors contain."""
    element: "Shape | None" = None
    type: "Type | None" = None
    enum: tuple[str, ...] = ()


COLLECTIONS: Final = frozenset({LIST, WRAPPED, DICTIONARY})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    name: str
    """In JSON; empty when the fields of its type are inlined."""
    number: int
    """In protobuf; 0 if it isn't there."""
    shape: Shape
    node: Node
    pointer: bool = False
    """Zero differs from absent."""
    always: bool = False
    shown: bool = False
    """Encoded even when absent."""


@dataclass(slots=True, kw_only=True, eq=False)
class Type:
    """Built once, then immutable."""

    name: str
    full_name: str
    group: str
    version: str
    kind: bool = False
    union: bool = False
    description: str = ""
    node: Node
    fields: dict[str, Field] = field(default_factory=dict)
    """By JSON name, in the order of encoding."""
    numbers: dict[int, Field] = field(default_factory=dict)
    """By protobuf number."""
    embedded: dict[str, str] = field(default_factory=dict)
    """Inlined fields with the name of the type that they come from."""
