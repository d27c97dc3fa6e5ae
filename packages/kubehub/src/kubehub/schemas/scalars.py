"""Constraints on a single value: type, length, pattern, format, bounds and enumeration."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from kubecel.errors import Failure, Overrun
from kubecel.frame import Meter
from kubecel.regex import compile_pattern
from kubehub import status
from kubehub.go_format import INT64_MAX, INT64_MIN, format_number, json_text
from kubehub.schema import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING
from kubehub.schemas.correlation import equal
from kubehub.schemas.fault import Check, at, general, invalid
from kubehub.schemas.formats import text_format
from kubehub.status import Cause
from kubewire.api.selector import quote

MISTYPED: Final = "{} in body must be of type {}: {}"
TOO_SHORT: Final = "{} in body should be at least {} chars long"
NO_MATCH: Final = "{} in body should match '{}'"
PATTERN_TOO_COSTLY: Final = "{} in body is too long to be matched with '{}'"
OUT_OF_RANGE: Final = "{} value must be of type {} {} in {}"
NOT_MULTIPLE: Final = "{} in body should be a multiple of {}"
NOT_POSITIVE: Final = "factor MultipleOf declared for {} must be positive: {}"
BELOW: Final = ("{} in body should be greater than or equal to {}", "{} in body should be greater than {}")
ABOVE: Final = ("{} in body should be less than or equal to {}", "{} in body should be less than {}")

REMEMBERED: Final = 256
"""Strings cached per pattern."""
PATTERN_WORK: Final = 100_000
"""Units of work to match one string, about 25 milliseconds (see ``kubecel.frame``)."""
MEMORABLE: Final = 128
"""Characters of the longest cached string."""

_JSON_TYPES: Final[Mapping[type, tuple[str, str]]] = {
    bool: (BOOLEAN, ""),
    str: (STRING, ""),
    int: (INTEGER, "int64"),
    float: (NUMBER, "float64"),
    list: (ARRAY, ""),
    dict: (OBJECT, ""),
}
_LARGEST_EXACT: Final = (1 << 53) - 1
INTEGER_RANGES: Final = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (INT64_MIN, INT64_MAX)}
_LARGEST_SINGLE: Final = 3.4028235677973366e38
_HAIR: Final = 1e-9


def type_fault(types: tuple[str, ...], form: str, value: Any, path: str) -> Cause | None:
    """``types`` are the allowed ones, empty for any; ``value`` isn't null."""
    kind, own_format = _JSON_TYPES[type(value)]
    fits = (
        kind in types
        or (kind == NUMBER and INTEGER in types and is_whole(value))
        or (kind == INTEGER and NUMBER in types)
    )
    if fits:
        return None
    if form and kind not in (STRING, ARRAY):
        return _type_fault(path, form, own_format)
    if (form and kind == STRING and not (NUMBER in types or INTEGER in types)) or not types:
        return None
    return _type_fault(path, ",".join(types), kind)


def null_fault(types: tuple[str, ...], path: str) -> Cause:
    return _type_fault(path, ",".join(types), "null")


def _type_fault(path: str, wanted: str, actual: str) -> Cause:
    return status.type_invalid(at(path), actual, MISTYPED.format(path, wanted, quote(actual)))


def is_whole(value: float) -> bool:
    return -_LARGEST_EXACT <= value <= _LARGEST_EXACT and value == math.floor(value)


# --- texts -------------------------------------------------------------------------------------------------------


def text_check(raw: Mapping[str, Any], form: str) -> Check | None:
    most, least, pattern = raw.get("maxLength"), raw.get("minLength"), raw.get("pattern")
    has_form = text_format(form) if form else None
    if most is None and least is None and not pattern and has_form is None:
        return None
    refuse = _matcher(pattern) if pattern else None

    def run(value: Any, path: str, faults: list[Cause], _old: Any) -> int:
        if most is not None and len(value) > most:
            faults.append(status.too_long(at(path), int(most)))
        elif least is not None and len(value) < least:
            faults.append(invalid(path, value, TOO_SHORT.format(path, int(least))))
        elif refuse is not None:
            refusal = refuse(value)
            if refusal is not None:
                faults.append(invalid(path, value, refusal.format(path, pattern)))
        if has_form is None:
            return 0
        if not has_form(value):
            faults.append(status.type_invalid(at(path), value, MISTYPED.format(path, form, quote(value))))
        return 1

    return run


