"""The benchmark of the controllers runs, in small, and what it measured is what should have happened."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SMALL = (
    *("--quick", "--hub", "embedded", "--clusters", "200", "--placements", "10"),
    *("--reacting", "20", "--period", "2", "--seconds", "4", "--fleets", "60"),
)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("bench") / "figures.json"
    command = (sys.executable, "-m", "benchmarks.controllers", *SMALL, "--json", str(out))
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("way", ["cold", "running"])
def test_a_placement_converges_with_three_writes(figures: dict[str, Any], way: str) -> None:
    (found,) = [each for _, name, each in figures["a"] if name == way]

    assert found["failed"] == 0
    assert {name: count for name, count in found["requests"].items() if "placement" in name} == {
        "create placementdecisions": 10,
        "patch placementdecisions/status": 10,
        "patch placements/status": 10,
    }


def test_every_score_that_changes_a_choice_is_followed_by_its_decisions(figures: dict[str, Any]) -> None:
    ((_, found),) = figures["b"]

    # One placement to a group; a choice that was taken back before anybody saw it is no sample.
    assert 0 < found["samples"] <= found["changes"]
    assert found["unexpected"] == 0


def test_a_controller_that_starts_decides(figures: dict[str, Any]) -> None:
    ((_, found),) = figures["c"]

    assert 0 < found["synced"] <= found["first"]
    assert found["resident"] <= found["most"]
