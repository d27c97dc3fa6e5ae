"""The score benchmark at toy size: its figures are those of the load."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
CLUSTERS, ROUNDS, WRITES = 6, 2, 12
SMALL = (
    *("--quick", "--hub", "embedded", "--simulated", "20", "--writes", str(WRITES)),
    *("--clusters", str(CLUSTERS), "--interval", "0.5", "--rounds", str(ROUNDS)),
    *("--nodes", "4", "--pods", "40", "--seconds", "0.6", "--alone", "1", "--streamed", "4"),
)


def test_score_benchmark_measures_its_load(tmp_path: Path) -> None:
    """A single test, because every worker would start the benchmark for its share of several."""
    out = tmp_path / "figures.json"
    command = (sys.executable, "-m", "benchmarks.scores", *SMALL, "--json", str(out))
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    figures: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))

    usual = {rate["way"]: rate for rate in figures["a"]["rates"] if rate["noise"].startswith("usual")}
    assert usual["every reading, as without any policy"]["share"] == 1
    assert usual["every change"]["share"] == 1 > usual["deadband 5, valid for 15 min"]["share"]
    assert usual["every change"]["error"] == 0
    for way in ("apply", "merge"):
        limit = figures["a"]["limits"]["embedded hub"][way]
        assert limit["writes"] % WRITES == 0
        assert limit["rate"] > 0

    ((_, ways),) = figures["b"]
    assert [measured["way"] for measured in ways] == ["every change", "deadband 2 (default)"]
    for way in ways:
        assert (way["clusters"], way["failed"]) == (CLUSTERS, 0)
        # Writes in flight at the first or last reading are counted by one side only.
        assert abs(way["seen"] - way["written"]) <= way["late"] + CLUSTERS
        assert 0 < way["written"] <= (ROUNDS + 1) * CLUSTERS

    (agent,) = figures["c"]
    assert (agent["nodes"], agent["pods"]) == (4, 40)
    # The kernel accounts memory per thread and adds it up later.
    assert 0 < agent["resident"] <= agent["most"] + 2**20
    assert agent["rate"] > 0

    ((_, latency),) = figures["d"]
    assert [event["wanted"] for event in latency["one at a time"]] == [99]
    assert [event["wanted"] for event in latency["in a stream"]] == [98, 97, 96, 95]
    assert 1 <= latency["in a stream, writes"] <= 4
    assert all(event["sent"] > 0 for way in ("one at a time", "in a stream") for event in latency[way])
