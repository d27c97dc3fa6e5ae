"""docs/how-to/addons.md shows the output of its commands; deploy/addons equals the installed objects."""

import re
import shlex
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from cli.addon.test_addon import NAME, WELL, decide, say_so
from cli.live_hub import ROOT, act
from fairway.cli.main import run
from fairway.testing.hub import HubAddress
from kubewire.client import Client

PAGE = ROOT / "docs" / "how-to" / "addons.md"
BLOCKS = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
AGENT = "open-cluster-management-agent-addon/resource-usage-collect-agent"


async def _live(client: Client) -> None:
    names = ["cluster1", "cluster2", "cluster3"]
    for name in names:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    await decide(client, *names)
    await say_so(client, "cluster1", {"Available": WELL}, valid=timedelta(hours=1))
    ill = ("False", "ProbeUnavailable", f"Deployment {AGENT} has no ready replica of 1")
    await say_so(client, "cluster2", {"Available": ill}, valid=None)


def normal(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "WHEN", text).rstrip()


def test_addon_page_shows_the_printed_output(
    fairway_hub: HubAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = BLOCKS.findall(PAGE.read_text(encoding="utf-8"))
    assert [command.split()[2] for command, _ in shown] == ["install", "install", "status", "uninstall"]
    for command, expected in shown:
        if " status " in command:
            act(fairway_hub.kubeconfig, _live)
        run([*shlex.split(command)[1:], "--kubeconfig", str(fairway_hub.kubeconfig)])
        assert normal(capsys.readouterr().out) == normal(expected), command


def test_addon_page_manifests_equal_the_installed_objects(capsys: pytest.CaptureFixture[str]) -> None:
    file: Path = ROOT / "deploy" / "addons" / "resource-usage.yaml"
    first, _, content = file.read_text(encoding="utf-8").partition("\n")
    assert run(shlex.split(first.removeprefix("# Written by: "))[1:]) == 0
    assert content == capsys.readouterr().out
    assert yaml.safe_load(content)["items"][-1]["metadata"]["name"] == NAME
