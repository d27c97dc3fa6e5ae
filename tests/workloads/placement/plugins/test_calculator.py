import pytest
from msgspec import structs

from fairway.api.kinds import decode
from fairway.api.placement import PlacementSpec
from fairway.engine.status import Code
from fairway.testing.builders import builtin, cluster, cluster_score, policy
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.meta import ObjectMeta, UnreadableField
from strategies import NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look, scores_of

THREE = (cluster("c1"), cluster("c2"), cluster("c3"))


def spec(name: str, weight: int = 1) -> PlacementSpec:
    return PlacementSpec(prioritizerPolicy=policy(builtin(name, weight), mode="Exact"))


def seen(name: str, *values: int) -> Verdict:
    scores = [cluster_score(f"c{at}", name, value) for at, value in enumerate(values, 1)]
    return look(*THREE, *scores, spec=spec(name))


def test_published_resource_ratio_is_the_score() -> None:
    """The example of the API proposal."""
    published = decode(
        {
            "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
            "kind": "ManagedClusterScore",
            "metadata": {"name": "cluster1-resourceratiocpu", "namespace": "cluster1"},
            "status": {
                "conditions": [
                    {
                        "lastTransitionTime": "2021-10-28T08:31:39Z",
                        "lastUpdateTime": "2021-10-29T18:31:39Z",
                        "message": "ManagedClusterScore updated successfully",
                        "reason": "ManagedClusterScoreUpdated",
                        "status": "True",
                        "type": "ManagedClusterScoreUpdated",
                    }
                ],
                "score": 74,
            },
        }
    )
    verdict = look(cluster("cluster1"), cluster("cluster2"), published, spec=spec("ResourceRatioCPU"))
    assert scores_of(verdict, "ResourceRatioCPU") == {"cluster1": 74}
    assert verdict.outcome.totals_by_name() == {"cluster1": 74, "cluster2": 0}


@pytest.mark.parametrize("name", ["ResourceRatioCPU", "ResourceRatioMemory"])
def test_well_known_calculators_need_no_published_score(name: str) -> None:
    verdict = seen(name)
    assert verdict.status.code is Code.SUCCESS
    assert scores_of(verdict, name) == {}
    assert verdict.outcome.selected == ["c1", "c2", "c3"]


def test_any_published_calculator_is_a_prioritizer() -> None:
    assert scores_of(seen("ClusterHealth", 10, -20), "ClusterHealth") == {"c1": 10, "c2": -20}


@pytest.mark.parametrize("name", ["Spread", "balance", "", "ResourceRatioGPU"])
def test_unpublished_calculator_is_misconfigured(name: str) -> None:
    verdict = seen(name)
    assert (verdict.status.code, verdict.status.plugin) == (Code.MISCONFIGURED, "")
    assert verdict.status.message == f"incorrect builtin prioritizer: {name}"
    assert verdict.outcome.selected == []


def test_unpublished_calculator_is_misconfigured_without_clusters() -> None:
    assert look(spec=spec("Unheard")).status.code is Code.MISCONFIGURED


def test_calculator_is_valid_while_a_score_is_published() -> None:
    world = hub(*THREE, spec=spec("ClusterHealth"))
    assert world.decide(KEY, now=NOW_MICROS).status.aborts
    world.put(cluster_score("c2", "ClusterHealth", 1))
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == ["c2", "c1", "c3"]
    world.fleet.delete_cluster_score("c2", "ClusterHealth")
    assert world.decide(KEY, now=NOW_MICROS).status.aborts


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param((-100, 0, 100), (-100, 0, 100), id="scores in range count as they are"),
        pytest.param((5, 6, 7), (5, 6, 7), id="and are not stretched"),
        pytest.param((0, 50, 100), (0, 50, 100), id="not even at the upper end"),
        pytest.param((-100, -50, 0), (-100, -50, 0), id="nor at the lower end"),
        pytest.param((0, 50, 101), (0, 49, 100), id="one beyond 100 stretches all"),
        pytest.param((-101, 0, 99), (0, 50, 100), id="one below -100 stretches all"),
        pytest.param((10**12, 3 * 10**12, 2 * 10**12), (0, 100, 50), id="amounts of bytes"),
        pytest.param((500, 500, 500), (100, 100, 100), id="equal amounts are the best"),
        pytest.param((-(2**63), 0, 2**63 - 1), (0, 50, 100), id="the widest range there is"),
    ],
)
def test_calculator_amounts_are_scaled_to_the_score_range(
    values: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert tuple(scores_of(seen("ClusterHealth", *values), "ClusterHealth").values()) == expected


def test_missing_calculator_score_counts_zero_outside_the_range() -> None:
    verdict = seen("ClusterHealth", 1000, 3000)
    assert scores_of(verdict, "ClusterHealth") == {"c1": 0, "c2": 100}
    assert verdict.outcome.totals_by_name() == {"c1": 0, "c2": 100, "c3": 0}


def test_calculator_names_are_case_insensitive() -> None:
    shouted = structs.replace(
        cluster_score("c1", "clusterhealth", 7), metadata=ObjectMeta(name="c1-CLUSTERHEALTH", namespace="c1")
    )
    assert scores_of(look(*THREE, shouted, spec=spec("ClusterHealth")), "ClusterHealth") == {"c1": 7}


def test_calculator_score_without_cluster_prefix_is_ignored() -> None:
    stray = structs.replace(
        cluster_score("c1", "clusterhealth", 7), metadata=ObjectMeta(name="c2-clusterhealth", namespace="c1")
    )
    assert look(*THREE, stray, spec=spec("ClusterHealth")).status.aborts


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param((2**62, 2**62 + 1), (100, 100), id="too close for doubles to tell apart"),
        pytest.param((2**63 - 1, -(2**63)), (100, 0), id="as far apart as can be"),
    ],
)
def test_calculator_amounts_at_64_bit_limits_are_compared(
    values: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    verdict = seen("Latency", *values)
    assert scores_of(verdict, "Latency") == dict(zip(("c1", "c2"), expected, strict=True))


def test_undecodable_calculator_score_is_missing() -> None:
    good, bad = cluster_score("c1", "Health", -50), cluster_score("c2", "Health", 0)
    bad = structs.replace(bad, metadata=bad.metadata.partial((UnreadableField("status.score", "bad"),)))
    assert scores_of(look(*THREE, good, bad, spec=spec("Health")), "Health") == {"c1": -50}
