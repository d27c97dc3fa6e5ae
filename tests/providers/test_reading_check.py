"""Validation of what a provider returns."""

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Any, cast

import numpy as np
import pytest

from fairway.providers.provider import FAILED, ProviderError, Reading, Score
from fairway.providers.reading_check import (
    BAD_RESULT,
    BAD_VALUE,
    DUPLICATE_SCORE,
    MOST_SCORES,
    TOO_MANY_SCORES,
    UNKNOWN_SCORE,
    CheckedReading,
    check_reading,
    reading_of,
)
from fairway.providers.scales import Direct

SCORES = tuple(Score(name=name, scale=Direct()) for name in ("queueFree", "queueAge"))


def taken(values: object, **more: Any) -> CheckedReading:
    return check_reading(Reading(values=cast("Mapping[str, float]", values), **more), SCORES)


@pytest.mark.parametrize(
    "value", [3, 3.0, Decimal(3), Fraction(3), np.float32(3), np.int64(3), pytest.param(True, id="bool")]
)
def test_all_number_types_are_accepted(value: object) -> None:
    assert taken({"queueFree": value}).values == {"queueFree": float(cast("float", value))}


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), np.nan, 10**400],
)
def test_non_finite_values_are_dropped_and_named(value: object) -> None:
    checked = taken({"queueFree": value, "queueAge": 4})
    assert checked.values == {"queueAge": 4.0}
    assert checked.problem.startswith("queueFree is ")
    assert checked.problem.endswith("which is not a finite number")
    assert checked.reason == BAD_VALUE


@pytest.mark.parametrize("value", ["3", None, [3], {"value": 3}, 3j, object()])
def test_non_numbers_are_dropped_and_named(value: object) -> None:
    checked = taken({"queueFree": value, "queueAge": 4})
    assert checked.values == {"queueAge": 4.0}
    assert "queueFree is" in checked.problem
    assert "not a number" in checked.problem
    assert checked.reason == BAD_VALUE


def test_large_number_is_accepted() -> None:
    assert taken({"queueFree": 1e9}).values == {"queueFree": 1e9}


def test_unknown_score_name_gets_suggestion() -> None:
    checked = taken({"queFree": 1, "queueAge": 2})
    assert checked.values == {"queueAge": 2.0}
    assert checked.problem == "there is no score 'queFree' (did you mean 'queueFree'?)"
    assert checked.reason == UNKNOWN_SCORE


def test_non_string_score_name_is_rejected() -> None:
    checked = taken({7: 1})
    assert (checked.values, checked.reason) == ({}, UNKNOWN_SCORE)
    assert checked.problem == "7 is not a score name"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_unprintable_score_name_is_rejected() -> None:
    checked = taken({Unprintable(): 1, "queueFree": 2})
    assert checked.values == {"queueFree": 2.0}
    assert checked.problem == "Unprintable without a printable message is not a score name"
    assert len(taken({"\udcff" * 100_000: 1}).problem) < 150


@pytest.mark.parametrize("lost", ["queueAge", ["queueAge", "queFree"], {"queueAge"}])
def test_lost_scores_accept_any_iterable(lost: Any) -> None:
    assert taken({"queueFree": 1}, lost=lost).lost == {"queueAge"}


def test_invalid_lost_scores_are_rejected() -> None:
    with pytest.raises(ProviderError, match="what the provider returned cannot be read: TypeError"):
        taken({"queueFree": 1}, lost=None)


def test_mapping_with_duplicate_name_is_rejected() -> None:
    class DuplicateKeys(dict[str, float]):
        def items(self) -> Any:
            return [("queueFree", 1), ("queueFree", 2)]

    with pytest.raises(ProviderError, match="queueFree is given more than once"):
        taken(DuplicateKeys())


def test_problem_of_provider_comes_first() -> None:
    checked = taken({"queueFree": math.nan}, problem="the queue is draining", reason="Draining")
    assert checked.problem == "the queue is draining; queueFree is nan, which is not a finite number"
    assert checked.reason == "Draining"
    assert taken({}, problem="gone").reason == FAILED


def test_many_problems_are_summarised() -> None:
    checked = taken({f"n{number}": 1 for number in range(50)})
    assert checked.problem.count("there is no score") == 5
    assert checked.problem.endswith("; and 45 more")


def test_too_many_scores_are_rejected() -> None:
    with pytest.raises(ProviderError, match="returned 10000 values; no more than 100") as caught:
        taken({f"n{number}": 1 for number in range(10_000)})
    assert caught.value.reason == TOO_MANY_SCORES
    with pytest.raises(ProviderError, match=f"no more than {MOST_SCORES}"):
        reading_of([(f"n{number}", 1) for number in range(10_000)])


@pytest.mark.parametrize("result", [None, 7, "queueFree", {1, 2}])
def test_class_returning_no_values_is_rejected(result: object) -> None:
    with pytest.raises(ProviderError, match="instead of values by the name of their score") as caught:
        check_reading(result, SCORES)
    assert caught.value.reason == BAD_RESULT


@pytest.mark.parametrize("result", [{"queueFree": 1}, [("queueFree", 1)], Reading(values={"queueFree": 1})])
def test_class_may_return_pairs_or_mapping(result: object) -> None:
    assert check_reading(result, SCORES).values == {"queueFree": 1.0}


@pytest.mark.parametrize("values", [None, 7, "queueFree", [1]])
def test_reading_without_mapping_is_rejected(values: object) -> None:
    with pytest.raises(ProviderError, match="instead of values by the name of their score"):
        taken(values)


@pytest.mark.parametrize("error", [ProviderError("no route"), OSError("no route")])
def test_returned_error_is_raised(error: Exception) -> None:
    with pytest.raises(ProviderError, match=r"^(OSError: )?no route$") as caught:
        check_reading(error, SCORES)
    assert caught.value.reason == FAILED


@pytest.mark.parametrize(
    "result",
    [
        {"queueFree": 1},
        [("queueFree", 1)],
        (["queueFree", 1],),
        Reading(values={"queueFree": 1}),
        (pair for pair in [("queueFree", 1)]),
        zip(["queueFree"], [1], strict=True),
    ],
)
def test_accepted_function_results(result: object) -> None:
    assert dict(reading_of(result).values) == {"queueFree": 1}


@pytest.mark.parametrize("result", [None, "queueFree", 7, b"x", {1, 2}, [1], [("a", 1, 2)], iter([1])])
def test_rejected_function_results(result: object) -> None:
    with pytest.raises(ProviderError, match="instead of values") as caught:
        reading_of(result)
    assert caught.value.reason == BAD_RESULT


def test_endless_generator_is_cut() -> None:
    with pytest.raises(ProviderError, match="returned 101 values; no more than 100"):
        reading_of((f"n{number}", 1) for number in count())


def test_duplicate_pair_name_is_rejected() -> None:
    with pytest.raises(ProviderError, match="queueFree is given more than once") as caught:
        reading_of([("queueFree", 1), ("queueFree", 2)])
    assert caught.value.reason == DUPLICATE_SCORE
