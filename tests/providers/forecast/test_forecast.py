import math
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairway.api.amount_display import display_share
from fairway.api.cluster import ManagedCluster
from fairway.providers.catalogue import OptionsError
from fairway.providers.forecast import provider
from fairway.providers.forecast.options import ForecastOptions
from fairway.providers.forecast.provider import Forecast
from fairway.providers.provider import FleetProvider, ProviderError, Reading, Score
from fairway.providers.runner import Settings, running
from fairway.providers.scales import Linear
from fairway.testing.hub import HubAddress
from providers.tools.publishing import condition, hub_of, scores
from providers.tools.readings import StoppedClock, built, failure, fleet

HOUR = 3600.0


class Load(FleetProvider):
    """Busy by day and idle by night, or as a test sets it."""

    name, resource = "load", "load-score"
    scores = (Score(name="free", scale=Linear(0, 100), unit="cores"),)

    def __init__(self, clock: StoppedClock) -> None:
        self.clock = clock
        self.error: ProviderError | None = None
        self.noise = 0.0
        self._drawn = 1

    def at(self, moment: float) -> float:
        return 50 + 30 * math.sin(2 * math.pi * moment / (24 * HOUR))

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading]:
        if self.error is not None:
            raise self.error
        # Numbers without any order, the same in every run.
        self._drawn = self._drawn * 48271 % 2147483647
        wrong = self.noise * (self._drawn / 2147483647 - 0.5)
        return {
            name: Reading(values={"free": self.at(self.clock.now.timestamp()) + wrong}) for name in clusters
        }


def forecast(load: Load, *, state: Path | None = None, uses_current: bool = False) -> Forecast:
    return Forecast(
        ForecastOptions(
            name="forecast",
            resource="forecast-score",
            interval=60,
            inner=load,
            scores=(Score(name="freeForecast", scale=Linear(0, 100), unit="cores"),),
            names={"free": "freeForecast"},
            horizon=6 * HOUR,
            step=HOUR,
            season=24,
            seasons=3,
            keep=5,
            max_error=0.25,
            uses_current=uses_current,
            state=state,
            max_series=100,
        ),
        clock=load.clock,
    )


async def days(forecaster: Forecast, clock: StoppedClock, count: float) -> Any:
    """Return the reading of c1 after this number of days with readings every half hour."""
    reading: Any = None
    for _ in range(round(count * 48)):
        reading = (await forecaster.read(fleet("c1")))["c1"]
        clock.now += timedelta(minutes=30)
    return reading


async def test_forecast_needs_enough_history() -> None:
    clock = StoppedClock()
    reading = await days(forecast(Load(clock)), clock, 2)
    assert isinstance(reading, Reading)
    assert not reading.values
    assert reading.reason == provider.NOT_ENOUGH
    assert reading.problem == "freeForecast: a forecast needs 72 points; 47 are recorded"


async def test_current_value_is_fallback_without_history() -> None:
    clock = StoppedClock()
    load = Load(clock)
    reading = await days(forecast(load, uses_current=True), clock, 1)
    then = clock.now.timestamp() - 1800
    assert reading.values["freeForecast"] == pytest.approx(load.at(then))
    assert not reading.problem
    assert reading.note.startswith("freeForecast: the current value, because a forecast needs 72 points; 23")


async def test_seasonal_series_is_forecast_with_its_error() -> None:
    clock = StoppedClock()
    load = Load(clock)
    load.noise = 4.0
    forecaster = forecast(load)
    reading = await days(forecaster, clock, 4)
    assert isinstance(reading, Reading)
    assert not reading.problem
    ahead = clock.now.timestamp() - 1800 + 6 * HOUR
    outlook = forecaster.outlooks["c1", "free"]
    assert outlook.error < 3
    assert reading.values["freeForecast"] == pytest.approx(load.at(ahead), abs=8)
    assert reading.note == (
        f"freeForecast: 6 h ahead, off by {outlook.error:.3g} cores on average "
        f"({display_share(outlook.relative)}) in the past season"
    )


async def test_constant_series_is_forecast() -> None:
    class Constant(Load):
        def at(self, moment: float) -> float:
            del moment
            return 3.3

    clock = StoppedClock()
    reading = await days(forecast(Constant(clock)), clock, 4)
    assert not reading.problem
    assert reading.values["freeForecast"] == pytest.approx(3.3)
    assert "off by 0 cores on average (0 %)" in reading.note


@pytest.mark.parametrize(
    ("seconds", "words"), [(6 * HOUR, "6 h"), (90 * 60, "90 min"), (30, "30 s"), (90, "90 s"), (0.5, "0.5 s")]
)
def test_durations_of_forecast_notes(seconds: float, words: str) -> None:
    assert provider.format_duration(seconds) == words


