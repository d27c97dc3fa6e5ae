"""Every rule reports its mistake in a bad case, and nothing in a good one.

The cases are in cases/*.yaml. Missing parts come from ORDINARY, which has no findings.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from every import every
from fairway.api import decode
from fairway.api.addon import ADD_ON_GROUP
from fairway.api.hosting_policy import HOSTING_VERSION
from fairway.hosts.instant import to_micros
from fairway.lint import RULES, Finding, Severity, lint

NOW: Final = to_micros(datetime(2026, 1, 1, 12, tzinfo=UTC))
GROUP: Final = "cluster.open-cluster-management.io"
CASES: Final = Path(__file__).parent / "cases"

ORDINARY: Final[dict[str, Any]] = yaml.safe_load("""
clusters:
  c1:
    labels: {env: prod, region: eu}
    claims: {platform: AWS}
    resources: {cpu: ["4", "8"], memory: [8Gi, 16Gi]}
  c2:
    labels: {env: dev, region: us}
    claims: {platform: Azure}
    taints: [{key: gpu, value: "true", effect: NoSelect}]
    resources: {cpu: ["2", "2"], memory: [4Gi, 4Gi]}
sets: {all: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}}
bindings: {all: all}
scores:
  usage:
    c1: {cpuAvailable: 50, podCount: 7}
    c2: {cpuAvailable: 20, podCount: 3}
