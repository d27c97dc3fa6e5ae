"""The ManifestWork of a request: what is created on the host, and what its status reports."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairway.api.hosted_request import REQUEST_UID_LABEL
from fairway.api.secret import Secret
from fairway.api.work import ManifestWork
from fairway.klusterlet.works.feedback import feedback
from fairway.workloads.hosting.requests import work
from fairway.workloads.hosting.requests.work import (
    SECRET_MISSING,
    WorkError,
    is_owned,
    is_reported,
    with_current_feedback,
    work_of,
)
from fairway.workloads.hosting.rules.refusals import refused_manifests
from kubewire.api.encoding import encode
from workloads.hosting.hosts import request

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
        (manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"])
        for manifest in manifests
    ] == [
        ("Namespace", None, "clusters"),
        ("Secret", "clusters", "pull"),
        ("HostedCluster", "clusters", "web"),
        ("NodePool", "clusters", "workers"),
    ]
    owner = {REQUEST_UID_LABEL: "uid-team-a-web", work.REQUEST_LABEL: "web"}
    assert all(owner.items() <= manifest["metadata"]["labels"].items() for manifest in manifests[1:])
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
    assert [(rule.resource, rule.name) for rule in option.selectivelyOrphans.orphaningRules] == [
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
    assert refused_manifests(failed) == ["HostedCluster clusters/web: no such kind"]
    assert is_reported(answered(reported("HostedCluster", "web", applied="True", values=[])), wanted)


@pytest.mark.parametrize(
    ("status", "available"),
    [
        ({"conditions": [{"type": "Available", "status": "True"}]}, True),
        ({"conditions": [{"type": "Available", "status": "False"}]}, False),
        ({"conditions": [{"type": "Degraded", "status": "True"}]}, False),
        ({}, False),
    ],
    ids=["available", "unavailable", "other", "none"],
)
def test_control_plane_is_available_when_an_agent_finds_that_in_the_object(
    status: dict[str, Any], available: bool
) -> None:
    wanted = request("web")
    made = work_of(wanted, host="h1", secrets={})
    (manifest,) = [
        manifest for manifest in made.spec.workload.manifests if manifest["kind"] == "HostedCluster"
    ]
    values, condition = feedback({**manifest, "status": status}, made.spec.manifestConfigs[0].feedbackRules)
    assert condition.status == "True"
    told = [] if values is None else encode(values)["values"]
    answer = answered(reported("HostedCluster", "web", applied="True", values=told))
    assert (work.control_plane_availability(answer, wanted) == "True") is available


def test_only_feedback_rules_of_an_earlier_version_are_out_of_date() -> None:
    made = work_of(FULL, host="h1", secrets={"pull": PULL})
    assert with_current_feedback(made) is None
    hosted, pool = made.spec.manifestConfigs
    old = structs.replace(
        made,
        spec=structs.replace(made.spec, manifestConfigs=(structs.replace(hosted, feedbackRules=()), pool)),
    )
    assert with_current_feedback(old) == (hosted, pool)
