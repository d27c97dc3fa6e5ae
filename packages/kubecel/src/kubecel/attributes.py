"""Access to parts of values: ``a.b["c"][i]`` and its optional forms.

An attribute is a base with a chain of qualifiers. The whole chain costs one, plus one per qualifier tried; a base
that is a conditional has no cost of its own, so conditionals are compiled here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kubecel.containers import LISTS, MAPS, find, length
from kubecel.errors import NO_SUCH_OVERLOAD, Failure, Overrun
from kubecel.frame import Frame, Step, charge_units, charge_work
from kubecel.scalars import Uint
from kubecel.values import Optional, index_of, type_of_value

NO_SUCH_KEY: Final = "no such key: {}"
BAD_QUALIFIER: Final = "invalid qualifier type: {}"
KEY_TYPES: Final = (str, bool, int, Uint, float)

LONGEST_KEY: Final = 1000
"""Maximum length of a key in an error message."""

NONE_FOUND = Optional(present=False)


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One step: a constant ``key``, or ``dynamic`` to compute it. ``test`` only checks its presence."""

    key: object = None
    dynamic: Step | None = None
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """Either ``base`` is set, or the three parts of a conditional."""

    base: Step | None = None
    variable: str | None = None
    slot: int | None = None
    condition: Step | None = None
    truthy: Attribute | None = None
    falsy: Attribute | None = None
    qualifiers: tuple[Qualifier, ...] = field(default=())
    free: bool = False
    """Qualifiers cost nothing. This applies to a global variable that a local one of the same name hides."""

    def qualify(self, qualifier: Qualifier) -> Attribute:
        if self.condition is None or self.truthy is None or self.falsy is None:
            return replace(self, qualifiers=(*self.qualifiers, qualifier))
        return replace(self, truthy=self.truthy.qualify(qualifier), falsy=self.falsy.qualify(qualifier))


def lookup(value: object, key: object) -> object:
    """Return the entry at ``key``. Raise `Failure` if there is none."""
    if isinstance(value, MAPS):
        entry, present = find(value, key)
        if present:
            return entry
        raise Failure(NO_SUCH_KEY.format(format_key(key)))
    if isinstance(value, LISTS):
        index = index_of(key)
        if 0 <= index < length(value):
            return value[index]
        raise Failure(f"index out of bounds: {key}")
    raise Failure(NO_SUCH_KEY.format(format_key(key)))


def format_key(key: object) -> object:
    """Format a key for an error message: long text is truncated, and a list or map becomes its type."""
    if isinstance(key, str):
        return f"{key[:LONGEST_KEY]}…" if len(key) > LONGEST_KEY else key
    return key if isinstance(key, KEY_TYPES) else type_of_value(key).name


def lookup_optional(value: object, key: object) -> tuple[object, bool]:
    """Return the entry at ``key`` and whether it exists; a scalar has no entries."""
    if isinstance(value, MAPS):
        return find(value, key)
    if isinstance(value, LISTS):
        index = index_of(key)
        if 0 <= index < length(value):
            return value[index], True
    return None, False


def checked_key(key: object) -> object:
    if isinstance(key, KEY_TYPES):
        return key
    raise Failure(BAD_QUALIFIER.format(type_of_value(key).name))


def compile_attribute(attribute: Attribute, *, tested: bool = False) -> Step:
    """Compile an attribute, including the charge for the attribute as a whole."""
    fast = None if tested else _compile_path(attribute)
    resolve = compile_resolution(attribute)
    if attribute.condition is not None:
        return _tested(resolve) if tested else resolve

    def evaluate(frame: Frame) -> object:
        try:
            value = resolve(frame)
        except Failure:
            charge_units(frame, 1)
            raise
        charge_units(frame, 1)
        return value

    if tested:
        return _tested(evaluate)
    return evaluate if fast is None else fast(evaluate)


def _tested(evaluate: Step) -> Step:
    def test(frame: Frame) -> object:
        value = evaluate(frame)
        return value.present if isinstance(value, Optional) else value

    return test


