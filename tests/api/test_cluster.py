"""A cluster as CEL sees it, compared with the output of Go's converter (OCM API 1.3.0, apimachinery 0.36.3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairway.api import ManagedCluster, ManagedClusterStatus, cluster_as_json, decode

RECORDED = Path(__file__).parent / "recorded" / "clusters.jsonl"


@pytest.mark.parametrize("row", [json.loads(line) for line in RECORDED.read_text().splitlines()])
def test_cluster_as_json_matches_recorded_answers(row: dict[str, Any]) -> None:
    cluster = decode(row["cluster"])
    assert isinstance(cluster, ManagedCluster)
    assert cluster_as_json(cluster) == row["seen"]


def test_invalid_quantity_stays_in_cluster_json() -> None:
    cluster = ManagedCluster(status=ManagedClusterStatus(capacity={"cpu": "lots", "memory": "1024Mi"}))
    assert cluster_as_json(cluster)["status"]["capacity"] == {"cpu": "lots", "memory": "1Gi"}


def test_extreme_capacity_is_abbreviated_in_cluster_json() -> None:
    cluster = ManagedCluster(status=ManagedClusterStatus(capacity={"cpu": "1.99999999999999999998e99999"}))
    assert cluster_as_json(cluster)["status"]["capacity"] == {"cpu": "1999999999999999999980e99978"}
