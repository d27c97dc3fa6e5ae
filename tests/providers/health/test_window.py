"""Windowed counts and latencies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.health.window import STEPS, Count, Latency, quantile

moments = st.integers(0, 2000)


@given(st.lists(st.tuples(moments, st.integers(0, 5), st.integers(0, 700))), st.integers(0, 700))
def test_windowed_count_is_exact_to_a_bucket(added: list[tuple[int, int, int]], later: int) -> None:
    """Events may be recorded after they happened."""
    count, now = Count(seconds=600), 0
    for gap, number, age in added:
        now += gap
        count.add(number, at=now - age, now=now)
    now += later
    clock = 0
    within: list[tuple[int, int]] = []
    for gap, number, age in added:
        clock += gap
        if age < 600:
            within.append((clock - age, number))
    total = count.total(now=now)
    assert total >= sum(number for at, number in within if at > now - 600)
    assert total <= sum(number for at, number in within if at > now - 600 - 600 / STEPS)


@pytest.mark.parametrize(
    ("values", "high"),
    [([], None), ([3.0], 3.0), ([1.0, 2.0], 2.0), (list(range(1, 11)), 9), (list(range(1, 101)), 90)],
)
def test_latency_is_90th_percentile(values: list[float], high: float | None) -> None:
    assert quantile(values, 0.9) == high


def test_latency_samples_expire() -> None:
    latency = Latency(seconds=60)
    latency.add(5.0, now=0.0)
    latency.add(0.1, now=30.0)
    assert latency.high(now=59.0) == 5.0
    assert latency.high(now=60.0) == 0.1
    assert latency.high(now=90.0) is None
