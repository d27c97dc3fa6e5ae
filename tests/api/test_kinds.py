import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api import (
    KINDS,
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ClusterDecision,
    DecisionGroupStatus,
    DecodeError,
    KubeObject,
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
    PlacementDecision,
    PlacementDecisionStatus,
    ScoreCoordinate,
    crds,
    decode,
    identity_of,
    managed_cluster_score_name,
)
from fairway.api.kinds import NO_KIND, UNKNOWN_KIND, WRONG_SHAPE
from kubewire.api.encoding import encode
from kubewire.api.meta import ObjectMeta

GROUP = "cluster.open-cluster-management.io"
GOLDEN = Path(__file__).parents[1] / "golden" / "placement.jsonl.gz"


def document(kind: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "x"}, **fields}


def golden_objects() -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt") as lines:
        for number, line in enumerate(lines):
            if number % 10 == 0:
                yield from json.loads(line)["objects"]


def test_every_recorded_object_survives_a_round_trip() -> None:
    every = list(golden_objects())
    assert len(every) > 300
    for document in every:
        obj = decode(document)
        written = encode(obj)
        assert decode(written) == obj
        assert (written["apiVersion"], written["kind"]) == (document["apiVersion"], document["kind"])


names = st.from_regex(r"[a-z]([a-z0-9]{0,5})", fullmatch=True)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)
metadata = st.builds(
    ObjectMeta,
    name=names,
    namespace=names | st.just(""),
    generation=st.integers(0, 2**63 - 1),
    creationTimestamp=times | st.none(),
    labels=st.dictionaries(names, names, max_size=3),
    finalizers=st.lists(names, max_size=2).map(tuple),
)
objects = st.one_of(
    st.builds(
        AddOnPlacementScore,
        metadata=metadata,
        status=st.builds(
            AddOnPlacementScoreStatus,
            scores=st.lists(
                st.builds(AddOnPlacementScoreItem, name=names, value=st.integers(-100, 100)), max_size=3
            ).map(tuple),
            validUntil=times | st.none(),
        ),
    ),
    st.builds(
        PlacementDecision,
        metadata=metadata,
        status=st.builds(
            PlacementDecisionStatus,
            decisions=st.lists(
                st.builds(
                    ClusterDecision, clusterName=names, score=st.integers(-(2**63), 2**63 - 1) | st.none()
                ),
                max_size=3,
            ).map(tuple),
        ),
    ),
)


@given(objects)
def test_decoding_undoes_encoding(obj: KubeObject) -> None:
    assert decode(encode(obj)) == obj


def test_v1alpha1_placement_becomes_v1beta1() -> None:
    old = document(
        "Placement",
        "v1alpha1",
        spec={
            "numberOfClusters": 1,
            "predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}],
            "prioritizerPolicy": {
                "mode": "Exact",
                "configurations": [
                    {"name": "Steady", "weight": 3},
                    {"name": "Steady", "scoreCoordinate": {"type": "BuiltIn", "builtIn": "Balance"}},
                    {"weight": 1},
                ],
            },
        },
    )
    placement = decode(old)
    assert isinstance(placement, Placement)
    assert encode(placement)["apiVersion"] == f"{GROUP}/v1beta1"
    assert placement.spec.numberOfClusters == 1
    assert placement.spec.predicates[0].requiredClusterSelector.labelSelector.matchLabels == {"a": "b"}
    policy = placement.spec.prioritizerPolicy
    assert policy is not None
    assert policy.mode == "Exact"
    assert [
        (configuration.scoreCoordinate, configuration.weight) for configuration in policy.configurations
    ] == [
        (ScoreCoordinate(type="BuiltIn", builtIn="Steady"), 3),
        (ScoreCoordinate(type="BuiltIn", builtIn="Balance"), 0),
        (None, 1),
    ]


def test_older_cluster_sets_and_bindings_are_upgraded() -> None:
    spec = {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}
    old_set = decode(document("ManagedClusterSet", "v1beta1", spec=spec))
    assert isinstance(old_set, ManagedClusterSet)
    assert old_set.apiVersion == f"{GROUP}/v1beta2"
    assert old_set.spec.clusterSelector == ManagedClusterSelector(selectorType="ExclusiveClusterSetLabel")
    binding = decode(document("ManagedClusterSetBinding", "v1beta1", spec={"clusterSet": "x"}))
    assert isinstance(binding, ManagedClusterSetBinding)
    assert (binding.apiVersion, binding.spec.clusterSet) == (f"{GROUP}/v1beta2", "x")


