"""`fairway fleet apply` and `delete` on a hub with its built-in controllers only."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.live_hub import act, merge
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS, PLACEMENTS
from fairway.api.score import AddOnPlacementScore
from fairway.cli.client.names import NAMESPACES
from fairway.cli.fleet.writer import APPLIED, LABELS
from fairway.cli.main import run
from fairway.simulation.synthetic import generate
from fairway.testing.builders import cluster
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client, NotFound

Capture = pytest.CaptureFixture[str]
FLEET = list(generate(clusters=4, seed=3, placements=3))
CLUSTERS = [document["metadata"]["name"] for document in FLEET if document["kind"] == "ManagedCluster"]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path) as address:
        yield address


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "fleet.jsonl"
    path.write_text("".join(f"{json.dumps(document)}\n" for document in FLEET))
    return str(path)


def fleet(hub: HubAddress, *arguments: str) -> int:
    return run(["fleet", *arguments, "--kubeconfig", str(hub.kubeconfig)])


def counts(capsys: Capture, column: str) -> dict[str, int]:
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return {row["kind"]: row[column] for row in rows if row[column]}


def kinds() -> dict[str, int]:
    names = [document["kind"] for document in FLEET]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_generated_fleet_is_applied_with_namespaces_and_status(
    hub: HubAddress, file: str, capsys: Capture
) -> None:
    assert fleet(hub, "apply", "-f", file, "-o", "json") == 0
    created = counts(capsys, "created")
    assert created.pop("Namespace") == len(
        {document["metadata"].get("namespace", "") for document in FLEET} - {""}
    )
    assert created == kinds()

    async def read(client: Client) -> tuple[ManagedCluster, AddOnPlacementScore]:
        (score, *_) = (await client.list(ADD_ON_PLACEMENT_SCORES)).items
        return await client.get(MANAGED_CLUSTERS, CLUSTERS[0]), score

    stored, score = act(hub.kubeconfig, read)
    (given,) = (document for document in FLEET if document["metadata"]["name"] == CLUSTERS[0])
    assert stored.metadata.uid != given["metadata"]["uid"]
    assert stored.metadata.labels == {**given["metadata"]["labels"], **LABELS}
    assert stored.status.version.kubernetes == given["status"]["version"]["kubernetes"]
    assert score.status.scores


def test_second_fleet_apply_changes_only_differences(hub: HubAddress, file: str, capsys: Capture) -> None:
    assert fleet(hub, "apply", "-f", file) == 0
    act(
        hub.kubeconfig,
        lambda client: merge(client, cluster(CLUSTERS[1]), {"metadata": {"labels": {"region": "x"}}}),
    )
    capsys.readouterr()
    assert fleet(hub, "apply", "-f", file, "-o", "json") == 0
    printed = capsys.readouterr().out
    rows = json.loads(printed)
    assert {row["kind"]: row["changed"] for row in rows if row["changed"]} == {"ManagedCluster": 1}
    assert not any(row["created"] or row["kept"] for row in rows)


def test_object_of_another_writer_is_kept_and_never_deleted(
    hub: HubAddress, file: str, capsys: Capture
) -> None:
    act(hub.kubeconfig, lambda client: client.create(MANAGED_CLUSTERS, {"metadata": {"name": CLUSTERS[0]}}))
    assert fleet(hub, "apply", "-f", file, "-o", "json") == 0
    assert counts(capsys, "kept") == {"ManagedCluster": 1}
    assert fleet(hub, "delete", "-f", file, "-o", "json") == 0
    assert counts(capsys, "kept") == {"ManagedCluster": 1}
    left = act(hub.kubeconfig, lambda client: client.list(MANAGED_CLUSTERS)).items
    assert [thing.metadata.name for thing in left] == [CLUSTERS[0]]
    assert APPLIED not in left[0].metadata.labels


def test_fleet_delete_removes_all_applied_objects_and_namespaces(
    hub: HubAddress, file: str, capsys: Capture
) -> None:
    assert fleet(hub, "apply", "-f", file, "-o", "json") == 0
    created = counts(capsys, "created")
    assert fleet(hub, "delete", "-f", file, "-o", "json", "--wait") == 0
    assert counts(capsys, "deleted") == created
    assert fleet(hub, "delete", "-f", file, "-o", "json") == 0
    assert counts(capsys, "absent") == created


def test_fleet_apply_dry_run_writes_nothing(hub: HubAddress, file: str, capsys: Capture) -> None:
    assert fleet(hub, "apply", "-f", file, "--dry-run", "-o", "json") == 0
    created = counts(capsys, "created")
    del created["Namespace"]
    assert created == kinds()

    async def read(client: Client) -> list[int]:
        clusters, placements = await client.list(MANAGED_CLUSTERS), await client.list(PLACEMENTS)
        return [len(clusters.items), len(placements.items)]

    assert act(hub.kubeconfig, read) == [0, 0]

    async def look(client: Client) -> None:
        await client.get(NAMESPACES, CLUSTERS[0])

    with pytest.raises(NotFound):
        act(hub.kubeconfig, look)


def test_hub_without_the_kinds_names_the_command_that_defines_them(
    tmp_path: Path, file: str, capsys: Capture
) -> None:
    with hub_in_thread(folder=tmp_path, definitions=()) as bare:
        assert fleet(bare, "apply", "-f", file) == 2
    told = capsys.readouterr().err
    assert "install the CRD first: fairway crds managedclustersets | kubectl apply -f -" in told
