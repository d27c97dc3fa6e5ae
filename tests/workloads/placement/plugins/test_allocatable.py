import numpy as np
import pytest

from fairway.api.placement import PlacementSpec
from fairway.engine.points import Extent
from fairway.testing.builders import builtin, cluster, policy
from fairway.workloads.placement.plugins.allocatable import Allocatable
from workloads.placement.plugins.verdicts import look, scores_of

CPU = "ResourceAllocatableCPU"
MEMORY = "ResourceAllocatableMemory"


def scores(name: str, *objects: object) -> dict[str, int]:
    spec = PlacementSpec(prioritizerPolicy=policy(builtin(name), mode="Exact"))
    return scores_of(look(*objects, spec=spec), name)


def with_cpu(*amounts: str) -> list[object]:
    return [cluster(f"c{at:02d}", allocatable={"cpu": amount}) for at, amount in enumerate(amounts)]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param(
            tuple(str(amount) for amount in range(11)),
            (-100, -80, -60, -40, -19, 0, 19, 39, 60, 80, 100),
            id="0 to 10 in doubles, cut towards zero",
        ),
        pytest.param(("10", "7", "9"), (100, -100, 33), id="10 7 9"),
        pytest.param(("50", "90", "80"), (-100, 100, 50), id="50 90 80"),
        pytest.param(("20", "60", "100"), (-100, 0, 100), id="20 60 100"),
        pytest.param(("4", "4", "4"), (100, 100, 100), id="all equal is the best"),
        pytest.param(("0", "0"), (100, 100), id="all zero is the best too"),
        pytest.param(("3",), (100,), id="one alone is the best"),
        pytest.param(("500m", "1", "1500m"), (-100, 0, 100), id="milli units"),
        pytest.param(("1Ki", "1024", "2Ki"), (-100, -100, 100), id="binary units"),
    ],
)
def test_allocatable_score_is_scaled_between_smallest_and_largest(
    amounts: tuple[str, ...], expected: tuple[int, ...]
) -> None:
    assert tuple(scores(CPU, *with_cpu(*amounts)).values()) == expected


def test_allocatable_cpu_and_memory_are_scored_separately() -> None:
    clusters = [
        cluster("c1", allocatable={"cpu": "1", "memory": "3Gi"}),
        cluster("c2", allocatable={"cpu": "3", "memory": "1Gi"}),
    ]
    assert scores(CPU, *clusters) == {"c1": -100, "c2": 100}
    assert scores(MEMORY, *clusters) == {"c1": 100, "c2": -100}


@pytest.mark.parametrize(
    "silent",
    [
        pytest.param(cluster("silent"), id="neither reported"),
        pytest.param(cluster("silent", allocatable={"cpu": "500"}, capacity={}), id="capacity missing"),
        pytest.param(cluster("silent", capacity={"cpu": "500"}), id="allocatable missing"),
    ],
)
def test_cluster_without_capacity_or_allocatable_has_no_score(silent: object) -> None:
    assert scores(CPU, *with_cpu("1", "2", "3"), silent) == {"c00": -100, "c01": 0, "c02": 100}


def test_allocatable_score_ignores_amount_of_capacity() -> None:
    clusters = [
        cluster("c1", allocatable={"cpu": "1"}, capacity={"cpu": "99"}),
        cluster("c2", allocatable={"cpu": "2"}, capacity={"cpu": "0"}),
    ]
    assert scores(CPU, *clusters) == {"c1": -100, "c2": 100}


def test_allocatable_score_without_reports_is_unknown() -> None:
    assert scores(CPU, cluster("c1"), cluster("c2")) == {}


def test_missing_allocatable_counts_zero() -> None:
    spec = PlacementSpec(prioritizerPolicy=policy(builtin(CPU, 2), mode="Exact"))
    verdict = look(*with_cpu("1", "2"), cluster("silent"), spec=spec)
    assert verdict.outcome.totals_by_name() == {"c00": -200, "c01": 200, "silent": 0}
    assert verdict.outcome.selected == ["c01", "silent", "c00"]


def test_allocatable_range_is_that_of_feasible_clusters() -> None:
    giant = cluster("giant", allocatable={"cpu": "1000"}, member_of="elsewhere")
    assert scores(CPU, *with_cpu("1", "2"), giant) == {"c00": -100, "c01": 100}


@pytest.mark.parametrize("raw", [0.1, 0.2, 0.3, 0.7, 1 / 3, 0.9999999])
def test_allocatable_score_of_single_host_equals_that_of_fleet(raw: float) -> None:
    plugin = Allocatable(name=CPU)
    extent = Extent(0.1, 1.0)
    assert plugin.normalize(raw, extent) == int(plugin.normalize_fleet(np.array([raw]), extent)[0])


@pytest.mark.parametrize("amount", ["1e400", "-1e400", "0e400", "1e301", "-1e301"])
def test_excessive_allocatable_counts_as_not_reported(amount: str) -> None:
    """As doubles, such amounts or their differences are infinite or NaN."""
    assert scores(CPU, *with_cpu(amount, "1", "2")) == {"c01": -100, "c02": 100}


def test_largest_valid_allocatable_amounts_are_distinguished() -> None:
    assert scores(CPU, *with_cpu("-1e300", "0", "1e300")) == {"c00": -100, "c01": 0, "c02": 100}
