"""For any result of a provider, the published object is accepted by the hub and never has a wrong number."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from numbers import Real
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api import crds as own_crds
from fairway.api.cluster import ManagedCluster
from fairway.providers import (
    ClusterProvider,
    Direct,
    FleetScale,
    Provider,
    ProviderError,
    Reading,
    Scale,
    Score,
    fleet_provider,
    provider,
)
from fairway.providers.dry_run import DryRunSink
from fairway.providers.placement_scores import status_of
from fairway.providers.publication import Publication
from fairway.providers.runner import Runner, Settings
from fairway.testing.builders import cluster
from kubehub.crd import definitions
from kubehub.schemas import structural

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
VALID = 180.0
NAMES = ("free", "busy")
SCORES = tuple(Score(name=name, scale=Direct()) for name in NAMES)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("has no words")


class Bare(ProviderError):
    """A class without a call of the base constructor."""

    def __init__(self) -> None:
        Exception.__init__(self, "bare")


class NoItems(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class Endless(dict[str, object]):
    def items(self) -> Any:
        return (("free", value) for value in iter(int, 1))


class NoNumber(float):
    def __float__(self) -> float:
        raise RuntimeError("no number")


class Name(str):
    """Equal to everything."""

    __slots__ = ()

    def __eq__(self, _: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("free")


def generated() -> Iterator[tuple[str, int]]:
    yield "free", 1


texts = (
    st.text(st.characters(), max_size=20)
    | st.sampled_from(["\udcff", "a\x00b\x1b[31m", "NoData", "free", "42", "é"])
    | st.integers(0, 100_000).map(lambda length: "x" * length)
)
"""With lone surrogates, which cannot be encoded."""
numbers: st.SearchStrategy[object] = (
    st.floats()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), True, False, 2**63, 1e308, -0.0])
    | st.decimals()
    | st.fractions()
    | st.floats(width=32).map(np.float32)
    | st.integers(-(2**63), 2**63 - 1).map(np.int64)
    | st.booleans().map(np.bool_)
)
oddities: st.SearchStrategy[object] = st.sampled_from(
    [
        *(None, b"free", object(), 3j, UnprintableError(), Bare(), NoItems(free=1), Endless(free=1)),
        *(NoNumber(3.0), Name("free"), generated, range(3), [], {}, (), {"free"}, np.array([1.0, 2.0])),
        *(ValueError("no\nroute"), KeyError(), {"free": 1}.items(), Reading(), type, math, np.array(3.0)),
    ]
) | texts.map(ValueError)
errors = st.builds(ProviderError, texts, reason=texts) | st.builds(
    lambda reason: _with_reason(reason), oddities
)
keys: st.SearchStrategy[Any] = (
    st.sampled_from([*NAMES, *NAMES, "fre"]) | texts | oddities.filter(lambda odd: _hashable(odd))
)
values = st.dictionaries(keys, numbers | oddities | texts, max_size=4)
good = st.dictionaries(st.sampled_from(NAMES), st.floats(-200, 200), min_size=1)
pairs = st.lists(st.tuples(st.sampled_from(NAMES) | oddities, numbers), max_size=4)
readings = st.builds(
    Reading,
    values=values | good | oddities | pairs,
    problem=texts | oddities,
    reason=texts | oddities,
    lost=st.sampled_from([(), ("free",), ("free", "busy"), "free", None, 7, [object()], ("fre",)]),
    note=texts | oddities,
)
results: st.SearchStrategy[object] = good | good | values | pairs | readings | errors | numbers | oddities


def _hashable(given: object) -> bool:
    try:
        hash(given)
    except TypeError:
        return False
    return True


def _with_reason(reason: object) -> ProviderError:
    error = ProviderError("odd")
    error.reason = reason  # type: ignore[assignment]  # the point of it
    return error


@cache
def checker() -> structural.Checker:
    (definition,) = (crd for crd in own_crds() if crd["spec"]["names"]["kind"] == "AddOnPlacementScore")
    definitions.complete(definition)
    (resource,) = definitions.resources_of(definition)
    return structural.compile(resource.node)


def accepted(publication: Publication) -> dict[str, int]:
    """The scores, of what the definition has no objection to."""
    wire = msgspec.json.decode(msgspec.json.encode(status_of(publication)))
    document = {
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
        "kind": "AddOnPlacementScore",
        "metadata": {"name": "any-score", "namespace": "c1"},
        "status": wire,
    }
    assert checker().prune(document) == []
    assert checker().check(document) == []
    (condition,) = wire["conditions"]
    assert condition["message"].isprintable()
    assert len(condition["message"]) <= 2000
    names = [score["name"] for score in wire["scores"]]
    assert names == sorted(set(names))
    assert all(type(score["value"]) is int for score in wire["scores"])
    return {score["name"]: score["value"] for score in wire["scores"]}


def meant(result: object) -> dict[str, set[int]]:
    """All that could be meant by a result, by the name of the score."""
    meanings: dict[str, set[int]] = {name: set() for name in NAMES}
    given: object = result.values if isinstance(result, Reading) else result
    items: list[Any] = []
    if type(given) is dict:
        items = list(given.items())
    elif result is generated:
        items = list(generated())
    elif isinstance(given, list | tuple):
        items = [item for item in given if isinstance(item, tuple | list) and len(item) == 2]
    for name, value in items:
        if isinstance(name, str) and isinstance(value, Real | Decimal):
            try:
                number = float(value)
            except (OverflowError, ValueError, RuntimeError):
                continue
            if math.isfinite(number):
                known = str.__str__(name)
                meanings.get(known, set()).add(math.floor(min(max(number, -100.0), 100.0) + 0.5))
    return meanings


def is_good(result: object) -> bool:
    return (
        type(result) is dict
        and bool(result)
        and all(
            type(name) is str and name in NAMES and type(value) is float for name, value in result.items()
        )
    )


class RunnerHarness:
    """One provider with a hub that takes everything, and a clock in hand."""

    def __init__(self, made: Provider, *, cluster: str | None) -> None:
        made.isolated = False  # threads would only slow it down
        self.clock, self.sink = Clock(), DryRunSink()
        self.runner = Runner(
            [made],
            client=None,
            settings=Settings(cluster=cluster),
            sink_of=lambda _: self.sink,
            clock=self.clock,
        )
        (self.loop,) = self.runner.loops.values()

    async def round(self, *clusters: str) -> None:
        await self.loop.round()
        for name in clusters:
            await self.loop.publish(name, ensure=lambda: None)


class Returning(ClusterProvider):
    """Returns the given value without validation, as any class may."""

    name, resource, scores = "any", "any-score", SCORES

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take

    async def read(self) -> Reading:
        reading: Reading = self._take()
        return reading


def lawful(steps: list[tuple[object, float]], make: Callable[[Callable[[], object]], Provider]) -> None:
    current: list[object] = [None]

    def take() -> object:
        result = current[0]
        if isinstance(result, Exception):
            raise result
        return result() if result is generated else result

    async def play() -> None:
        harness = RunnerHarness(make(take), cluster="c1")
        history: list[tuple[float, dict[str, set[int]]]] = []
        for result, seconds in steps:
            harness.clock.seconds += seconds
            current[0] = result
            history.append((harness.clock.seconds, meant(result)))
            await harness.round("c1")
            publication = harness.sink.written["c1"]
            scores = accepted(publication)
            assert publication.valid_until is not None
            now = harness.clock.wall()
            assert publication.valid_until <= now + timedelta(seconds=VALID)
            for name, value in scores.items():
                since = [at for at, meanings in history if value in meanings[name]]
                assert since, f"nobody said that {name} is {value}"
                assert publication.valid_until <= START + timedelta(seconds=max(since) + VALID)
            if is_good(result) and make is not Returning:
                assert set(scores) == {name for name, meanings in history[-1][1].items() if meanings}
                assert publication.ok

    asyncio.run(play())


@given(steps=st.lists(st.tuples(results, st.floats(0, 400)), min_size=1, max_size=4))
def test_any_function_result_is_handled(steps: list[tuple[object, float]]) -> None:
    lawful(steps, provider(scores=SCORES, name="any"))


@settings(max_examples=70, deadline=None)
@given(steps=st.lists(st.tuples(results, st.floats(0, 400)), min_size=1, max_size=4))
def test_any_class_result_is_handled(steps: list[tuple[object, float]]) -> None:
    lawful(steps, Returning)


@settings(max_examples=70, deadline=None)
@given(result=results, key=keys)
def test_any_bad_cluster_result_affects_only_its_cluster(result: object, key: object) -> None:
    answer: dict[Any, object] = {"bad": result() if result is generated else result, "good": {"free": 7.0}}
    with suppress(TypeError):
        answer.setdefault(key, 3)

    @fleet_provider(scores=SCORES, name="any")
    def made(_: Mapping[str, ManagedCluster]) -> dict[Any, object]:
        return answer

    async def play() -> None:
        harness = RunnerHarness(made, cluster=None)
        clusters = harness.runner.clusters
        assert isinstance(clusters, dict)
        clusters.update(bad=cluster("bad"), good=cluster("good"))
        await harness.round("bad", "good")
        assert accepted(harness.sink.written["good"]) == {"free": 7}
        scores = accepted(harness.sink.written["bad"])
        assert all(value in meant(result)[name] for name, value in scores.items())
        assert set(harness.sink.written) == {"bad", "good"}

    asyncio.run(play())


class NeverFits(FleetScale):
    def fit(self, _: object, /) -> Scale:
        raise RuntimeError("the database is away")


async def test_unfittable_scale_affects_only_its_score() -> None:
    @fleet_provider(scores={"free": Direct(), "rank": NeverFits()}, name="any")
    def made(clusters: Mapping[str, ManagedCluster]) -> dict[str, object]:
        return {name: {"free": 1, "rank": 2} for name in clusters}

    harness = RunnerHarness(made, cluster=None)
    clusters = harness.runner.clusters
    assert isinstance(clusters, dict)
    clusters["c1"] = cluster("c1")
    await harness.round("c1")
    publication = harness.sink.written["c1"]
    assert (publication.scores, publication.ok) == ((("free", 1),), False)
    assert (
        "the scale of rank failed on 2: ValueError: RuntimeError: the database is away" in publication.message
    )


@pytest.mark.parametrize("number", [Decimal("3.4"), Fraction(10, 3), np.float32(3.2), 3])
async def test_plain_number_result_of_any_type(number: object) -> None:
    harness = RunnerHarness(provider(scores={"free": Direct()}, name="any")(lambda: number), cluster="c1")
    await harness.round("c1")
    assert harness.sink.written["c1"].scores == (("free", 3),)
