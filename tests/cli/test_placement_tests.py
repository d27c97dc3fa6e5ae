"""`fairway test` decides placements of files, and reports what differs from what tests expect."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.live_hub import EXAMPLE, ROOT
from fairway.cli.main import run

HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: PlacementTest\nspec:\n  files: [FLEET]\n  tests:\n"


@pytest.mark.parametrize(
    ("case", "failure"),
    [
        ("placement: ns1/idlest, expect: {clusters: [apps-fra], count: 1, satisfied: true}", ""),
        ("placement: ns1/idlest, expect: {clusters: []}", "selects apps-fra, expected no cluster"),
        ("placement: ns1/idlest, expect: {includes: [apps-iad]}", "does not select apps-iad: rank 3"),
        ("placement: ns1/idlest, expect: {excludes: [apps-fra]}", "selects apps-fra: rank 1"),
        ("placement: ns1/idlest, expect: {count: 2}", "selects 1 clusters, expected 2"),
        ("placement: ns1/idlest, expect: {satisfied: false}", "satisfied is true, expected false"),
        ("placement: ns1/idlest, expect: {reasons: {apps-iad: rank 2}}", "it is: rank 3"),
        ("placement: ns1/idlest, drain: [apps-fra], expect: {excludes: [apps-fra]}", ""),
        ("placement: ns1/idlest, lose: [region=eu-central], expect: {count: 1, excludes: [apps-fra]}", ""),
        ("placement: ns1/idlest, setWeight: ['ns1/idlest:Steady=2'], expect: {includes: [apps-fra]}", ""),
        ("placement: everywhere/roll-out, addClusters: 8, expect: {count: 14}", ""),
    ],
)
def test_each_expectation_passes_or_fails_with_the_reason(
    case: str, failure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "FLEET").symlink_to(EXAMPLE)
    (tmp_path / "test.yaml").write_text(f"{HEAD}  - {{{case}}}\n")
    junit = tmp_path / "report.xml"
    code = run(["test", str(tmp_path / "test.yaml"), "--junit", str(junit), "-o", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    report = ElementTree.parse(junit).getroot()
    failures = [element.get("message", "") for element in report.iter("failure")]
    assert (code, row["result"]) == ((1, "failed") if failure else (0, "passed"))
    assert report.get("failures") == str(code)
    assert failures == row["failures"][:1]
    assert any(failure in text for text in row["failures"]) or not failure


def test_examples_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", str(ROOT / "examples" / "tests")]) == 0
    assert "3 passed, 0 failed" in capsys.readouterr().out
