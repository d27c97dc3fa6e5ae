"""Absence never wins: OCM counts a missing or expired score as 0, and no score that Fairway publishes is below that."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairway.api.pod_requests import PODS
from fairway.controllers.bridge import Range
from fairway.engine.points import Extent
from fairway.providers.declared import ScaleEntry
from fairway.providers.health.parts import HEALTH, PARTS, WEIGHTS, combine
from fairway.providers.health.parts import scores as health_scores
from fairway.providers.hosted.capacity import API_HEADROOM, api_headroom, capacity_values, scores_of
from fairway.providers.hosted.headroom import Headroom
from fairway.providers.hosted.options import HostedOptions as HostedOptions
from fairway.providers.scales import fit
from fairway.providers.static.provider import UNITS, StaticScoreEntry
from fairway.providers.usage.accounting import Totals
from fairway.providers.usage.measures import measures
from fairway.providers.usage.options import RESOURCES
from fairway.providers.usage.options import UsageOptions as UsageOptions
from fairway.workloads.placement.plugins.calculator import Calculator

ABSENT = 0
FINITE = st.floats(allow_nan=False, allow_infinity=False)
AMOUNTS = st.integers(-(2**62), 2**62)
HOSTED = HostedOptions()
USAGE = measures(UsageOptions.read({"shapes": {"web": {"cpu": 1}}}, environment={}))


@given(data=st.data())
def test_usage_of_any_cluster_is_at_least_what_a_missing_score_counts(data: st.DataObject) -> None:
    names = [*RESOURCES.values(), PODS]
    amounts = st.fixed_dictionaries(dict.fromkeys(names, AMOUNTS))
    count = st.integers(0, 10**9)
    totals = Totals(
        free=data.draw(amounts),
        largest=data.draw(amounts),
        slots={"web": data.draw(count)},
        known=frozenset(names),
        pending=data.draw(amounts),
        waiting=data.draw(count),
    )
    for measure in USAGE:
        value = measure.measure(totals)
        assert value is not None
        assert ABSENT <= measure.score.scale.score(value) <= 100, measure.score.name


ROOMS = st.builds(Headroom, zone=st.sampled_from(["", "a", "b", "c"]), cpu=FINITE, memory=FINITE, pods=FINITE)


@given(count=st.integers(0, 10**6), rooms=st.lists(ROOMS, max_size=5), rate=st.none() | st.floats(0, 1e6))
def test_any_hosting_cluster_scores_at_least_what_a_missing_score_counts(
    count: int, rooms: list[Headroom], rate: float | None
) -> None:
    assume(
        all(np.isfinite([sum(getattr(room, name) for room in rooms) for name in ("cpu", "memory", "pods")]))
    )
    values = capacity_values(count, rooms, HOSTED)
    whole = Headroom(cpu=1e3, memory=1e12, pods=1e4)
    values[API_HEADROOM] = api_headroom(count, whole, HOSTED, rate=rate)
    scales = {score.name: score.scale for score in scores_of(HOSTED)}
    assert set(values) == set(scales)
    assert all(ABSENT <= scales[name].score(value) <= 100 for name, value in values.items())


@given(values=st.fixed_dictionaries(dict.fromkeys(PARTS, FINITE)))
def test_any_health_is_at_least_what_a_missing_score_counts(values: dict[str, float]) -> None:
    scales = {score.name: score.scale for score in health_scores()}
    parts = {name: scales[name].score(value) for name, value in values.items()}
    whole = combine(parts, WEIGHTS)
    assert whole is not None
    assert all(ABSENT <= score <= 100 for score in (*parts.values(), scales[HEALTH].score(whole)))


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("kind", get_args(ScaleEntry.__annotations__["kind"]))
@given(fleet=st.lists(FINITE, min_size=1, max_size=5))
def test_declared_scales_are_at_least_what_a_missing_score_counts(
    kind: str, inverted: bool, fleet: list[float]
) -> None:
    limits = {"low": 1.0, "high": 9.0} if kind in ("linear", "logarithmic") else {}
    scale = fit(ScaleEntry(kind=kind, inverted=inverted, **limits).scale(), fleet)  # type: ignore[arg-type]
    least = -100 if kind == "direct" and not inverted else ABSENT
    assert all(least <= scale.score(value) <= 100 for value in fleet)


@given(fleet=st.lists(FINITE, min_size=1, max_size=5), name=st.sampled_from(sorted(UNITS)))
def test_known_static_scores_are_at_least_what_a_missing_score_counts(fleet: list[float], name: str) -> None:
    scale = StaticScoreEntry(name=name).default_scale()
    assert scale is not None
    assert all(ABSENT <= fit(scale, fleet).score(value) <= 100 for value in fleet)


@given(amounts=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6))
def test_calculator_amounts_are_at_least_what_a_missing_score_counts(amounts: list[int]) -> None:
    extent = Extent(min(amounts), max(amounts))
    assume(extent.low < -100 or extent.high > 100)
    calculator = Calculator(name="memory")
    single = [calculator.normalize(amount, extent) for amount in amounts]
    assert all(ABSENT <= score <= 100 for score in single)
    assert calculator.normalize_fleet(np.array(amounts, dtype=np.int64), extent).tolist() == single
    bridged = Range(low=min(amounts), high=max(amounts) + 1)
    assert all(ABSENT <= bridged.score(amount) <= 100 for amount in amounts)
