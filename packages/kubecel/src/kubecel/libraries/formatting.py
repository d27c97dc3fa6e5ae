"""``"%s is %d".format([a, b])``: parse and evaluate the clauses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kubecel.containers import LISTS, MAPS, CelMap, List, length
from kubecel.errors import Failure, Overrun
from kubecel.frame import Meter, charge_work, walk
from kubecel.instants import format_duration, format_timestamp
from kubecel.numbers import positional
from kubecel.scalars import Duration, Timestamp, TypeValue, Uint
from kubecel.types import Kind
from kubecel.values import type_of_value

MAX_PRECISION: Final = 100
DEFAULT_PRECISION: Final = 6
MAX_OUTPUT: Final = 4_000_000
"""Maximum characters of one result; the cost depends only on the template."""

BAD_PRECISION = "could not parse formatting clause: error while parsing precision: {}"
TOO_MANY = "too many arguments supplied to string.format (expected {}, got {})"

_REFUSALS: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}",
    "d": "decimal clause can only be used on ints, uints, and doubles, was given {}",
    "f": "fixed-point clause can only be used on ints, uints, and doubles, was given {}",
    "e": "scientific clause can only be used on ints, uints, and doubles, was given {}",
    "b": "only ints, uints, and bools can be formatted as binary, was given {}",
    "x": "only ints, uints, bytes, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on ints and uints, was given {}",
}
_NUMERIC = frozenset({Kind.INT, Kind.UINT, Kind.DOUBLE})
ACCEPTED: Final = {
    "s": frozenset(Kind) - {Kind.OPAQUE, Kind.STRUCT, Kind.ERROR, Kind.PARAM},
    "d": _NUMERIC,
    "f": _NUMERIC,
    "e": _NUMERIC,
    "b": frozenset({Kind.BOOL, Kind.INT, Kind.UINT}),
    "x": frozenset({Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES}),
    "o": frozenset({Kind.INT, Kind.UINT}),
}


class Clause(NamedTuple):
    """Literal text to copy (``verb`` is empty), or a verb with its precision."""

    text: str
    verb: str
    precision: int


def refusal(verb: str, type_name: str) -> str:
    return f"error during formatting: {_REFUSALS[verb.lower()].format(type_name)}"


_PIECE = re.compile(r"[^%]+|%%|%(\.([0-9]*))?(.?)", re.DOTALL)


def clauses(template: str, available: int) -> Iterator[Clause]:
    """Yield the parts of the template. Raise `Failure` for an invalid template or number of arguments."""
    used = 0
    for piece in _PIECE.finditer(template):
        text = piece.group()
        if text[0] != "%" or text == "%%":
            yield Clause("%" if text == "%%" else text, "", 0)
            continue
        if text == "%":
            raise Failure("unexpected end of string")
        if used >= available:
            raise Failure(f"index {used} out of range")
        used += 1
        dotted, digits, verb = piece.groups()
        precision = DEFAULT_PRECISION
        if dotted is not None:
            precision = _precision(digits, verb)
        if verb not in ACCEPTED and verb != "X":
            raise Failure(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
        yield Clause("", verb, precision)


def _precision(digits: str, verb: str) -> int:
    if not verb:
        raise Failure(BAD_PRECISION.format("could not find end of precision specifier"))
    if not digits or len(digits) > 18:
        reason = (
            f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": invalid syntax'
        )
        raise Failure(BAD_PRECISION.format(reason))
    precision = int(digits)
    if precision > MAX_PRECISION:
        reason = f"precision {precision} exceeds maximum allowed precision {MAX_PRECISION}"
        raise Failure(BAD_PRECISION.format(reason))
    return precision


_CLAUSE: Final = 8
"""Units of work of a clause, and of a number with all digits."""


def render(meter: Meter, template: str, args: list[object]) -> str:
    charge_work(meter, len(template) >> 6)
    out: list[str] = []
    total = 0
    position = 0
    for clause in clauses(template, len(args)):
        charge_work(meter, _CLAUSE)
        if clause.verb:
            text = _format(meter, clause, args[position], MAX_OUTPUT - total)
            position += 1
        else:
            text = clause.text
        total += len(text)
        if total > MAX_OUTPUT:
            raise Overrun
        out.append(text)
    return "".join(out)


def _format(meter: Meter, clause: Clause, value: object, room: int) -> str:
    verb = clause.verb
    if verb == "s":
        writer = _Writer(meter, room)
        writer.write(value)
        return "".join(writer.parts)
    if isinstance(value, (str, bytes)):
        charge_work(meter, len(value) >> 6)
    elif clause.precision > DEFAULT_PRECISION or isinstance(value, float):
        charge_work(meter, _CLAUSE + clause.precision)
    type_ = type_of_value(value)
    if type_.kind not in ACCEPTED[verb.lower()]:
        raise Failure(refusal(verb, type_.name))
    if isinstance(value, float):
        special = _special(value)
        if special is not None:
            return special
    match verb:
        case "d":
            return positional(value) if isinstance(value, float) else str(_whole(value))
        case "f" | "e":
            assert isinstance(value, (int, float))
            return format(float(value), f".{clause.precision}{verb}")
        case "b":
            return format(_whole(value), "b")
        case "o":
            return format(_whole(value), "o")
    if isinstance(value, (str, bytes)):
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        text = raw.hex()
    else:
        text = format(_whole(value), "x")
    return text.upper() if verb == "X" else text


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return int(value)


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return None


class _Writer:
    """Formats values up to the maximum length, also if they share parts."""

    __slots__ = ("_meter", "_room", "parts")

    def __init__(self, meter: Meter, room: int) -> None:
        self._meter = meter
        self._room = room
        self.parts: list[str] = []

    def write(self, value: object) -> None:
        if isinstance(value, LISTS):
            self._list(value)
        elif isinstance(value, MAPS):
            self._map(value)
        else:
            if not isinstance(value, (str, int)):
                charge_work(self._meter, _CLAUSE)
            self._put(_scalar(value))

    def _put(self, text: str) -> None:
        # Empty pieces count, too: many empty lists would be free otherwise.
        self._room -= len(text) + 1
        if self._room < 0:
            raise Overrun
        if len(text) > 255:
            charge_work(self._meter, len(text) >> 8)
        self.parts.append(text)

    def _list(self, values: List) -> None:
        charge_work(self._meter, 4)
        self._put("[")
        first = True
        for value in walk(self._meter, values, length(values), 4):
            if not first:
                self._put(", ")
            first = False
            self.write(value)
        self._put("]")

    def _map(self, value: dict[str, object] | CelMap) -> None:
        charge_work(self._meter, 4)
        entries = []
        for key, entry in walk(self._meter, value.items(), len(value), 16):
            entries.append((self._sub(key), self._sub(entry)))
        entries.sort(key=lambda pair: pair[0])
        self._put("{")
        for index, (key, text) in enumerate(entries):
            self._put(f"{', ' if index else ''}{key}: {text}")
        self._put("}")

    def _sub(self, value: object) -> str:
        inner = _Writer(self._meter, self._room)
        inner.write(value)
        self._room = inner._room
        return "".join(inner.parts)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, Uint):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _special(value) or positional(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, Timestamp):
        return format_timestamp(value, utc=True)
    if isinstance(value, TypeValue):
        return value.type.name
    raise Failure(refusal("s", type_of_value(value).name))
