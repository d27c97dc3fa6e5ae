"""What a real Prometheus answers, and what becomes of it."""

import time
from typing import Any

import pytest

from fairway.api.cluster import ClusterClaim, ManagedCluster, ManagedClusterStatus
from fairway.providers.prometheus import api, provider
from fairway.providers.provider import ProviderError, Reading
from kubewire.api.meta import ObjectMeta
from providers.tools.monitoring import Monitoring
from providers.tools.readings import failure, fleet, open_provider, problem, values

LINEAR = {"kind": "linear", "low": 0, "high": 100}


def options(monitoring: Monitoring, query: str, **more: Any) -> dict[str, Any]:
    score = {"name": "free", "query": query, "unit": "cores", "scale": LINEAR, **more}
    return {"url": monitoring.server.url, "scores": [score]}


async def seen(monitoring: Monitoring, metric: str, **expected: float) -> None:
    await monitoring.server.until(metric, lambda series: {**series, **expected} == series)


async def test_one_query_scores_the_whole_fleet(monitoring: Monitoring) -> None:
    for name, value in {"c1": 40, "c2": 75.5, "elsewhere": 3}.items():
        monitoring.exporter.set("whole_free", value, cluster=name)
    await seen(monitoring, "whole_free", c1=40, c2=75.5, elsewhere=3)
    async with open_provider("prometheus", options(monitoring, "whole_free")) as opened:
        assert await values(opened, fleet("c1", "c2")) == {"c1": {"free": 40.0}, "c2": {"free": 75.5}}


async def test_each_score_has_its_query(monitoring: Monitoring) -> None:
    monitoring.exporter.set("several_free", 40, cluster="c1")
    monitoring.exporter.set("several_used", 10, cluster="c1")
    await seen(monitoring, "several_used", c1=10)
    given = options(monitoring, "several_free")
    given["scores"].append({"name": "used", "query": "several_used", "scale": {**LINEAR, "inverted": True}})
    async with open_provider("prometheus", given) as opened:
        assert await values(opened, fleet("c1")) == {"c1": {"free": 40.0, "used": 10.0}}


async def test_promql_error_is_quoted(monitoring: Monitoring) -> None:
    async with open_provider("prometheus", options(monitoring, "sum by (cluster (")) as opened:
        reason, words = await failure(opened, fleet("c1"))
    assert reason == api.QUERY_INVALID
    assert words.startswith("free: Prometheus returned an error: invalid parameter")
    assert "parse error" in words


async def test_failed_query_affects_only_its_score(monitoring: Monitoring) -> None:
    monitoring.exporter.set("own_free", 40, cluster="c1")
    await seen(monitoring, "own_free", c1=40)
    given = options(monitoring, "own_free")
    given["scores"].append({"name": "wrong", "query": "nope(", "scale": LINEAR})
    async with open_provider("prometheus", given) as opened:
        reading = (await opened.read(fleet("c1")))["c1"]
    assert isinstance(reading, Reading)
    assert dict(reading.values) == {"free": 40.0}
    assert reading.lost == ("wrong",)
    assert reading.reason == api.QUERY_INVALID
    assert reading.problem.startswith("wrong: Prometheus returned an error: ")


@pytest.mark.parametrize(("value", "shown"), [(float("nan"), "nan"), (float("inf"), "inf")])
async def test_non_finite_value_is_not_published(monitoring: Monitoring, value: float, shown: str) -> None:
    metric = f"not_finite_{shown}"
    monitoring.exporter.set(metric, value, cluster="c1")
    monitoring.exporter.set(metric, 7, cluster="c2")
    await seen(monitoring, metric, c2=7)
    async with open_provider("prometheus", options(monitoring, metric)) as opened:
        readings = await opened.read(fleet("c1", "c2"))
    bad, good = readings["c1"], readings["c2"]
    assert isinstance(bad, ProviderError)
    assert (bad.reason, str(bad)) == (provider.NOT_FINITE, f"free: the value is {shown}")
    assert isinstance(good, Reading)
    assert dict(good.values) == {"free": 7.0}


