"""Generate placements of a dozen kinds in turn, with varying numbers."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from fairway.api.cluster import TAINT_UNREACHABLE

Spec = dict[str, Any]


def placements(rng: random.Random, *, count: int, namespaces: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield `count` placements, each in a namespace with a suitable binding."""
    for number in range(1, count + 1):
        name, namespace, make = _KINDS[(number - 1) % len(_KINDS)]
        if namespace not in namespaces:
            raise ValueError(f"placements need the namespace {namespace}")
        yield {
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "Placement",
            "metadata": {"name": f"{name}-{number:04d}", "namespace": namespace, **_ANNOTATED.get(name, {})},
            "spec": make(rng),
        }


_ANNOTATED: Final = {"hosting": {"annotations": {"fairway.dev/missing-score": "exclude"}}}
"""With a negative weight a missing score, which counts 0, would be the best."""


def _everywhere(rng: random.Random) -> Spec:
    return {"clusterSets": [rng.choice(("prod", "dev"))]}


def _by_label(rng: random.Random) -> Spec:
    return {
        "numberOfClusters": rng.randint(2, 20),
        "predicates": [
            {
                "requiredClusterSelector": {
                    "labelSelector": {
                        "matchLabels": {"environment": "prod"},
                        "matchExpressions": [
                            {
                                "key": "tier",
                                "operator": "In",
                                "values": rng.sample(["gold", "silver", "bronze"], 2),
                            },
                            {"key": "cost-center", "operator": "DoesNotExist"},
                        ],
                    }
                }
            }
        ],
    }


def _by_claim(rng: random.Random) -> Spec:
    platforms = rng.sample(["AWS", "Azure", "GCP", "BareMetal"], 2)
    expression = {"key": "platform.open-cluster-management.io", "operator": "In", "values": platforms}
    return {
        "numberOfClusters": rng.randint(1, 10),
        "predicates": [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [expression]}}}],
    }


def _by_cel(rng: random.Random) -> Spec:
    minor = rng.randint(30, 32)
    expressions = [
        f'semver(managedCluster.status.version.kubernetes.substring(1, 5) + ".0").minor() >= {minor}',
        'managedCluster.metadata.labels["tier"] != "bronze"',
    ]
    return {
        "numberOfClusters": rng.randint(3, 30),
        "predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": expressions}}}],
    }


def _most_free(rng: random.Random) -> Spec:
    return {
        "numberOfClusters": rng.randint(1, 5),
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [
                _add_on("resource-usage-score", "cpuAvailable", 2),
                _add_on("resource-usage-score", "memAvailable", 1),
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 1},
            ],
        },
    }


def _largest(rng: random.Random) -> Spec:
    return {
        "numberOfClusters": rng.randint(1, 8),
        "prioritizerPolicy": {
            "mode": "Additive",
            "configurations": [
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}, "weight": 1},
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}, "weight": 1},
            ],
        },
    }


def _hosting(rng: random.Random) -> Spec:
    full = {"key": "full.hostedclustercount.hypershift.openshift.io", "operator": "In", "values": ["false"]}
    return {
        "numberOfClusters": rng.randint(1, 2),
        "predicates": [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [full]}}}],
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [_add_on("hosted-clusters-score", "hostedClustersCount", -1)],
        },
    }


def _tolerant(rng: random.Random) -> Spec:
    return {
        "numberOfClusters": rng.randint(5, 50),
        "tolerations": [
            {
                "key": TAINT_UNREACHABLE,
                "operator": "Exists",
                "tolerationSeconds": rng.choice((60, 300, 3600)),
            },
            {"key": "maintenance", "operator": "Equal", "value": "planned", "effect": "NoSelectIfNew"},
        ],
    }


def _gpus(rng: random.Random) -> Spec:
    return {
        "numberOfClusters": rng.randint(1, 4),
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [_add_on("resource-usage-score", "gpuClusterAvailable", 1)],
        },
    }


def _spread(rng: random.Random) -> Spec:
    constraint = {
        "topologyKey": "region",
        "topologyKeyType": "Label",
        "maxSkew": rng.randint(1, 2),
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
    }
    return {"numberOfClusters": rng.randint(3, 12), "spreadPolicy": {"spreadConstraints": [constraint]}}


def _canary(rng: random.Random) -> Spec:
    canary = {"labelSelector": {"matchLabels": {"environment": "stage"}}}
    return {
        "decisionStrategy": {
            "groupStrategy": {
                "clustersPerDecisionGroup": rng.choice(("10%", "25%", 50)),
                "decisionGroups": [{"groupName": "canary", "groupClusterSelector": canary}],
            }
        }
    }


def _edge(rng: random.Random) -> Spec:
    store = {"labelSelector": {"matchLabels": {"region": rng.choice(("store-north", "store-south"))}}}
    return {"clusterSets": ["edge"], "predicates": [{"requiredClusterSelector": store}]}


def _add_on(resource: str, score: str, weight: int) -> Spec:
    return {
        "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}},
        "weight": weight,
    }


_KINDS: Final[tuple[tuple[str, str, Callable[[random.Random], Spec]], ...]] = (
    ("by-label", "apps", _by_label),
    ("most-free", "batch", _most_free),
    ("hosting", "hosting", _hosting),
    ("tolerant", "batch", _tolerant),
    ("gpus", "ml", _gpus),
    ("by-cel", "apps", _by_cel),
    ("canary", "apps", _canary),
    ("spread", "batch", _spread),
    ("by-claim", "apps", _by_claim),
    ("largest", "batch", _largest),
    ("store", "edge", _edge),
    ("everywhere", "apps", _everywhere),
)