validUntil: "2026-01-01T13:00:00Z"
clusterScores: {}
metadata: {}
placement: {}
addOns: {}
hostingPolicies: {}
""")


@dataclass(frozen=True)
class Case:
    rule: str
    good: bool
    world: dict[str, Any]
    path: str = ""
    says: str = ""


def cases() -> Iterator[Case]:
    for file in sorted(CASES.glob("*.yaml")):
        for rule, both in yaml.safe_load(file.read_text()).items():
            for bad in both["bad"]:
                yield Case(rule, False, bad["world"], bad["path"], bad["says"])
            for world in both["good"]:
                yield Case(rule, True, world)


def objects_of(world: dict[str, Any]) -> list[object]:
    return [decode(document) for document in documents({**ORDINARY, **world})]


def documents(world: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, declared in world["clusters"].items():
        resources = declared.get("resources", {})
        yield {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": declared.get("labels", {})},
            "spec": {"taints": declared.get("taints", [])},
            "status": {
                "clusterClaims": [{"name": k, "value": v} for k, v in declared.get("claims", {}).items()],
                "allocatable": {k: v[0] for k, v in resources.items() if v[0]},
                "capacity": {k: v[1] for k, v in resources.items() if v[1]},
            },
        }
    for name, spec in world["sets"].items():
        yield {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "ManagedClusterSet",
            "metadata": {"name": name},
            "spec": spec,
        }
    for name, bound in world["bindings"].items():
        yield {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"clusterSet": bound},
        }
    for resource, by_cluster in world["scores"].items():
        for cluster, scores in by_cluster.items():
            end = scores.get("validUntil", world["validUntil"])
            yield {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "AddOnPlacementScore",
                "metadata": {"name": resource, "namespace": cluster},
                "status": {
                    "scores": [{"name": k, "value": v} for k, v in scores.items() if k != "validUntil"],
                    **({"validUntil": end} if end else {}),
                },
            }
    for name, (cluster, score) in world["clusterScores"].items():
        yield {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "ManagedClusterScore",
            "metadata": {"name": name, "namespace": cluster},
            "status": {"score": score},
        }
    yield {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "p", "namespace": "ns", **world["metadata"]},
        "spec": world["placement"],
    }
    for name, given in world["addOns"].items():
        strategy = {key: value for key, value in given.items() if key != "templates"}
        kinds = (
            [{"group": ADD_ON_GROUP, "resource": "addontemplates"}] if given.get("templates", True) else []
        )
        yield {
            "apiVersion": f"{ADD_ON_GROUP}/v1alpha1",
            "kind": "ClusterManagementAddOn",
            "metadata": {"name": name},
            "spec": {"installStrategy": strategy, "supportedConfigs": kinds},
        }
    for name, spec in world["hostingPolicies"].items():
        yield {
            "apiVersion": HOSTING_VERSION,
            "kind": "HostingPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }


def found(world: dict[str, Any]) -> tuple[Finding, ...]:
    return lint(objects_of(world), now=NOW)


@cache
def every_case() -> tuple[Case, ...]:
    return tuple(cases())


def test_ordinary_world_has_no_findings() -> None:
    assert found({}) == ()


@every("case", every_case, ids=lambda case: f"{case.rule}-{'good' if case.good else 'bad'}")
def test_rule_finds_its_mistake_and_accepts_correct_objects(case: Case) -> None:
    findings = [finding for finding in found(case.world) if finding.rule == case.rule]
    if case.good:
        assert findings == []
        return
    assert [finding.path for finding in findings] == [case.path]
    assert case.says in findings[0].message + " | " + findings[0].remedy
    assert findings[0].severity is RULES[case.rule].severity
    assert findings[0].remedy


def test_every_rule_has_a_bad_and_a_good_case() -> None:
    for good in (False, True):
        assert {case.rule for case in every_case() if case.good is good} == set(RULES)


def test_only_selected_rules_are_applied() -> None:
    world = {"placement": {"clusterSets": ["none"], "numberOfClusters": 0}}
    objects = objects_of(world)
    assert {finding.rule for finding in lint(objects, now=NOW)} == {
        "no-set-reachable",
        "set-unknown",
        "none-wanted",
    }
    assert {finding.rule for finding in lint(objects, now=NOW, only=["none-wanted"])} == {"none-wanted"}


def test_unknown_set_is_reported_at_the_first_of_its_clusters() -> None:
    labels = {"labels": {f"{GROUP}/clusterset": "gone"}}
    findings = found({"clusters": {"c2": labels, "c1": labels, "c3": labels}})
    assert [finding.name for finding in findings if finding.kind == "ManagedCluster"] == ["c1"]


def test_findings_have_the_order_of_the_objects() -> None:
    world = {
        "clusters": {"c1": {"resources": {"cpu": ["9", "8"]}, "labels": {f"{GROUP}/clusterset": "gone"}}},
        "placement": {"numberOfClusters": -1, "sortBy": "Name"},
    }
    assert [
        (finding.kind, finding.path)
        for finding in found(world)
        if finding.kind in ("ManagedCluster", "Placement")
    ] == [
        ("ManagedCluster", f"metadata.labels[{GROUP}/clusterset]"),
        ("ManagedCluster", "status.allocatable[cpu]"),
        ("Placement", "spec.numberOfClusters"),
        ("Placement", "spec.sortBy"),
    ]


def test_percentage_that_doubles_round_up_is_reported() -> None:
    world = {
        "clusters": {f"c{at:03}": {} for at in range(100)},
        "scores": {},
        "placement": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "7%"}}},
    }
    (finding,) = found(world)
    assert (
        "7% of 100 clusters rounds up to 8 (and not to 7, because of how the share is computed)"
        in finding.message
    )


def test_severities_are_ordered_by_rank() -> None:
    assert [severity for severity in Severity if severity.reaches(Severity.WARNING)] == [
        Severity.ERROR,
        Severity.WARNING,
    ]
    assert [severity for severity in Severity if severity.reaches(Severity.ERROR)] == [Severity.ERROR]


def test_long_lists_of_names_are_truncated() -> None:
    world = {
        "clusters": {f"c{at}": {"taints": [{"key": "old", "effect": "PreferNoSelect"}]} for at in range(6)},
        "scores": {},
        "placement": {"numberOfClusters": 1},
    }
    (finding,) = found(world)
    assert "6 candidates (c0, c1, c2 and 3 more)" in finding.message
