import math

import pytest

from fairway.observe.meters import MOST_LABELS, OTHER, Meters
from fairway.observe.provider_meters import ProviderMeters
from metric_values import values


def shown(meters: ProviderMeters) -> dict[str, float]:
    return {name: value for name, value in values(meters.expose()).items() if "_bucket" not in name}


def test_provider_metrics_are_exported_before_the_first_reading() -> None:
    meters = ProviderMeters()
    meters.provider("usage", expiry=lambda: math.nan)
    assert shown(meters) == {
        'fairway_provider_readings_total{provider="usage"}': 0,
        'fairway_provider_writes_total{provider="usage"}': 0,
        'fairway_provider_writes_avoided_total{provider="usage"}': 0,
    }


def test_expiry_metric_is_computed_at_scrape_time() -> None:
    left = [90.0]
    meters = ProviderMeters()
    meters.provider("usage", expiry=lambda: left[0])
    assert shown(meters)['fairway_provider_expiry_seconds{provider="usage"}'] == 90.0
    left[0] = -3.0
    assert shown(meters)['fairway_provider_expiry_seconds{provider="usage"}'] == -3.0


def test_score_metric_is_that_of_the_last_write() -> None:
    meters = ProviderMeters()
    meters.published("usage", "c1", {"cpu": 10, "mem": 20})
    meters.published("usage", "c1", {"cpu": 11})
    name = 'fairway_provider_score{{cluster="{}",provider="usage",score="cpu"}}'
    assert shown(meters) == {name.format("c1"): 11}
    meters.published("usage", "c2", {"cpu": 1})
    meters.forget("usage", "c1")
    assert shown(meters) == {name.format("c2"): 1}


def test_number_of_score_series_is_limited() -> None:
    meters = ProviderMeters()
    for number in range(MOST_LABELS + 10):
        meters.published("usage", f"c{number}", {"cpu": 1})
    assert len(shown(meters)) == MOST_LABELS
    meters.forget("usage", "c0")
    meters.published("usage", "late", {"cpu": 1})
    assert len(shown(meters)) == MOST_LABELS


def test_number_of_provider_reason_labels_is_limited() -> None:
    meters = ProviderMeters()
    for number in range(MOST_LABELS + 10):
        meters.reading_failed("usage", reason=f"Reason{number}")
    samples = shown(meters)
    assert len(samples) == MOST_LABELS + 1
    assert samples[f'fairway_provider_reading_failures_total{{provider="usage",reason="{OTHER}"}}'] == 10


@pytest.mark.parametrize(("seconds", "total"), [(2.5, 2.5), (math.nan, 0.0), (math.inf, 0.0), (-1.0, 0.0)])
def test_reading_duration_is_summed_and_invalid_one_is_dropped(seconds: float, total: float) -> None:
    meters = ProviderMeters()
    meters.reading("usage", seconds=seconds)
    samples = shown(meters)
    assert samples['fairway_provider_readings_total{provider="usage"}'] == 1
    assert samples.get('fairway_provider_reading_seconds_sum{provider="usage"}', 0.0) == total


def test_provider_meters_share_a_registry_with_controllers() -> None:
    controllers = Meters()
    ProviderMeters(controllers.registry).write("usage")
    assert values(controllers.expose())['fairway_provider_writes_total{provider="usage"}'] == 1
