"""The objects of a synthetic fleet for a running hub.

A generated fleet is the state of a hub at one moment, with unreachable clusters and expired scores. On a running hub
those result from events, so here every cluster starts joined, available and with valid scores. Fields that only a hub
writes (uid, resourceVersion) and finalizers, which would block deletion, are omitted.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.api.cluster import CLUSTER_SET_LABEL, CONDITION_AVAILABLE
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.simulation.synthetic.clusters import Document, generate
from fairway.simulation.synthetic.scores import USAGE
from kubewire.api.meta import format_time

SYNTHETIC: Final = "fairway.dev/synthetic"
"""Label of clusters with simulated agents, and of their scores."""
SCORE: Final = USAGE
"""The score object whose values change."""
NAMESPACE: Final = "default"
"""Namespace with bindings, so that placements there select clusters at once."""
DEFAULT_SET: Final = "default"
BOUND_SETS: Final = (DEFAULT_SET, "global")
AVAILABLE_REASON: Final = "ManagedClusterAvailable"
AVAILABLE_MESSAGE: Final = "Managed cluster is available"

_SET_LABELS: Final = {
    "prod": {"environment": "prod"},
    "dev": {"environment": "dev"},
    "edge": {"cloud": "None"},
    "hosting": {"feature.open-cluster-management.io/addon-hypershift-addon": "available"},
}
_OUTAGE_TAINTS: Final = ("/unreachable", "/unavailable")
_FEATURE: Final = "feature.open-cluster-management.io/"


@dataclass(frozen=True, slots=True)
class Score:
    """An AddOnPlacementScore in the namespace of its cluster. ``values`` are whole numbers from 0 to 100."""

    name: str
    values: dict[str, int]


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """One cluster: the ``manifest`` to create, and the ``status`` that its agent reports."""

    name: str
    manifest: Document
    status: Document
    scores: tuple[Score, ...]


def sets_and_bindings(*, now: datetime) -> Iterator[Document]:
    """Yield the cluster sets, and bindings with which placements in ``NAMESPACE`` can select every cluster.

    Every cluster is in the set ``default``, as on a hub where no administrator moved it, so that the placements of
    OCM's documentation select it. The other sets select by labels.
    """
    api_version = ManagedClusterSet().apiVersion
    for document in generate(clusters=0, placements=0, now=now):
        if document["kind"] == ManagedClusterSet().kind:
            name = document["metadata"]["name"]
            labels = _SET_LABELS.get(name)
            selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": labels}}
            yield {
                "apiVersion": api_version,
                "kind": document["kind"],
                "metadata": {"name": name},
                "spec": document["spec"] if labels is None else {"clusterSelector": selector},
            }
    for name in BOUND_SETS:
        yield {
            "apiVersion": ManagedClusterSetBinding().apiVersion,
            "kind": ManagedClusterSetBinding().kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"clusterSet": name},
        }


def simulated_clusters(*, clusters: int, seed: int, now: datetime) -> Iterator[SimulatedCluster]:
    """Yield the clusters of a seed; a larger fleet starts with the clusters of a smaller one."""
    source: Document | None = None
    scores: list[Document] = []
    for document in generate(clusters=clusters, seed=seed, placements=0, now=now):
        if document["kind"] == "ManagedCluster":
            if source is not None:
                yield _simulated_cluster(source, scores, seed=seed, now=now)
            source, scores = document, []
        elif document["kind"] == "AddOnPlacementScore":
            scores.append(document)
    if source is not None:
        yield _simulated_cluster(source, scores, seed=seed, now=now)


def _simulated_cluster(
    source: Document, scores: list[Document], *, seed: int, now: datetime
) -> SimulatedCluster:
    metadata, spec = source["metadata"], dict(source["spec"])
    taints = [taint for taint in spec.pop("taints", ()) if not taint["key"].endswith(_OUTAGE_TAINTS)]
    if taints:
        spec["taints"] = taints
    labels = {
        key: "available" if key.startswith(_FEATURE) else value for key, value in metadata["labels"].items()
    }
    labels[CLUSTER_SET_LABEL] = DEFAULT_SET
    simulated_scores = [Score(score["metadata"]["name"], _values(score)) for score in scores]
    if all(score.name != SCORE for score in simulated_scores):
        simulated_scores.insert(0, Score(SCORE, _default_values(metadata["name"], seed)))
    return SimulatedCluster(
        name=metadata["name"],
        manifest={
            "apiVersion": source["apiVersion"],
            "kind": source["kind"],
            "metadata": {"name": metadata["name"], "labels": {**labels, SYNTHETIC: "true"}},
            "spec": spec,
        },
        status={**source["status"], "conditions": _conditions(source, now)},
        scores=tuple(simulated_scores),
    )


def _conditions(source: Document, now: datetime) -> list[Document]:
    conditions: list[dict[str, Any]] = []
    for condition in source["status"]["conditions"]:
        if condition["type"] == CONDITION_AVAILABLE and condition["status"] != "True":
            condition = {
                "type": CONDITION_AVAILABLE,
                "status": "True",
                "reason": AVAILABLE_REASON,
                "message": AVAILABLE_MESSAGE,
                "lastTransitionTime": format_time(now - timedelta(minutes=1)),
            }
        conditions.append(condition)
    return conditions


def _values(score: Document) -> dict[str, int]:
    return {item["name"]: item["value"] for item in score["status"]["scores"]}


def _default_values(name: str, seed: int) -> dict[str, int]:
    """Return scores for a cluster that was generated without a provider."""
    rng = random.Random(f"fairway score {seed} {name}")
    return {"cpuAvailable": rng.randint(5, 45), "memAvailable": rng.randint(5, 45)}
