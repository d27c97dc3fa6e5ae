"""What hosted clusters need, against the figures published for sizing hosting clusters."""

import pytest

from fairway.providers.hosted.sizing import (
    BAD_FIGURE,
    GIGABYTE,
    KEYS,
    PROFILES,
    UNKNOWN_FIGURE,
    Baseline,
    SizingError,
)


@pytest.mark.parametrize(("rate", "expected"), [(None, 2), (50, 2), (1000, 1), (2000, 0)])
def test_sizing_matches_published_example(rate: float | None, expected: int) -> None:
    memory = 49.173369 * GIGABYTE
    assert Baseline().capacity(cpu=12, memory=memory, pods=750, rate=rate) == expected


def test_every_resource_can_limit_capacity() -> None:
    baseline, plenty = Baseline(), 10**6
    assert baseline.capacity(cpu=50, memory=plenty * GIGABYTE, pods=plenty) == 10
    assert baseline.capacity(cpu=plenty, memory=180 * GIGABYTE, pods=plenty) == 10
    assert baseline.capacity(cpu=plenty, memory=plenty * GIGABYTE, pods=750) == 10
    assert baseline.capacity(cpu=-1, memory=plenty * GIGABYTE, pods=750) == 0


def test_own_figures_replace_sizing_baseline() -> None:
    baseline = Baseline.parse({"cpuRequestPerHCP": "4", "podsPerHCP": 80})
    assert (baseline.cpu, baseline.pods, baseline.memory) == (4, 80, 18)
    assert set(KEYS.values()) == set(Baseline.__dataclass_fields__)


@pytest.mark.parametrize("value", ["", "five", "0", -1, "nan", "inf", True, None, [5]])
def test_invalid_sizing_figure_is_rejected(value: object) -> None:
    with pytest.raises(SizingError) as error:
        Baseline.parse({"podsPerHCP": value})
    assert str(error.value) == BAD_FIGURE.format(name="podsPerHCP", value=value)


def test_unknown_sizing_figure_is_rejected() -> None:
    with pytest.raises(SizingError) as error:
        Baseline.parse({"cpuPerHCP": 5})
    assert str(error.value) == UNKNOWN_FIGURE.format(name="cpuPerHCP", known=", ".join(KEYS))


def test_profile_score_names() -> None:
    assert [profile.score for profile in PROFILES] == [
        "hcpSlotsSingle",
        "hcpSlotsSmall",
        "hcpSlotsMedium",
        "hcpSlotsLarge",
    ]
