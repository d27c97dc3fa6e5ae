import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.assessment import NO_VALUES, OK, assess, summary
from fairway.providers.provider import Score
from fairway.providers.reading_check import BAD_VALUE, CheckedReading
from fairway.providers.scales import Direct, Linear
from fairway.providers.smoothing import Smoothing

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCORES = (
    Score(name="memAvailable", scale=Linear(0, 80), unit="GiB"),
    Score(name="cpuAvailable", scale=Linear(0, 25), unit="cores"),
)


def test_assessment_sorts_scores_and_names_raw_values() -> None:
    assessment = assess(CheckedReading(values={"memAvailable": 40.0, "cpuAvailable": 12.5}), SCORES, at=NOW)
    assert assessment.scores == (("cpuAvailable", 50), ("memAvailable", 50))
    assert assessment.message == "cpuAvailable 12.5 cores, memAvailable 40 GiB"
    assert (assessment.ok, assessment.reason, assessment.at) == (True, OK, NOW)


def test_unread_score_is_not_assessed() -> None:
    assessment = assess(CheckedReading(values={"cpuAvailable": 25.0}), SCORES, at=NOW)
    assert (assessment.scores, assessment.ok) == ((("cpuAvailable", 100),), True)


def test_partial_reading_is_assessed_with_its_problem() -> None:
    intake = CheckedReading(values={"cpuAvailable": 25.0}, problem="no metrics of memory", reason="NoMetrics")
    assessment = assess(intake, SCORES, at=NOW)
    assert assessment.scores == (("cpuAvailable", 100),)
    assert (assessment.ok, assessment.reason) == (False, "NoMetrics")
    assert assessment.message == "no metrics of memory; cpuAvailable 25 cores"


def test_empty_reading_is_a_problem() -> None:
    assessment = assess(CheckedReading(values={}), SCORES, at=NOW)
    assert (assessment.scores, assessment.ok, assessment.reason) == ((), False, NO_VALUES)


def test_smoothed_values_are_scored_and_raw_values_named() -> None:
    assessment = assess(
        CheckedReading(values={"cpuAvailable": 25.0}), SCORES, at=NOW, smoothed={"cpuAvailable": 12.5}
    )
    assert assessment.scores == (("cpuAvailable", 50),)
    assert assessment.message == "cpuAvailable 25 cores"


class Broken:
    def score(self, value: float, /) -> int:
        raise KeyError(value)


class Careless:
    """A scale with a result of the wrong type."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def score(self, _: float, /) -> int:
        answer: int = self._answer  # type: ignore[assignment]  # the point of it
        return answer


@pytest.mark.parametrize("scale", [Broken(), Careless("x"), Careless(None), Careless(math.nan)])
def test_failing_scale_affects_only_its_score(scale: Careless) -> None:
    scores = (Score(name="odd", scale=scale), *SCORES)
    assessment = assess(CheckedReading(values={"odd": 1.0, "cpuAvailable": 25.0}), scores, at=NOW)
    assert assessment.scores == (("cpuAvailable", 100),)
    assert assessment.reason == BAD_VALUE
    assert assessment.message.startswith("the scale of odd failed on 1: ")


@pytest.mark.parametrize(("answer", "score"), [(1e9, 100), (-1e9, -100), (12.9, 12), (True, 1)])
def test_out_of_range_scale_result_is_clamped(answer: object, score: int) -> None:
    assessment = assess(
        CheckedReading(values={"odd": 1.0}), (Score(name="odd", scale=Careless(answer)),), at=NOW
    )
    assert assessment.scores == (("odd", score),)


def test_values_are_formatted_briefly() -> None:
    assert summary({"a": 1 / 3}, (Score(name="a", scale=Direct()),)) == "a 0.333333"


# Smoothing


def test_smoothing_is_halfway_after_a_half_life() -> None:
    smoothing = Smoothing((Score(name="a", scale=Direct(), half_life=60), Score(name="b", scale=Direct())))
    assert smoothing.update({"a": 0.0, "b": 0.0}, at=NOW) == {"a": 0.0, "b": 0.0}
    assert smoothing.update({"a": 100.0, "b": 7.0}, at=NOW + timedelta(seconds=60)) == {"a": 50.0, "b": 7.0}
    assert smoothing.update({"a": 100.0}, at=NOW + timedelta(seconds=120)) == {"a": 75.0}


def test_smoothing_is_independent_of_reading_interval() -> None:
    score = Score(name="a", scale=Direct(), half_life=30)
    often, seldom = Smoothing((score,)), Smoothing((score,))
    for smoothing in (often, seldom):
        smoothing.update({"a": 0.0}, at=NOW)
    for second in range(1, 60):
        often.update({"a": 80.0}, at=NOW + timedelta(seconds=second))
    end = NOW + timedelta(seconds=60)
    assert often.update({"a": 80.0}, at=end)["a"] == pytest.approx(seldom.update({"a": 80.0}, at=end)["a"])


def test_smoothing_forgets_missing_values() -> None:
    smoothing = Smoothing((Score(name="a", scale=Direct(), half_life=60),))
    smoothing.update({"a": 0.0}, at=NOW)
    smoothing.update({}, at=NOW + timedelta(seconds=1))
    assert smoothing.update({"a": 9.0}, at=NOW + timedelta(seconds=2)) == {"a": 9.0}


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    gaps=st.lists(st.floats(-10, 1e6), min_size=8, max_size=8),
)
def test_smoothed_value_is_within_the_values(values: list[float], gaps: list[float]) -> None:
    """Also when a clock is set back."""
    smoothing = Smoothing((Score(name="a", scale=Direct(), half_life=60),))
    moment = NOW
    for value, gap in zip(values, gaps, strict=False):
        moment += timedelta(seconds=gap)
        smoothed = smoothing.update({"a": value}, at=moment)["a"]
    slack = 1e-9 * max(map(abs, values))
    assert min(values) - slack <= smoothed <= max(values) + slack
