from typing import Any

from fairway.api import ManagedCluster, ManagedClusterSet, Placement, apply_defaults, check, decode

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


def test_defaults_of_absent_objects_are_not_made_up() -> None:
    assert defaulted_spec() == {"sortBy": "ClusterName", "scoreRateLimit": "1m"}


def test_defaults_inside_present_objects() -> None:
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


def test_null_is_absent_unless_nullable() -> None:
    assert defaulted_spec(sortBy=None, clusterSets=None) == {"sortBy": "ClusterName", "scoreRateLimit": "1m"}
    taint = {"key": "a", "effect": "NoSelect", "timeAdded": None}
    filled = apply_defaults({"metadata": {"name": "c"}, "spec": {"taints": [taint]}}, ManagedCluster)
    assert filled["spec"] == {"taints": [taint], "leaseDurationSeconds": 60}


def test_whole_objects_by_default_are_not_shared() -> None:
    wanted = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
    first = apply_defaults({"metadata": {"name": "s"}}, ManagedClusterSet)
    assert first["spec"] == wanted
    first["spec"]["clusterSelector"]["selectorType"] = "changed"
    assert apply_defaults({"metadata": {"name": "s"}}, ManagedClusterSet)["spec"] == wanted


def test_what_the_schema_does_not_know_is_left_alone() -> None:
    document = {
        "metadata": {"name": "p", "x": None},
        "spec": {"unknown": None, "tolerations": "all", "predicates": [1]},
    }
    filled = apply_defaults(document, Placement)
    assert filled["spec"]["unknown"] is None
    assert filled["spec"]["tolerations"] == "all"
    assert filled["spec"]["predicates"] == [1]


def test_a_defaulted_document_is_good_and_the_original_untouched() -> None:
    document = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Placement", "metadata": {"name": "p"}, "spec": {}}
    filled = apply_defaults(document, Placement)
    assert document["spec"] == {}
    assert check(filled, kind=Placement) == ()
    placement = decode(filled)
    assert isinstance(placement, Placement)
    assert placement.spec.sortBy == "ClusterName"
