"""docs/tutorials: the commands of the pages print what the pages show."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from controllers.hubs import hub_of
from e2e.documents import ROOT, Step, Terminal, normal, steps
from e2e.harness import CLUSTERS, HUB
from rigs.kubernetes import CONTROLLERS, KUBECTL, Tools, background, real_hub
from rigs.processes import POLL

PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "tutorials").glob("*.md"))
EVERYWHERE = "docs/tutorials/extend-scheduling.md"
"""Needs nothing of a hub that Kubernetes has not."""
ONLY_CONTROLLERS = """\
fairway run --kubeconfig hub.kubeconfig --no-leader-elect > hub.log 2>&1 &
export KUBECONFIG=$PWD/hub.kubeconfig
"""
"""The rest of the first block of a page, without starting the API servers."""


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
@pytest.mark.parametrize("page", PAGES)
async def test_walkthrough_page_works_on_embedded_hub(page: str, kube_tools: Tools, tmp_path: Path) -> None:
    documented = steps(page)
    terminal = Terminal(tmp_path, kubectl=kube_tools.path(KUBECTL))
    compare(documented, await terminal.run(documented))


@pytest.fixture
def kubeconfigs(kube_tools: Tools, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Of a hub and two clusters that are real Kubernetes; the clusters have no kinds of Fairway or OCM."""
    with ExitStack() as stack:
        hub = stack.enter_context(hub_of("real", folder=tmp_path / HUB, tools=lambda: kube_tools))
        kubeconfigs = {HUB: hub.kubeconfig}
        for name in CLUSTERS:
            cluster = real_hub(kube_tools, folder=tmp_path / name, controllers=CONTROLLERS)
            kubeconfigs[name] = stack.enter_context(background(cluster)).kubeconfig
        yield {f"{name}.kubeconfig": kubeconfig for name, kubeconfig in kubeconfigs.items()}


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
async def test_walkthrough_page_works_on_kubernetes(
    kubeconfigs: dict[str, Path], kube_tools: Tools, tmp_path: Path
) -> None:
    first, *others = steps(EVERYWHERE)
    assert first.shown is None
    assert first.commands.startswith("fairway up ")
    documented = [Step(ONLY_CONTROLLERS, None), *others]
    terminal = Terminal(tmp_path / "terminal", kubectl=kube_tools.path(KUBECTL))
    compare(documented, await terminal.run(documented, files=kubeconfigs))


def compare(documented: list[Step], printed: list[str]) -> None:
    for step, text in zip(documented, printed, strict=True):
        if step.shown is not None:
            assert normal(text) == normal(step.shown), step.commands


def test_walkthrough_pages_cover_all_steps() -> None:
    for page in PAGES:
        documented = steps(page)
        commands = "".join(step.commands for step in documented)
        for needed in (
            "fairway join --name",
            "fairway addon install",
            "placementdecision",
            "kill $(jobs -p)",
        ):
            assert needed in commands, page


async def test_failing_walkthrough_command_is_named(tmp_path: Path) -> None:
    page = [Step("echo fine\n", None), Step("echo before; false\n", None), Step("echo after\n", None)]
    with pytest.raises(AssertionError, match="status 1:\necho before; false\n\nbefore"):
        await Terminal(tmp_path, kubectl=Path("kubectl")).run(page)


async def test_walkthrough_page_that_leaves_processes_fails(tmp_path: Path) -> None:
    page = [Step("sleep 600 &\necho $!\n", None)]
    with pytest.raises(AssertionError, match="leaves processes behind"):
        await Terminal(tmp_path, kubectl=Path("kubectl")).run(page)
    left = int((tmp_path / "printed").read_text().strip("\x1e\n"))
    async with asyncio.timeout(120):
        while runs(left):
            await asyncio.sleep(POLL)


def runs(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
