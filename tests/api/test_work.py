from typing import Any

import msgspec
import pytest

from fairway.api import Problem, check, decode
from fairway.api.claim import ClusterClaim
from fairway.api.validation import MISSING, NOT_ALLOWED
from fairway.api.work import (
    CREATE_ONLY,
    FOREGROUND,
    UPDATE,
    AppliedManifestWork,
    FeedbackValue,
    FieldValue,
    ManifestCondition,
    ManifestWork,
    ManifestWorkStatus,
)
from kubewire.api.defaults import apply_defaults
from kubewire.api.encoding import encode

ODD = {
    "apiVersion": "example.com/v1",
    "kind": "Odd",
    "metadata": {"name": "odd", "creationTimestamp": None},
    "spec": {"deep": [[{"any": 1.5}], None, "text"], "x-1": True},
}


def work(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": "c1"},
        "spec": spec,
    }


def test_manifests_of_a_work_are_kept_unchanged() -> None:
    document = work(workload={"manifests": [ODD]})
    assert check(document, kind=ManifestWork) == ()
    manifest_work = decode(apply_defaults(document, ManifestWork))
    assert isinstance(manifest_work, ManifestWork)
    assert manifest_work.spec.workload.manifests == (ODD,)
    assert encode(manifest_work) == document
    assert msgspec.json.decode(msgspec.json.encode(manifest_work), type=ManifestWork) == manifest_work


def test_work_crd_defaults_are_applied() -> None:
    config = {"resourceIdentifier": {"resource": "configmaps", "name": "a"}, "updateStrategy": {}}
    filled = apply_defaults(work(deleteOption={}, manifestConfigs=[config]), ManifestWork)
    assert filled["spec"]["deleteOption"] == {"propagationPolicy": FOREGROUND}
    assert filled["spec"]["manifestConfigs"][0]["feedbackScrapeType"] == "Poll"
    assert filled["spec"]["manifestConfigs"][0]["updateStrategy"] == {"type": UPDATE}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"workload": {"manifests": [{"kind": "Pod"}]}},
            Problem("spec.workload.manifests[0].apiVersion", MISSING, "add it: the apiVersion of the object"),
        ),
        (
            {"workload": {"manifests": [{"apiVersion": "v1", "kind": 5}]}},
            Problem(
                "spec.workload.manifests[0].kind", "is the number 5, must be text", 'put it in quotes: "5"'
            ),
        ),
        (
            {"workload": {"manifests": ["kind: Pod"]}},
            Problem(
                "spec.workload.manifests[0]",
                'is the text "kind: Pod", must be a mapping',
                "write its fields below it, indented",
            ),
        ),
        (
            {"deleteOption": {"propagationPolicy": "orphan"}},
            Problem(
                "spec.deleteOption.propagationPolicy",
                f'"orphan" {NOT_ALLOWED}',
                "did you mean Orphan? write Foreground, Orphan or SelectivelyOrphan",
            ),
        ),
        (
            {
                "manifestConfigs": [
                    {
                        "resourceIdentifier": {"resource": "jobs", "name": "j"},
                        "conditionRules": [{"type": "CEL", "condition": ""}],
                    }
                ]
            },
            Problem(
                "spec.manifestConfigs[0].conditionRules[0].condition",
                MISSING,
                "name the condition that the expressions decide",
            ),
        ),
    ],
)
def test_work_mistakes_are_reported(spec: dict[str, Any], problem: Problem) -> None:
    assert check(work(**spec), kind=ManifestWork) == (problem,)


def test_required_work_fields_are_encoded() -> None:
    assert encode(ManifestCondition()) == {"resourceMeta": {"ordinal": 0}, "conditions": []}
    assert encode(FeedbackValue(name="n", fieldValue=FieldValue(type="Integer", integer=0))) == {
        "name": "n",
        "fieldValue": {"type": "Integer", "integer": 0},
    }
    assert encode(ManifestWorkStatus()) == {}
    assert encode(AppliedManifestWork())["kind"] == "AppliedManifestWork"
    assert CREATE_ONLY in str(decode(work(manifestConfigs=[{"updateStrategy": {"type": CREATE_ONLY}}])))


def test_cluster_claim_needs_a_value() -> None:
    claim = {"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim"}
    named = {**claim, "metadata": {"name": "id.k8s.io"}}
    assert check({**named, "spec": {"value": "one"}}, kind=ClusterClaim) == ()
    assert [str(problem) for problem in check(named, kind=ClusterClaim)] == [
        f"spec: {MISSING}; add it: the claim"
    ]
    assert [problem.path for problem in check({**named, "spec": {"value": ""}}, kind=ClusterClaim)] == [
        "spec.value"
    ]
