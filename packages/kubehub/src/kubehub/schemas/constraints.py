"""Constraints of a schema on values, compiled to closures once per node.

The order of the faults of a value and their messages are Kubernetes'; fields are checked in the document's order.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubehub import status
from kubehub.budget import Budget
from kubehub.go_format import INT64_MAX, INT64_MIN, to_double
from kubehub.schema import ARRAY, BOOLEAN, INTEGER, OBJECT, STRING, Node, parse
from kubehub.schemas.correlation import ABSENT, OldItems, old_entry, same
from kubehub.schemas.fault import Check, at, general, invalid
from kubehub.schemas.formats import recognized
from kubehub.schemas.scalars import (
    INTEGER_RANGES,
    enum_check,
    null_fault,
    number_check,
    text_check,
    type_fault,
)
from kubehub.status import Cause
from kubewire.api.selector import quote

TOO_FEW_ITEMS: Final = "{} in body should have at least {} items"
TOO_FEW_PROPERTIES: Final = "{} in body should have at least {} properties"
DUPLICATES: Final = "{} in body shouldn't contain duplicates"
NOT_ALLOWED: Final = "{}.{} in body is a forbidden property"
NO_ALTERNATIVE: Final = "{} must validate at least one schema (anyOf)"
NOT_ONE: Final = "{} must validate one and only one schema (oneOf). {}"
NOT_ALL: Final = "{} must validate all the schemas (allOf){}"
FORBIDDEN_SCHEMA: Final = "{} must not validate the schema (not)"

TOO_MUCH_TO_CHECK: Final = "the schema has too many alternatives for a document of this size"

MAX_EFFORT: Final = 500_000
"""Values checked and alternatives tried per document. Without alternatives every value is checked once; with them,
once per alternative."""

# How well a value fits if no schema constrains it.
_WEIGHTS: Final[Mapping[type, int]] = {bool: 4, str: 5, int: 6, float: 6, list: 6, dict: 5}
# The part of that which the type check already counts.
_OWN: Final[Mapping[type, int]] = {int: 1, float: 1, list: 1}
_QUICK: Final[Mapping[str, type]] = {BOOLEAN: bool, STRING: str, OBJECT: dict, ARRAY: list}
_PLAIN: Final[Mapping[str, type]] = {BOOLEAN: bool, STRING: str}
_CONDITIONS: Final = frozenset(
    {"enum", "format", "pattern", "minLength", "maxLength", "anyOf", "oneOf", "allOf", "not"}
)
_BOUNDS: Final = frozenset({"minimum", "maximum", "multipleOf"})
_FURTHER: Final = _BOUNDS | {"enum", "oneOf", "allOf", "not"}
_INT_OR_STRING: Final = [{"type": INTEGER}, {"type": STRING}]
_TYPE_META: Final = ("apiVersion", "kind")


class Constraints:
    """Compiles nodes on demand; they may be cyclic."""

    def __init__(self) -> None:
        self.effort = Budget(MAX_EFFORT)
        """Renew it before a document is checked, which raises Exhausted beyond it."""
        self._checks: dict[int, Check | None] = {}
        # Checks are cached by the identity of their node, so the nodes must stay alive.
        self._nodes: list[Node] = []

    def check(self, node: Node) -> Check:
        key = id(node)
        if key in self._checks:
            return self._checks[key] or self._deferred(key)
        self._checks[key] = None
        self._nodes.append(node)
        check = self._checks[key] = self._compile(node)
        return check

    def _deferred(self, key: int) -> Check:
        def check(value: Any, path: str, faults: list[Cause], old: Any) -> int:
            known = self._checks[key]
            assert known is not None
            return known(value, path, faults, old)

        return check

    def _compile(self, node: Node) -> Check:
        raw = node.raw
        types = (INTEGER, STRING) if node.int_or_string else (node.type,) if node.type else ()
        only = types[0] if len(types) == 1 else ""
        form = raw.get("format") or ""
        if form and not recognized(only, form):
            form = ""
        junctors = self._junctors(raw)
        enum = enum_check(raw.get("enum") or ())
        text, numbers = text_check(raw, form), number_check(raw, only, form)
        items, fields = self._items(node, raw), self._fields(node, raw)
        by_kind: dict[type, Check | None] = {
            str: text,
            int: numbers,
            float: numbers,
            list: items,
            dict: fields,
        }
        whole = _combine(types, form, nullable=node.nullable, junctors=junctors, by_kind=by_kind, enum=enum)
        if only in _QUICK and junctors is None:
            kind = _QUICK[only]
            weight = _WEIGHTS[kind] + 2 - _OWN.get(kind, 0)
            check = _both(by_kind.get(kind), enum)
            return _fast_path({kind: (weight if check else _WEIGHTS[kind] + 2, check)}, whole)
        if only == INTEGER and junctors is None and enum is None and not _BOUNDS & raw.keys():
            return _fast_integer(form, whole)
        if node.int_or_string and raw.get("anyOf") == _INT_OR_STRING and not _FURTHER & raw.keys():
            # The weights include that of the matching alternative.
            return _fast_path({int: (16, None), str: (14, text)}, whole)
        return whole

    # --- lists and objects ---------------------------------------------------------------------------------------

    def _items(self, node: Node, raw: Mapping[str, Any]) -> Check | None:
        check = self.check(node.items) if node.items is not None else None
        least, most, unique = raw.get("minItems"), raw.get("maxItems"), raw.get("uniqueItems")
        if check is None and least is None and most is None and not unique:
            return None

        effort = self.effort

        def run(value: Any, path: str, faults: list[Cause], old: Any) -> int:
            effort.spend(len(value))
            weight = 1
            if check is not None and old is ABSENT:
                for index, item in enumerate(value):
                    weight += check(item, f"{path}[{index}]", faults, ABSENT)
            elif check is not None:
                olds = OldItems(node, old)
                for index, item in enumerate(value):
                    before, count = olds.find(item), len(faults)
                    weight += check(item, f"{path}[{index}]", faults, before)
                    if len(faults) > count and before is not ABSENT and same(node.items, item, before):
                        del faults[count:]
            if least is not None and len(value) < least:
                faults.append(invalid(path, len(value), TOO_FEW_ITEMS.format(path, int(least))))
            if most is not None and len(value) > most:
                faults.append(status.too_many(at(path), len(value), int(most)))
            if unique and len({msgspec.json.encode(item, order="sorted") for item in value}) < len(value):
                faults.append(invalid(path, "", DUPLICATES.format(path)))
            return weight

        return run

    def _fields(self, node: Node, raw: Mapping[str, Any]) -> Check | None:
        known = {name: self._entry(child) for name, child in node.properties.items()}
        rest = self._entry(node.additional) if node.additional is not None else None
        closed = raw.get("additionalProperties") is False
        least, most = raw.get("minProperties"), raw.get("maxProperties")
        required = frozenset(node.required)
        if not known and rest is None and not closed and least is None and most is None and not required:
            return None

        effort = self.effort

        def run(value: Any, path: str, faults: list[Cause], old: Any) -> int:
            effort.spend(len(value))
            if least is not None and len(value) < least:
                faults.append(invalid(path, len(value), TOO_FEW_PROPERTIES.format(path, int(least))))
            if most is not None and len(value) > most:
                faults.append(status.too_many(at(path), len(value), int(most)))
            weight = 0
            prefix = f"{path}." if path else ""
            for key, child in value.items():
                entry = known.get(key, rest)
                if entry is None:
                    if closed:
                        faults.append(invalid(path, key, NOT_ALLOWED.format(path, key)))
                    continue
                check, plain, own = entry
                if type(child) is plain:
                    weight += own
                elif old is ABSENT:
                    weight += check(child, prefix + key, faults, ABSENT)
                else:
                    # Old and new objects have the same version here, so a change of version can't be seen.
                    before = ABSENT if not path and key in _TYPE_META else old_entry(old, key)
                    count = len(faults)
                    weight += check(child, prefix + key, faults, before)
                    if len(faults) > count and before is not ABSENT and same(node.child(key), child, before):
                        del faults[count:]
            if not required <= value.keys():
                faults += [status.required(prefix + key) for key in node.required if key not in value]
            return weight

        return run

    def _entry(self, node: Node) -> tuple[Check, type | None, int]:
        """The check, and the type of values that it always accepts, with their weight."""
        kind = _PLAIN.get(node.type) if not _CONDITIONS & node.raw.keys() and not node.int_or_string else None
        return self.check(node), kind, 0 if kind is None else _WEIGHTS[kind] + 2

    # --- junctors ------------------------------------------------------------------------------------------------

    def _junctors(self, raw: Mapping[str, Any]) -> Check | None:
        any_of, one_of, all_of = (
            [self.check(parse(schema)) for schema in raw.get(name) or ()]
            for name in ("anyOf", "oneOf", "allOf")
        )
        never = self.check(parse(raw["not"])) if isinstance(raw.get("not"), Mapping) else None
        if not any_of and not one_of and not all_of and never is None:
            return None

        effort, branches = self.effort, len(any_of) + len(one_of) + len(all_of) + 1

        # No ratcheting within a junctor: whether a schema fits doesn't depend on the old value.
        def run(value: Any, path: str, faults: list[Cause], _old: Any) -> int:
            effort.spend(branches)
            weight = 1
            if any_of:
                weight += _any(any_of, value, path, faults)
            if one_of:
                weight += _one(one_of, value, path, faults)
            if all_of:
                weight += _all(all_of, value, path, faults)
            if never is not None:
                violations: list[Cause] = []
                never(value, path, violations, ABSENT)
                if not violations:
                    faults.append(general(FORBIDDEN_SCHEMA.format(quote(path))))
            return weight

        return run


def _any(checks: Sequence[Check], value: Any, path: str, faults: list[Cause]) -> int:
    best: list[Cause] = []
    most = -1
    for check in checks:
        violations: list[Cause] = []
        weight = check(value, path, violations, ABSENT)
        if not violations:
            return weight
        if weight > most:
            best, most = violations, weight
    faults.append(general(NO_ALTERNATIVE.format(quote(path))))
    faults += best
    return most


def _one(checks: Sequence[Check], value: Any, path: str, faults: list[Cause]) -> int:
    best: list[Cause] = []
    most, first, fitting = -1, 0, 0
    for check in checks:
        violations: list[Cause] = []
        weight = check(value, path, violations, ABSENT)
        if not violations:
            first = first if fitting else weight
            fitting += 1
        elif not fitting and weight > most:
            best, most = violations, weight
    if fitting == 1:
        return first
    if fitting:
        faults.append(general(NOT_ONE.format(quote(path), f"Found {fitting} valid alternatives")))
        return 0
    faults.append(general(NOT_ONE.format(quote(path), "Found none valid")))
    faults += best
    return most


def _all(checks: Sequence[Check], value: Any, path: str, faults: list[Cause]) -> int:
    weight = fitting = 0
    for check in checks:
        count = len(faults)
        weight += check(value, path, faults, ABSENT)
        fitting += len(faults) == count
    if fitting < len(checks):
        faults.append(general(NOT_ALL.format(quote(path), "" if fitting else ". None validated")))
    return weight


def _combine(
    types: tuple[str, ...],
    form: str,
    *,
    nullable: bool,
    junctors: Check | None,
    by_kind: Mapping[type, Check | None],
    enum: Check | None,
) -> Check:
    typed = bool(types or form)

    def run(value: Any, path: str, faults: list[Cause], old: Any) -> int:
        kind = type(value)
        if value is None:
            fits = nullable or not types
            if not fits:
                faults.append(null_fault(types, path))
            if enum is not None:
                enum(value, path, faults, old)
            return int(fits)
        if kind is int and not INT64_MIN <= value <= INT64_MAX:
            value, kind = to_double(value), float
        weight = _WEIGHTS[kind]
        if typed:
            fault = type_fault(types, form, value, path)
            if fault is None:
                weight += 2
            else:
                faults.append(fault)
                weight += 1
        if junctors is not None:
            weight += junctors(value, path, faults, old) - 1
        check = by_kind.get(kind)
        if check is not None:
            weight += check(value, path, faults, old) - _OWN.get(kind, 0)
        if enum is not None:
            enum(value, path, faults, old)
        return weight

    return run


# Shortcuts for the common cases, with the same results.


def _fast_path(usual: Mapping[type, tuple[int, Check | None]], otherwise: Check) -> Check:
    def run(value: Any, path: str, faults: list[Cause], old: Any) -> int:
        entry = usual.get(type(value))
        if entry is None:
            return otherwise(value, path, faults, old)
        weight, check = entry
        return weight if check is None else weight + check(value, path, faults, old)

    return run


def _fast_integer(form: str, otherwise: Check) -> Check:
    low, high = INTEGER_RANGES[form or "int64"]
    weight = _WEIGHTS[int] + 2

    def run(value: Any, path: str, faults: list[Cause], old: Any) -> int:
        if type(value) is int and low <= value <= high:
            return weight
        return otherwise(value, path, faults, old)

    return run


def _both(first: Check | None, second: Check | None) -> Check | None:
    if first is None or second is None:
        return first or second
    one, other = first, second

    def run(value: Any, path: str, faults: list[Cause], old: Any) -> int:
        return one(value, path, faults, old) + other(value, path, faults, old)

    return run
