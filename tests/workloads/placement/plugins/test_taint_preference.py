import pytest

from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.testing.builders import builtin, cluster, policy
from fairway.workloads.placement.plugins.taint_preference import NAME
from workloads.placement.plugins.verdicts import look, scores_of, selected


def unwanted(*keys: str, effect: str = "PreferNoSelect") -> list[Taint]:
    return [Taint(key=key, effect=effect) for key in keys]


FLEET = (
    cluster("a-two", taints=unwanted("x", "y")),
    cluster("b-one", taints=unwanted("x")),
    cluster("c-none"),
)
ASKED = policy(builtin(NAME), mode="Exact")


def test_prefer_no_select_has_no_effect_without_taint_preference() -> None:
    assert selected(*FLEET, spec=PlacementSpec(numberOfClusters=1)) == ["a-two"]


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param((), (-100, 0, 100), id="the more taints, the worse"),
        pytest.param((Toleration(key="y"),), (-100, -100, 100), id="a tolerated one does not count"),
        pytest.param(
            (Toleration(operator="Exists"),), (100, 100, 100), id="all tolerated is as good as none"
        ),
        pytest.param(
            (Toleration(key="y", effect="NoSelect"),), (-100, 0, 100), id="another effect tolerated"
        ),
        pytest.param(
            (Toleration(key="y", tolerationSeconds=10**6),), (-100, 0, 100), id="tolerated for some time only"
        ),
    ],
)
def test_taint_preference_scores_clusters_by_taints(
    tolerations: tuple[Toleration, ...], expected: tuple[int, ...]
) -> None:
    verdict = look(*FLEET, spec=PlacementSpec(tolerations=tolerations, prioritizerPolicy=ASKED))
    assert tuple(scores_of(verdict, NAME).values()) == expected


def test_taint_preference_does_not_filter() -> None:
    spec = PlacementSpec(numberOfClusters=3, prioritizerPolicy=ASKED)
    assert selected(*FLEET, spec=spec) == ["c-none", "b-one", "a-two"]


def test_taint_preference_counts_only_prefer_no_select() -> None:
    hard = cluster("a", taints=unwanted("x", effect="NoSelectIfNew"))
    spec = PlacementSpec(tolerations=(Toleration(key="x", effect="NoSelectIfNew"),), prioritizerPolicy=ASKED)
    assert scores_of(look(hard, cluster("b"), spec=spec), NAME) == {"a": 100, "b": 100}
