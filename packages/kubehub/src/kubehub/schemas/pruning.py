"""Pruning and defaulting, before a document is validated.

Both work in place. Null means absent where a field isn't nullable: such a field gets its default or is dropped.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from kubehub.budget import Budget
from kubehub.schema import Node, object_meta
from kubehub.schemas.object_meta import drop_empty_fields
from kubehub.schemas.reachability import children, reaching

Prune = Callable[[Any, str, list[str]], None]
"""Takes a value, its path, and the paths dropped so far."""
Default = Callable[[Any], None]

MAX_GROWTH: Final = 3 * 1024 * 1024
"""Bytes that defaults may add to a document: defaults of list items are added once per item."""

_OF_A_FIELD: Final = 16
"""The minimum bytes that a default counts, for its entry in managedFields."""
_TYPE_META: Final = ("apiVersion", "kind")
_CONTAINERS: Final = (dict, list)


class Pruning:
    """Compiles nodes on demand; they may be cyclic."""

    def __init__(self) -> None:
        self._prunes: dict[int, Prune | None] = {}
        self._nodes: list[Node] = []

    def prune(self, node: Node) -> Prune:
        key = id(node)
        if key in self._prunes:
            return self._prunes[key] or self._deferred(key)
        self._prunes[key] = None
        self._nodes.append(node)
        prune = self._prunes[key] = self._compile(node)
        return prune

    def _deferred(self, key: int) -> Prune:
        def prune(value: Any, path: str, dropped: list[str]) -> None:
            known = self._prunes[key]
            assert known is not None
            known(value, path, dropped)

        return prune

    def _compile(self, node: Node) -> Prune:
        fields = self._fields(node)
        item: Prune = _keep if node.preserve_unknown else _strip
        if node.items is not None:
            # A list that preserves unknown fields preserves those of its items.
            item = self.prune(
                replace(node.items, preserve_unknown=True) if node.preserve_unknown else node.items
            )

        def run(value: Any, path: str, dropped: list[str]) -> None:
            if type(value) is dict:
                fields(value, path, dropped)
            elif type(value) is list:
                for index, child in enumerate(value):
                    if type(child) in _CONTAINERS:
                        item(child, f"{path}[{index}]", dropped)

        return run

    def _fields(self, node: Node) -> Prune:
        known: dict[str, tuple[Prune, bool]] = {
            name: (self.prune(child), _drops_null(child)) for name, child in node.properties.items()
        }
        if node.embedded:
            known |= dict.fromkeys(_TYPE_META, (_keep, False))
            known["metadata"] = (self._metadata(), False)
        rest = (
            (self.prune(node.additional), _drops_null(node.additional))
            if node.additional is not None
            else None
        )
        keeps = node.preserve_unknown

        def run(value: Any, path: str, dropped: list[str]) -> None:
            gone: list[str] = []
            prefix = f"{path}." if path else ""
            for key, child in value.items():
                entry = known.get(key, rest)
                if entry is None:
                    if not keeps:
                        gone.append(key)
                        dropped.append(prefix + key)
                elif child is None:
                    if entry[1]:
                        gone.append(key)
                elif type(child) in _CONTAINERS:
                    entry[0](child, prefix + key, dropped)
            for key in gone:
                del value[key]

        return run

    def _metadata(self) -> Prune:
        prune = self.prune(object_meta())

        def run(value: Any, path: str, dropped: list[str]) -> None:
            if type(value) is dict:
                drop_empty_fields(value)
            prune(value, path, dropped)

        return run


def _drops_null(node: Node) -> bool:
    return not node.nullable and not _has_default(node)


def _has_default(node: Node) -> bool:
    return node.has_default and node.default is not None


def _keep(_value: Any, _path: str, _dropped: list[str]) -> None:
    pass


def _strip(value: Any, path: str, dropped: list[str]) -> None:
    """Prune a value without a schema: lists stay, objects lose all fields."""
    if type(value) is dict:
        dropped += (f"{path}.{key}" for key in value)
        value.clear()
    elif type(value) is list:
        for index, child in enumerate(value):
            _strip(child, f"{path}[{index}]", dropped)


class Defaulting:
    """Compiles only nodes that lead to a default. Nodes may be cyclic."""

    def __init__(self, root: Node) -> None:
        self.growth = Budget(MAX_GROWTH)
        """Renew it before a document is defaulted, which raises Exhausted beyond it."""
        self._root = root
        self._reach = reaching(root, _has_default)
        self._defaults: dict[int, Default | None] = {}

    def default(self, node: Node) -> Default | None:
        """Return None if there are no defaults."""
        if not any(id(child) in self._reach for child in children(node)):
            return None
        key = id(node)
        if key in self._defaults:
            return self._defaults[key] or self._deferred(key)
        self._defaults[key] = None
        default = self._defaults[key] = self._compile(node)
        return default

    def _deferred(self, key: int) -> Default:
        def default(value: Any) -> None:
            known = self._defaults[key]
            assert known is not None
            known(value)

        return default

    def _compile(self, node: Node) -> Default:
        missing = [
            (name, child, len(name) + _size(child.default) + _OF_A_FIELD)
            for name, child in node.properties.items()
            if _has_default(child)
        ]
        growth = self.growth
        within = [(name, self.default(child)) for name, child in node.properties.items()]
        fills = [(name, fill) for name, fill in within if fill is not None]
        rest = self._default_child(node.additional)
        item = self._default_child(node.items)

        def run(value: Any) -> None:
            if type(value) is dict:
                for name, child, size in missing:
                    if name not in value or (value[name] is None and not child.nullable):
                        growth.spend(size)
                        value[name] = copy_default(child.default)
                for name, fill in fills:
                    if name in value:
                        fill(value[name])
                if rest is not None:
                    for key, entry in value.items():
                        if key not in node.properties:
                            value[key] = rest(entry)
            elif type(value) is list and item is not None:
                value[:] = map(item, value)

        return run

    def _default_child(self, node: Node | None) -> Callable[[Any], Any] | None:
        """Default a map value or list item."""
        if node is None:
            return None
        fill = self.default(node)
        if fill is None and not _has_default(node):
            return None

        growth, size = self.growth, _size(node.default)

        def run(value: Any) -> Any:
            if value is None and not node.nullable:
                growth.spend(size)
                value = copy_default(node.default)
            if fill is not None:
                fill(value)
            return value

        return run


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def copy_default(value: Any) -> Any:
    """Return a copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_default(child) for key, child in value.items()}
    if type(value) is list:
        return [copy_default(child) for child in value]
    return value
