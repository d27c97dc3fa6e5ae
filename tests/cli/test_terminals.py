"""Every command that prints a table, on narrow and wide terminals, in other encodings, and into a closed pipe."""

import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cli.live_hub import EXAMPLE, ROOT, fill
from fairway.cli.main import run
from fairway.testing.hub import hub_in_thread

EXAMPLES: Final = ROOT / "examples"
COMMANDS: Final = """
accept edge-store-7 --dry-run
addon install resource-usage --dry-run
addon uninstall resource-usage --dry-run
apply -f most-free-cpu.yaml --dry-run
clusterset bind apps -n ns1 --dry-run
crds -o table
explain placement ns1/idlest -f fleet --all
explain placement everywhere/roll-out -f fleet --cluster apps-fra
fleet apply -f fleet --dry-run
fleet show -f fleet
get clusters
get clustersets
get decisions -A
get hostedclusterrequests -A
get placements -A
get providers
get scores
get scores --cluster nosuch
hosting capacity -f hosting
hosting adopt -f hosting
hosting drain host-1 -f hosting
hosting lose -f hosting
hosting place -f hosting
hosting rebalance -f hosting
hosting recover host-9 -f hosting
hub check none
install -o table
join token --name east
lint --hub
lint --list-rules
machines explain pod default/vm-a -f {nodes}
machines migrations -f {nodes}
machines top -f {nodes}
plan --drain apps-fra
plan --lose region=eu-central --fleet fleet --all
place -f fleet
place -f fleet --reasons
provider list
scheduler plugins
scheduler plugins --hosting
simulate hosting --requests 20 --hosts 2
simulate machines --nodes 2 --minutes 1
test tests
uninstall --dry-run
"""
NODES: Final = """
apiVersion: v1
kind: Node
metadata: {name: southeastasia-prod-azure-node-1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: vm-a, namespace: default}
spec: {schedulerName: fairway, containers: [{name: c, image: i, resources: {requests: {cpu: "64"}}}]}
"""
CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Of progress bars."""
COPIED: Final = re.compile(r" *([A-Z_]+=\S+ )?(\S*/)?(fairway|kubectl) ")
"""A command is not folded: it is copied in one piece."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as hub:
        fill(hub.kubeconfig, paths=[EXAMPLE])
        yield hub.kubeconfig


@pytest.fixture
def commands(kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FAIRWAY_DEBUG", raising=False)
    monkeypatch.chdir(EXAMPLES)
    (tmp_path / "nodes.yaml").write_text(NODES)
    return COMMANDS.format(nodes=tmp_path / "nodes.yaml").strip().splitlines()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(
    width: int, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    for command in commands:
        out, err = Terminal(), Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        # Progress bars are drawn for the terminal of the process.
        monkeypatch.setattr(sys, "stderr", err if "--dry-run" not in command else io.StringIO())
        assert run(command.split()) in (0, 1, 2)
        assert "\x1b" not in out.getvalue()
        text = out.getvalue() + CONTROL.sub("", err.getvalue())
        wide = [line for line in text.splitlines() if len(line) > width]
        assert [line for line in wide if " " in line.strip() and not COPIED.match(line)] == [], command
        assert "internal error" not in text, command


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_is_complete_in_other_encodings(
    encoding: str, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in commands:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        assert run(command.split()) in (0, 1, 2)
        text = b""
        for stream in (out, err):
            stream.flush()
            text += stream.detach().getvalue()
        assert b"internal error" not in text, command
        assert text, command


def test_closed_pipe_ends_every_command_quietly(
    commands: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in commands:
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as out:
            monkeypatch.setattr(sys, "stdout", out)
            ended = run(command.split())
        err = capsys.readouterr().err
        assert ended in (0, 1, 2)
        assert "Traceback" not in err
        assert "Broken pipe" not in err
        assert "internal error" not in err
