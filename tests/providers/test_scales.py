import math
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairway.providers.provider import Scale
from fairway.providers.scales import FLOORS as FLOOR_CHOICES
from fairway.providers.scales import (
    NOT_POSITIVE,
    UNFITTED,
    Direct,
    Inverted,
    Linear,
    Logarithmic,
    Quantile,
    Ranks,
    Rounding,
    Share,
    Spread,
    fit,
    needs_fleet,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOORS = st.sampled_from(FLOOR_CHOICES)


@st.composite
def linear(draw: st.DrawFn) -> Linear:
    low, high = sorted((draw(FINITE), draw(FINITE)))
    assume(low < high and math.isfinite(high - low))
    return Linear(low, high, draw(st.sampled_from(["truncate", "nearest", "floor"])), draw(FLOORS))


@st.composite
def logarithmic(draw: st.DrawFn) -> Logarithmic:
    positive = st.floats(min_value=1e-300, allow_infinity=False)
    low, high = sorted((draw(positive), draw(positive)))
    assume(low < high)
    return Logarithmic(low, high, floor=draw(FLOORS))


RANKS = st.builds(lambda values, floor: Quantile(floor).fit(values), st.lists(FINITE), FLOORS)
SPREADS = st.builds(lambda values, floor: Spread(floor=floor).fit(values), st.lists(FINITE), FLOORS)
SHARES = st.floats(min_value=1e-300, allow_infinity=False).map(Share)
DIRECTS = FLOORS.map(Direct)
RISING: st.SearchStrategy[Scale] = st.one_of(linear(), logarithmic(), DIRECTS, RANKS, SPREADS, SHARES)


@given(scale=RISING, value=FINITE)
def test_scale_results_are_integers_in_range(scale: Scale, value: float) -> None:
    floor = getattr(scale, "floor")  # noqa: B009
    for tested in (scale, Inverted(scale)):
        score = tested.score(value)
        assert type(score) is int
        assert floor <= score <= 100


@given(scale=RISING, one=FINITE, other=FINITE)
def test_scales_are_monotone(scale: Scale, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert scale.score(low) <= scale.score(high)
    assert Inverted(scale).score(low) >= Inverted(scale).score(high)


@given(scale=st.one_of(linear(), logarithmic()), beyond=st.floats(min_value=0, allow_infinity=False))
def test_values_beyond_limits_score_the_ends(scale: Linear | Logarithmic, beyond: float) -> None:
    assert scale.score(scale.low) == scale.floor
    assert scale.score(scale.low - beyond) == scale.floor
    assert scale.score(math.nextafter(scale.high, math.inf) + beyond) == 100
    # At the very limit the reference's formula may err by its last bit, which truncation makes a point.
    assert scale.score(scale.high) in (99, 100)


@pytest.mark.parametrize(
    ("high", "value", "score"),
    [
        *((100, value, score) for value, score in ((0, -100), (1, -98), (4, -92), (16, -68))),
        *((100, value, score) for value, score in ((24, -52), (40, -20), (100, 100), (101, 100))),
        *(
            (20, value, score)
            for value, score in ((0, -100), (1, -90), (2, -80), (3, -70), (8, -20), (20, 100))
        ),
        *((1048576, 1024 * gib, score) for gib, score in ((1, -99), (8, -98), (32, -93), (64, -87))),
        *((1048576, 1024 * gib, score) for gib, score in ((128, -75), (256, -50), (512, 0), (1024, 100))),
    ],
)
def test_linear_scale_matches_reference(high: float, value: float, score: int) -> None:
    assert Linear(0, high, floor=-100).score(value) == score


@pytest.mark.parametrize(
    ("high", "value", "score"),
    [
        *((100, value, score) for value, score in ((0, 0), (0.9, 0), (1, 1), (12, 12), (29, 29), (24.7, 24))),
        *((100, value, score) for value, score in ((57, 57), (58, 58), (99.9, 99), (100, 100), (101, 100))),
        *((1024, gib, score) for gib, score in ((0, 0), (10, 0), (46.98, 4), (512, 50), (1024, 100))),
    ],
)
def test_linear_scale_is_free_share_of_maximum(high: float, value: float, score: int) -> None:
    assert Linear(0, high).score(value) == score


@given(scale=linear(), value=FINITE)
def test_linear_scale_rounds_toward_zero(scale: Linear, value: float) -> None:
    span = 100 - scale.floor
    assume(scale.low < value <= scale.high and math.isfinite(span * (value - scale.low)))
    exact = span * (value - scale.low) / (scale.high - scale.low) + scale.floor
    assert Linear(scale.low, scale.high, floor=scale.floor).score(value) == math.trunc(min(exact, 100))


def test_scale_rounding_modes() -> None:
    ways: tuple[Rounding, ...] = ("truncate", "nearest", "floor")
    assert [Linear(0, 1000, way, -100).score(3) for way in ways] == [-99, -99, -100]
    assert [Linear(0, 1000, way).score(998) for way in ways] == [99, 100, 99]


def test_share_above_zero_scores_at_least_one() -> None:
    assert [Share(1000).score(value) for value in (-1, 0, 0.1, 15, 25, 1000, 2000)] == [
        0,
        0,
        1,
        1,
        2,
        100,
        100,
    ]
    assert Share(rounding="nearest").score(0.497) == 50


def test_logarithmic_scale_has_equal_steps_for_equal_ratios() -> None:
    scale = Logarithmic(1, 10_000)
    assert [scale.score(value) for value in (1, 10, 100, 1000, 10_000)] == [0, 25, 50, 75, 100]
    symmetric = Logarithmic(1, 10_000, floor=-100)
    assert [symmetric.score(value) for value in (1, 10, 100, 1000, 10_000)] == [-100, -50, 0, 50, 100]


@pytest.mark.parametrize(("value", "score"), [(1e9, 100), (-1e9, -100), (12.4, 12), (12.5, 13), (-0.4, 0)])
def test_direct_scale_rounds_and_clamps(value: float, score: int) -> None:
    assert Direct().score(value) == score
    assert Direct(floor=0).score(value) == max(score, 0)


@pytest.mark.parametrize(
    ("values", "scores"),
    [
        ([7.0], [50]),
        ([5.0, 5.0, 5.0], [50, 50, 50]),
        ([1.0, 2.0, 1000.0], [0, 50, 100]),
        ([1.0, 1.0, 2.0, 3.0], [17, 17, 67, 100]),
    ],
)
def test_quantile_scale_ranks_fleet(values: list[float], scores: list[int]) -> None:
    scale = fit(Quantile(), values)
    assert [scale.score(value) for value in values] == scores
    upside_down = fit(Inverted(Quantile()), values)
    assert [upside_down.score(value) for value in values] == [100 - score for score in scores]
    symmetric = fit(Quantile(floor=-100), values)
    assert symmetric.score(values[0]) in (-100, -67, 0)


def test_spread_scale_covers_fleet() -> None:
    scale = fit(Spread(), [10.0, 20.0, 110.0])
    assert [scale.score(value) for value in (10.0, 20.0, 60.0, 110.0)] == [0, 10, 50, 100]
    assert fit(Spread(), [3.0, 3.0]).score(3.0) == 50
    assert fit(Spread(floor=-100), [3.0, 3.0]).score(3.0) == 0
    assert fit(Spread(), [-1.7e308, 0.0, 1.7e308]).score(0.0) == 50


@given(values=st.lists(FINITE, min_size=1), data=st.data())
def test_quantile_is_independent_of_order(values: list[float], data: st.DataObject) -> None:
    assert Quantile().fit(data.draw(st.permutations(values))) == Quantile().fit(values)


def test_fleet_scales_need_fitting() -> None:
    assert needs_fleet(Quantile())
    assert needs_fleet(Inverted(Inverted(Spread())))
    assert not needs_fleet(Inverted(Linear(0, 1)))
    assert not needs_fleet(Ranks((1.0,)))
    with pytest.raises(TypeError, match=UNFITTED.format(kind="Quantile")):
        Quantile().score(1.0)
    linear_scale = Linear(0, 1)
    assert fit(linear_scale, [1.0, 2.0]) is linear_scale


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Linear(1, 1), r"low \(1\) must be less than high \(1\)$"),
        (lambda: Linear(10, 0), r"write Inverted\(Linear\(0, 10\)\)"),
        (lambda: Linear(0, math.inf), "high must be a finite number, not inf"),
        (lambda: Linear(math.nan, 1), "low must be a finite number, not nan"),
        (lambda: Linear(-1.7e308, 1.7e308), "high - low must be a finite number"),
        (lambda: Logarithmic(0, 10), NOT_POSITIVE.format(low=0)),
        (lambda: Logarithmic(5, 2), "must be less than high"),
        (lambda: Share(0), "must be less than high"),
        *(
            (make, "floor, the score of the worst value, must be 0 or -100, not -50")
            for make in (
                lambda: Linear(0, 1, floor=-50),
                lambda: Direct(floor=-50),
                lambda: Quantile(floor=-50),
                lambda: Spread(floor=-50),
            )
        ),
    ],
)
def test_invalid_scale_limits_are_rejected(make: Callable[[], Scale], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
