"""A shell per test, in a namespace of its own, on a hub that knows ships."""

import asyncio
import dataclasses
from pathlib import Path

import pytest
import yaml
from clients.conftest import Suite
from clients.kubectl.shell import DEADLINE, Shell, served

SHIPS = Path(__file__).parent / "manifests" / "ships.yaml"
GROUP = "kubectl.suite.fairway.dev"


@pytest.fixture(scope="session")
def harbour(hub: Suite, kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell in the namespace ``default`` of a hub that serves ships, and has published what they look like."""
    home = tmp_path_factory.mktemp(f"kubectl-{hub.kind}")
    shell = Shell(kubectl=kubectl, kubeconfig=hub.kubeconfig, home=home, folder=home, namespace="default")
    asyncio.run(_prepare(shell))
    return shell


async def _prepare(shell: Shell) -> None:
    await shell(f"create -f {SHIPS}")
    await served(shell, "ships")
    async with asyncio.timeout(DEADLINE):
        while (await shell.run(f"get --raw /openapi/v3/apis/{GROUP}/v1")).status:
            await asyncio.sleep(0.05)  # published some time later, without a condition


@pytest.fixture
async def shell(harbour: Shell, namespace: str, tmp_path: Path) -> Shell:
    config = yaml.safe_load(harbour.kubeconfig.read_text(encoding="utf-8"))
    config["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    await harbour(f"create namespace {namespace}")
    return dataclasses.replace(harbour, kubeconfig=kubeconfig, folder=folder, namespace=namespace)
