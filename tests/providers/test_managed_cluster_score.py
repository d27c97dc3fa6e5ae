"""ManagedClusterScores as a provider publishes them, on a hub."""

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from fairway.api.score import ManagedClusterScore
from fairway.providers.managed_cluster_score import (
    GREATEST,
    LEAST,
    LONGEST_NAME,
    NO_CALCULATOR,
    OUT_OF_RANGE,
    SAME_CALCULATOR,
    CalculatorError,
    ManagedClusterScores,
    calculators,
    object_name,
    round_to_int64,
)
from fairway.providers.provider import ClusterProvider, Provider, Reading, Score
from fairway.providers.publication import Publication
from fairway.providers.runner import running
from fairway.providers.scales import Linear
from fairway.providers.sink import ForeignObject, NamespaceMissing, SinkError
from kubewire.api.meta import format_time
from kubewire.client import Client, Informer

NOON = datetime(2031, 5, 5, 12, tzinfo=UTC)
WELL = Publication(
    scores=(("cpuAvailable", 10), ("memAvailable", 20)),
    valid_until=NOON + timedelta(minutes=3),
    ok=True,
    reason="AddOnPlacementScoreUpdated",
    message="cpuAvailable 12.6 cores, memAvailable 40 GiB",
    changed_at=NOON - timedelta(days=1),
    raw={"cpuAvailable": 12.6, "memAvailable": 40.0},
    read_at=NOON,
)


@pytest.fixture
async def cluster(client: Client) -> str:
    name = f"c{uuid.uuid4().hex[:8]}"
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    return name


@pytest.fixture
def sink(client: Client) -> ManagedClusterScores:
    return ManagedClusterScores(client, provider="tests", names=("cpuAvailable", "memAvailable"))


async def document(client: Client, cluster: str, name: str) -> Any:
    path = MANAGED_CLUSTER_SCORES.path(namespace=cluster, name=f"{cluster}-{name}")
    return msgspec.json.decode((await client.request("GET", path)).body)


async def there(client: Client, cluster: str) -> dict[str, ManagedClusterScore]:
    listing = await client.list(MANAGED_CLUSTER_SCORES, namespace=cluster)
    return {item.metadata.name.removeprefix(f"{cluster}-"): item for item in listing.items}


async def test_managed_cluster_score_has_shape_of_proposal(
    client: Client, cluster: str, sink: ManagedClusterScores
) -> None:
    assert await sink.find(cluster) is None
    await sink.write(cluster, WELL, stored=None)
    assert sorted(await there(client, cluster)) == ["cpuavailable", "memavailable"]
    live = await document(client, cluster, "cpuavailable")
    assert (live["apiVersion"], live["kind"]) == (
        "cluster.open-cluster-management.io/v1alpha1",
        "ManagedClusterScore",
    )
    assert live["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "fairway",
        "fairway.dev/provider": "tests",
    }
    assert live["status"] == {
        "conditions": [
            {
                "lastTransitionTime": "2031-05-04T12:00:00Z",
                "lastUpdateTime": "2031-05-05T12:00:00Z",
                "message": "ManagedClusterScore updated successfully",
                "reason": "ManagedClusterScoreUpdated",
                "status": "True",
                "type": "ManagedClusterScoreUpdated",
            }
        ],
        "score": 13,
    }


async def test_failed_reading_keeps_managed_cluster_score_and_time(
    client: Client, cluster: str, sink: ManagedClusterScores
) -> None:
    held = await sink.write(cluster, WELL, stored=None)
    trouble = replace(
        WELL,
        ok=False,
        reason="CollectionFailed",
        message="no answer",
        raw={},
        read_at=None,
        changed_at=NOON + timedelta(minutes=1),
    )
    await sink.write(cluster, trouble, stored=held)
    status = (await document(client, cluster, "cpuavailable"))["status"]
    assert status["score"] == 13
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "CollectionFailed",
        "no answer",
    )
    assert condition["lastUpdateTime"] == format_time(NOON)
    assert condition["lastTransitionTime"] == format_time(NOON + timedelta(minutes=1))


async def test_value_beyond_int64_is_not_published(
    client: Client, cluster: str, sink: ManagedClusterScores
) -> None:
    huge = replace(WELL, raw={"cpuAvailable": 2.0**63, "memAvailable": -(2.0**63)})
    await sink.write(cluster, huge, stored=None)
    assert {name: score.status.score for name, score in (await there(client, cluster)).items()} == {
        "memavailable": LEAST
    }
    await sink.write(cluster, WELL, stored=None)
    await sink.write(cluster, huge, stored=None)
    status = (await document(client, cluster, "cpuavailable"))["status"]
    assert status["score"] == 13
    assert status["conditions"][0]["reason"] == OUT_OF_RANGE


async def test_object_of_removed_score_is_deleted(
    client: Client, cluster: str, sink: ManagedClusterScores
) -> None:
    await sink.write(cluster, WELL, stored=None)
    fewer = replace(WELL, scores=WELL.scores[:1])
    another = ManagedClusterScores(client, provider="tests", names=("cpuAvailable",))
    assert await another.find(cluster) is not None
    await another.write(cluster, fewer, stored=None)
    assert sorted(await there(client, cluster)) == ["cpuavailable"]
    assert await sink.remove(cluster)
    assert await there(client, cluster) == {}
    assert not await sink.remove(cluster)


