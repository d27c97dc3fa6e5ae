"""docs/how-to/join.md shows the output of its commands, in the order of the page."""

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked
from cli.join.test_join import available
from cli.live_hub import ROOT, act
from fairway.api.cluster import CLUSTER_SET_LABEL, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.testing.hub import hub_in_thread
from klusterlet.fleet import controllers, environment
from kubehub.testing.background import background
from rigs.waiting import until

PAGE = ROOT / "docs" / "how-to" / "join.md"
BLOCKS = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
ELSEWHERE = "# in another terminal: "


def normal(text: str) -> str:
    """Remove values that differ between runs."""
    text = re.sub(r"https://127\.0\.0\.1:\d+", "URL", text)
    text = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "WHEN", text)
    text = re.sub(r"request cluster1-\w{5} ", "request NAME ", text)
    text = re.sub(r"(management:cluster1:)\w{5}", r"\1AGENT", text)
    return re.sub(r"v1\.36\.\S+", "VERSION", text).rstrip()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Path]:
    """A folder with the cluster's kubeconfig; the hub is the current context."""
    for name in ("hub", "cluster"):
        (tmp_path / name).mkdir()
    with (
        hub_in_thread(folder=tmp_path / "hub") as hub,
        hub_in_thread(folder=tmp_path / "cluster", definitions=()) as cluster,
        background(controllers(hub.kubeconfig, sets=True)),
    ):
        (tmp_path / "hub.kubeconfig").symlink_to(hub.kubeconfig)
        (tmp_path / "cluster1.kubeconfig").symlink_to(cluster.kubeconfig)
        yield tmp_path


def surroundings() -> dict[str, str]:
    return {**environment(), "KUBECONFIG": "hub.kubeconfig", "NO_COLOR": "1"}


def output_of(folder: Path, command: str) -> str:
    done = forked.shell(command, env=surroundings(), cwd=folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


def _complete(cluster: ManagedCluster) -> bool:
    """Version and claims are reported after availability, and the hub sets the cluster set."""
    return (
        available(cluster)
        and bool(cluster.status.version.kubernetes)
        and CLUSTER_SET_LABEL in cluster.metadata.labels
    )


def joining(folder: Path, command: str, expected: str) -> str:
    """Read the shown number of lines, then send Ctrl-C."""
    _, *arguments = shlex.split(command)
    with forked.Process(arguments, stdout=forked.PIPE, env=surroundings(), cwd=folder) as process:
        assert process.stdout is not None
        lines = []
        for line in expected.splitlines():
            if line.startswith(ELSEWHERE):
                output_of(folder, line.removeprefix(ELSEWHERE))
                lines.append(f"{line}\n")
            else:
                lines.append(process.stdout.readline())
        act(folder / "hub.kubeconfig", lambda admin: until(admin, MANAGED_CLUSTERS, "cluster1", _complete))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    return "".join(lines)


def test_join_page_shows_the_printed_output(terminal: Path) -> None:
    shown = BLOCKS.findall(PAGE.read_text(encoding="utf-8"))
    assert len(shown) == 5
    for command, expected in shown:
        runs = command.startswith("fairway join --name")
        got = joining(terminal, command, expected) if runs else output_of(terminal, command)
        assert normal(got) == normal(expected), command
