"""docs/reference/managed-cluster-score.md, command by command: a Placement reads what kubectl published, and so does
recovery; the bridge makes the other kind of it."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from controllers.conftest import Start
from controllers.hubs import HubUnderTest, hub_of
from controllers.recovery.page import Pass, Save, Shell, Type, pieces
from controllers.running import RunningController, at_work
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.cli.run.config import configured
from fairway.controllers.bridge import RULES as BRIDGE_RULES
from fairway.controllers.bridge import BridgeController, BridgeOptions, Range
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.recovery import RULES, RecoveryController, RecoveryPolicy
from fairway.controllers.recovery.keys import ClusterKey
from fairway.controllers.settings import Settings
from fairway.observe.meters import Meters
from fairway.testing.builders import binding, cluster, cluster_set
from kubewire.client import SYSTEM_CLOCK, AlreadyExists, Client
from rigs.kubernetes import KUBECTL, Tools

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "managed-cluster-score.md"
SECTION = re.compile(r"```yaml\n((?:recovery|bridge):\n.*?)```", re.DOTALL)


class Ahead:
    """The system clock plus an offset."""

    def __init__(self) -> None:
        self.by = 0.0

    def wall(self) -> datetime:
        return SYSTEM_CLOCK.wall() + timedelta(seconds=self.by)

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.by


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    """A separate hub, because the page uses well-known names."""
    with hub_of(
        "embedded", folder=tmp_path_factory.mktemp("page"), tools=lambda: pytest.fail("no real hub")
    ) as made:
        yield made


@pytest.fixture(scope="module")
def rights(hub: HubUnderTest) -> dict[frozenset[str], object]:
    """For this hub."""
    return {}


@pytest.fixture
async def joined(client: Client) -> None:
    for name in ("default", "cluster1", "cluster2"):
        try:
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:
            continue
    await client.create(MANAGED_CLUSTER_SETS, cluster_set("default"))
    await client.create(
        MANAGED_CLUSTER_SET_BINDINGS, binding("default", namespace="default"), namespace="default"
    )
    for name in ("cluster1", "cluster2"):
        await client.create(MANAGED_CLUSTERS, cluster(name, member_of="default"))


@pytest.fixture
async def clock(
    hub: HubUnderTest, start: Start, joined: None, tmp_path: Path
) -> AsyncIterator[tuple[Ahead, RunningController]]:
    """With everything at work that the page speaks of."""
    ahead = Ahead()
    (config,) = [piece for piece in pieces(PAGE) if isinstance(piece, Save) and piece.name == "recovery.yaml"]
    (tmp_path / config.name).write_text(config.text)
    policy = configured(Settings(), tmp_path / config.name).recovery

    def recovery(client: Client) -> RecoveryController:
        return RecoveryController(client, meters=Meters(), policy=policy, clock=ahead)

    def bridge(client: Client) -> BridgeController:
        return BridgeController(client, meters=Meters())

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(start())
        await stack.enter_async_context(at_work(hub, bridge, rules=BRIDGE_RULES))
        running = await stack.enter_async_context(at_work(hub, recovery, rules=RULES))
        yield ahead, running


async def test_commands_of_the_recovery_page_work(
    clock: tuple[Ahead, RunningController], hub: HubUnderTest, kube_tools: Tools, tmp_path: Path
) -> None:
    shell = Shell(folder=tmp_path, kubectl=kube_tools.path(KUBECTL), kubeconfig=hub.kubeconfig)
    ahead, recovery = clock
    typed = passed = 0
    for piece in pieces(PAGE):
        match piece:
            case Save(name, text):
                (tmp_path / name).write_text(text)
            case Type(line, shown):
                assert await shell.type(line) == shown, line
                typed += 1
            case Pass(seconds):
                await recovery.settled()  # what was published last lasts from here on
                ahead.by += seconds
                for name in ("cluster1", "cluster2"):  # as their timers would
                    recovery.controller.queue.add(ClusterKey(name))
                await recovery.settled()
                passed += seconds
    assert (typed, passed) == (18, 1200)


def test_recovery_page_has_the_default_policy(tmp_path: Path) -> None:
    (section,) = SECTION.findall((DOCS / "how-to" / "recovery.md").read_text(encoding="utf-8"))
    (tmp_path / "config.yaml").write_text(section)
    assert configured(Settings(), tmp_path / "config.yaml").recovery == RecoveryPolicy()
    assert [line for line in section.splitlines() if "fresh: 5m" in line]


def test_bridge_section_of_the_recovery_page_is_valid(tmp_path: Path) -> None:
    section = next(text for text in SECTION.findall(PAGE.read_text(encoding="utf-8")) if "bridge:" in text)
    (tmp_path / "config.yaml").write_text(section)
    assert configured(Settings(), tmp_path / "config.yaml").bridge == BridgeOptions(
        ranges={"resourceratiocpu": Range(low=0, high=100)}, names={"resourceratiocpu": "ResourceRatioCPU"}
    )
