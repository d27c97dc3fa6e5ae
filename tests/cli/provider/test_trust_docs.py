"""docs/explanation/trust.md shows the output of its commands, for files and for a hub with scores in every state."""

import os
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from msgspec import structs

import forked
from cli.get.test_provider_listing import LONG, publish
from cli.live_hub import ROOT, act, fill
from fairway.api.cluster import ManagedCluster
from fairway.cli.run.config import configured
from fairway.controllers.scores import Orphans, Silence, SilencePolicy
from fairway.controllers.settings import Settings
from fairway.testing.builders import cluster
from fairway.testing.hub import hub_in_thread
from kubewire.api.meta import Condition
from kubewire.client import Client

PAGE = ROOT / "docs" / "explanation" / "trust.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
FILES = re.compile(r"```yaml\n# (\S+)\n(.*?)```", re.DOTALL)


def joined(name: str, status: str, reason: str) -> ManagedCluster:
    made = cluster(name)
    available = Condition(
        type="ManagedClusterConditionAvailable",
        status=status,
        reason=reason,
        message="",
        lastTransitionTime=None,
    )
    moment = yaml.safe_load("2026-01-01T11:50:00Z")
    conditions = (structs.replace(available, lastTransitionTime=moment),)
    return structs.replace(made, status=structs.replace(made.status, conditions=conditions))


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("trust")
    for name, content in FILES.findall(TEXT):
        (folder / name).write_text(content)
    with hub_in_thread(folder=folder) as hub:
        states = {"cluster2": ("Unknown", "ManagedClusterLeaseUpdateStopped")}
        names = [f"cluster{at}" for at in range(1, 5)]
        fill(hub.kubeconfig, *(joined(name, *states.get(name, ("True", "Available"))) for name in names))

        async def more(client: Client) -> None:
            await publish(client, "cluster1", lasts=LONG)
            await publish(client, "cluster2", lasts=timedelta(0))
            await publish(client, "cluster3", lasts=LONG, message="nodes cannot be listed")

        act(hub.kubeconfig, more)
        yield folder


def normal(text: str) -> str:
    """Remove ages and repeated blanks."""
    text = re.sub(r"\b\d+[smhd](\d+[smh])?(?= ago| +\S|$)", "AGE", text, flags=re.M)
    text = re.sub(r"\b20(?!26-01-01)\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "WHEN", text)
    return re.sub(r" {2,}", "  ", text).strip()


def test_trust_page_has_output() -> None:
    assert len(BLOCKS.findall(TEXT)) == 5
    assert [name for name, _ in FILES.findall(TEXT)] == ["busy.yaml", "burst.yaml", "run.yaml"]


@pytest.mark.parametrize(("command", "output"), BLOCKS.findall(TEXT), ids=lambda text: text[:40])
def test_trust_page_shows_the_printed_output(terminal: Path, command: str, output: str) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": "kubeconfig",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    run = forked.shell(command, env=environment, cwd=terminal)
    assert run.returncode == 0, run.stdout
    assert normal(run.stdout) == normal(output)


def test_configuration_on_the_trust_page_is_valid(terminal: Path) -> None:
    policy = configured(Settings(), terminal / "run.yaml").scores
    assert (policy.of("any"), policy.of("health-score")) == (Silence.WORST, Silence.LEAVE)
    assert policy.worst_of("hosted-clusters-score", "hostedClustersCount") == 100
    assert policy.worst_of("queue-score", "waitingJobs") == 100
    assert policy.share == SilencePolicy().share
    assert (policy.grace, policy.orphans) == (60.0, Orphans.DROP)
