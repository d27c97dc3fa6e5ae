import pytest

from fairway.engine.status import OK, Status, failed, misconfigured, warning
from fairway.workloads.placement.conditions import misconfigured_condition, satisfied_condition
from fairway.workloads.placement.plugins.clustersets import BoundSets
from kubewire.api.meta import Condition

WARNED = warning(lambda: "old", plugin="AddOn/a/b")
BOUND = BoundSets(bound=("a", "b"), eligible=("a", "b"))


def satisfied(
    *,
    wanted: tuple[str, ...] = (),
    sets: BoundSets = BOUND,
    available: bool = True,
    selected: int = 1,
    unscheduled: int = 0,
    status: Status = OK,
) -> tuple[str, str, str]:
    made = satisfied_condition(
        wanted=wanted,
        sets=sets,
        available=available,
        selected=selected,
        unscheduled=unscheduled,
        status=status,
    )
    assert made.type == "PlacementSatisfied"
    assert made.observedGeneration == 0
    return made.status, made.reason, made.message


NO_BINDINGS = (
    "False",
    "NoManagedClusterSetBindings",
    "No valid ManagedClusterSetBindings found in placement namespace",
)
SETS_EMPTY = (
    "False",
    "AllManagedClusterSetsEmpty",
    "All ManagedClusterSets [a,b] have no member ManagedCluster",
)
NONE_MATCHED = ("False", "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
SCHEDULED = ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")


def test_missing_binding_condition_has_precedence() -> None:
    nothing = BoundSets(bound=(), eligible=())
    broken = failed("broken")
    assert satisfied(wanted=("x",), sets=nothing, available=False, selected=0, status=broken) == NO_BINDINGS


def test_unbound_sets_are_listed_in_condition() -> None:
    sets = BoundSets(bound=("a",), eligible=())
    assert satisfied(wanted=("z", "y"), sets=sets, available=False, selected=0, status=failed("broken")) == (
        "False",
        "NoIntersection",
        "None of ManagedClusterSets [z,y] is bound to placement namespace",
    )


def test_empty_sets_are_listed_sorted_in_condition() -> None:
    assert satisfied(available=False, selected=0, status=failed("broken")) == SETS_EMPTY


def test_condition_has_message_of_error() -> None:
    assert satisfied(selected=0, status=failed("it broke")) == (
        "False",
        "NotAllDecisionsScheduled",
        "it broke",
    )


@pytest.mark.parametrize(
    ("unscheduled", "status"),
    [
        pytest.param(3, OK, id="some wanted"),
        pytest.param(0, OK, id="none wanted"),
        pytest.param(0, misconfigured("no"), id="misconfigured"),
    ],
)
def test_no_selected_cluster_is_no_matched_cluster_condition(unscheduled: int, status: Status) -> None:
    assert satisfied(selected=0, unscheduled=unscheduled, status=status) == NONE_MATCHED


@pytest.mark.parametrize("status", [OK, WARNED, misconfigured("no")], ids=["fine", "warned", "misconfigured"])
def test_condition_when_all_clusters_are_selected(status: Status) -> None:
    assert satisfied(status=status) == SCHEDULED


def test_condition_when_fewer_clusters_than_wanted_are_selected() -> None:
    assert satisfied(unscheduled=2) == (
        "False",
        "NotAllDecisionsScheduled",
        "2 cluster decisions unscheduled",
    )


PASS = Condition(
    type="PlacementMisconfigured",
    status="False",
    reason="Succeedconfigured",
    message="Placement configurations check pass",
)


@pytest.mark.parametrize("status", [OK, WARNED, failed("broke")], ids=["fine", "warned", "failed"])
def test_only_misconfiguration_sets_misconfigured_condition(status: Status) -> None:
    assert misconfigured_condition(status) == PASS


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        pytest.param("Predicate", "Predicate:no such thing", id="of a plugin"),
        pytest.param("", ":no such thing", id="of no plugin"),
    ],
)
def test_misconfigured_condition_names_the_plugin(plugin: str, message: str) -> None:
    made = misconfigured_condition(misconfigured("no such thing", plugin=plugin))
    assert (made.status, made.reason, made.message) == ("True", "Misconfigured", message)
