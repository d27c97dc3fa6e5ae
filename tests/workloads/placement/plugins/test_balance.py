import pytest

from fairway.testing.builders import cluster, decision
from fairway.workloads.placement.plugins.balance import NAME, Balance, score_of
from strategies import NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look, scores_of

THREE = (cluster("c1"), cluster("c2"), cluster("c3"))


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [
        (0, 0, 100),
        (0, 5, 100),
        (1, 1, -100),
        (1, 2, 0),
        (1, 3, 32),
        (2, 3, -32),
        (1, 4, 50),
        (2, 5, 18),
        (3, 5, -18),
        (1, 7, 70),
        (2, 7, 42),
        (3, 7, 14),
        (4, 10, 18),
        (6, 10, -18),
        (7, 10, -38),
        (9, 10, -80),
        (10, 10, -100),
    ],
    ids=lambda value: str(value),
)
def test_balance_score_is_truncated_before_doubling(count: int, most: int, expected: int) -> None:
    assert score_of(count, most) == expected


def scores(*objects: object) -> dict[str, int]:
    return scores_of(look(*THREE, *objects), NAME)


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        pytest.param((), (100, 100, 100), id="no decisions"),
        pytest.param(
            (decision("d", ["c1"], placement="p1"),), (100, 100, 100), id="own decisions do not count"
        ),
        pytest.param(
            (decision("d", ["c1"], placement="p2"),), (-100, 100, 100), id="one of another placement"
        ),
        pytest.param(
            (decision("d", ["c1", "c2"], placement="p2"), decision("e", ["c1", "c3"], placement="p3")),
            (-100, 0, 0),
            id="two of other placements",
        ),
        pytest.param((decision("d", ["c1"]),), (-100, 100, 100), id="one that bears no label"),
        pytest.param(
            (decision("d", ["c1"], placement="p1", namespace="ns2"),),
            (-100, 100, 100),
            id="one of a placement of the same name elsewhere",
        ),
        pytest.param(
            (decision("d", ["gone", "gone", "c1"], placement="p2"),),
            (0, 100, 100),
            id="the most held need not be a cluster at all",
        ),
        pytest.param(
            (decision("d", ["c2", "c2", "c1"], placement="p2"),),
            (0, -100, 100),
            id="a name twice in a decision counts twice",
        ),
        pytest.param(
            (decision("d", ["c1", "c1"], placement="p2"), decision("e", ["c1"], placement="p1")),
            (-100, 100, 100),
            id="own and foreign decisions on the same cluster",
        ),
        pytest.param(
            (decision("d", ["gone", "gone"], placement="p1"), decision("e", ["c1"], placement="p2")),
            (-100, 100, 100),
            id="own decisions do not raise the most held either",
        ),
    ],
)
def test_balance_scores_clusters_by_their_decisions(
    decisions: tuple[object, ...], expected: tuple[int, ...]
) -> None:
    assert tuple(scores(*decisions).values()) == expected


def test_balance_maximum_includes_infeasible_clusters() -> None:
    busy = cluster("busy", member_of="elsewhere")
    held = decision("d", ["busy", "busy", "busy", "busy", "c1"], placement="p2")
    assert scores(busy, held) == {"c1": 50, "c2": 100, "c3": 100}


def test_balance_counts_follow_decisions_and_clusters() -> None:
    world = hub(*THREE, decision("d", ["c1", "c4"], placement="p2"))

    def now() -> dict[str, int]:
        return scores_of(world.decide(KEY, now=NOW_MICROS), NAME)

    assert now() == {"c1": -100, "c2": 100, "c3": 100}
    world.put(cluster("c4"))
    assert now() == {"c1": -100, "c2": 100, "c3": 100, "c4": -100}
    world.put(decision("d", ["c4"], placement="p2"))
    assert now() == {"c1": 100, "c2": 100, "c3": 100, "c4": -100}
    world.fleet.delete_cluster("c4")
    world.put(cluster("c5"))
    assert now() == {"c1": 100, "c2": 100, "c3": 100, "c5": 100}
    world.fleet.delete_decision("ns1", "d")
    assert set(now().values()) == {100}


def test_balance_basis_is_the_maximum_of_other_placements() -> None:
    mine = Balance()
    assert mine.basis(look(*THREE).outcome.context) == 0
    others, own = decision("d", ["c1", "c1"], placement="p2"), decision("e", ["c2"] * 5, placement="p1")
    assert mine.basis(look(*THREE, others, own).outcome.context) == 2


def test_balance_and_steady_prefer_own_then_empty_clusters() -> None:
    """With Balance scores 100 apart, Steady keeps the decided cluster."""
    others = (
        decision("a", ["c1", "c2", "c3"], placement="x"),
        decision("b", ["c2"], placement="y"),
        decision("mine", ["c3"], placement="p1"),
    )
    verdict = look(*THREE, *others)
    assert verdict.outcome.totals_by_name() == {"c1": 0, "c2": -100, "c3": 100}
