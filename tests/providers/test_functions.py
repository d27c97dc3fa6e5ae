import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, cast

import pytest

from fairway.api.cluster import ManagedCluster
from fairway.providers import (
    ClusterProvider,
    DefinitionError,
    Direct,
    FleetProvider,
    Linear,
    ProviderError,
    Quantile,
    Reading,
    Score,
    fleet_provider,
    provider,
)
from fairway.providers.definition import check
from fairway.testing.builders import cluster

FREE: Mapping[str, Any] = {"queueFree": Linear(0, 1000)}


async def test_decorated_function_is_a_provider() -> None:
    @provider(resource="queue-score", scores=FREE, interval=30)
    def queue() -> dict[str, float]:
        """Room in the queue."""
        return {"queueFree": 700}

    assert isinstance(queue, ClusterProvider)
    assert (queue.name, queue.resource, queue.interval) == ("queue", "queue-score", 30)
    assert queue.scores == (Score(name="queueFree", scale=Linear(0, 1000)),)
    assert queue.isolated
    assert queue() == {"queueFree": 700}
    assert await queue.read() == Reading(values={"queueFree": 700})
    assert queue.__doc__ == "Room in the queue."


async def test_provider_name_defaults_to_function_name() -> None:
    @provider(scores=FREE)
    async def _queue_length() -> float:
        return 3

    assert (_queue_length.name, _queue_length.resource) == ("queue-length", "queue-length-score")
    assert await _queue_length.read() == Reading(values={"queueFree": 3.0})


def test_decorator_accepts_score_objects() -> None:
    full = Score(name="", scale=Direct(), unit="messages", deadband=5)

    @provider(scores={"queueFree": full}, name="by-name")
    def one() -> None: ...

    @provider(scores=[Score(name="queueFree", scale=Direct(), unit="messages", deadband=5)], name="listed")
    def two() -> None: ...

    assert one.scores == two.scores


async def test_decorated_function_is_a_fleet_provider() -> None:
    @fleet_provider(scores={"free": Quantile()}, name="fleet")
    def by_cluster(clusters: Mapping[str, ManagedCluster]) -> dict[str, object]:
        assert list(clusters) == ["c1", "c2", "c3", "c4"]
        return {"c1": 7, "c2": {"free": 8}, "c3": "nothing", "c4": ProviderError("away", reason="Away")}

    assert isinstance(by_cluster, FleetProvider)
    readings = await by_cluster.read({name: cluster(name) for name in ("c1", "c2", "c3", "c4")})
    assert readings["c1"] == Reading(values={"free": 7.0})
    assert readings["c2"] == Reading(values={"free": 8})
    assert isinstance(readings["c3"], ProviderError)
    assert isinstance(readings["c4"], ProviderError)
    assert readings["c4"].reason == "Away"


async def test_generator_function_is_a_provider() -> None:
    @provider(scores={"free": Direct(), "busy": Direct()}, name="yields")
    def one() -> Iterator[tuple[str, int]]:
        yield "free", 7
        yield "busy", 8

    @provider(scores={"free": Direct(), "busy": Direct()}, name="yields-later")
    async def two() -> AsyncIterator[tuple[str, int]]:
        yield "free", 7
        yield "busy", 8

    @provider(scores={"free": Direct()}, name="never-ends")
    async def three() -> AsyncIterator[tuple[str, int]]:
        while True:
            yield "free", 7

    assert await one.read() == await two.read() == Reading(values={"free": 7, "busy": 8})
    with pytest.raises(ProviderError, match="returned 101 values"):
        await three.read()


async def test_fleet_function_must_return_mapping() -> None:
    @fleet_provider(scores={"free": Direct()})
    def wrong(_: Mapping[str, ManagedCluster]) -> list[int]:
        return [1]

    with pytest.raises(ProviderError, match="list instead of values by cluster"):
        await wrong.read({})


def _decorated(**options: Any) -> Callable[[], object]:
    def made() -> object:
        @provider(**options)
        def queue() -> None: ...

        return queue

    return made


def _argument() -> object:
    @provider(scores=FREE)
    def queue(_: int) -> None: ...

    return queue


def _no_argument() -> object:
    @fleet_provider(scores=FREE)
    def queue() -> None: ...

    return queue


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_decorated(scores={}), "publishes no scores"),
        (_decorated(scores="queueFree"), "scores must be names with their scales"),
        (_decorated(scores={"queueFree": 7}), r"write one such as Linear\(0, 100\)"),
        (_decorated(scores={"queueFree": Direct}), "queueFree has no scale"),
        (_decorated(scores={"queue free": Direct()}), "score name 'queue free' must be"),
        (_decorated(scores={"": Direct()}), "score name '' must be"),
        (_decorated(scores=[Score(name="a", scale=Direct())] * 2), "the score a is defined twice"),
        (_decorated(scores=["a"]), "'a' is not a Score"),
        (_decorated(scores={f"n{n}": Direct() for n in range(101)}), "101 scores are too many"),
        (_decorated(scores={"queueFree": Quantile()}), "use @fleet_provider"),
        (_decorated(scores=FREE, resource="Queue Score"), "resource 'Queue Score' must be"),
        (_decorated(scores=FREE, resource="queue..score"), "resource 'queue..score' must be"),
        (_decorated(scores=FREE, resource="queue.-score"), "beside every '.'"),
        (_decorated(scores=FREE, resource="q" * 254), "resource 'qqq"),
        (_decorated(scores=FREE, name="my queue"), "name 'my queue' must be"),
        (_decorated(scores=FREE, name="x" * 64), "must be 1 to 63"),
        (_decorated(scores=FREE, interval=0), "interval must be a number of seconds"),
        (_decorated(scores=FREE, interval=math.nan), "interval must be a number of seconds"),
        (_decorated(scores=FREE, interval=math.inf), "at most a year"),
        (_decorated(scores=FREE, interval=1e9), "at most a year"),
        (_decorated(scores={"a": Score(name="a", scale=Direct(), deadband=-1)}), "deadband of a must be"),
        (_decorated(scores={"a": Score(name="a", scale=Direct(), thresholds=(101,))}), "threshold 101 of a"),
        (_decorated(scores={"a": Score(name="a", scale=Direct(), half_life=math.inf)}), "half-life of a"),
        (_argument, "must take no arguments"),
        (_no_argument, "must take one argument"),
        (lambda: provider(scores=FREE)(cast("Any", 7)), "belongs above a function, not 7"),
        (lambda: cast("Any", provider)(lambda: 7), r"@provider needs scores: write @provider\(scores="),
        (lambda: cast("Any", fleet_provider)(lambda _: {}), "@fleet_provider needs scores"),
        (_decorated(), "publishes no scores"),
    ],
)
def test_invalid_provider_definition_is_rejected(make: Callable[[], object], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        make()


def test_incomplete_provider_class_is_rejected() -> None:
    class Forgetful(ClusterProvider):
        name = "forgetful"

        async def read(self) -> Reading:
            return Reading()

    with pytest.raises(DefinitionError, match="provider forgetful: resource must be set"):
        check(Forgetful())
