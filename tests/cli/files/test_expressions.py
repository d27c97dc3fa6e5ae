"""CEL that does not compile is an error for commands that decide, and a finding of lint."""

from pathlib import Path

import pytest

from fairway.cli.main import run

BROKEN = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: apps}
spec:
  predicates:
    - requiredClusterSelector:
        celSelector:
          celExpressions:
            - managedCluster.metadata.name != ""
            - managedCluster.metadata.name ==
    - requiredClusterSelector:
        celSelector:
          celExpressions: [nosuch.thing == 1]
"""


@pytest.fixture
def broken(tmp_path: Path) -> str:
    file = tmp_path / "web.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("verb", [["place"], ["explain", "placement", "apps/web"]], ids=["place", "explain"])
def test_broken_cel_expression_is_reported_with_its_place(
    broken: str, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*verb, "-f", broken]) == 2
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    path = "requiredClusterSelector.celSelector.celExpressions"
    assert out == ""
    assert first.startswith(f"fairway: {broken}:11: Placement apps/web: spec.predicates[0].{path}[1]: ")
    assert "does not compile at line 1, column 32: " in first
    assert second.startswith(f"fairway: {broken}:14: Placement apps/web: spec.predicates[1].{path}[0]: ")
    assert (
        "'nosuch.thing == 1' does not compile at line 1, column 1: undeclared reference to 'nosuch'" in second
    )
    assert second.endswith("; correct the expression; the variable is managedCluster")


def test_lint_reports_broken_cel_expressions(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "-f", broken]) == 1
    assert "[expression-broken]" in capsys.readouterr().out


def test_misspelt_verb_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plce"]) == 2
    assert "No such command 'plce'. Did you mean 'place'?" in capsys.readouterr().err
