import pytest

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.clusterset import ManagedClusterSet
from fairway.hosts.clusters.hostset import host_set
from fairway.testing.builders import cluster_set, requirement, selector
from kubewire.api.salvage import salvage
from kubewire.api.selector import LabelSelector

BLUE = {CLUSTER_SET_LABEL: "blue"}


@pytest.mark.parametrize(
    ("source", "labels", "member"),
    [
        pytest.param(cluster_set("blue"), BLUE, True, id="no type means the exclusive label"),
        pytest.param(cluster_set("blue"), {CLUSTER_SET_LABEL: "red"}, False, id="the label of another set"),
        pytest.param(cluster_set("blue"), {}, False, id="no label"),
        pytest.param(
            cluster_set("blue", kind="ExclusiveClusterSetLabel", selector=LabelSelector()),
            {},
            False,
            id="the exclusive label, whatever selector is there",
        ),
        pytest.param(cluster_set("all", selector=LabelSelector()), {}, True, id="an empty selector"),
        pytest.param(cluster_set("none", kind="LabelSelector"), BLUE, False, id="no selector"),
        pytest.param(
            cluster_set("x", selector=selector(labels={"a": "b"})),
            {"a": "b"},
            True,
            id="a selector that matches",
        ),
        pytest.param(
            cluster_set("x", selector=selector(labels={"a": "b"})),
            {"a": "c"},
            False,
            id="a selector that does not",
        ),
    ],
)
def test_members_of_cluster_set(source: ManagedClusterSet, labels: dict[str, str], member: bool) -> None:
    members = host_set(source)
    assert members.error is None
    assert members.selector.matches(labels) is member


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (cluster_set("x", kind="LegacyClusterSetLabel"), "selectorType is not right: LegacyClusterSetLabel"),
        (
            cluster_set("x", selector=selector(requirement("a", "Like"))),
            '"Like" is not a valid label selector operator',
        ),
    ],
    ids=["an unknown type", "a selector that does not compile"],
)
def test_invalid_cluster_set_has_no_members(source: ManagedClusterSet, error: str) -> None:
    members = host_set(source)
    assert (members.error, members.selector.matches({}), members.selector.matches(BLUE)) == (
        error,
        False,
        False,
    )


def test_set_with_undecodable_selector_has_no_members() -> None:
    raw = b'{"metadata":{"name":"x"},"spec":{"clusterSelector":{"selectorType":7}}}'
    members = host_set(salvage(raw, ManagedClusterSet))
    assert members.error == "spec.clusterSelector.selectorType cannot be read: Expected `str`, got `int`"
    assert not members.selector.matches({CLUSTER_SET_LABEL: "x"})
