from typing import Any

from fairway.api import ManagedCluster, ManagedClusterSet, Placement, check, decode
from kubewire.api.defaults import apply_defaults

GROUP = "cluster.open-cluster-management.io"


def defaulted_spec(**spec: Any) -> Any:
    document = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    filled = apply_defaults(document, Placement)
    assert apply_defaults(filled, Placement) == filled
    return filled["spec"]


def test_absent_objects_get_no_defaults() -> None:
    assert defaulted_spec() == {"sortBy": "ClusterName", "scoreRateLimit": "1m"}


def test_present_objects_get_defaults() -> None:
    spec = defaulted_spec(
        sortBy="Score",
        prioritizerPolicy={"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}}, {"weight": 0}]},
        decisionStrategy={"groupStrategy": {}},
        tolerations=[{"key": "a"}],
    )
    assert spec == {
        "sortBy": "Score",
        "scoreRateLimit": "1m",
        "prioritizerPolicy": {
            "mode": "Additive",
            "configurations": [
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 1},
                {"weight": 0},
            ],
        },
        "decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "100%"}},
        "tolerations": [{"key": "a", "operator": "Equal"}],
    }


def test_null_is_defaulted_unless_nullable() -> None:
    assert defaulted_spec(sortBy=None, clusterSets=None) == {"sortBy": "ClusterName", "scoreRateLimit": "1m"}
    taint = {"key": "a", "effect": "NoSelect", "timeAdded": None}
    filled = apply_defaults({"metadata": {"name": "c"}, "spec": {"taints": [taint]}}, ManagedCluster)
    assert filled["spec"] == {"taints": [taint], "leaseDurationSeconds": 60}


def test_default_objects_are_not_shared() -> None:
    wanted = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
    first = apply_defaults({"metadata": {"name": "s"}}, ManagedClusterSet)
    assert first["spec"] == wanted
    first["spec"]["clusterSelector"]["selectorType"] = "changed"
    assert apply_defaults({"metadata": {"name": "s"}}, ManagedClusterSet)["spec"] == wanted


def test_unknown_fields_are_kept_by_defaulting() -> None:
    document = {
        "metadata": {"name": "p", "x": None},
        "spec": {"unknown": None, "tolerations": "all", "predicates": [1]},
    }
    filled = apply_defaults(document, Placement)
    assert filled["spec"]["unknown"] is None
    assert filled["spec"]["tolerations"] == "all"
    assert filled["spec"]["predicates"] == [1]


def test_defaulting_returns_a_valid_copy() -> None:
    document = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Placement", "metadata": {"name": "p"}, "spec": {}}
    filled = apply_defaults(document, Placement)
    assert document["spec"] == {}
    assert check(filled, kind=Placement) == ()
    placement = decode(filled)
    assert isinstance(placement, Placement)
    assert placement.spec.sortBy == "ClusterName"
