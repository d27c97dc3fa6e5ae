"""Edits of any field of a placement, for plugins that read fields or annotations which no other edit knows."""

from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
from msgspec import Struct, structs

from fairway.api.placement import Placement
from fairway.engine.remedies import FieldPath
from fairway.whatif.edits import NumericEdit, PlacementEdit
from fairway.whatif.world import Key, World


class FieldError(ValueError):
    """A path that the placement does not have, or a value that its field cannot have."""


@dataclass(frozen=True, slots=True)
class SetField(PlacementEdit):
    """``value`` None removes a key of a map; ``old`` is used in the description."""

    preference = 2
    path: FieldPath
    value: str | int | bool | None
    old: str | int | bool | None = None

    @property
    def target(self) -> tuple[object, ...]:
        return ("field", *self.path)

    def describe(self) -> str:
        name, path = "/".join(self.placement), display_path(self.path)
        if self.value is None:
            return f"remove {path} from placement {name}"
        if self.old in (None, ""):
            return f"set {path} of placement {name} to {self.value}"
        return f"change {path} of placement {name} from {self.old} to {self.value}"

    def change(self, source: Placement) -> Placement:
        return with_field(source, self.path, self.value)


@dataclass(frozen=True, slots=True)
class AddToField(PlacementEdit):
    """Appends a value to a list."""

    preference = 2
    path: FieldPath
    value: str | int

    @property
    def target(self) -> tuple[object, ...]:
        return ("field", *self.path, self.value)

    def describe(self) -> str:
        return f"add {self.value} to {display_path(self.path)} of placement {'/'.join(self.placement)}"

    def change(self, source: Placement) -> Placement:
        return with_field(source, self.path, (*field_of(source, self.path), self.value))


@dataclass(frozen=True, slots=True)
class RaiseField(PlacementEdit, NumericEdit):
    """Raises a whole number."""

    preference = 3
    path: FieldPath
    old: int
    value: int

    @property
    def target(self) -> tuple[object, ...]:
        return ("field", *self.path)

    @property
    def steps(self) -> int:
        return self.value - self.old

    def with_steps(self, steps: int) -> Self:
        return replace(self, value=self.old + steps)

    def describe(self) -> str:
        path, name = display_path(self.path), "/".join(self.placement)
        return f"raise {path} of placement {name} from {self.old} to {self.value}"

    def change(self, source: Placement) -> Placement:
        return with_field(source, self.path, self.value)


def display_path(path: FieldPath) -> str:
    """Write a path as users do: ``spec.tolerations[0].key``; keys that are no identifiers in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def field_of(source: object, path: FieldPath) -> Any:
    """Return the value of a field; None for a key that a map does not have. Raise FieldError if there is no field."""
    value: Any = source
    for step in path:
        match value, step:
            case Struct(), str() if step in value.__struct_fields__:
                value = getattr(value, step)
            case dict(), str():
                value = value.get(step)
            case ((tuple() | list()), int()) if 0 <= step < len(value):
                value = value[step]
            case _:
                raise FieldError(f"there is no field {display_path(path)}")
    return value


def with_field(source: Placement, path: FieldPath, value: object) -> Placement:
    """Return the placement with another value of a field. Raise FieldError if it cannot have it."""
    field_of(source, path)
    changed: Placement = _replaced(source, path, value)
    try:
        msgspec.convert(msgspec.to_builtins(changed), Placement)
    except (msgspec.ValidationError, TypeError) as error:
        raise FieldError(f"{display_path(path)}: {error}") from error
    return changed


def _replaced(source: Any, path: FieldPath, value: object) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(source, Struct):
        return structs.replace(source, **{str(first): _replaced(getattr(source, str(first)), rest, value)})
    if isinstance(source, dict):
        others = {key: item for key, item in source.items() if key != first}
        return (
            others
            if value is None and not rest
            else {**others, first: _replaced(source.get(first), rest, value)}
        )
    items = list(source)
    items[int(first)] = _replaced(items[int(first)], rest, value)
    return tuple(items)


def set_field(world: World, key: Key, path: FieldPath, value: str | int | bool | None) -> SetField | None:
    """Return the edit; None if the field has the value. Raise FieldError."""
    source = world.placements[key]
    with_field(source, path, value)
    old = field_of(source, path)
    if old == value:
        return None
    shown = old if isinstance(old, str | int | bool) else None
    return SetField(placement=key, path=path, value=value, old=shown)


def add_to_field(world: World, key: Key, path: FieldPath, value: str | int) -> AddToField | None:
    """Return the edit; None if the list has the value. Raise FieldError."""
    source = world.placements[key]
    held = field_of(source, path)
    if not isinstance(held, tuple | list):
        raise FieldError(f"{display_path(path)} is not a list")
    if value in held:
        return None
    edit = AddToField(placement=key, path=path, value=value)
    edit.change(source)
    return edit


def raise_field(world: World, key: Key, path: FieldPath, most: int) -> RaiseField | None:
    """Return the edit at its bound; None if the field has that value. Raise FieldError."""
    source = world.placements[key]
    held = field_of(source, path)
    old = 0 if held is None else held
    if isinstance(old, bool) or not isinstance(old, int):
        raise FieldError(f"{display_path(path)} is not a whole number")
    if old >= most:
        return None
    with_field(source, path, most)
    return RaiseField(placement=key, path=path, old=old, value=most)
