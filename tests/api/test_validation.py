from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct

from fairway.api import KINDS, ManagedCluster, Placement, Problem, check, crds
from fairway.api.placement_v1alpha1 import PlacementV1Alpha1
from fairway.api.validation import (
    DUPLICATE,
    MISSING,
    NO_BASE64,
    NO_MATCH,
    NO_TIME,
    NOT_ALLOWED,
    OUT_OF_BOUNDS,
    UNKNOWN_FIELD,
    WRONG_LENGTH,
)
from kubewire.api.selector import VALUES_NEEDED

GROUP = "cluster.open-cluster-management.io"


def placement(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "p1", "namespace": "ns1"},
        "spec": spec,
    }


def cluster(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "ManagedCluster", "metadata": {"name": "c1"}, **fields}


def selecting(**requirement: Any) -> dict[str, Any]:
    selector = {"labelSelector": {"matchExpressions": [requirement]}}
    return placement(predicates=[{"requiredClusterSelector": selector}])


SELECTOR = "spec.predicates[0].requiredClusterSelector.labelSelector"

GOOD: list[tuple[dict[str, Any], type[Struct]]] = [
    (placement(), Placement),
    (
        placement(
            clusterSets=["a", "a"],
            numberOfClusters=-1,
            tolerations=[{"key": "a.b/c", "operator": "Whatever", "tolerationSeconds": 0}],
            decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 0, "decisionGroups": None}},
            prioritizerPolicy={"mode": "Odd", "configurations": [{"scoreCoordinate": {}, "weight": -10}]},
        ),
        Placement,
    ),
    (selecting(key="a", operator="In", values=["b", ""]), Placement),
    (
        cluster(
            spec={"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": None}]},
            status={
                "capacity": {"cpu": 4, "memory": "16Gi", "odd": 0.5},
                "conditions": [
                    {
                        "type": "A",
                        "status": "True",
                        "reason": "R",
                        "message": "",
                        "lastTransitionTime": datetime(2026, 1, 1, tzinfo=UTC),
                    }
                ],
            },
        ),
        ManagedCluster,
    ),
    ({"metadata": {"name": "x", "managedFields": [], "selfLink": "y"}}, ManagedCluster),
]


@pytest.mark.parametrize(("document", "kind"), GOOD)
def test_valid_document_has_no_problems(document: dict[str, Any], kind: type[Struct]) -> None:
    assert check(document, kind=kind) == ()


