"""A separate hub, because the commands use well-known names: cluster1, default."""

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from controllers.conftest import ALONE, Start
from controllers.hubs import HubUnderTest, hub_of
from fairway.controllers.manager import Manager
from fairway.controllers.settings import ALL
from rigs.kubernetes import KUBECTL, Tools

FAILED = "{line}\nended with status {status}\n{errors}{output}"


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """Run a command line and return its output."""

    kubectl: Path
    kubeconfig: Path
    home: Path

    async def __call__(self, line: str, *, given: str = "") -> str:
        """What a line shows that must succeed; it begins with ``kubectl`` or ``fairway``."""
        program, *arguments = shlex.split(line)
        command: dict[str, tuple[str, ...]] = {
            "kubectl": (str(self.kubectl), f"--cache-dir={self.home / 'kubectl'}"),
            "fairway": (sys.executable, "-m", "fairway"),
        }
        process = await asyncio.create_subprocess_exec(
            *command[program],
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), "COLUMNS": "200"},
        )
        try:
            output, errors = await process.communicate(given.encode())
        finally:
            if process.returncode is None:  # cancelled
                process.kill()
                await process.wait()
        assert process.returncode == 0, FAILED.format(
            line=line, status=process.returncode, errors=errors.decode(), output=output.decode()
        )
        return output.decode()


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    folder = tmp_path_factory.mktemp(f"walk-{request.param}")
    with hub_of(request.param, folder=folder, tools=lambda: request.getfixturevalue("kube_tools")) as made:
        yield made


@pytest.fixture(scope="module")
def rights(hub: HubUnderTest) -> dict[frozenset[str], object]:
    """For this hub."""
    return {}


@pytest.fixture
def terminal(hub: HubUnderTest, kube_tools: Tools, tmp_path: Path) -> Terminal:
    return Terminal(kubectl=kube_tools.path(KUBECTL), kubeconfig=hub.kubeconfig, home=tmp_path)


@pytest.fixture
async def everything(start: Start) -> AsyncIterator[Manager]:
    """All controllers."""
    async with start(replace(ALONE, controllers=ALL)) as manager:
        yield manager
