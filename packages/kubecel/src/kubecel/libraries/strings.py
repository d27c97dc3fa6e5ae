"""The strings extension, with its own costs."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

from kubecel import cost
from kubecel.containers import List, length
from kubecel.cost import PER_CHARACTER
from kubecel.declarations import Function, Library, Metered, Overload
from kubecel.errors import Failure, Overrun
from kubecel.frame import Meter, charge_work, walk
from kubecel.libraries.formatting import MAX_OUTPUT, render
from kubecel.types import DYN, INT, STRING, list_of
from kubecel.values import MAX_ELEMENTS, size_of, type_of_value
from kubecel.work import search_work

INDEX_OUT_OF_RANGE: Final = "index out of range: {}"

_WRITTEN: Final = 8
"""Characters written per unit of work, as a power of two."""
_QUADRATIC: Final = 1 << 16

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _char_at(text: str, index: int) -> object:
    if not 0 <= index <= len(text):
        raise Failure(INDEX_OUT_OF_RANGE.format(index))
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> object:
    if offset < 0:
        raise Failure(INDEX_OUT_OF_RANGE.format(offset))
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> object:
    if not part:
        return len(text)
    return _find_last(text, part, len(text))


def _last_index_from(text: str, part: str, offset: int) -> object:
    if offset < 0:
        raise Failure(INDEX_OUT_OF_RANGE.format(offset))
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return _find_last(text, part, offset + len(part))


def _find_last(text: str, part: str, end: int) -> int:
    """Search backwards in linear time, which Python does only forwards."""
    if len(text) * len(part) < _QUADRATIC:
        return text.rfind(part, 0, end)
    end = min(end, len(text))
    reversed_at = text[:end][::-1].find(part[::-1])
    return -1 if reversed_at < 0 else end - reversed_at - len(part)


def _substring(text: str, start: int) -> object:
    if not 0 <= start <= len(text):
        raise Failure(INDEX_OUT_OF_RANGE.format(start))
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> object:
    if start > end:
        raise Failure(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise Failure(INDEX_OUT_OF_RANGE.format(start))
    if end > len(text):
        raise Failure(INDEX_OUT_OF_RANGE.format(end))
    return text[start:end]


def _replace(meter: Meter, text: str, old: str, new: str, count: int = -1) -> object:
    charge_work(meter, search_work(len(text), len(old)))
    times = len(text) + 1 if not old else text.count(old)
    if count >= 0:
        times = min(times, count)
    grown = times * len(new)
    if grown > MAX_OUTPUT:
        raise Overrun
    charge_work(meter, (len(text) + grown >> _WRITTEN) + (times >> 4))
    return text.replace(old, new, times)


def _split(meter: Meter, text: str, separator: str, limit: int = -1) -> object:
    if limit == 0:
        return []
    if not separator:
        count = len(text) if limit < 0 else min(limit, len(text))
        charge_work(meter, (count >> 4) + (len(text) >> _WRITTEN))
        if 0 < limit < len(text):
            return [*text[: limit - 1], text[limit - 1 :]]
        return list(text)
    charge_work(meter, search_work(len(text), len(separator)))
    count = text.count(separator)
    count = count if limit < 0 else min(limit, count)
    charge_work(meter, (count >> 2) + (len(text) >> _WRITTEN))
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(meter: Meter, values: List, separator: str = "") -> object:
    count = length(values)
    if count > MAX_ELEMENTS or count * len(separator) > MAX_OUTPUT:
        raise Overrun
    total = count * len(separator)
    parts: list[str] = []
    for value in walk(meter, values, count):
        if not isinstance(value, str):
            raise Failure(f"join: invalid input of type {type_of_value(value).name}")
        total += len(value)
        if total > MAX_OUTPUT:
            raise Overrun
        parts.append(value)
    charge_work(meter, total >> _WRITTEN)
    return separator.join(parts)


def _format(meter: Meter, template: str, args: List) -> object:
    return render(meter, template, list(walk(meter, args, length(args))))


def _quote(text: str) -> object:
    return f'"{text.translate(_QUOTED)}"'


# --- costs -------------------------------------------------------------------------------------------------------


def _char_at_cost(args: tuple[Any, ...], _result: object) -> int:
    return 1 + ceil(size_of(args[0]) * PER_CHARACTER) + 1


def _transform_cost(args: tuple[Any, ...], result: object) -> int:
    return 1 + ceil(size_of(args[0]) * PER_CHARACTER) + size_of(result)


def _search_cost(args: tuple[Any, ...], _result: object) -> int:
    return ceil(size_of(args[0]) * size_of(args[1]) * PER_CHARACTER) + 1


def _replace_cost(args: tuple[Any, ...], result: object) -> int:
    searched = (size_of(args[0]) or 1) * (size_of(args[1]) or 1)
    return 1 + ceil(searched * PER_CHARACTER) + size_of(result)


def _split_cost(args: tuple[Any, ...], result: object) -> int:
    return 1 + ceil((size_of(args[0]) + 1) * PER_CHARACTER) + size_of(result) + cost.CREATE_LIST


def _join_cost(args: tuple[Any, ...], result: object) -> int:
    return 1 + ceil((size_of(args[0]) + 1) * PER_CHARACTER) + size_of(result)


_STRINGS = list_of(STRING)

STRINGS = Library(
    "strings",
    (
        Function(
            "charAt",
            (
                Overload(
                    "string_char_at_int", (STRING, INT), STRING, _char_at, member=True, cost=_char_at_cost
                ),
            ),
        ),
        Function(
            "indexOf",
            (
                Overload(
                    "string_index_of_string", (STRING, STRING), INT, _index_of, member=True, cost=_search_cost
                ),
                Overload(
                    "string_index_of_string_int",
                    (STRING, STRING, INT),
                    INT,
                    _index_of,
                    member=True,
                    variadic=True,
                    cost=_search_cost,
                ),
            ),
        ),
        Function(
            "lastIndexOf",
            (
                Overload(
                    "string_last_index_of_string",
                    (STRING, STRING),
                    INT,
                    _last_index_of,
                    member=True,
                    cost=_search_cost,
                ),
                Overload(
                    "string_last_index_of_string_int",
                    (STRING, STRING, INT),
                    INT,
                    _last_index_from,
                    member=True,
                    variadic=True,
                    cost=_search_cost,
                ),
            ),
        ),
        Function(
            "lowerAscii",
            (
                Overload(
                    "string_lower_ascii",
                    (STRING,),
                    STRING,
                    lambda text: text.translate(_LOWER),
                    member=True,
                    cost=_transform_cost,
                ),
            ),
        ),
        Function(
            "upperAscii",
            (
                Overload(
                    "string_upper_ascii",
                    (STRING,),
                    STRING,
                    lambda text: text.translate(_UPPER),
                    member=True,
                    cost=_transform_cost,
                ),
            ),
        ),
        Function(
            "replace",
            (
                Overload(
                    "string_replace_string_string",
                    (STRING, STRING, STRING),
                    STRING,
                    Metered(_replace),
                    member=True,
                    variadic=True,
                    cost=_replace_cost,
                ),
                Overload(
                    "string_replace_string_string_int",
                    (STRING, STRING, STRING, INT),
                    STRING,
                    Metered(_replace),
                    member=True,
                    variadic=True,
                    cost=_replace_cost,
                ),
            ),
        ),
        Function(
            "split",
            (
                Overload(
                    "string_split_string",
                    (STRING, STRING),
                    _STRINGS,
                    Metered(_split),
                    member=True,
                    cost=_split_cost,
                ),
                Overload(
                    "string_split_string_int",
                    (STRING, STRING, INT),
                    _STRINGS,
                    Metered(_split),
                    member=True,
                    variadic=True,
                    cost=_split_cost,
                ),
            ),
        ),
        Function(
            "substring",
            (
                Overload(
                    "string_substring_int",
                    (STRING, INT),
                    STRING,
                    _substring,
                    member=True,
                    cost=_transform_cost,
                ),
                Overload(
                    "string_substring_int_int",
                    (STRING, INT, INT),
                    STRING,
                    _substring_range,
                    member=True,
                    variadic=True,
                    cost=_transform_cost,
                ),
            ),
        ),
        Function(
            "trim",
            (
                Overload(
                    "string_trim",
                    (STRING,),
                    STRING,
                    lambda text: text.strip(_SPACE),
                    member=True,
                    cost=_transform_cost,
                ),
            ),
        ),
        Function(
            "reverse",
            (
                Overload(
                    "string_reverse",
                    (STRING,),
                    STRING,
                    lambda text: text[::-1],
                    member=True,
                    cost=_transform_cost,
                ),
            ),
        ),
        Function(
            "format",
            (
                Overload(
                    "string_format",
                    (STRING, list_of(DYN)),
                    STRING,
                    Metered(_format),
                    member=True,
                    variadic=True,
                    cost=cost.first_argument,
                ),
            ),
        ),
        Function(
            "strings.quote", (Overload("strings_quote", (STRING,), STRING, _quote, cost=cost.first_argument),)
        ),
        Function(
            "join",
            (
                Overload("list_join", (_STRINGS,), STRING, Metered(_join), member=True, cost=_join_cost),
                Overload(
                    "list_join_string",
                    (_STRINGS, STRING),
                    STRING,
                    Metered(_join),
                    member=True,
                    cost=_join_cost,
                ),
            ),
        ),
    ),
)
