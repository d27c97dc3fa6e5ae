"""The whole of Fairway as processes: three API servers, embedded or real, and everything else beside them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.harness import HUB, LoopHarness, kubelets, servers
from rigs.kubernetes import Tools


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def bare_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopHarness]:
    """API servers, on which nothing runs."""

    def tools() -> Tools:
        build: Tools = request.getfixturevalue("kube_tools")
        return build

    with servers(request.param, folder=tmp_path, tools=tools) as running:
        yield LoopHarness(tmp_path, running, tools() if request.param == "real" else None)


@pytest.fixture
async def harness(bare_stage: LoopHarness) -> AsyncIterator[LoopHarness]:
    """A hub with its controllers, and two clusters that have not joined it."""
    try:
        bare_stage.start(
            "controllers", "run", f"--kubeconfig={bare_stage.kubeconfig(HUB)}", "--no-leader-elect"
        )
        async with kubelets(bare_stage):
            yield bare_stage
    finally:
        await bare_stage.stop()
