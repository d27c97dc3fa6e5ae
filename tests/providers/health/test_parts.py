"""The health score of several parts, and its message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.controllers.recovery.policy import RecoveryPolicy
from fairway.providers.health.parts import (
    ADD_ONS,
    ALL_WELL,
    API,
    HEALTH,
    NODES,
    PARTS,
    RESTARTS,
    combine,
    describe_worst,
    scores,
)

BEST = dict.fromkeys(PARTS, 100)
values = st.integers(0, 100)
known = st.dictionaries(st.sampled_from(PARTS), values, min_size=1)


@pytest.mark.parametrize(
    ("parts", "health"),
    [
        (BEST, 100),
        (dict.fromkeys(PARTS, 0), 0),
        ({**BEST, NODES: 0}, 600 / 9 / 2),
        ({**BEST, API: 0}, 600 / 9 / 2),
        ({**BEST, ADD_ONS: 0}, 700 / 9 / 2),
        ({**BEST, RESTARTS: 0}, 800 / 9 / 2),
        ({NODES: 40}, 40),
        ({NODES: 40, RESTARTS: 0}, (0 + 30) / 2),
    ],
)
def test_health_is_half_worst_and_half_mean(parts: dict[str, int], health: float) -> None:
    assert combine(parts) == pytest.approx(health)


def test_single_bad_part_makes_cluster_unhealthy() -> None:
    """By the thresholds of recovery: restarts do not."""
    healths = {part: combine({**BEST, part: 0}) or 0.0 for part in PARTS}
    assert {part for part, health in healths.items() if health < RecoveryPolicy().below} == {
        NODES,
        API,
        ADD_ONS,
    }


def test_unknown_and_unweighted_parts_are_ignored() -> None:
    assert combine({}) is None
    assert combine({API: -100}, {API: 0.0}) is None
    assert combine({API: -100, NODES: 50}, {API: 0.0, NODES: 1.0}) == 50


@given(known, st.data())
def test_health_is_monotone_in_parts(parts: dict[str, int], data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(sorted(parts)))
    better = {**parts, part: data.draw(st.integers(parts[part], 100))}
    before, after = combine(parts), combine(better)
    assert before is not None
    assert after is not None
    assert after >= before - 1e-9


@given(known)
def test_health_is_between_worst_and_best_part(parts: dict[str, int]) -> None:
    health = combine(parts)
    assert health is not None
    assert min(parts.values()) - 1e-9 <= health <= max(parts.values()) + 1e-9


@given(st.sampled_from(PARTS), st.floats(0, 1e6, allow_nan=False), st.floats(0, 1e6, allow_nan=False))
def test_health_parts_are_monotone_in_values(part: str, one: float, other: float) -> None:
    scale = next(score.scale for score in scores() if score.name == part)
    low, high = sorted((one, other))
    if part in (NODES, ADD_ONS):
        assert scale.score(low) <= scale.score(high)
    else:
        assert scale.score(low) >= scale.score(high)


@pytest.mark.parametrize(
    ("part", "value", "score"),
    [
        (NODES, 100, 100),
        (NODES, 75, 50),
        (NODES, 50, 0),
        (NODES, 0, 0),
        (API, 20, 100),
        (API, 500, 50),
        (API, 5000, 0),
        (ADD_ONS, 95, 90),
        (RESTARTS, 0, 100),
        (RESTARTS, 50, 50),
        (RESTARTS, 400, 0),
        (HEALTH, 12.4, 12),
    ],
)
def test_scales_of_health_parts(part: str, value: float, score: int) -> None:
    assert next(score.scale for score in scores() if score.name == part).score(value) == score


def test_worst_health_part_is_named() -> None:
    measured = {NODES: 75.0, API: 1200.0, ADD_ONS: 99.5, RESTARTS: 12.0}
    assert describe_worst({**BEST, API: -50}, measured) == (
        "the worst part is healthApi: 9 of 10 requests to the API server took up to 1200 ms"
    )
    assert (
        describe_worst({**BEST, NODES: 0}, measured)
        == "the worst part is healthNodes: 75 % of the nodes are ready"
    )
    assert describe_worst({ADD_ONS: 98, RESTARTS: 76}, measured) == (
        "the worst part is healthRestarts: 12 restarts per 100 containers and hour"
    )
    assert describe_worst({ADD_ONS: 98}, measured) == (
        "the worst part is healthAddOns: 99.5 % of the pods of add-ons and the control plane are ready"
    )
    assert describe_worst(BEST, measured) == ALL_WELL