@pytest.mark.parametrize(
    ("labels", "whose"),
    [
        ({}, "was not created by Fairway"),
        (
            {"app.kubernetes.io/managed-by": "fairway", "fairway.dev/provider": "other"},
            "belongs to the provider 'other'",
        ),
    ],
)
async def test_foreign_managed_cluster_score_is_changed_only_if_adopted(
    client: Client, cluster: str, sink: ManagedClusterScores, labels: dict[str, str], whose: str
) -> None:
    body = {"metadata": {"name": f"{cluster}-cpuavailable", "labels": labels}}
    made = await client.create(MANAGED_CLUSTER_SCORES, body, namespace=cluster)
    with pytest.raises(ForeignObject, match=whose):
        await sink.write(cluster, WELL, stored=None)
    left = (await there(client, cluster))["cpuavailable"]
    assert left.metadata.resourceVersion == made.metadata.resourceVersion
    adopting = ManagedClusterScores(client, provider="tests", names=("cpuAvailable",), adopt=True)
    await adopting.write(cluster, replace(WELL, scores=WELL.scores[:1]), stored=None)
    score = (await there(client, cluster))["cpuavailable"]
    assert score.status.score == 13
    assert score.metadata.labels["fairway.dev/provider"] == "tests"


async def test_concurrent_writers_of_managed_cluster_score(client: Client, cluster: str) -> None:
    sinks = [ManagedClusterScores(client, provider="tests", names=("cpuAvailable",)) for _ in range(4)]
    one = replace(WELL, scores=WELL.scores[:1])
    await asyncio.gather(*(sink.write(cluster, one, stored=None) for sink in sinks))
    assert (await there(client, cluster))["cpuavailable"].status.score == 13


class Cores(ClusterProvider):
    name, resource, interval = "tests", "tests-score", 3600.0
    scores = (Score(name="cpuAvailable", scale=Linear(0, 100), unit="cores"),)

    async def read(self) -> Reading:
        return Reading(values={"cpuAvailable": 12.6})


async def test_managed_cluster_scores_survive_provider_restart(client: Client, cluster: str) -> None:
    def sink_of(provider: Provider) -> ManagedClusterScores:
        names = [score.name for score in provider.scores]
        return ManagedClusterScores(client, provider=provider.name, names=names)

    before: datetime | None = None
    for _ in range(2):
        async with (
            asyncio.timeout(120),
            running([Cores()], hub=client, cluster=cluster, sink_of=sink_of) as runner,
            Informer(client, MANAGED_CLUSTER_SCORES, namespace=cluster) as scores,
        ):
            async for _ in scores.changes():
                score = scores.get(f"{cluster}-cpuavailable", namespace=cluster)
                if score is not None and score.status.conditions:
                    break
            while runner.unready():
                await asyncio.sleep(0.01)
        assert score is not None
        assert score.status.score == 13
        moment = score.status.conditions[0].lastUpdateTime
        assert moment is not None
        assert before is None or moment >= before
        before = moment
    assert not (await client.list(ADD_ON_PLACEMENT_SCORES, namespace=cluster)).items


async def test_managed_cluster_score_without_namespace_is_reported(sink: ManagedClusterScores) -> None:
    with pytest.raises(NamespaceMissing):
        await sink.write("nowhere-to-be-found", WELL, stored=None)


def test_managed_cluster_score_name_length_is_limited() -> None:
    longest = LONGEST_NAME - len("c1-")
    assert len(object_name(cluster="c1", score="x", calculator="x" * longest)) == LONGEST_NAME
    with pytest.raises(SinkError, match="shorten the name of score 'X' by 1"):
        object_name(cluster="c1", score="X", calculator="x" * (longest + 1))


@pytest.mark.parametrize(
    "name", ["", "-cpu", "cpu_available", "cpu/free", "zürich", "cpu free", "cpu.", "cpu..free", "cpu.-free"]
)
def test_invalid_calculator_name_is_rejected(name: str) -> None:
    with pytest.raises(CalculatorError) as refused:
        calculators([name])
    assert str(refused.value) == NO_CALCULATOR.format(name=name)


def test_calculators_differing_in_case_only_are_rejected() -> None:
    with pytest.raises(CalculatorError) as refused:
        calculators(["cpuFree", "cpufree"])
    assert str(refused.value) == SAME_CALCULATOR.format(one="cpuFree", other="cpufree", calculator="cpufree")


@pytest.mark.parametrize(
    ("value", "published"),
    [
        (12.4, 12),
        (12.5, 12),
        (13.5, 14),
        (-12.6, -13),
        (-0.2, 0),
        (9007199254740993.0, 9007199254740992),
        (float(2**63 - 1024), 2**63 - 1024),
        (float(2**63), None),
        (-float(2**63), LEAST),
        (-float(2**63) * 1.01, None),
        (1e300, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_rounding_to_int64(value: float, published: int | None) -> None:
    assert round_to_int64(value) == published


@given(st.floats())
def test_rounding_to_int64_is_nearest_or_none(value: float) -> None:
    rounded = round_to_int64(value)
    if rounded is not None:
        assert LEAST <= rounded <= GREATEST
        assert abs(rounded - value) <= 0.5
