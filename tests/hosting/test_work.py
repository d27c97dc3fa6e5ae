"""The ManifestWork of a request: what is created on the host, and what its status reports."""

from typing import Any

import msgspec
import pytest

from fairway.api.secret import Secret
from fairway.api.work import ManifestWork
from fairway.hosting import work
from fairway.hosting.work import SECRET_MISSING, WorkError, is_owned, is_reported, refusals, work_of
from hosting.hosts import request

PULL = msgspec.convert(
    {"metadata": {"name": "pull", "namespace": "team-a"}, "data": {"key": "c2VjcmV0"}}, Secret
)
FULL = request(
    "web",
    hostedCluster={
        "spec": {"platform": {"type": "None"}, "pullSecret": {"name": "pull"}},
        "labels": {"a": "b"},
    },
    nodePools=[{"name": "workers", "spec": {"replicas": 2, "clusterName": "other"}}],
    secrets=[{"name": "pull"}],
    availability="SingleReplica",
)


def test_work_has_namespace_secrets_hosted_cluster_and_node_pools_with_owner_labels() -> None:
    made = work_of(FULL, host="h1", secrets={"pull": PULL})
    assert (made.metadata.name, made.metadata.namespace) == ("hosted-uid-team-a-web", "h1")
    manifests: list[dict[str, Any]] = list(made.spec.workload.manifests)
    assert [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in manifests
    ] == [
        ("Namespace", None, "clusters"),
        ("Secret", "clusters", "pull"),
        ("HostedCluster", "clusters", "web"),
        ("NodePool", "clusters", "workers"),
    ]
    owner = {work.REQUEST_UID_LABEL: "uid-team-a-web", work.REQUEST_LABEL: "web"}
    assert all(owner.items() <= each["metadata"]["labels"].items() for each in manifests[1:])
    assert manifests[1]["data"] == {"key": "c2VjcmV0"}
    assert manifests[2]["metadata"]["labels"]["a"] == "b"
    assert manifests[2]["spec"]["controllerAvailabilityPolicy"] == "SingleReplica"
    assert manifests[3]["spec"] == {"replicas": 2, "clusterName": "web"}
    assert is_owned(made, FULL)
    assert not is_owned(made, request("other"))


def test_shared_namespace_stays_when_a_hosted_cluster_is_deleted() -> None:
    option = work_of(request("web"), host="h1", secrets={}).spec.deleteOption
    assert option is not None
    assert option.selectivelyOrphans is not None
    assert [(each.resource, each.name) for each in option.selectivelyOrphans.orphaningRules] == [
        ("namespaces", "clusters")
    ]


def test_missing_secret_is_named_and_nothing_is_made() -> None:
    with pytest.raises(WorkError) as refused:
        work_of(FULL, host="h1", secrets={})
    assert str(refused.value) == SECRET_MISSING.format(namespace="team-a", name="pull")


def reported(kind: str, name: str, *, applied: str, values: list[dict[str, Any]]) -> dict[str, Any]:
    plural = {"HostedCluster": "hostedclusters", "NodePool": "nodepools"}[kind]
    return {
        "resourceMeta": {
            "ordinal": 0,
            "group": "hypershift.openshift.io",
            "kind": kind,
            "resource": plural,
            "namespace": "clusters",
            "name": name,
        },
        "conditions": [
            {
                "type": "Applied",
                "status": applied,
                "reason": "X",
                "message": "no such kind",
                "lastTransitionTime": "2026-03-02T00:00:00Z",
            }
        ],
        "statusFeedback": {"values": values},
    }


def answered(*manifests: dict[str, Any]) -> ManifestWork:
    return msgspec.convert({"status": {"resourceStatus": {"manifests": list(manifests)}}}, ManifestWork)


def test_hosted_cluster_is_reported_once_its_own_manifest_is_applied() -> None:
    wanted = request("web")
    assert not is_reported(answered(), wanted)
    assert not is_reported(answered(reported("HostedCluster", "other", applied="True", values=[])), wanted)
    failed = answered(reported("HostedCluster", "web", applied="False", values=[]))
    assert not is_reported(failed, wanted)
    assert refusals(failed) == ["HostedCluster clusters/web: no such kind"]
    assert is_reported(answered(reported("HostedCluster", "web", applied="True", values=[])), wanted)


def test_control_plane_is_available_when_the_feedback_says_so() -> None:
    values = [{"name": "available", "fieldValue": {"type": "String", "string": "True"}}]
    wanted = request("web")
    assert work.is_control_plane_available(
        answered(reported("HostedCluster", "web", applied="True", values=values)), wanted
    )
    assert not work.is_control_plane_available(
        answered(reported("HostedCluster", "web", applied="True", values=[])), wanted
    )
