"""Check that required fields of built-in kinds aren't empty."""

from collections.abc import Iterator
from typing import Any, Final

from kubehub import status
from kubehub.resource import Document
from kubehub.schema import Node
from kubehub.slicing import checkpoint

_APART: Final = frozenset({"metadata", "status"})
"""Validated elsewhere (metadata), or not at all (status)."""


def causes(node: Node, document: Document) -> list[status.Cause]:
    missing: list[status.Cause] = []
    for name, value in document.items():
        child = node.properties.get(name)
        if child is not None and name not in _APART:
            missing += _missing(child, value, name)
    return missing


def _missing(node: Node, value: Any, path: str) -> Iterator[status.Cause]:
    checkpoint()
    if isinstance(value, dict):
        for name in node.required:
            if value.get(name) in (None, "", [], {}):
                yield status.required(f"{path}.{name}")
        for name, inner in value.items():
            child = node.child(name)
            if child is not None and inner is not None:
                yield from _missing(child, inner, f"{path}.{name}")
    elif isinstance(value, list) and node.items is not None:
        for index, inner in enumerate(value):
            yield from _missing(node.items, inner, f"{path}[{index}]")
