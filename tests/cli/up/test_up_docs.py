"""docs/start/first-run.md shows what `make run` prints."""

import re
import shlex
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from cli.up_process import ROOT, environment, fairway, until, up
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.cli.commands.hub import PORT
from fairway.cli.hub.process import HOW_TO_STOP, NOT_KEPT, READY
from fairway.cli.options.controllers import WITH_HUB
from fairway.cli.up.demo import FIRST, MOVES
from fairway.cli.up.services import CONTROLLERS, ELSEWHERE, FLEET
from fairway.cli.up.story import EMPTIES, FILLS, FULL, RETURNS, STOPS
from fairway.cli.up.tour import EXAMPLE, NAME, SCORE, demo_steps
from fairway.simulation.agents import AGENT, STOPPED
from fairway.simulation.creation import LEASE_SECONDS, SimulationOptions
from fairway.simulation.objects import simulated_clusters
from fairway.workloads.placement.plugins.trust import MISSING_SCORE

PAGE = (ROOT / "docs" / "start" / "first-run.md").read_text(encoding="utf-8")
CLUSTERS, PERIOD = 12, 10


def blocks() -> list[str]:
    """Return the code blocks without a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for language, text in blocks if not language]


def test_make_run_starts_what_the_page_says() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "--always-make", "run", "ARGS=--port 0"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    (line,) = (line for line in printed.splitlines() if line.startswith(".venv/bin/fairway"))
    options = f"--clusters {CLUSTERS} --period {PERIOD} --kubeconfig-out .cache/kubeconfig --port 0"
    assert line == f".venv/bin/fairway up {options}"
    assert f'echo "==> fairway up {options}"' in printed


def test_page_shows_what_make_run_prints() -> None:
    (shown,) = (block for block in blocks() if block.startswith("hub ready"))
    printed = [
        READY.format(url=f"https://127.0.0.1:{PORT}", kept=NOT_KEPT),
        CONTROLLERS.format(names=", ".join(sorted(WITH_HUB))),
        FLEET.format(count=CLUSTERS, period=PERIOD),
        "",
        ELSEWHERE,
        "  export KUBECONFIG=/path/to/checkout/.cache/kubeconfig",
        *(
            line
            for question, commands in demo_steps(".venv/bin/fairway", hosting=True).items()
            for line in (question, *(f"  {command}" for command in commands))
        ),
        "",
        HOW_TO_STOP,
    ]
    assert shown.splitlines() == printed


def test_page_tells_the_story_of_the_fleet_that_make_run_starts() -> None:
    (story,) = (block for block in blocks() if block.startswith("default/shop"))
    free = {
        cluster.name: cluster.scores[0].values[SCORE]
        for cluster in simulated_clusters(clusters=CLUSTERS, seed=0, now=datetime.now(UTC))
    }
    first, second, third, fourth = sorted(free, key=lambda name: -free[name])[:4]
    filled = (
        sorted({**free, first: FULL}.items(), key=lambda item: (-item[1], item[0])).index((first, FULL)) + 1
    )
    points = {"before": free[first], "after": FULL}
    fourth_enters = f"+{fourth} (rank 3, {free[fourth]} points)"
    fourth_leaves = f"-{fourth} (rank 4, {free[fourth]} points)"
    expected = [
        FIRST.format(placement=NAME, count=3, fleet=CLUSTERS),
        *(f"{rank}  {name:30}  {free[name]:6}" for rank, name in enumerate((first, second, third), 1)),
        MOVES,
        FILLS.format(cluster=first, **points),
        fourth_enters,
        f"-{first} (rank {filled}, {FULL} points, was {free[first]})",
        EMPTIES.format(cluster=first, before=FULL, after=free[first]),
        f"+{first} (rank 1, {free[first]} points, was {FULL})",
        fourth_leaves,
        STOPS.format(cluster=second, seconds=SimulationOptions(period=PERIOD).validity(CLUSTERS)),
        fourth_enters,
        RETURNS.format(cluster=second),
        f"+{second} (rank 2, {free[second]} points)",
        fourth_leaves,
    ]
    lines = iter(story.splitlines())
    assert [wanted for wanted in expected if not any(line.endswith(wanted) for line in lines)] == []


async def test_page_shows_what_explain_prints(tmp_path: Path) -> None:
    (shown,) = (block for block in blocks() if block.startswith("default/most-free-cpu"))
    with up(tmp_path, "--clusters", CLUSTERS, "--period", 86400) as started:
        async with started.client() as client:
            example = yaml.safe_load((ROOT / "examples" / "most-free-cpu.yaml").read_text())
            await client.create(PLACEMENTS, example, namespace="default")
            await until(
                client,
                PLACEMENT_DECISIONS,
                lambda decisions: any(decision.status.decisions for decision in decisions.values()),
            )
        done = subprocess.run(
            shlex.split(started.announcement["try"][2]),
            capture_output=True,
            text=True,
            check=True,
            env=environment(KUBECONFIG=str(started.kubeconfig)),
            cwd=ROOT,
        )
    assert done.stdout.startswith(shown)


def test_first_run_page_has_label_and_times_of_an_outage() -> None:
    assert f"{AGENT}={STOPPED}`. Its score\nexpires within a minute" in PAGE
    assert SimulationOptions(period=PERIOD).validity(CLUSTERS) <= 60
    assert yaml.safe_load(EXAMPLE)["metadata"]["annotations"] == {MISSING_SCORE: "exclude"}
    assert "Five minutes later, as on any OCM hub" in PAGE
    assert 5 * LEASE_SECONDS == 300


@pytest.mark.parametrize("words", [("get", "decisions", "--watch"), ("explain", "placement"), ("run",)])
def test_commands_named_on_the_page_exist(words: tuple[str, ...]) -> None:
    assert f"fairway {' '.join(words)}" in PAGE
    verbs = [word for word in words if not word.startswith("--")][: 2 if words[0] == "get" else 1]
    helped = fairway(*verbs, "--help")
    assert helped.returncode == 0
    assert all(word in helped.stdout for word in words if word.startswith("--"))