def test_absent_field_decodes_to_the_zero_value() -> None:
    spec = {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}}]}}
    placement = decode(document("Placement", "v1beta1", spec=spec))
    assert isinstance(placement, Placement)
    policy = placement.spec.prioritizerPolicy
    assert policy is not None
    assert (policy.mode, policy.configurations[0].weight, placement.spec.sortBy) == ("", 0, "")


def test_null_counts_as_absent() -> None:
    fields: dict[str, Any] = {
        "spec": {"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": None}], "hubAcceptsClient": None},
        "status": {"conditions": None, "capacity": None, "clusterClaims": None},
    }
    full = document("ManagedCluster", "v1", **fields)
    full["metadata"].update(creationTimestamp=None, labels=None)
    cluster = decode(full)
    assert isinstance(cluster, ManagedCluster)
    assert cluster.status.conditions is None
    assert cluster.spec.taints[0].timeAdded is None


def test_unknown_enum_values_can_be_read() -> None:
    fields = {"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}}
    cluster = decode(document("ManagedCluster", "v1", **fields))
    assert isinstance(cluster, ManagedCluster)
    assert cluster.spec.taints[0].effect == "Sometimes"


@pytest.mark.parametrize(
    ("broken", "path", "message", "remedy"),
    [
        ({"metadata": {"name": "x"}}, "", NO_KIND, "write both"),
        (document("Placment", "v1beta1"), "", UNKNOWN_KIND, f"did you mean Placement ({GROUP}/v1beta1)?"),
        ({"apiVersion": "v1", "kind": "Pod"}, "", UNKNOWN_KIND, "known are AddOnDeploymentConfig"),
        (
            document("Placement", "v1beta1", spec={"numberOfClusters": "two"}),
            "spec.numberOfClusters",
            WRONG_SHAPE,
            "write a whole number there",
        ),
        (
            document("ManagedCluster", "v1", spec={"taints": [{"timeAdded": "now"}]}),
            "spec.taints[0].timeAdded",
            WRONG_SHAPE,
            "compare",
        ),
        (
            document("ManagedCluster", "v1", spec={"taints": [None]}),
            "spec.taints[0]",
            WRONG_SHAPE,
            "write a mapping there",
        ),
    ],
)
def test_invalid_document_is_rejected_with_its_field(
    broken: dict[str, Any], path: str, message: str, remedy: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(broken)
    assert caught.value.path == path
    assert message in caught.value.message
    assert caught.value.remedy.startswith(remedy)
    assert caught.value.identity == identity_of(broken)


def test_decode_error_names_the_object() -> None:
    with pytest.raises(DecodeError, match=r"ManagedCluster c1 at spec: .*write a mapping there"):
        decode({**document("ManagedCluster", "v1", spec=3), "metadata": {"name": "c1"}})


def test_identity_of_a_document() -> None:
    assert (
        identity_of({"kind": "Placement", "metadata": {"name": "p1", "namespace": "ns1"}})
        == "Placement ns1/p1"
    )
    assert identity_of({}) == "document (no name)"


def test_every_version_of_every_crd_can_be_decoded() -> None:
    for crd in crds():
        spec = crd["spec"]
        for version in spec["versions"]:
            decoded = decode(
                {**document(spec["names"]["kind"], ""), "apiVersion": f"{spec['group']}/{version['name']}"}
            )
            assert type(decoded) in get_args(KubeObject)


def test_every_kind_is_frozen_and_without_gc() -> None:
    for struct in {*KINDS.values(), *get_args(KubeObject)}:
        config = struct.__struct_config__
        assert config.frozen
        assert config.omit_defaults
        assert not config.gc


def test_required_empty_fields_are_encoded() -> None:
    assert encode(ClusterDecision(clusterName="c1")) == {"clusterName": "c1", "reason": ""}
    assert encode(DecisionGroupStatus()) == {
        "decisionGroupIndex": 0,
        "decisionGroupName": "",
        "decisions": [],
        "clusterCount": 0,
    }
    assert msgspec.json.encode(ClusterDecision()) == b'{"clusterName":"","reason":""}'


def test_managed_cluster_score_name_is_derived() -> None:
    name = managed_cluster_score_name(cluster="cluster1", calculator="ResourceAllocatableMemory")
    assert name == "cluster1-resourceallocatablememory"
