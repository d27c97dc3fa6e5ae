"""The benchmark of scores runs, in small, and what it measured is what should have happened."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
CLUSTERS, ROUNDS, WRITES = 12, 2, 24
SMALL = (
    *("--quick", "--hub", "embedded", "--simulated", "30", "--writes", str(WRITES)),
    *("--clusters", str(CLUSTERS), "--interval", "0.5", "--rounds", str(ROUNDS)),
    *("--nodes", "4", "--pods", "40", "--seconds", "0.6", "--alone", "1", "--streamed", "4"),
)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("bench") / "figures.json"
    command = (sys.executable, "-m", "benchmarks.scores", *SMALL, "--json", str(out))
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_benchmark_deadband_reduces_writes(figures: dict[str, Any]) -> None:
    usual = {each["way"]: each for each in figures["a"]["rates"] if each["noise"].startswith("usual")}

    assert usual["every reading, as without any policy"]["share"] == 1
    assert usual["every change"]["share"] == 1 > usual["deadband 5, valid for 15 min"]["share"]
    assert usual["every change"]["error"] == 0


@pytest.mark.parametrize("way", ["apply", "merge"])
def test_benchmark_limit_counts_real_writes(figures: dict[str, Any], way: str) -> None:
    found = figures["a"]["limits"]["embedded hub"][way]

    assert found["writes"] % WRITES == 0
    assert found["rate"] > 0


def test_benchmark_hub_receives_every_write(figures: dict[str, Any]) -> None:
    ((_, ways),) = figures["b"]

    assert [each["way"] for each in ways] == ["every change", "deadband 2 (default)"]
    for each in ways:
        assert each["clusters"] == CLUSTERS
        assert each["failed"] == 0
        # Those on their way when the first reading or the last began are counted by one of the two.
        assert abs(each["seen"] - each["written"]) <= each["late"] + CLUSTERS
        assert 0 < each["written"] <= (ROUNDS + 1) * CLUSTERS


def test_benchmark_agent_counts_every_pod(figures: dict[str, Any]) -> None:
    (found,) = figures["c"]

    assert (found["nodes"], found["pods"]) == (4, 40)
    # The kernel accounts memory per thread and adds it up later.
    assert 0 < found["resident"] <= found["most"] + 2**20
    assert found["rate"] > 0


def test_benchmark_pods_reach_the_score(figures: dict[str, Any]) -> None:
    ((_, found),) = figures["d"]

    assert [each["wanted"] for each in found["one at a time"]] == [99]
    assert [each["wanted"] for each in found["in a stream"]] == [98, 97, 96, 95]
    assert 1 <= found["in a stream, writes"] <= 4
    assert all(each["sent"] > 0 for way in ("one at a time", "in a stream") for each in found[way])
