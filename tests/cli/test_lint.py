import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from fairway.cli.input import NO_INPUT
from fairway.cli.main import run
from fairway.lint import RULES

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
GROUP = "cluster.open-cluster-management.io"

HUB = f"""\
apiVersion: {GROUP}/v1
kind: ManagedCluster
metadata:
  name: c1
  labels:
    env: prod
---
apiVersion: {GROUP}/v1beta2
kind: ManagedClusterSet
metadata: {{name: all}}
spec: {{clusterSelector: {{selectorType: LabelSelector, labelSelector: {{}}}}}}
---
apiVersion: {GROUP}/v1beta2
kind: ManagedClusterSetBinding
metadata: {{name: all, namespace: ns}}
spec: {{clusterSet: all}}
"""
WARNED = f"""\
# A comment comes first.
apiVersion: {GROUP}/v1beta1
kind: Placement
metadata:
  name: warned
  namespace: ns
spec:
  predicates:
    - requiredClusterSelector:
        labelSelector:
          matchLabels:
            env: prod
    - requiredClusterSelector:
        labelSelector:
          matchExpressions:
            - key: env
              operator: In
              values: [prd]
"""
REFUSED = f"""\
apiVersion: {GROUP}/v1beta1
kind: Placement
metadata: {{name: refused, namespace: ns}}
spec:
  tolerations:
    - operator: Exists
      tolerationSeconds: 60
    - operator: Equal
      value: x
"""


def lint(*arguments: object) -> int:
    return run(["lint", *(str(argument) for argument in arguments)])


def found(capsys: pytest.CaptureFixture[str]) -> list[tuple[int, str]]:
    findings = json.loads(capsys.readouterr().out)["findings"]
    return [(finding["line"], finding["rule"]) for finding in findings]


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    file = tmp_path / "hub.yaml"
    file.write_text(HUB)
    return file


def test_lint_finding_has_place_message_and_remedy(
    tmp_path: Path, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(WARNED)
    assert lint("-f", hub, "-f", file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{file}:13: warning: Placement ns/warned: spec.predicates[1]: matches none of the 1 candidate; "
        "another predicate does [predicate-matches-nothing]",
        "    remedy: correct or remove this one",
        f"{file}:16: warning: Placement ns/warned: "
        "spec.predicates[1].requiredClusterSelector.labelSelector.matchExpressions[0]: "
        'no cluster has "prd" for label "env"; there is prod [selector-value-unknown]',
        '    remedy: did you mean "prod"? Otherwise correct the value',
        "2 warnings",
    ]


def test_lint_warnings_fail_only_with_strict(tmp_path: Path, hub: Path) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(WARNED)
    assert lint("-f", hub, "-f", file) == 0
    assert lint("-f", hub, "-f", file, "--strict") == 1


def test_lint_errors_exit_1(tmp_path: Path, hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(REFUSED)
    assert lint("-f", hub, "-f", file, "-o", "json") == 1
    assert found(capsys) == [(8, "toleration-key-missing")]


def test_lint_without_findings_exits_0(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("-f", hub) == 0
    assert capsys.readouterr().out == "No findings\n"


def test_lint_counts_hidden_findings(tmp_path: Path, hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(WARNED)
    assert lint("-f", hub, "-f", file, "--severity", "error") == 0
    assert capsys.readouterr().out == "2 warnings; 2 hidden (show all with --severity info)\n"


def as_list(indent: int) -> str:
    items = [*yaml.safe_load_all(HUB), yaml.safe_load(REFUSED)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=indent)


@pytest.mark.parametrize(
    ("name", "text", "lines_before"),
    [
        ("all.yaml", HUB + "---\n" + REFUSED, 0),
        (
            "all.yaml",
            "kind: List\napiVersion: v1\nitems:\n" + yaml.safe_dump(json.loads(as_list(0))["items"]),
            0,
        ),
        ("all.json", as_list(2), 1),
        ("all.yaml", as_list(2), 1),
        ("all.jsonl", "".join(f"{json.dumps(load)}\n" for load in json.loads(as_list(0))["items"]), 0),
    ],
    ids=["documents", "yaml-list", "json-list", "json-in-yaml", "json-lines"],
)
def test_lint_finds_lines_in_every_file_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, lines_before: int
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert lint("-f", file, "-o", "json") == 1
    equal = next(at for at, line in enumerate(text.splitlines(), 1) if "Equal" in line)
    assert found(capsys) == [(equal - lines_before, "toleration-key-missing")]


def test_lint_of_a_pipe_names_the_line_of_the_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((HUB + "---\n" + REFUSED).encode())))
    assert lint("-f", "-", "-o", "json") == 1
    assert found(capsys) == [(HUB.count("\n") + 2, "toleration-key-missing")]


def test_lint_runs_only_the_selected_rules(
    tmp_path: Path, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(WARNED)
    assert lint("-f", hub, "-f", file, "--rule", "selector-value-unknown", "-o", "json") == 0
    assert found(capsys) == [(16, "selector-value-unknown")]


def test_unknown_lint_rule_exits_2(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("-f", hub, "--rule", "no-bindings") == 2
    assert capsys.readouterr().err == (
        "fairway: unknown rule 'no-bindings'; did you mean no-binding? list the rules with fairway lint --list-rules\n"
    )


def test_lint_of_invalid_files_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(REFUSED.replace("tolerations:", "toleration:"))
    assert lint("-f", file) == 2
    assert "did you mean tolerations?" in capsys.readouterr().err


def test_lint_list_rules_prints_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("--list-rules") == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [[rule.id, rule.severity.value] for rule in RULES.values()]
    assert lint("--list-rules", "-o", "json") == 0
    assert [load["rule"] for load in json.loads(capsys.readouterr().out)] == list(RULES)


def test_lint_without_files_and_hub_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert lint("--strict") == 2
    assert capsys.readouterr().err == f"fairway: {NO_INPUT}\n"


def test_lint_now_decides_which_scores_are_expired(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("-f", EXAMPLES, "--now", "2026-01-02T03:00:00Z", "-o", "json") == 0
    unsteady = [(line, "decision-unsteady") for line in (37, 53, 112)]
    assert found(capsys) == unsteady
    assert lint("-f", EXAMPLES, "--now", "2026-01-02T03:06:00Z", "-o", "json") == 0
    assert found(capsys) == [*unsteady, (67, "score-expired")]


def test_lint_yaml_output_has_all_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("-f", EXAMPLES, "--now", "2026-01-03T00:00:00Z", "-o", "yaml") == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert document["counts"] == {"error": 0, "warning": 4, "info": 2}
    assert [finding["rule"] for finding in document["findings"]] == [
        *["decision-unsteady"] * 3,
        "score-expired",
    ]
