"""`fairway place` against a hub: decisions, and differences from those on the hub."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import EXAMPLE, act, fill
from fairway.cli.client.objects import PLACING
from fairway.cli.main import run
from fairway.testing.builders import decision
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client

Capture = pytest.CaptureFixture[str]
NOW = ("--now", "2026-01-03T00:00:00Z")
GROUP = "cluster.open-cluster-management.io"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    # It does nothing by itself: what is written while a test looks is the command's doing.
    with hub_in_thread(folder=tmp_path_factory.mktemp("place"), controllers=frozenset()) as hub:
        fill(
            hub.kubeconfig,
            decision("most-free-cpu-decision-1", ["apps-fra", "apps-iad"], placement="most-free-cpu"),
            decision("idlest-decision-1", ["apps-iad", "gone"], placement="idlest"),
            paths=[EXAMPLE],
        )
        yield hub


def place(hub: HubAddress, *arguments: str) -> int:
    return run(["place", *NOW, *arguments, "--kubeconfig", str(hub.kubeconfig)])


def versions(hub: HubAddress) -> dict[str, str]:
    """Return all resource versions, which change with every write."""

    async def read(client: Client) -> dict[str, str]:
        return {str(resource): (await client.list(resource)).resource_version for resource in PLACING}

    return act(hub.kubeconfig, read)


def test_place_on_a_hub_equals_files_and_writes_nothing(hub: HubAddress, capsys: Capture) -> None:
    before = versions(hub)
    assert run(["place", *NOW, "-f", str(EXAMPLE), "-o", "json"]) == 0
    files = json.loads(capsys.readouterr().out)["items"]
    assert place(hub, "-o", "json") == 0
    live = json.loads(capsys.readouterr().out)["items"]

    def chosen(items: list[dict[str, Any]]) -> dict[str, list[str]]:
        return {
            f"{item['metadata']['namespace']}/{item['metadata']['name']}": [
                one["clusterName"] for one in item["status"]["decisions"]
            ]
            for item in items
            if item["kind"] == "PlacementDecision"
        }

    assert chosen(live) == chosen(files)
    assert versions(hub) == before


def test_place_shows_differences_from_the_hub(hub: HubAddress, capsys: Capture) -> None:
    assert place(hub) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    start, end = header.index("ON THE HUB"), header.index("CHOSEN")
    assert {line.split()[0]: line[start:end].strip() for line in lines} == {
        "everywhere/roll-out": "not decided yet",
        "everywhere/three-regions": "not decided yet",
        "hypershift/least-hosted": "not decided yet",
        "ns1/idlest": "+apps-fra, -apps-iad, -gone",
        "ns1/modern-and-free": "not decided yet",
        "ns1/most-free-cpu": "the same",
        "ns1/placement": "not decided yet",
        "ns1/training": "not decided yet",
    }
    assert place(hub, "--placement", "ns1/most-free-cpu", "--reasons") == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "ns1/most-free-cpu: 2 of 2 clusters, AllDecisionsScheduled; on the hub: the same"
    )


def written(tmp_path: Path, *documents: dict[str, Any]) -> str:
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


def new(name: str = "new", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": name, "namespace": "ns1"},
        "spec": {"numberOfClusters": 1, **spec},
    }


def test_place_decides_a_new_placement_against_the_hub(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    before = versions(hub)
    assert place(hub, "-f", written(tmp_path, new()), "--hub") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["PLACEMENT", "ns1/new"]
    assert "not decided yet" in lines[1]
    assert versions(hub) == before
    # By itself, the file has no fleet.
    assert run(["place", "-f", str(tmp_path / "new.yaml")]) == 0
    assert "NoManagedClusterSetBindings" in capsys.readouterr().out


def test_changed_placement_in_a_file_keeps_its_decision(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    """The cluster that it would lose is named."""
    changed = new("most-free-cpu", **placement_spec("most-free-cpu"))
    changed["spec"]["numberOfClusters"] = 1
    assert place(hub, "-f", written(tmp_path, changed), "--hub") == 0
    assert "1 of 1    AllDecisionsScheduled  -apps-fra   apps-iad (66)" in capsys.readouterr().out


def placement_spec(name: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((EXAMPLE / "placements.yaml").read_text())
    (spec,) = (document["spec"] for document in documents if document["metadata"]["name"] == name)
    assert isinstance(spec, dict)
    return spec


def test_changed_cluster_in_a_file_keeps_its_other_fields(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    """Without a placement in the files, all of the hub are decided."""
    taint = {"key": "repair", "effect": "NoSelect", "value": "", "timeAdded": "2026-01-01T00:00:00Z"}
    tainted = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "apps-iad", "labels": {"extra": "yes"}},
        "spec": {"hubAcceptsClient": True, "taints": [taint]},
    }
    assert place(hub, "-f", written(tmp_path, tainted), "--hub") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 8
    (line,) = (line for line in lines if line.startswith("ns1/most-free-cpu "))
    assert "+apps-sin, -apps-iad" in line
    # Its labels are still there: tolerated, it is chosen as before.
    tolerant = new("tolerant", tolerations=[{"key": "repair", "operator": "Exists"}], numberOfClusters=2)
    tolerant["spec"]["prioritizerPolicy"] = placement_spec("most-free-cpu")["prioritizerPolicy"]
    assert place(hub, "-f", written(tmp_path, tainted, tolerant), "--hub") == 0
    assert "apps-iad (66), apps-fra (12)" in capsys.readouterr().out


def test_score_in_a_file_overrides_the_hub(hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    best = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "AddOnPlacementScore",
        "metadata": {"name": "resource-usage-score", "namespace": "apps-sin"},
        "status": {"scores": [{"name": "cpuAvailable", "value": 99}]},
    }
    arguments = ("-f", written(tmp_path, best), "--hub", "--placement", "ns1/most-free-cpu")
    assert place(hub, *arguments) == 0
    assert "apps-sin (99), apps-iad (66)" in capsys.readouterr().out


def test_place_on_an_empty_hub_exits_2(fairway_hub: HubAddress, capsys: Capture) -> None:
    assert place(fairway_hub) == 2
    assert capsys.readouterr() == (
        "",
        f"fairway: hub {fairway_hub.url} has no Placement; name a file with one with -f and --hub\n",
    )


def test_place_suggests_similar_placements(hub: HubAddress, capsys: Capture) -> None:
    assert place(hub, "--placement", "ns1/idlst") == 2
    assert "placement ns1/idlst not found; did you mean ns1/idlest?" in capsys.readouterr().err
