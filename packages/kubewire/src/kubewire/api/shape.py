"""A Struct as a tree of nodes, which schemas, checks and defaults share."""

import types
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from kubewire.api.annotation import Field


class Form(Enum):
    TEXT = auto()
    INTEGER = auto()
    BOOLEAN = auto()
    TIME = auto()
    BYTES = auto()
    QUANTITY = auto()
    INT_OR_TEXT = auto()
    LIST = auto()
    MAP = auto()
    OBJECT = auto()
    RAW = auto()
    """An object without a schema, kept unchanged."""


@dataclass(frozen=True, slots=True)
class Node:
    form: Form
    rules: Field
    items: "Node | None" = None
    """Of a list, or the values of a map."""
    properties: "tuple[tuple[str, Node], ...]" = ()
    struct: type[Struct] | None = None


_SCALARS: Final[dict[object, Form]] = {
    str: Form.TEXT,
    int: Form.INTEGER,
    bool: Form.BOOLEAN,
    bytes: Form.BYTES,
    datetime: Form.TIME,
}


@cache
def shape_of(struct: type[Struct]) -> Node:
    return _node(struct, Field())


def _node(annotation: object, outer: Field) -> Node:
    while get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        for note in reversed(notes):
            if isinstance(note, Field):
                outer = outer.override(note)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _union(tuple(argument for argument in arguments if argument is not types.NoneType), outer)
    if origin is tuple:
        return Node(Form.LIST, outer, items=_node(arguments[0], Field()))
    if origin is dict and arguments[1] is Any:
        return Node(Form.RAW, outer)
    if origin is dict:
        return Node(Form.MAP, outer, items=_node(arguments[1], Field()))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        hints = get_type_hints(annotation, include_extras=True)
        properties = tuple((name, _node(hint, Field())) for name, hint in hints.items())
        return Node(Form.OBJECT, outer, properties=properties, struct=annotation)
    return Node(_SCALARS[annotation], outer)


def _union(members: tuple[object, ...], outer: Field) -> Node:
    if len(members) == 1:
        return _node(members[0], outer)
    return Node(Form.QUANTITY if outer.quantity else Form.INT_OR_TEXT, outer)