async def test_cluster_without_series_is_reported(monitoring: Monitoring) -> None:
    monitoring.exporter.set("missing_free", 40, cluster="c1")
    await seen(monitoring, "missing_free", c1=40)
    async with open_provider("prometheus", options(monitoring, "missing_free")) as opened:
        assert await problem(opened, fleet("c1", "c2"), "c2") == (
            provider.MISSING,
            "free: no series for this cluster",
        )
        # Without any match, the values of the label show what was meant.
        assert await problem(opened, fleet("c2"), "c2") == (
            provider.MISSING,
            "free: no series for this cluster: label cluster has the values c1",
        )


async def test_empty_query_result_is_reported(monitoring: Monitoring) -> None:
    async with open_provider("prometheus", options(monitoring, "nobody_has_this_metric")) as opened:
        _, words = await problem(opened, fleet("c1"), "c1")
    assert words == "free: no series for this cluster: the query result is empty"


async def test_two_series_of_one_cluster_are_rejected(monitoring: Monitoring) -> None:
    monitoring.exporter.set("twice_free", 40, cluster="c1", node="a")
    monitoring.exporter.set("twice_free", 60, cluster="c1", node="b")
    await monitoring.server.until("twice_free", lambda series: set(series) == {"a", "b"}, label="node")
    async with open_provider("prometheus", options(monitoring, "twice_free")) as opened:
        reason, words = await problem(opened, fleet("c1"), "c1")
    assert reason == provider.AMBIGUOUS
    assert "2 series for this cluster" in words
    assert 'node="a"' in words
    assert "max by (cluster) (...)" in words
    async with open_provider("prometheus", options(monitoring, "max by (cluster) (twice_free)")) as opened:
        assert await values(opened, fleet("c1")) == {"c1": {"free": 60.0}}


async def test_missing_cluster_label_lists_existing_labels(monitoring: Monitoring) -> None:
    monitoring.exporter.set("label_free", 40, clusterID="c1")
    await monitoring.server.until("label_free", lambda series: "c1" in series, label="clusterID")
    async with open_provider("prometheus", options(monitoring, "sum by (clusterID) (label_free)")) as opened:
        reason, words = await failure(opened, fleet("c1"))
    assert reason == provider.UNLABELLED
    assert words.endswith("no series has the label cluster, which names the cluster; there are clusterID")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("scalar(vector(1))", "the query returns a scalar without clusters"),
        ('"text"', "the query returns a string without clusters"),
        ("up[1m]", "the query returns a range vector: remove the [...]"),
    ],
)
async def test_query_of_wrong_type_is_rejected(monitoring: Monitoring, query: str, words: str) -> None:
    async with open_provider("prometheus", options(monitoring, query)) as opened:
        reason, message = await failure(opened, fleet("c1"))
    assert reason == api.WRONG_TYPE
    assert words in message


async def test_clusters_match_by_claim_and_by_table(monitoring: Monitoring) -> None:
    monitoring.exporter.set("claim_free", 40, cluster="1234-abcd")
    monitoring.exporter.set("claim_free", 50, cluster="prod-eu")
    monitoring.exporter.set("claim_free", 60, cluster="same")
    await seen(monitoring, "claim_free", same=60)

    def claiming(name: str, claim: str) -> ManagedCluster:
        status = ManagedClusterStatus(clusterClaims=(ClusterClaim(name="id.k8s.io", value=claim),))
        return ManagedCluster(metadata=ObjectMeta(name=name), status=status)

    clusters = {
        cluster.metadata.name: cluster
        for cluster in (claiming("c1", "1234-abcd"), claiming("c2", ""), claiming("c3", "same"))
    }
    given = options(monitoring, "claim_free")
    given["cluster"] = {"match": {"claim": "id.k8s.io"}, "names": {"prod-eu": "c2"}}
    async with open_provider("prometheus", given) as opened:
        assert await values(opened, clusters) == {
            "c1": {"free": 40.0},
            "c2": {"free": 50.0},
            "c3": {"free": 60.0},
        }
        clusters["c4"] = claiming("c4", "same")
        reason, words = await problem(opened, clusters, "c3")
    assert reason == provider.AMBIGUOUS
    assert words == "free: label cluster is 'same', which several clusters have: c3, c4"


