"""Checks of what third-party plugins return. A check returns the result in the engine's types, or raises Nonsense."""

import math
from datetime import timedelta
from typing import Any, Final

import numpy as np

from fairway.engine.forms import points_of
from fairway.engine.points import Amounts, Prioritization, Raw, Reads, Scores, Weighted
from fairway.engine.remedies import Remedy
from fairway.engine.status import Status
from fairway.hosts.bitmap import Bits, Mask, Rows

LOWEST_SCORE: Final = -100
HIGHEST_SCORE: Final = 100
"""Range of scores after normalisation, as in OCM."""

A_STATUS: Final = "a Status"
A_STATUS_AND_ROWS: Final = "a Status and the rows that pass, as packed bits"
BITS: Final = "packed bits for {capacity} rows"
AMONG_CANDIDATES: Final = "rows among the candidates"
A_SCORE: Final = "a finite number, or None"
RAW_SCORES: Final = "Raw scores, one for each of {count} rows"
PRESENT: Final = "a mask of {count} rows that have a score"
FINITE: Final = "finite numbers"
WHOLE: Final = "whole numbers: a plugin without normalize returns final scores"
IN_RANGE: Final = f"scores between {LOWEST_SCORE} and {HIGHEST_SCORE}"
NORMALIZED: Final = "normalised whole scores, one for each of {count} rows"
REMEDIES: Final = "remedies, as fairway.engine.remedies defines them"
HASHABLE: Final = "remedies whose paths and columns are tuples"
CHOSEN: Final = "different rows among the feasible ones"


class Nonsense(Exception):
    """A result against the protocol: the value, and what was expected instead."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(expected)
        self.value = value
        self.expected = expected


def check_status(result: object) -> Status:
    if not isinstance(result, Status):
        raise Nonsense(result, A_STATUS)
    return result


def check_bits(result: object, *, like: Bits) -> Bits:
    if not isinstance(result, np.ndarray) or result.dtype != np.uint64 or result.shape != like.shape:
        raise Nonsense(result, BITS.format(capacity=len(like) * 64))
    return result


def check_passed(result: object, *, candidates: Bits) -> tuple[Status, Bits]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise Nonsense(result, A_STATUS_AND_ROWS)
    status, passed = check_status(result[0]), check_bits(result[1], like=candidates)
    if (passed & ~candidates).any():
        raise Nonsense(passed, AMONG_CANDIDATES)
    return status, passed


def check_eligible(result: object, *, live: Bits) -> tuple[Status, Bits | None]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise Nonsense(result, A_STATUS_AND_ROWS)
    status, admitted = check_status(result[0]), result[1]
    return status, None if admitted is None else check_bits(admitted, like=live)


def check_score(result: object, *, final: bool) -> int | float | None:
    """``final`` is whether no normalisation follows."""
    if result is None:
        return None
    if isinstance(result, bool) or not isinstance(result, int | float | np.integer | np.floating):
        raise Nonsense(result, A_SCORE)
    number: int | float = result.item() if isinstance(result, np.generic) else result
    if not math.isfinite(number):
        raise Nonsense(number, A_SCORE)
    if final:
        if not isinstance(number, int):
            raise Nonsense(number, WHOLE)
        if not LOWEST_SCORE <= number <= HIGHEST_SCORE:
            raise Nonsense(number, IN_RANGE)
    return number


def check_raw(result: object, *, count: int, final: bool) -> Raw:
    if not isinstance(result, Raw):
        raise Nonsense(result, RAW_SCORES.format(count=count))
    values, present = result.values, _check_present(result.present, count=count)
    if not isinstance(values, np.ndarray) or values.shape != (count,) or values.dtype.kind not in "iuf":
        raise Nonsense(values, RAW_SCORES.format(count=count))
    counted = values if present is None else values[present]
    if values.dtype.kind == "f" and not np.isfinite(counted).all():
        raise Nonsense(counted[~np.isfinite(counted)][0].item(), FINITE)
    if values.dtype.kind == "f":
        if final:
            raise Nonsense(values, WHOLE)
        return Raw(values.astype(np.float64, copy=False), present)
    if final:
        _check_range(counted)
    return Raw(values.astype(np.int64, copy=False), present)


def _check_present(present: Any, *, count: int) -> Mask | None:
    if present is None:
        return None
    if not isinstance(present, np.ndarray) or present.dtype != np.bool_ or present.shape != (count,):
        raise Nonsense(present, PRESENT.format(count=count))
    return present


def check_normalized(result: object, *, count: int) -> Scores:
    if not isinstance(result, np.ndarray) or result.shape != (count,) or result.dtype.kind not in "iu":
        raise Nonsense(result, NORMALIZED.format(count=count))
    _check_range(result)
    return result.astype(np.int64, copy=False)


def _check_range(scores: Amounts) -> None:
    outside = scores[(scores < LOWEST_SCORE) | (scores > HIGHEST_SCORE)]
    if len(outside):
        raise Nonsense(outside[0].item(), IN_RANGE)


def check_rows(result: object, *, among: Rows) -> Rows:
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu" or result.ndim != 1:
        raise Nonsense(result, CHOSEN)
    rows = result.astype(np.int64, copy=False)
    if len(np.unique(rows)) != len(rows) or not np.isin(rows, among).all():
        raise Nonsense(result, CHOSEN)
    return rows


def check_mask(result: object, *, count: int) -> Mask:
    mask = _check_present(result, count=count)
    if mask is None:
        raise Nonsense(result, PRESENT.format(count=count))
    return mask


def check_type(result: object, kind: Any, expected: str) -> Any:
    if not isinstance(result, kind):
        raise Nonsense(result, expected)
    return result


def check_reads(result: object) -> Reads:
    reads: Reads = check_type(result, Reads, "Reads")
    return reads


def check_remedies(result: object) -> tuple[Remedy, ...]:
    if not isinstance(result, tuple):
        raise Nonsense(result, REMEDIES)
    for remedy in result:
        if not isinstance(remedy, Remedy):
            raise Nonsense(remedy, REMEDIES)
        try:
            hash(remedy)
        except TypeError as error:
            raise Nonsense(remedy, HASHABLE) from error
    return result


def check_prioritization(result: object) -> Prioritization:
    prioritization: Prioritization = check_type(result, Prioritization, "a Prioritization")
    for weighted in prioritization.scores:
        if (
            not isinstance(weighted, Weighted)
            or not isinstance(weighted.weight, int)
            or not isinstance(weighted.missing, int)
        ):
            raise Nonsense(weighted, "Weighted plugins with whole weights")
        if "Score" not in points_of(type(weighted.plugin)):
            raise Nonsense(weighted.plugin, "Score plugins")
    if not isinstance(prioritization.refusal, Status | None):
        raise Nonsense(prioritization.refusal, "a Status, or None")
    return prioritization


def check_permit(result: object) -> tuple[Status, timedelta | None]:
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], timedelta | None):
        return check_status(result[0]), result[1]
    raise Nonsense(result, "a Status and a time")
