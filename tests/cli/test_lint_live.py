"""`fairway lint` against a hub."""

import json
from pathlib import Path

import pytest

from cli.live_hub import EXAMPLE, fill
from fairway.cli.main import run
from fairway.testing.hub import HubAddress

Capture = pytest.CaptureFixture[str]
NOW = ("--now", "2026-01-03T00:00:00Z")
NEW = """\
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: new, namespace: ns1}
spec:
  predicates:
  - requiredClusterSelector: {labelSelector: {matchLabels: {region: eu-centrl}}}
"""


def lint(hub: HubAddress, *arguments: str) -> int:
    return run(["lint", *NOW, *arguments, "--kubeconfig", str(hub.kubeconfig)])


def test_lint_checks_all_objects_of_a_hub(fairway_hub: HubAddress, capsys: Capture) -> None:
    """The findings equal those of the files, with object names instead of lines."""
    fill(fairway_hub.kubeconfig, paths=[EXAMPLE])
    assert run(["lint", *NOW, "-f", str(EXAMPLE), "--severity", "info", "-o", "json"]) == 0
    files = json.loads(capsys.readouterr().out)
    assert lint(fairway_hub, "--severity", "info", "-o", "json") == 0
    live = json.loads(capsys.readouterr().out)
    assert live["counts"] == files["counts"]
    assert {(finding["file"], finding["line"]) for finding in live["findings"]} == {("", 0)}

    def findings_of(document: dict[str, list[dict[str, object]]]) -> list[tuple[object, ...]]:
        keys = ("kind", "namespace", "name", "rule", "path", "message", "remedy")
        return sorted(tuple(finding[key] for key in keys) for finding in document["findings"])

    assert findings_of(live) == findings_of(files)
    assert lint(fairway_hub) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(
        "warning: AddOnPlacementScore edge-store-7/resource-usage-score: status.validUntil: "
    )


def test_lint_checks_a_file_against_a_hub(fairway_hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    """Only findings of the file are reported, not those of the hub."""
    fill(fairway_hub.kubeconfig, paths=[EXAMPLE])
    file = tmp_path / "new.yaml"
    file.write_text(NEW)
    assert run(["lint", *NOW, "-f", str(file)]) == 0
    assert "selector-value-unknown" not in capsys.readouterr().out
    assert lint(fairway_hub, "-f", str(file), "--hub") == 1
    shown = capsys.readouterr().out
    assert (
        f"{file}:6: warning: Placement ns1/new: spec.predicates[0].requiredClusterSelector.labelSelector."
        'matchLabels[region]: no cluster has "eu-centrl" for label "region"'
    ) in shown
    assert "edge-store-7" not in shown
    file.write_text(NEW.replace("eu-centrl", "eu-central"))
    assert lint(fairway_hub, "-f", str(file)) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(("No findings", "1 info", "2 infos"))


def test_lint_of_a_hub_without_findings_exits_0(fairway_hub: HubAddress, capsys: Capture) -> None:
    assert lint(fairway_hub, "--strict") == 0
    assert capsys.readouterr() == ("No findings\n", "")


ADD_ON = """\
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: agent}
spec:
  supportedConfigs: [{group: addon.open-cluster-management.io, resource: addontemplates}]
  installStrategy:
    type: Placements
    placements: [{namespace: ns1, name: web, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1}}}]
"""


def test_lint_finds_a_rollout_strategy_that_is_held_on_a_hub(
    fairway_hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "add-on.yaml"
    file.write_text(ADD_ON)
    fill(fairway_hub.kubeconfig, paths=[file])
    assert lint(fairway_hub, "--strict") == 1
    path = "spec.installStrategy.placements[0].rolloutStrategy.type"
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown.startswith(
        f"warning: ClusterManagementAddOn agent: {path}: Fairway does not implement Progressive"
    )
    assert shown.endswith("[rollout-held]")