async def test_stale_sample_is_not_published(monitoring: Monitoring) -> None:
    """A proxy may repeat the sample of a silent agent, which Prometheus then returns for five minutes."""
    monitoring.exporter.set("old_free", 40, cluster="c1", at=time.time() - 120)
    monitoring.exporter.set("old_free", 50, cluster="c2")
    await seen(monitoring, "old_free", c1=40, c2=50)
    given = options(monitoring, "old_free") | {"maxAge": "1m"}
    async with open_provider("prometheus", given) as opened:
        readings = await opened.read(fleet("c1", "c2"))
    old, new = readings["c1"], readings["c2"]
    assert isinstance(old, ProviderError)
    assert old.reason == provider.STALE
    assert "s old, more than 60 s" in str(old)
    assert isinstance(new, Reading)
    assert dict(new.values) == {"free": 50.0}
    # A computed query names the series for its age, or disables the check.
    for freshness in ("max by (cluster) (timestamp(old_free))", "none"):
        given = options(monitoring, "sum by (cluster) (old_free)", freshness=freshness) | {"maxAge": "1m"}
        async with open_provider("prometheus", given) as opened:
            reading = (await opened.read(fleet("c1")))["c1"]
            assert isinstance(reading, Reading if freshness == "none" else ProviderError)


async def test_unscraped_cluster_has_no_value(monitoring: Monitoring) -> None:
    monitoring.exporter.set("gone_free", 40, cluster="c1")
    await seen(monitoring, "gone_free", c1=40)
    async with open_provider("prometheus", options(monitoring, "gone_free")) as opened:
        assert await values(opened, fleet("c1")) == {"c1": {"free": 40.0}}
        monitoring.exporter.drop("gone_free", cluster="c1")
        await monitoring.server.until("gone_free", lambda series: not series)
        reason, _ = await problem(opened, fleet("c1"), "c1")
    assert reason == provider.MISSING


async def test_range_query_is_reduced(monitoring: Monitoring) -> None:
    monitoring.exporter.set("range_free", 40, cluster="c1")
    window = "count_over_time(range_free[5s])"
    await monitoring.server.until(window, lambda series: series.get("c1", 0) >= 4)
    monitoring.exporter.set("range_free", 80, cluster="c1")
    await seen(monitoring, "range_free", c1=80)
    by_reduction: dict[str, float] = {}
    for reduce in ("last", "max", "avg", "p90"):
        given = options(monitoring, "range_free", mode="range", window="5s", step="1s", reduce=reduce)
        async with open_provider("prometheus", given) as source:
            by_reduction[reduce] = (await values(source, fleet("c1")))["c1"]["free"]
    assert by_reduction["last"] == by_reduction["max"] == 80
    assert 40 < by_reduction["avg"] <= 80
    assert 40 <= by_reduction["p90"] <= 80


async def test_sparse_range_is_not_reduced(monitoring: Monitoring) -> None:
    monitoring.exporter.set("sparse_free", 40, cluster="c1")
    await seen(monitoring, "sparse_free", c1=40)
    given = options(monitoring, "sparse_free", mode="range", window="1h", step="1m", reduce="avg")
    async with open_provider("prometheus", given) as opened:
        reason, words = await problem(opened, fleet("c1"), "c1")
    assert reason == provider.SPARSE
    assert words.endswith("of 61 points of the window have a value")
