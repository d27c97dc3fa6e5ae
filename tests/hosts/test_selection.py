import pytest

from fairway.hosts import bitmap, selection
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import ClusterSnapshot, Fleet
from fairway.testing.builders import cluster, requirement
from kubewire.api.selector import SELECT_NOTHING, LabelSelectorRequirement, compile_requirements


@pytest.fixture
def snapshot() -> ClusterSnapshot:
    fleet = Fleet()
    fleet.load(
        [
            cluster("a", labels={"env": "prod", "gpu": "yes"}, claims={"env": "dev"}),
            cluster("b", labels={"env": "dev"}, claims={"env": "prod"}),
            cluster("c", labels={"env": "qa", "gpu": "no"}),
            cluster("d"),
            cluster("gone", labels={"env": "prod"}),
        ]
    )
    fleet.delete_cluster("gone")
    return fleet.snapshot()


def names(snapshot: ClusterSnapshot, bits: Bits) -> str:
    return "".join(snapshot.hosts.names[row] for row in bitmap.rows_of(bits).tolist())


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        pytest.param((), "abcd", id="no requirement"),
        pytest.param((requirement("env", "In", "prod"),), "a", id="In one value"),
        pytest.param((requirement("env", "In", "prod", "dev", "nowhere"),), "ab", id="In several values"),
        pytest.param((requirement("env", "In", "nowhere"),), "", id="In a missing value"),
        pytest.param((requirement("env", "NotIn", "prod", "dev"),), "cd", id="NotIn, missing included"),
        pytest.param((requirement("env", "NotIn", "nowhere"),), "abcd", id="NotIn a missing value"),
        pytest.param((requirement("gpu", "Exists"),), "ac", id="Exists"),
        pytest.param((requirement("gpu", "DoesNotExist"),), "bd", id="DoesNotExist"),
        pytest.param((requirement("nowhere", "Exists"),), "", id="Exists with a missing key"),
        pytest.param((requirement("nowhere", "DoesNotExist"),), "abcd", id="and is missing everywhere"),
        pytest.param(
            (requirement("gpu", "Exists"), requirement("env", "NotIn", "prod")), "c", id="all must be met"
        ),
    ],
)
def test_selection_by_labels(
    snapshot: ClusterSnapshot, requirements: tuple[LabelSelectorRequirement, ...], expected: str
) -> None:
    selector = compile_requirements(requirements)
    bits = selection.select(snapshot, selector, kind="label", among=snapshot.live)
    assert names(snapshot, bits) == expected


def test_selection_distinguishes_claims_from_labels(snapshot: ClusterSnapshot) -> None:
    prod = compile_requirements([requirement("env", "In", "prod")])
    bits = selection.select(snapshot, prod, kind="claim", among=snapshot.live)
    assert names(snapshot, bits) == "b"


def test_selection_is_restricted_to_given_rows(snapshot: ClusterSnapshot) -> None:
    among = bitmap.from_rows([1, 2], snapshot.capacity)
    missing = compile_requirements([requirement("gpu", "DoesNotExist")])
    assert names(snapshot, selection.select(snapshot, missing, kind="label", among=among)) == "b"
    assert bitmap.rows_of(among).tolist() == [1, 2]


def test_empty_selector_selects_all(snapshot: ClusterSnapshot) -> None:
    bits = selection.select(snapshot, SELECT_NOTHING, kind="label", among=snapshot.live)
    assert names(snapshot, bits) == ""
