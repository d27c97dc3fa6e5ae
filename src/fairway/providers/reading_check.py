"""Check what a provider returned: it is third-party code.

An invalid value is dropped; a reading that is invalid as a whole is rejected.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from numbers import Real
from typing import Final

from fairway.providers.message_format import describe, tidy
from fairway.providers.provider import FAILED, ProviderError, Reading, Score

MOST_SCORES: Final = 100
"""Limit per object: the hub stores and sends all of them with every change of one."""
NAMED_PROBLEMS: Final = 5

ODD_READING: Final = "what the provider returned cannot be read: {error}"
NOT_VALUES: Final = "the provider returned {kind} instead of values by the name of their score"
TOO_MANY: Final = "the provider returned {count} values; no more than {most} scores can be published"
NOT_FINITE: Final = "{name} is {value}, which is not a finite number"
NOT_A_NUMBER: Final = "{name} is {kind}, not a number"
NO_FLOAT: Final = "{name} is {kind}, which cannot be made a number: {error}"
NOT_A_NAME: Final = "{name} is not a score name"
UNKNOWN_NAME: Final = "there is no score {name}{hint}"
DUPLICATE: Final = "{name} is given more than once"
NEAR: Final = " (did you mean {near!r}?)"
MORE: Final = "and {count} more"

_LONGEST_SHOWN: Final = 100
"""Characters of an invalid name in a message."""

BAD_RESULT: Final = "InvalidResult"
BAD_VALUE: Final = "InvalidValue"
UNKNOWN_SCORE: Final = "UnknownScore"
DUPLICATE_SCORE: Final = "DuplicateScore"
TOO_MANY_SCORES: Final = "TooManyScores"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedReading:
    """Finite values of declared scores. ``problem`` and ``reason`` are those of a Reading."""

    values: Mapping[str, float]
    problem: str = ""
    reason: str = ""
    lost: frozenset[str] = frozenset()
    note: str = ""


def reading_of(result: object) -> Reading:
    """Convert a function's result: a Reading, a mapping, or pairs of name and value. Raises ProviderError."""
    if isinstance(result, Reading):
        return result
    if isinstance(result, Mapping):
        return Reading(values=result)
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return Reading(values=_from_pairs(result, kind=_kind(result)))
    if isinstance(result, Iterator):  #  such as a generator, which may be infinite
        return Reading(values=_from_pairs(tuple(islice(result, MOST_SCORES + 1)), kind=_kind(result)))
    raise ProviderError(NOT_VALUES.format(kind=_kind(result)), reason=BAD_RESULT)


def _from_pairs(pairs: Sequence[object], *, kind: str) -> dict[str, float]:
    readings: dict[str, float] = {}
    if len(pairs) > MOST_SCORES:
        raise ProviderError(TOO_MANY.format(count=len(pairs), most=MOST_SCORES), reason=TOO_MANY_SCORES)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ProviderError(NOT_VALUES.format(kind=kind), reason=BAD_RESULT)
        name, value = pair
        if name in readings:
            raise ProviderError(DUPLICATE.format(name=name), reason=DUPLICATE_SCORE)
        readings[name] = value
    return readings


def check_reading(reading: object, scores: Sequence[Score]) -> CheckedReading:
    """Raises ProviderError if ``reading`` is one, or if no value is usable."""
    if isinstance(reading, ProviderError):
        raise reading
    try:
        return _check_values(reading, {score.name for score in scores})
    except ProviderError:
        raise
    except Exception as error:  #  a mapping may be third-party code
        message = ODD_READING.format(error=describe(error))
        raise ProviderError(message, reason=BAD_RESULT) from error


def _check_values(reading: object, known: set[str]) -> CheckedReading:
    if isinstance(reading, Exception):
        raise ProviderError(describe(reading))
    if not isinstance(reading, Reading):
        reading = reading_of(reading)
    if not isinstance(reading.values, Mapping):
        raise ProviderError(NOT_VALUES.format(kind=_kind(reading.values)), reason=BAD_RESULT)
    values: dict[str, float] = {}
    problems: list[tuple[str, str]] = []
    if reading.problem:
        problems.append((tidy(reading.problem), reading.reason or FAILED))
    count = len(reading.values)
    for number, (given, value) in enumerate(reading.values.items()):
        if max(count, number + 1) > MOST_SCORES:
            message = TOO_MANY.format(count=max(count, number + 1), most=MOST_SCORES)
            raise ProviderError(message, reason=TOO_MANY_SCORES)
        try:
            name = _check_name(given, known)
            if name in values:
                raise ProviderError(DUPLICATE.format(name=name), reason=DUPLICATE_SCORE)
            values[name] = _to_float(name, value)
        except ProviderError as error:
            if error.reason == DUPLICATE_SCORE:
                raise
            problems.append((str(error), error.reason))
    lost = frozenset(name for name in _names(reading.lost) if name in known and name not in values)
    note = tidy(reading.note)
    if not problems:
        return CheckedReading(values=values, lost=lost, note=note)
    words = [words for words, _ in problems[:NAMED_PROBLEMS]]
    if len(problems) > NAMED_PROBLEMS:
        words.append(MORE.format(count=len(problems) - NAMED_PROBLEMS))
    return CheckedReading(
        values=values, problem="; ".join(words), reason=problems[0][1], lost=lost, note=note
    )


def _check_name(given: object, known: set[str]) -> str:
    if not isinstance(given, str):
        raise ProviderError(NOT_A_NAME.format(name=_format_value(given)), reason=UNKNOWN_SCORE)
    name = str.__str__(given)
    if name not in known:
        near = get_close_matches(name[:_LONGEST_SHOWN], known, n=1)
        hint = NEAR.format(near=near[0]) if near else ""
        raise ProviderError(UNKNOWN_NAME.format(name=_format_value(name), hint=hint), reason=UNKNOWN_SCORE)
    return name


def _to_float(name: str, value: object) -> float:
    if not isinstance(value, Real | Decimal):
        raise ProviderError(NOT_A_NUMBER.format(name=name, kind=_kind(value)), reason=BAD_VALUE)
    try:
        number = float(value)
    except (OverflowError, ValueError):  # an integer beyond all floats, a signalling NaN
        number = math.inf
    except Exception as error:  #  a third-party number type
        message = NO_FLOAT.format(name=name, kind=_kind(value), error=describe(error))
        raise ProviderError(message, reason=BAD_VALUE) from error
    if not math.isfinite(number):
        raise ProviderError(NOT_FINITE.format(name=name, value=number), reason=BAD_VALUE)
    return number


def _names(given: Iterable[str]) -> tuple[str, ...]:
    """Treat a string as one name instead of its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def _format_value(given: object) -> str:
    text = ascii(given[:_LONGEST_SHOWN]) if isinstance(given, str) else tidy(given)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
