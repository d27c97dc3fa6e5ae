import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fairway.providers.hosted.capacity import scores_of
from fairway.providers.hosted.claims import Limits, claims_for
from fairway.providers.hosted.options import HostedOptions
from fairway.simulation.synthetic import BASE_TIME, NAMESPACES, generate
from fairway.simulation.synthetic.placements import placements
from fairway.simulation.synthetic.scores import HOSTED
from kubewire.api.meta import format_time

SET_LABEL = "cluster.open-cluster-management.io/clusterset"


@pytest.fixture(scope="module")
def fleet() -> list[dict[str, Any]]:
    return list(generate(clusters=2000, seed=7, placements=24))


def of(fleet: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in fleet if document["kind"] == kind]


def test_seed_determines_the_fleet() -> None:
    assert list(generate(clusters=50, seed=1)) == list(generate(clusters=50, seed=1))
    assert list(generate(clusters=50, seed=1)) != list(generate(clusters=50, seed=2))


def test_larger_fleet_starts_with_the_smaller_one() -> None:
    small = list(generate(clusters=20, seed=3, placements=0))
    large = list(generate(clusters=60, seed=3, placements=0))
    assert large[: len(small)] == small


def digest(hash_seed: str) -> str:
    code = (
        "import hashlib, msgspec; from fairway.simulation.synthetic import generate; "
        "print(hashlib.sha256(msgspec.json.encode(list(generate(clusters=30, seed=5)))).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_fleet_does_not_depend_on_hash_seed_of_python() -> None:
    here = hashlib.sha256(msgspec.json.encode(list(generate(clusters=30, seed=5)))).hexdigest()
    assert digest("1") == digest("2") == here


def test_generated_objects_decode_and_have_unique_names(fleet: list[dict[str, Any]]) -> None:
    identities = Counter(
        (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        for document in fleet
    )
    assert max(identities.values()) == 1
    assert len(of(fleet, "ManagedCluster")) == 2000
    assert len(of(fleet, "Placement")) == 24
    assert {document["metadata"]["name"] for document in of(fleet, "ManagedClusterSet")} == {
        "default", "prod", "dev", "edge", "hosting", "gpus", "global",
    }  # fmt: skip


def test_generated_clusters_have_realistic_sizes_and_labels(fleet: list[dict[str, Any]]) -> None:
    clusters = of(fleet, "ManagedCluster")
    sizes = [len(msgspec.json.encode(cluster)) for cluster in clusters]
    assert 2500 < sum(sizes) / len(sizes) < 4500
    sets = {document["metadata"]["name"] for document in of(fleet, "ManagedClusterSet")}
    for cluster in clusters:
        labels = cluster["metadata"]["labels"]
        assert 8 <= len(labels) <= 20
        assert all(len(value) <= 63 for value in labels.values())
        assert len(cluster["metadata"]["name"]) <= 63
        assert labels[SET_LABEL] in sets
        assert len(cluster["status"]["clusterClaims"]) <= 20
        status = cluster["status"]
        assert float(status["allocatable"]["cpu"].rstrip("m")) / 1000 < float(status["capacity"]["cpu"])
        assert ("nvidia.com/gpu" in status["capacity"]) == ("gpu" in labels)


def test_unavailable_clusters_have_taints(fleet: list[dict[str, Any]]) -> None:
    clusters = of(fleet, "ManagedCluster")
    tainted = [cluster for cluster in clusters if "taints" in cluster["spec"]]
    assert 0.03 < len(tainted) / len(clusters) < 0.12
    effects = {taint["effect"] for cluster in tainted for taint in cluster["spec"]["taints"]}
    assert effects == {"NoSelect", "NoSelectIfNew", "PreferNoSelect"}
    for cluster in clusters:
        available = next(
            c["status"] for c in cluster["status"]["conditions"] if c["type"].endswith("Available")
        )
        keys = {taint["key"].rpartition("/")[2] for taint in cluster["spec"].get("taints", [])}
        assert ("unreachable" in keys) == (available == "Unknown")
        assert ("unavailable" in keys) == (available == "False")


def test_some_generated_scores_are_expired_or_missing(fleet: list[dict[str, Any]]) -> None:
    usage = [
        score
        for score in of(fleet, "AddOnPlacementScore")
        if score["metadata"]["name"] == "resource-usage-score"
    ]
    expired = [score for score in usage if score["status"]["validUntil"] < format_time(BASE_TIME)]
    assert 0.9 < len(usage) / 2000 < 1
    assert 0.01 < len(expired) / len(usage) < 0.1
    scores = of(fleet, "AddOnPlacementScore")
    assert all(0 <= item["value"] <= 100 for score in scores for item in score["status"]["scores"])
    assert all("validUntil" in score["status"] for score in scores)
    hosted = [
        score
        for score in of(fleet, "AddOnPlacementScore")
        if score["metadata"]["name"] == "hosted-clusters-score"
    ]
    assert len({published(score)["hostedClustersCount"] for score in hosted}) > 5
    for score in of(fleet, "ManagedClusterScore"):
        assert score["metadata"]["name"].startswith(score["metadata"]["namespace"] + "-resourceratio")


def published(score: dict[str, Any]) -> dict[str, int]:
    return {item["name"]: item["value"] for item in score["status"]["scores"]}


def test_scores_of_hosting_clusters_match_claims_and_sizes(fleet: list[dict[str, Any]]) -> None:
    clusters = {cluster["metadata"]["name"]: cluster["status"] for cluster in of(fleet, "ManagedCluster")}
    hosts = [score for score in of(fleet, "AddOnPlacementScore") if score["metadata"]["name"] == HOSTED]
    assert len(hosts) > 20
    for score in hosts:
        status, values = clusters[score["metadata"]["namespace"]], published(score)
        assert set(values) == {item.name for item in scores_of(HostedOptions())}
        count = values["hostedClustersCount"]
        claims = {claim["name"]: claim["value"] for claim in status["clusterClaims"]}
        assert claims.items() >= claims_for(count, Limits()).items()
        assert 5 * count <= float(status["capacity"]["cpu"])
    busiest, idlest = (pick(hosts, key=lambda score: published(score)["hcpHeadroom"]) for pick in (min, max))
    assert published(busiest)["hostedClustersCount"] > published(idlest)["hostedClustersCount"]


def test_generated_placements_have_bound_sets(fleet: list[dict[str, Any]]) -> None:
    bound = {document["metadata"]["namespace"] for document in of(fleet, "ManagedClusterSetBinding")}
    assert bound == set(NAMESPACES)
    assert {document["metadata"]["namespace"] for document in of(fleet, "Placement")} == bound


def test_generated_times_are_relative_to_now() -> None:
    later = datetime(2030, 6, 1, tzinfo=UTC)
    assert all(
        "2026" not in str(document["metadata"]) for document in generate(clusters=0, seed=0, now=later)
    )


def test_negative_numbers_and_missing_namespaces_are_rejected() -> None:
    with pytest.raises(ValueError, match="negative"):
        next(generate(clusters=-1))
    with pytest.raises(ValueError, match="placements need the namespace"):
        next(placements(random.Random(1), count=1, namespaces=()))
