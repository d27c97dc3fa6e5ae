import json
from pathlib import Path

import pytest
import yaml

from fairway.api import crds
from fairway.cli.main import run

Capture = pytest.CaptureFixture[str]


def test_crds_prints_all_definitions_as_yaml_and_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["crds"]) == 0
    assert list(yaml.safe_load_all(capsysbinary.readouterr().out)) == list(crds())
    assert run(["crds", "-o", "json"]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert (document["kind"], document["items"]) == ("List", list(crds()))


def test_crds_selects_by_any_name(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["crds", "ManagedClusterScore", "mcl", "placements.cluster.open-cluster-management.io"]) == 0
    definitions = yaml.safe_load_all(capsysbinary.readouterr().out)
    assert [definition["spec"]["names"]["kind"] for definition in definitions] == [
        "ManagedCluster",
        "Placement",
        "ManagedClusterScore",
    ]


def test_crds_list_prints_a_table(capsys: Capture) -> None:
    assert run(["crds", "-o", "table", "placements", "managedclusters"]) == 0
    assert capsys.readouterr().out == (
        "KIND            NAME                                                VERSIONS          SCOPE       "
        "SHORT NAMES\n"
        "ManagedCluster  managedclusters.cluster.open-cluster-management.io  v1                Cluster     "
        "mcl,mcls\n"
        "Placement       placements.cluster.open-cluster-management.io       v1beta1,v1alpha1  Namespaced  -\n"
    )


def test_crds_out_is_written_atomically(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "crds.yaml"
    assert run(["crds", "--out", str(file)]) == 0
    assert list(yaml.safe_load_all(file.read_text())) == list(crds())
    assert run(["crds", "--out", str(tmp_path / "missing" / "crds.yaml")]) == 2
    assert capsys.readouterr().err.startswith("fairway: cannot write ")
    assert run(["crds", "-o", "table", "--out", str(file)]) == 2
    assert "--out requires -o yaml or -o json" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["crds.yaml"]


def test_crds_of_unknown_kinds_exit_2(capsys: Capture) -> None:
    assert run(["crds", "placement", "managedclutser"]) == 2
    assert capsys.readouterr() == (
        "",
        "fairway: unknown kind 'managedclutser'; did you mean managedclusters?\n",
    )
    assert run(["crds", "pods"]) == 2
    assert "known: managedclusters, managedclustersets, " in capsys.readouterr().err
