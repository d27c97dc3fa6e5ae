"""The benchmark of the controllers, at toy size."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SMALL = (
    *("--quick", "--hub", "embedded", "--clusters", "200", "--placements", "3"),
    *("--reacting", "20", "--period", "2", "--seconds", "4", "--fleets", "10"),
)


def measure(folder: Path, part: str) -> Any:
    out = folder / "result.json"
    command = (sys.executable, "-m", "benchmarks.controllers", *SMALL, "--only", part, "--json", str(out))
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(out.read_text(encoding="utf-8"))[part]


@pytest.mark.soak  # four processes; placement/test_decisions.py counts the writes of a placement, too
def test_benchmark_counts_three_writes_for_each_placement(tmp_path: Path) -> None:
    for _, _, result in measure(tmp_path, "a"):
        assert result["failed"] == 0
        assert {name: count for name, count in result["requests"].items() if "placement" in name} == {
            "create placementdecisions": 3,
            "patch placementdecisions/status": 3,
            "patch placements/status": 3,
        }


def test_benchmark_measures_the_reaction_to_changed_scores(tmp_path: Path) -> None:
    ((_, result),) = measure(tmp_path, "b")
    # A choice that was reverted before the generator saw it is no sample.
    assert 0 < result["samples"] <= result["changes"]
    assert result["unexpected"] == 0


def test_benchmark_measures_a_cold_start(tmp_path: Path) -> None:
    ((_, result),) = measure(tmp_path, "c")
    assert 0 < result["synced"] <= result["first"]
    assert result["resident"] <= result["most"]