BAD: list[tuple[dict[str, Any], type[Struct], str, str, str]] = [
    (
        placement(numberofClusters=1),
        Placement,
        "spec.numberofClusters",
        UNKNOWN_FIELD,
        "did you mean numberOfClusters?",
    ),
    (placement(zzz=1), Placement, "spec.zzz", UNKNOWN_FIELD, "it has clusterSets"),
    (
        placement(numberOfClusters="3"),
        Placement,
        "spec.numberOfClusters",
        'is the text "3", must be a whole',
        "digits",
    ),
    (placement(numberOfClusters=2.5), Placement, "spec.numberOfClusters", "is the number 2.5", "digits"),
    (placement(numberOfClusters=True), Placement, "spec.numberOfClusters", "is true", "digits"),
    (placement(numberOfClusters=2**31), Placement, "spec.numberOfClusters", OUT_OF_BOUNDS, "2147483647"),
    (placement(clusterSets="a"), Placement, "spec.clusterSets", "must be a list", "dash"),
    (placement(clusterSets=[None]), Placement, "spec.clusterSets[0]", "is null, must be text", "quotes"),
    (placement(clusterSets=[8]), Placement, "spec.clusterSets[0]", "must be text", 'put it in quotes: "8"'),
    (placement(sortBy="Scores"), Placement, "spec.sortBy", NOT_ALLOWED, "did you mean Score?"),
    (placement(scoreRateLimit="1d"), Placement, "spec.scoreRateLimit", NO_MATCH, "^[0-9]+[hms]$"),
    (placement(scoreRateLimit="1m\n"), Placement, "spec.scoreRateLimit", NO_MATCH, "^[0-9]+[hms]$"),
    (placement(predicates={}), Placement, "spec.predicates", "is a mapping, must be a list", "dash"),
    (placement(spreadPolicy=[]), Placement, "spec.spreadPolicy", "is a list, must be a mapping", "indented"),
    (
        placement(spreadPolicy={"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Label"}] * 9}),
        Placement,
        "spec.spreadPolicy.spreadConstraints",
        WRONG_LENGTH,
        "at most 8",
    ),
    (
        placement(prioritizerPolicy={"configurations": [{"weight": 1}]}),
        Placement,
        "spec.prioritizerPolicy.configurations[0].scoreCoordinate",
        MISSING,
        "add it: the score to use",
    ),
    (
        placement(prioritizerPolicy={"configurations": [{"scoreCoordinate": {}, "weight": 11}]}),
        Placement,
        "spec.prioritizerPolicy.configurations[0].weight",
        OUT_OF_BOUNDS,
        "from -10 to 10",
    ),
    (
        placement(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "0%"}}),
        Placement,
        "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
        NO_MATCH,
        "must match",
    ),
    (
        placement(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1.5}}),
        Placement,
        "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
        "a whole number or text",
        '"25%"',
    ),
    (
        selecting(key="a", operator="in", values=["b"]),
        Placement,
        f"{SELECTOR}.matchExpressions[0].operator",
        '"in" is not a valid label selector operator',
        "did you mean In?",
    ),
    (
        selecting(key="a", operator="In"),
        Placement,
        f"{SELECTOR}.matchExpressions[0].values",
        VALUES_NEEDED,
        "at least one",
    ),
    (
        selecting(key="a", operator="Exists", values=["b"]),
        Placement,
        f"{SELECTOR}.matchExpressions[0].values",
        "must be empty",
        "remove",
    ),
    (
        selecting(key="a", operator="In", values=["b c"]),
        Placement,
        f"{SELECTOR}.matchExpressions[0].values[0]",
        "a valid label must be",
        "63",
    ),
    (
        selecting(key="-", operator="Exists"),
        Placement,
        f"{SELECTOR}.matchExpressions[0].key",
        "name part must consist",
        "example.com/region",
    ),
    (
        placement(predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": "-"}}}}]),
        Placement,
        f"{SELECTOR}.matchLabels[a]",
        "a valid label must be",
        "63",
    ),
    ({"metadata": {"name": "x"}}, Placement, "spec", MISSING, "add it"),
    ({"spec": {}}, Placement, "metadata.name", MISSING, "name"),
    ({"metadata": {}, "spec": {}}, Placement, "metadata.name", MISSING, "name"),
    (
        {"metadata": {"name": "x", "labels": {"a b": "c"}}},
        ManagedCluster,
        "metadata.labels[a b]",
        "name part",
        "key",
    ),
    (
        {"metadata": {"name": "x", "labels": {1: "c"}}},
        ManagedCluster,
        "metadata.labels[1]",
        "must be text",
        '"1"',
    ),
    (cluster(spec={"taints": [{"key": "a"}]}), ManagedCluster, "spec.taints[0].effect", MISSING, "add it"),
    (
        cluster(spec={"taints": [{"key": "a" * 317, "effect": "NoSelect"}]}),
        ManagedCluster,
        "spec.taints[0].key",
        WRONG_LENGTH,
        "316",
    ),
    (
        cluster(spec={"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "yesterday"}]}),
        ManagedCluster,
        "spec.taints[0].timeAdded",
        NO_TIME,
        "2026-03-01T12:00:00Z",
    ),
    (
        cluster(spec={"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": 5}]}),
        ManagedCluster,
        "spec.taints[0].timeAdded",
        "is the number 5, must be a time",
        "2026-03-01T12:00:00Z",
    ),
    (
        cluster(spec={"managedClusterClientConfigs": [{"url": "u", "caBundle": "§"}]}),
        ManagedCluster,
        "spec.managedClusterClientConfigs[0].caBundle",
        NO_BASE64,
        "base64",
    ),
    (
        cluster(spec={"managedClusterClientConfigs": [{"url": "u", "caBundle": 7}]}),
        ManagedCluster,
        "spec.managedClusterClientConfigs[0].caBundle",
        "must be text",
        "base64",
    ),
    (
        cluster(spec={"hubAcceptsClient": "yes"}),
        ManagedCluster,
        "spec.hubAcceptsClient",
        "true or false",
        "quotes",
    ),
    (
        cluster(status={"allocatable": {"memory": "16GB"}}),
        ManagedCluster,
        "status.allocatable[memory]",
        'unknown suffix "GB"',
        "16Gi",
    ),
    (cluster(status={"capacity": {"cpu": "E"}}), ManagedCluster, "status.capacity[cpu]", NO_MATCH, "16Gi"),
    (
        cluster(status={"capacity": {"cpu": True}}),
        ManagedCluster,
        "status.capacity[cpu]",
        "a quantity",
        "16Gi",
    ),
    (cluster(status={"capacity": []}), ManagedCluster, "status.capacity", "must be a mapping", "entries"),
    (
        cluster(status={"clusterClaims": [{"name": "", "value": "v"}]}),
        ManagedCluster,
        "status.clusterClaims[0].name",
        WRONG_LENGTH,
        "at least 1",
    ),
    (
        cluster(status={"managedNamespaces": [{"name": "n", "clusterSet": "s"}] * 2}),
        ManagedCluster,
        "status.managedNamespaces[1]",
        f'clusterSet "s" and name "n" {DUPLICATE}',
        "keep one",
    ),
]