async def test_unpredictable_series_is_not_forecast() -> None:
    clock = StoppedClock()
    load = Load(clock)
    load.noise = 400.0
    reading = await days(forecast(load), clock, 4)
    assert isinstance(reading, Reading)
    assert not reading.values
    assert reading.reason == provider.INACCURATE
    assert "a forecast would be off by " in reading.problem


async def test_restart_keeps_history(tmp_path: Path) -> None:
    clock = StoppedClock()
    load = Load(clock)
    state = tmp_path / "forecast.npz"
    first = forecast(load, state=state)
    async with first.running(lambda: None):
        before = await days(first, clock, 3.5)
    assert before.values
    second = forecast(load, state=state)
    async with second.running(lambda: None):
        assert second.outlooks == first.outlooks
        after = (await second.read(fleet("c1")))["c1"]
    assert isinstance(after, Reading)
    assert after.values.keys() == before.values.keys()
    # What has seen nothing leaves the file as it is.
    state.write_bytes(b"damaged")
    async with forecast(load, state=state).running(lambda: None):
        pass
    assert state.read_bytes() == b"damaged"
    # Without the file the history is empty.
    third = forecast(load, state=tmp_path / "other.npz")
    async with third.running(lambda: None):
        assert not third.outlooks


async def test_inner_provider_errors_are_passed_on() -> None:
    clock = StoppedClock()
    load = Load(clock)
    forecaster = forecast(load)
    await days(forecaster, clock, 3.5)
    load.error = ProviderError("no route", reason="SourceUnreachable")
    assert await failure(forecaster, fleet("c1")) == ("SourceUnreachable", "no route")


OF = {"provider": "static", "options": {"scores": [{"name": "cost"}], "defaults": {"cost": 3}}}


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        (
            {"of": {"provider": "nothing"}},
            "of.provider",
            "there is no provider 'nothing'; valid are http-scorer, prometheus, static",
        ),
        (
            {"of": {"provider": "resource-usage"}},
            "of.provider",
            "resource-usage reads one cluster; a forecast needs a provider of the whole fleet",
        ),
        ({"of": {"provider": "forecast"}}, "of.provider", "a forecast cannot be based on a forecast"),
        ({"of": {**OF, "options": {"scores": []}}}, "of.options", "declares no score"),
        ({"of": {"provider": "static", "config": "no.yaml"}}, "of.config", "no.yaml: cannot be read"),
        ({"of": {**OF, "config": "x"}}, "of", "config and options exclude each other"),
        ({"of": OF, "scores": ["price"]}, "scores[0]", "static has no score 'price'; it has cost"),
        ({"of": OF, "season": "1h", "step": "50m"}, "season", "a whole number of them"),
        ({"of": OF, "horizon": "2d"}, "horizon", "at most one season"),
        ({"of": OF, "seasons": 2}, "seasons", "must be at least 3"),
        ({"of": OF, "keep": 2}, "keep", "must be at least seasons"),
        ({"of": OF, "maxError": 0}, "maxError", "must be greater than 0"),
    ],
)
def test_invalid_forecast_option_is_named(
    tmp_path: Path, more: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(OptionsError) as caught:
        built("forecast", more, folder=tmp_path)
    assert caught.value.field == field
    assert words in caught.value.message


async def test_hourly_prices_are_forecast_and_published(tmp_path: Path, fairway_hub: HubAddress) -> None:
    """A static provider whose price falls at night, and its forecast for six hours later."""
    (tmp_path / "prices.yaml").write_text(
        "scores: [{name: price, unit: EUR/h, scale: {kind: linear, low: 0, high: 10, inverted: true}}]\n"
        "defaults: {price: 8}\n"
        "schedule: [{from: '22:00', to: '06:00', values: {price: 2}}]\n"
    )
    clock = StoppedClock()
    given = {
        "of": {"provider": "static", "config": "prices.yaml"},
        "horizon": "6h",
        "step": "1h",
        "state": "state.npz",
    }
    built_provider = built("forecast", given, folder=tmp_path, clock=clock)
    assert isinstance(built_provider, Forecast)
    await days(built_provider, clock, 4.25)
    assert clock.now.hour == 18
    reading = (await built_provider.read(fleet("c1")))["c1"]
    assert isinstance(reading, Reading)
    assert reading.values["priceForecast"] == pytest.approx(2, abs=0.5)
    assert built_provider.scores[0].unit == "EUR/h"
    async with hub_of(fairway_hub) as hub:
        await hub.cluster("c1")
        settings = Settings(interval=60)
        async with running([built_provider], hub=hub.client, settings=settings):
            written = await hub.until("c1", "forecast-score", lambda score: bool(score.status.scores))
    assert scores(written)["priceForecast"] >= 50
    assert "priceForecast: 6 h ahead, off by " in condition(written)[2]
