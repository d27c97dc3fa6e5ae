"""State that the plugins of one cycle share."""

from typing import Any, TypeVar

Value = TypeVar("Value")


class CycleState:
    """Written in the early extension points, read in the later ones. Values must be frozen: clones share them."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def write(self, key: str, value: object) -> None:
        self._values[key] = value

    def read(self, key: str, kind: type[Value]) -> Value:
        """Raise KeyError if no plugin wrote the key: a plugin relied on another that did not run."""
        value = self._values[key]
        if not isinstance(value, kind):
            raise TypeError(f"cycle state {key!r} holds {type(value).__name__}, not {kind.__name__}")
        return value

    def find(self, key: str, kind: type[Value]) -> Value | None:
        return self.read(key, kind) if key in self._values else None

    def discard(self, key: str) -> None:
        self._values.pop(key, None)

    def clone(self) -> "CycleState":
        other = CycleState()
        other._values.update(self._values)
        return other