@pytest.mark.parametrize(("document", "kind", "path", "message", "remedy"), BAD)
def test_invalid_document_has_exactly_one_problem(
    document: dict[str, Any], kind: type[Struct], path: str, message: str, remedy: str
) -> None:
    (problem,) = check(document, kind=kind)
    assert problem.path == path
    assert message in problem.message
    assert remedy in problem.remedy
    assert str(problem) == f"{path}: {problem.message}; {problem.remedy}"


def test_every_problem_of_a_document_is_reported() -> None:
    document = placement(numberOfCluster=1, sortBy="x", tolerations=[{"effect": "y", "keys": 1}])
    assert [problem.path for problem in check(document, kind=Placement)] == [
        "spec.numberOfCluster",
        "spec.sortBy",
        "spec.tolerations[0].effect",
        "spec.tolerations[0].keys",
    ]


def test_v1alpha1_placement_has_its_own_schema() -> None:
    old = placement(prioritizerPolicy={"configurations": [{"name": "Steady"}]})
    assert check(old, kind=PlacementV1Alpha1) == ()
    (problem,) = check(placement(sortBy="Score"), kind=PlacementV1Alpha1)
    assert problem.message == f'"sortBy" {UNKNOWN_FIELD} PlacementSpec'


def test_document_that_is_not_a_mapping_is_a_problem() -> None:
    not_a_document: Any = ["Placement"]
    (problem,) = check(not_a_document, kind=Placement)
    assert problem == Problem("", "is a list, must be a mapping", "write its fields below it, indented")
    assert not str(problem).startswith(":")


def test_every_kind_can_be_checked() -> None:
    for kind in KINDS.values():
        assert [problem.path for problem in check({}, kind=kind) if problem.path == "metadata.name"]


def test_every_schema_keyword_is_checked() -> None:
    known = {
        "type", "properties", "items", "additionalProperties", "required", "description", "default", "enum",
        "pattern", "format", "minimum", "maximum", "minLength", "maxLength", "maxItems", "nullable", "anyOf",
        "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-validations",
    }  # fmt: skip

    def walk(schema: dict[str, Any]) -> None:
        assert schema.keys() <= known
        for child in schema.get("properties", {}).values():
            walk(child)
        for keyword in ("items", "additionalProperties"):
            if keyword in schema:
                walk(schema[keyword])

    for crd in crds():
        for version in crd["spec"]["versions"]:
            walk(version["schema"]["openAPIV3Schema"])
