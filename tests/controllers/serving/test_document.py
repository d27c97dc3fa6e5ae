"""The debug document of a placement, in OCM's format."""

from typing import Any

import pytest
from msgspec import structs

from controllers.serving.inspecting import Fleet
from fairway.api.cluster import Taint
from fairway.api.placement import Placement, PlacementSpec, PlacementStatus, Toleration
from fairway.controllers.serving.debug import document
from fairway.testing.builders import (
    addon,
    binding,
    builtin,
    cluster,
    cluster_set,
    decision,
    placement,
    policy,
    predicate,
    requirement,
    score,
    selector,
)

OBJECTS = (
    cluster_set("default"),
    binding("default"),
    cluster("c1", labels={"zone": "a"}, allocatable={"cpu": "10"}),
    cluster("c2", labels={"zone": "a"}, allocatable={"cpu": "20"}),
    cluster("c3", labels={"zone": "a"}),
    cluster("c4", labels={"zone": "b"}),
    cluster("c5", labels={"zone": "a"}, taints=[Taint(key="x", effect="NoSelect")]),
    score("c1", {"cpu": 5}),
    score("c3", {"cpu": 7}),
    decision("other-decision-1", ["c1"], placement="other"),
)
ZONE_A = predicate(labels=selector(requirement("zone", "In", "a")))


def document_of(given: Placement, *, objects: tuple[object, ...] = OBJECTS) -> dict[str, Any]:
    return document(given, Fleet(objects).outcome(given))


def spec(**parts: Any) -> PlacementSpec:
    return PlacementSpec(predicates=(ZONE_A,), **parts)


def test_filters_have_cumulative_names_and_the_last_is_in_the_order_of_scores() -> None:
    document = document_of(placement(spec=spec()))
    assert document["filteredPipelineResults"] == [
        {"name": "Predicate", "filteredClusters": ["c1", "c2", "c3", "c5"]},
        {"name": "Predicate,TaintToleration", "filteredClusters": ["c2", "c3", "c1"]},
    ]


def test_prioritizers_have_name_weight_and_scores() -> None:
    document = document_of(
        placement(spec=spec(prioritizerPolicy=policy(addon("cpu", 3), builtin("Steady", 2))))
    )
    by_name = {result["name"]: result for result in document["prioritizeResults"]}
    assert set(by_name) == {"Balance", "Steady", "AddOn/default/cpu"}
    assert by_name["AddOn/default/cpu"] == {
        "name": "AddOn/default/cpu",
        "weight": 3,
        "scores": {"c1": 5, "c2": 0, "c3": 7},
    }
    assert by_name["Steady"]["weight"] == 2
    assert by_name["Balance"]["scores"] == {"c1": -100, "c2": 100, "c3": 100}


def test_cluster_without_a_score_of_a_prioritizer_is_omitted() -> None:
    document = document_of(
        placement(spec=spec(prioritizerPolicy=policy(builtin("ResourceAllocatableCPU"), mode="Exact")))
    )
    (only,) = document["prioritizeResults"]
    assert only["scores"] == {"c1": -100, "c2": 100}


def test_totals_are_sorted_by_score_then_name() -> None:
    document = document_of(placement(spec=spec()))
    assert document["aggregatedScores"] == [
        {"clusterName": "c2", "score": 100},
        {"clusterName": "c3", "score": 100},
        {"clusterName": "c1", "score": -100},
    ]


def test_document_lists_all_clusters_that_passed_the_filters() -> None:
    document = document_of(placement(spec=spec(numberOfClusters=1)))
    assert len(document["aggregatedScores"]) == 3


def test_document_ignores_the_disable_annotation() -> None:
    annotations = {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}
    assert document_of(placement(spec=spec(), annotations=annotations))["aggregatedScores"]


def test_document_without_bindings_has_no_clusters() -> None:
    document = document_of(placement(namespace="elsewhere", spec=spec()))
    assert document["filteredPipelineResults"] == [
        {"name": "Predicate", "filteredClusters": []},
        {"name": "Predicate,TaintToleration", "filteredClusters": []},
    ]
    assert [result["scores"] for result in document["prioritizeResults"]] == [{}, {}]
    assert "aggregatedScores" not in document


def test_cluster_sets_of_the_placement_limit_the_clusters() -> None:
    objects = (
        *OBJECTS,
        cluster_set("other"),
        binding("other"),
        cluster("d1", labels={"zone": "a"}, member_of="other"),
    )
    document = document_of(placement(spec=spec(clusterSets=("other",))), objects=objects)
    assert [score["clusterName"] for score in document["aggregatedScores"]] == ["d1"]


@pytest.mark.parametrize(
    ("broken", "stages"),
    [
        (PlacementSpec(predicates=(predicate(labels=selector(requirement("zone", "Near", "a"))),)), []),
        (spec(tolerations=(Toleration(key="x", operator="Exists", value="y"),)), ["Predicate"]),
        (spec(prioritizerPolicy=policy(mode="Best")), ["Predicate", "Predicate,TaintToleration"]),
    ],
    ids=["predicate", "toleration", "prioritizer"],
)
def test_document_of_a_misconfigured_placement_has_partial_results(
    broken: PlacementSpec, stages: list[str]
) -> None:
    document = document_of(placement(spec=broken))
    assert [result["name"] for result in document.get("filteredPipelineResults", [])] == stages
    assert set(document) == {"placement"} | ({"filteredPipelineResults"} if stages else set())


def test_document_has_no_server_side_fields_of_the_placement() -> None:
    written = placement(spec=spec(numberOfClusters=2), annotations={"a": "b"})
    meta = structs.replace(
        written.metadata, uid="u", resourceVersion="7", labels={"l": "v"}, finalizers=("f",)
    )
    status = PlacementStatus(numberOfSelectedClusters=3)
    document = document_of(structs.replace(written, metadata=meta, status=status))["placement"]
    assert document["metadata"] == {
        "name": "p1",
        "namespace": "ns1",
        "labels": {"l": "v"},
        "annotations": {"a": "b"},
    }
    assert document["spec"]["numberOfClusters"] == 2
    assert document["status"] == {"numberOfSelectedClusters": 0, "decisionGroups": None, "conditions": None}


def test_document_of_an_unnamed_placement_has_no_name() -> None:
    assert document_of(Placement())["placement"]["metadata"] == {}
