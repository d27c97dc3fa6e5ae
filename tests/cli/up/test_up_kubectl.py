"""The steps that `fairway up` prints work with the real kubectl."""

import os
import shlex
import subprocess
from pathlib import Path

from cli.up_process import ROOT, Up, environment, until, up
from fairway.api.resources import PLACEMENT_DECISIONS
from kubewire.client.events import EVENTS
from rigs.kubernetes import KUBECTL, Tools

REASONS = {"DecisionCreate", "DecisionUpdate", "ScoreUpdate"}


class Terminal:
    """A second terminal, into which printed lines are pasted."""

    def __init__(self, started: Up, kubectl: Path, folder: Path = ROOT) -> None:
        self._export = f"export KUBECONFIG={shlex.quote(str(started.kubeconfig))}\n"
        self._path = os.pathsep.join([str(kubectl.parent), os.environ["PATH"]])
        self._folder = folder

    def paste(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", self._export + line],
            capture_output=True,
            text=True,
            check=False,
            env=environment(PATH=self._path),
            cwd=self._folder,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


async def test_printed_steps_of_up_work_with_kubectl(tmp_path: Path, kube_tools: Tools) -> None:
    with up(tmp_path, "--clusters", 12, "--period", 86400) as started:
        terminal = Terminal(started, kube_tools.path(KUBECTL))
        _, apply, ask = started.announcement["try"]
        apply = f"kubectl{apply.removeprefix(ask.partition(' explain ')[0])}"
        clusters = terminal.paste("kubectl get managedclusters").splitlines()
        assert clusters[0].split()[:3] == ["NAME", "HUB", "ACCEPTED"]
        assert len(clusters) == 1 + 12
        assert all(line.split()[3:5] == ["True", "True"] for line in clusters[1:])
        assert terminal.paste(apply).endswith("most-free-cpu created\n")
        async with started.client() as client:
            await until(
                client,
                PLACEMENT_DECISIONS,
                lambda decisions: any(decision.status.decisions for decision in decisions.values()),
            )
        answer = terminal.paste(ask)
        assert answer.startswith("default/most-free-cpu: 3 of 3 clusters, AllDecisionsScheduled")
        assert "most-free-cpu-decision-1" in terminal.paste("kubectl get placementdecisions -A")
        async with started.client() as client:  # events follow their cause
            await until(client, EVENTS, lambda events: {event.reason for event in events.values()} >= REASONS)
        announcement = terminal.paste("kubectl describe placement most-free-cpu")
        assert all(reason in announcement for reason in REASONS)
        assert started.stop() == 0


def test_example_of_up_is_applied_with_kubectl_outside_the_checkout(
    tmp_path: Path, kube_tools: Tools
) -> None:
    with up(tmp_path, "--clusters", 1, "--period", 86400) as started:
        terminal = Terminal(started, kube_tools.path(KUBECTL), folder=tmp_path)
        fairway = started.announcement["try"][2].partition(" explain ")[0]
        assert terminal.paste(f"{fairway} up --example | kubectl apply -f -").endswith("created\n")
        named = terminal.paste("kubectl get managedclusters -o name").strip()
        assert terminal.paste(f"kubectl label {named} fairway.dev/agent=stopped").endswith("labeled\n")
