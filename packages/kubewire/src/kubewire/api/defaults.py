"""Apply the defaults of the CRDs to a document, as the API server does."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from msgspec import Struct

from kubewire.api.annotation import NO_DEFAULT
from kubewire.api.shape import Form, Node, shape_of

_Fill = Callable[[Any], Any]


def apply_defaults(document: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """Return a copy; unchanged parts are shared. Null counts as absent, except where the schema is nullable."""
    filled: dict[str, Any] = _filler(kind)(document)
    return filled


@cache
def _filler(kind: type[Struct]) -> _Fill:
    return _compile(shape_of(kind))


def _compile(node: Node) -> _Fill:
    if node.form is Form.OBJECT:
        return _object(node)
    if node.form is Form.LIST and node.items is not None:
        inner = _compile(node.items)
        return lambda value: [inner(item) for item in value] if isinstance(value, list | tuple) else value
    return lambda value: value


def _object(node: Node) -> _Fill:
    inner = {name: _compile(child) for name, child in node.properties}
    nullable = frozenset(name for name, child in node.properties if child.rules.nullable)
    defaults = tuple(
        (name, child.rules.default)
        for name, child in node.properties
        if child.rules.default is not NO_DEFAULT
    )

    def fill(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        kept = {
            name: child
            for name, child in value.items()
            if child is not None or name in nullable or name not in inner
        }
        for name, default in defaults:
            if name not in kept:
                kept[name] = deepcopy(default)
        return {name: inner[name](child) if name in inner else child for name, child in kept.items()}

    return fill