def compile_resolution(attribute: Attribute) -> Step:
    """Compile an attribute without the charge for the attribute as a whole."""
    if attribute.condition is not None and attribute.truthy is not None and attribute.falsy is not None:
        return _compile_conditional(
            attribute.condition, compile_resolution(attribute.truthy), compile_resolution(attribute.falsy)
        )
    base = _compile_base(attribute)
    qualifiers = attribute.qualifiers
    price = 0 if attribute.free else 1
    if not qualifiers:
        return base

    # A lookup is about two units of work, and costs one step or none.
    work = len(qualifiers) * (2 - price)

    def resolve(frame: Frame) -> object:
        value = base(frame)
        charge_work(frame, work)
        optional = False
        if isinstance(value, Optional):
            if not value.present:
                return value
            value, optional = value.value, True
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            if optional:
                key = qualifier.key if qualifier.dynamic is None else checked_key(qualifier.dynamic(frame))
                value, present = lookup_optional(value, key)
                if not present:
                    return NONE_FOUND
                charge_units(frame, price)
                continue
            try:
                key = qualifier.key if qualifier.dynamic is None else checked_key(qualifier.dynamic(frame))
                value = lookup_optional(value, key)[1] if qualifier.test else lookup(value, key)
            except Failure:
                charge_units(frame, price)
                raise
            charge_units(frame, price)
        return Optional(value) if optional else value

    return resolve


def _compile_conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    def conditional(frame: Frame) -> object:
        chosen = condition(frame)
        if chosen is True:
            return truthy(frame)
        if chosen is False:
            return falsy(frame)
        raise Failure(NO_SUCH_OVERLOAD)

    return conditional


def _compile_base(attribute: Attribute) -> Step:
    if attribute.base is not None:
        return attribute.base
    if attribute.slot is not None:
        slot = attribute.slot

        def local(frame: Frame) -> object:
            return frame.slots[slot]

        return local
    name = attribute.variable or ""

    def variable(frame: Frame) -> object:
        try:
            return frame.variables[name]
        except KeyError:
            raise Failure(f"no such attribute(s): {name}") from None

    return variable


def _compile_path(attribute: Attribute) -> Callable[[Step], Step] | None:
    """Compile a fast path through nested dicts by constant names; other values use the general one."""
    if attribute.base is not None or attribute.condition is not None or attribute.free:
        return None
    names: list[str] = []
    for qualifier in attribute.qualifiers:
        if qualifier.optional or qualifier.test or type(qualifier.key) is not str:
            return None
        names.append(qualifier.key)
    path = tuple(names)
    steps = len(path) + 1
    if attribute.slot is not None:
        return _local_path(attribute.slot, path, steps)
    return _variable_path(attribute.variable or "", path, steps)


def _variable_path(name: str, path: tuple[str, ...], steps: int) -> Callable[[Step], Step]:
    def build(slow: Step) -> Step:
        def evaluate(frame: Frame) -> object:
            try:
                value: Any = frame.variables[name]
                for key in path:
                    value = value[key]
            except (KeyError, TypeError):
                return slow(frame)
            total = frame.cost + steps
            if total > frame.limit:
                frame.cost = int(frame.limit) + 1
                raise Overrun
            frame.cost = total
            return value

        return evaluate

    return build


def _local_path(slot: int, path: tuple[str, ...], steps: int) -> Callable[[Step], Step]:
    def build(slow: Step) -> Step:
        def evaluate(frame: Frame) -> object:
            value: Any = frame.slots[slot]
            try:
                for key in path:
                    value = value[key]
            except (KeyError, TypeError):
                return slow(frame)
            if isinstance(value, Optional):
                return slow(frame)
            total = frame.cost + steps
            if total > frame.limit:
                frame.cost = int(frame.limit) + 1
                raise Overrun
            frame.cost = total
            return value

        return evaluate

    return build
