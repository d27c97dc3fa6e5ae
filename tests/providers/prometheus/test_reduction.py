import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.prometheus.reduction import UNKNOWN, Reduction

NAN = math.nan


def points(*values: float) -> list[tuple[float, float]]:
    return [(float(index), value) for index, value in enumerate(values)]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("last", (1, 2, 3), 3),
        ("avg", (1, 2, 6), 3),
        ("avg", (1, NAN, 3), 2),
        ("max", (1, 9, 3), 9),
        ("min", (4, 1, 3), 1),
        ("p50", (1, 2, 3, 4), 2.5),
        ("p90", (0, 10), 9),
        ("p0", (3, 1, 2), 1),
        ("p100", (3, 1, 2), 3),
        ("p99.9", (5,), 5),
    ],
)
def test_reductions_of_points(kind: str, values: tuple[float, ...], expected: float) -> None:
    assert Reduction.parse(kind).reduce(points(*values)) == pytest.approx(expected)


@pytest.mark.parametrize(("kind", "values"), [("last", (1, NAN)), ("avg", (NAN, NAN)), ("p50", (math.inf,))])
def test_reduction_without_finite_values_is_nan(kind: str, values: tuple[float, ...]) -> None:
    assert not math.isfinite(Reduction.parse(kind).reduce(points(*values)))


@pytest.mark.parametrize("kind", ["", "mean", "p", "p101", "p-1", "pNN"])
def test_unknown_reduction_is_rejected(kind: str) -> None:
    with pytest.raises(ValueError, match="must be last") as caught:
        Reduction.parse(kind)
    assert str(caught.value) == UNKNOWN.format(given=kind)


def test_reduction_needs_half_of_the_points() -> None:
    assert Reduction("avg").has_enough(points(1, NAN, 3), steps=4)
    assert not Reduction("avg").has_enough(points(1, NAN), steps=4)
    assert Reduction("last").has_enough(points(1), steps=100)


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1), st.sampled_from(["last", "avg", "max", "min", "p37", "p95"])
)
def test_reduction_is_within_the_values(values: list[float], kind: str) -> None:
    reduced = Reduction.parse(kind).reduce(points(*values))
    slack = 1e-6
    assert min(values) - slack <= reduced <= max(values) + slack
