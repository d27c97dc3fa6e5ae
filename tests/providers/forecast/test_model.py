import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.forecast import model

SEASON = 24


def wave(length: int, *, slope: float = 0.0, height: float = 10.0, level: float = 50.0) -> model.Matrix:
    at = np.arange(length)
    return np.asarray(level + slope * at + height * np.sin(2 * np.pi * at / SEASON))[None, :]


@given(
    st.integers(2 * SEASON, 6 * SEASON),
    st.integers(1, SEASON),
    st.floats(-1, 1),
    st.floats(0, 50),
    st.integers(0, 10**6),
)
def test_seasonal_trend_is_continued_exactly(
    length: int, ahead: int, slope: float, height: float, start: int
) -> None:
    whole = wave(start % SEASON + length + ahead, slope=slope, height=height)[:, start % SEASON :]
    trend = model.fit(whole[:, :length], season=SEASON, at=start + length - 1)
    assert trend.slope[0] == pytest.approx(slope, abs=1e-6)
    # The profile is a mean over seasons of which one may be cut, so a slope leaves a little of itself in it.
    assert trend.forecast(ahead)[0] == pytest.approx(whole[0, -1], abs=1e-6 + abs(slope))


def test_fit_of_many_series_equals_single_fits() -> None:
    together = np.vstack([wave(72), wave(72, slope=0.5), wave(72, level=-3, height=1)])
    forecast = model.fit(together, season=SEASON, at=71).forecast(5)
    alone = [model.fit(row[None, :], season=SEASON, at=71).forecast(5)[0] for row in together]
    assert forecast == pytest.approx(alone)


def test_outlier_does_not_change_slope() -> None:
    values = wave(96)
    values[0, 50] = 10_000
    assert model.fit(values, season=SEASON, at=95).slope[0] == pytest.approx(0, abs=1e-9)


def test_trial_uses_only_earlier_values() -> None:
    values = wave(96)
    other = values.copy()
    other[0, -1] += 100
    ahead = 3
    one = model.trial(values, season=SEASON, at=95, ahead=ahead)
    two = model.trial(other, season=SEASON, at=95, ahead=ahead)
    count = len(np.unique(np.linspace(72, 95, num=model.ORIGINS).astype(int)))
    assert two.error[0] - one.error[0] == pytest.approx(100 / count, rel=1e-6)


def test_seasonal_model_beats_no_change_except_on_noise() -> None:
    seasonal = model.trial(wave(96), season=SEASON, at=95, ahead=6)
    assert seasonal.error[0] < 1e-6 < seasonal.unchanged[0]
    noise = np.random.default_rng(7).normal(0, 10, size=(50, 96))
    trial = model.trial(noise, season=SEASON, at=95, ahead=6)
    assert (trial.relative > 0.5).all()


def test_random_walk_is_best_forecast_as_unchanged() -> None:
    walk = np.cumsum(np.random.default_rng(3).normal(0, 1, size=(200, 96)), axis=1) + 100
    trial = model.trial(walk, season=SEASON, at=95, ahead=1)
    assert (trial.error > trial.unchanged).mean() > 0.9


def test_constant_series_has_no_error() -> None:
    flat = np.full((1, 96), 5.0)
    assert model.fit(flat, season=SEASON, at=95).forecast(9)[0] == 5
    trial = model.trial(flat, season=SEASON, at=95, ahead=9)
    assert (trial.error[0], trial.unchanged[0], trial.relative[0]) == (0, 0, 0)
    nothing = model.trial(np.zeros((1, 96)), season=SEASON, at=95, ahead=9)
    assert nothing.relative[0] == 0


@pytest.mark.parametrize("value", [0.1, 1 / 3, 3.3, -0.7, 123.456, 1e9 + 0.1])
@pytest.mark.parametrize("length", [96, 97, 130])
def test_constant_series_forecast_equals_no_change(value: float, length: int) -> None:
    trial = model.trial(np.full((1, length), value), season=SEASON, at=1000, ahead=5)
    assert (trial.error[0], trial.unchanged[0], trial.relative[0]) == (0, 0, 0)


def test_trial_needs_two_seasons() -> None:
    trial = model.trial(wave(50), season=SEASON, at=49, ahead=6)
    assert np.isinf(trial.relative).all()


def test_sufficient_coverage_of_seasons() -> None:
    values = np.vstack([wave(96)] * 6)
    values[1, -1] = np.nan  # not up to now
    values[2, -30:-20] = np.nan  # too much of one season is missing
    values[3, 40:44] = np.nan  # a few gaps
    values[4, :24] = np.nan  # three of four seasons
    values[5, :] = np.nan
    enough = model.sufficient(values, season=SEASON, seasons=3)
    assert enough.tolist() == [True, False, False, True, True, False]
    assert not model.sufficient(values[:, :71], season=SEASON, seasons=3).any()


def test_gaps_are_interpolated() -> None:
    nan = np.nan
    filled = model.fill_gaps(np.array([[nan, 1, nan, 3, nan], [1, 2, 3, 4, 5]]))
    assert filled.tolist() == [[1, 1, 2, 3, 3], [1, 2, 3, 4, 5]]
