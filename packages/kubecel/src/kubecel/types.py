"""Types of the checker: small immutable trees, compared by structure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    BOOL = "bool"
    BYTES = "bytes"
    DOUBLE = "double"
    DURATION = "duration"
    DYN = "dyn"
    ERROR = "error"
    INT = "int"
    LIST = "list"
    MAP = "map"
    NULL = "null"
    OPAQUE = "opaque"
    PARAM = "param"
    STRING = "string"
    STRUCT = "struct"
    TIMESTAMP = "timestamp"
    TYPE = "type"
    UINT = "uint"


@dataclass(frozen=True, slots=True)
class Type:
    """A type. ``name`` is the run-time name, as in ``type(x)``; equal types have equal names."""

    kind: Kind
    name: str
    params: tuple[Type, ...] = ()
    size: int = field(init=False, compare=False, repr=False)
    """Number of nodes, with shared parts counted every time."""
    open: bool = field(init=False, compare=False, repr=False)
    """Whether the type contains type variables."""

    def __post_init__(self) -> None:
        size, variables = 1, self.kind is Kind.PARAM
        for inner in self.params:
            size += inner.size
            variables = variables or inner.open
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "open", variables)

    def __str__(self) -> str:
        """Format like the recorded result types."""
        name = f"<{self.name}>" if self.kind is Kind.PARAM else self.name
        if not self.params:
            return name
        return f"{name}({', '.join(map(str, self.params))})"


BOOL = Type(Kind.BOOL, "bool")
BYTES = Type(Kind.BYTES, "bytes")
DOUBLE = Type(Kind.DOUBLE, "double")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "error")
INT = Type(Kind.INT, "int")
NULL = Type(Kind.NULL, "null_type")
STRING = Type(Kind.STRING, "string")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(Kind.TYPE, "type")
UINT = Type(Kind.UINT, "uint")


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type(Kind.OPAQUE, "optional_type", (value,))


def opaque(name: str, *params: Type) -> Type:
    return Type(Kind.OPAQUE, name, params)


def struct(name: str) -> Type:
    return Type(Kind.STRUCT, name)


def param(name: str) -> Type:
    return Type(Kind.PARAM, name)


def type_of(inner: Type) -> Type:
    return Type(Kind.TYPE, "type", (inner,))


_SHORT = {Kind.DURATION: "duration", Kind.ERROR: "!error!", Kind.NULL: "null", Kind.TIMESTAMP: "timestamp"}


def describe(type_: Type) -> str:
    """Format a type for error messages."""
    short = _SHORT.get(type_.kind)
    if short is not None:
        return short
    if not type_.params:
        return type_.name
    return f"{type_.name}({', '.join(map(describe, type_.params))})"


def describe_call(args: tuple[Type, ...], *, member: bool) -> str:
    if member:
        return f"{describe(args[0])}.({', '.join(map(describe, args[1:]))})"
    return f"({', '.join(map(describe, args))})"