def _matcher(pattern: str) -> Callable[[str], str | None]:
    try:
        compiled = compile_pattern(pattern)
    except Failure as failure:
        # CRDs with such a pattern are rejected; a stored one matches nothing.
        refusal = NO_MATCH.replace("'{}'", f"'{{}}, but pattern is invalid: {_literal(str(failure))}'")
        return lambda _: refusal

    # The same few strings recur: types and reasons of conditions, keys, units.
    @lru_cache(maxsize=REMEMBERED)
    def match_cached(value: str) -> bool:
        return compiled.matches(Meter(work_limit=PATTERN_WORK), value)

    def match(value: str) -> str | None:
        try:
            matches = (
                match_cached(value)
                if len(value) <= MEMORABLE
                else compiled.matches(Meter(work_limit=PATTERN_WORK), value)
            )
        except Overrun:
            return PATTERN_TOO_COSTLY
        return None if matches else NO_MATCH

    return match


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def enum_check(values: Sequence[Any]) -> Check | None:
    if not values:
        return None
    words = [value if isinstance(value, str) else json_text(value) for value in values]
    texts = frozenset(value for value in values if isinstance(value, str))
    others = [value for value in values if not isinstance(value, str) and value is not None]

    def run(value: Any, path: str, faults: list[Cause], _old: Any) -> int:
        if type(value) is str:
            listed = value in texts
        else:
            # Null is never in an enumeration.
            listed = value is not None and any(_is_equal(value, other) for other in others)
        if not listed:
            faults.append(status.not_supported(at(path), value, words))
        return 0

    return run


def _is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        return not isinstance(left, bool) and not isinstance(right, bool) and bool(left == right)
    return equal(left, right)


# --- numbers -----------------------------------------------------------------------------------------------------


def number_check(raw: Mapping[str, Any], kind: str, form: str) -> Check | None:
    """``kind`` is the only allowed type, empty if there are several."""
    factor, least, most = raw.get("multipleOf"), raw.get("minimum"), raw.get("maximum")
    above, below = bool(raw.get("exclusiveMinimum")), bool(raw.get("exclusiveMaximum"))
    ranged = kind == INTEGER or form == "float"
    if factor is None and least is None and most is None and not ranged:
        return None

    def run(value: Any, path: str, faults: list[Cause], _old: Any) -> int:
        if ranged:
            _check_range(value, kind, form, "Checked", path, faults)
        if factor is not None:
            native = not ranged or _check_range(factor, kind, form, "MultipleOf", path, faults)
            _check_multiple(value if native else float(value), factor, path, faults)
        if least is not None:
            native = not ranged or _check_range(least, kind, form, "Minimum boundary", path, faults)
            if value < least or (above and value == least):
                faults.append(_bound_fault(value, least, BELOW[above], path, native=native))
        if most is not None:
            native = not ranged or _check_range(most, kind, form, "Maximum boundary", path, faults)
            if value > most or (below and value == most):
                faults.append(_bound_fault(value, most, ABOVE[below], path, native=native))
        return 1

    return run


def _check_range(value: float, kind: str, form: str, role: str, path: str, faults: list[Cause]) -> bool:
    if kind == INTEGER:
        low, high = INTEGER_RANGES[form or "int64"]
        if low <= value <= high and value == math.floor(value):
            return True
    elif -_LARGEST_SINGLE < value < _LARGEST_SINGLE:
        return True
    described = f"with format {form}" if form else "(default format)"
    faults.append(general(OUT_OF_RANGE.format(role, kind, described, path)))
    return False


def _bound_fault(value: float, bound: float, words: str, path: str, *, native: bool) -> Cause:
    if native and isinstance(value, int) and bound == int(bound):
        return invalid(path, value, words.format(path, int(bound)))
    return invalid(path, float(value), words.format(path, format_number(float(bound))))


def _check_multiple(value: float, factor: float, path: str, faults: list[Cause]) -> None:
    if isinstance(value, int):
        factor = int(factor)
        if factor <= 0:
            faults.append(invalid(path, factor, NOT_POSITIVE.format(path, factor)))
        elif value % factor:
            faults.append(invalid(path, value, NOT_MULTIPLE.format(path, factor)))
        return
    if factor <= 0:
        faults.append(invalid(path, factor, NOT_POSITIVE.format(path, format_number(factor))))
    elif not _is_nearly_whole(1 / factor * value if factor < 1 else value / factor):
        faults.append(invalid(path, value, NOT_MULTIPLE.format(path, format_number(factor))))


def _is_nearly_whole(value: float) -> bool:
    """A quotient of doubles may be slightly above the integer."""
    if not -_LARGEST_EXACT <= value <= _LARGEST_EXACT:
        return False
    below = math.trunc(value)
    return value == below or (below > 0 and (value - below) / (value + below) < _HAIR)
