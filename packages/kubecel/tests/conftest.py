"""The recorded clusters and scores, converted for expressions."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubecel import Environment, cluster_environment

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "cel.jsonl"

# Fields that the reference omits from a converted cluster if they are empty.
_OMITTED_WHEN_EMPTY = (
    ("metadata", "labels"),
    ("spec", "leaseDurationSeconds"),
    ("spec", "taints"),
    ("status", "allocatable"),
    ("status", "capacity"),
    ("status", "clusterClaims"),
    ("status", "version", "kubernetes"),
)


def as_seen_by_expressions(cluster: dict[str, Any]) -> dict[str, Any]:
    seen = copy.deepcopy(cluster)
    for *parents, name in _OMITTED_WHEN_EMPTY:
        holder = seen
        for parent in parents:
            holder = holder[parent]
        if not holder.get(name, True):
            del holder[name]
    seen["status"].setdefault("conditions", None)
    return seen


class RecordedScores:
    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._scores = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): [
                (score["name"], score["value"]) for score in item["status"]["scores"]
            ]
            for item in objects
        }

    def scores(self, cluster: str, name: str, /) -> Sequence[tuple[str, int]] | None:
        return self._scores.get((cluster, name))


@pytest.fixture(scope="session")
def environment() -> Environment:
    return cluster_environment()


@pytest.fixture(scope="session")
def recorded() -> dict[str, Any]:
    with GOLDEN.open() as lines:
        header: dict[str, Any] = json.loads(lines.readline())
    return header


@pytest.fixture(scope="session")
def inputs(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"managedCluster": as_seen_by_expressions(cluster)} for cluster in recorded["clusters"]]


@pytest.fixture(scope="session")
def scores(recorded: dict[str, Any]) -> RecordedScores:
    return RecordedScores(recorded["scores"])
