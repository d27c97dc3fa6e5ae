import pytest

from fairway.testing.builders import cluster, decision
from fairway.workloads.placement.plugins.steady import NAME
from workloads.placement.plugins.verdicts import look, scores_of

THREE = (cluster("c1"), cluster("c2"), cluster("c3"))


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        pytest.param((), (0, 0, 0), id="nothing decided yet"),
        pytest.param((decision("d", ["c1"], placement="p1"),), (100, 0, 0), id="one decided"),
        pytest.param(
            (decision("d", ["c1"], placement="p1"), decision("e", ["c3"], placement="p1")),
            (100, 0, 100),
            id="decided on two pages",
        ),
        pytest.param(
            (decision("d", ["c3", "c3"], placement="p1"),), (0, 0, 100), id="named twice counts once"
        ),
        pytest.param((decision("d", ["c1"], placement="p2"),), (0, 0, 0), id="decision of another placement"),
        pytest.param((decision("d", ["c1"]),), (0, 0, 0), id="a decision without a label"),
        pytest.param(
            (decision("d", ["c1"], placement="p1", namespace="ns2"),), (0, 0, 0), id="another namespace"
        ),
        pytest.param(
            (decision("d", ["gone", "zzz"], placement="p1"),), (0, 0, 0), id="clusters that are gone"
        ),
        pytest.param(
            (decision("d", ["a", "c2", "zzz"], placement="p1"),), (0, 100, 0), id="one there, others gone"
        ),
    ],
)
def test_steady_scores_decided_clusters(decisions: tuple[object, ...], expected: tuple[int, ...]) -> None:
    assert tuple(scores_of(look(*THREE, *decisions), NAME).values()) == expected


def test_steady_score_of_filtered_cluster_is_not_transferred() -> None:
    out = cluster("c2", member_of="elsewhere")
    held = decision("d", ["c2", "c3"], placement="p1")
    verdict = look(cluster("c1"), out, cluster("c3"), cluster("c4"), held)
    assert scores_of(verdict, NAME) == {"c1": 0, "c3": 100, "c4": 0}
