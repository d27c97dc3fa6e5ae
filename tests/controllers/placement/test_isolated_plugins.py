"""Plugins in processes of their own, in the placement controller: nothing waits for them but the placements that use
them."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.conftest import ALONE, Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.settings import PLACEMENT
from fairway.scheduling import Scheduling, Supervisor, Watchdog, load
from fairway.testing.builders import builtin, policy
from fairway.workloads.placement.events import KEPT, PLUGIN_FAULT
from fairway.workloads.placement.profile import PLACEMENT_KIND
from metric_values import values

pytestmark = pytest.mark.embedded

PLUGIN = """
import re
from fairway.engine.points import Reads, Timeless
from fairway.engine.status import OK

PRICE = ("label", "price")


class Cheapest(Timeless):
    name = "Cheapest"

    def pre_score(self, context, rows):
        if context.workload.name == "stuck":
            open(__file__ + ".stuck", "w").close()
            re.match("(a+)+$", "a" * 60 + "b")
        return OK

    def score(self, context, row):
        return -int(context.snapshot.codes(PRICE).value(row) or 0)

    def reads(self, context):
        return Reads(cells=frozenset({PRICE}))
"""
CONFIGURATION = """
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
pluginFiles: [cheapest.py]
profiles:
- pluginConfig: [{name: Cheapest, isolation: process}]
"""
BY_PRICE = PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy(builtin("Cheapest"), mode="Exact"))

Run = Callable[[], AbstractAsyncContextManager[Manager]]


@pytest.fixture
def scheduling(tmp_path: Path) -> Scheduling:
    (tmp_path / "cheapest.py").write_text(PLUGIN)
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    supervisor = Supervisor(clock=lambda: 0.0, watch=Watchdog(limit=60))
    return load(tmp_path / "scheduler.yaml", kind=PLACEMENT_KIND, supervisor=supervisor)


@pytest.fixture
def run(start: Start, scheduling: Scheduling) -> Run:
    return lambda: start(replace(ALONE, scheduling=(scheduling,)))


def worker_of(scheduling: Scheduling) -> Any:
    plugin: Any = scheduling.profile.scorers.registered["Cheapest"]
    return plugin._worker


@pytest.fixture
def stuck(tmp_path: Path) -> Callable[[], Awaitable[str]]:
    """Wait until the plugin is in the endless loop: it opens a pipe before."""
    pipe = tmp_path / "cheapest.py.stuck"
    os.mkfifo(pipe)
    return lambda: asyncio.to_thread(pipe.read_text)


Stuck = Callable[[], Awaitable[str]]


async def test_isolated_plugin_ranks_and_wakes_its_placements(
    run: Run, fleet: HubFleet, scheduling: Scheduling
) -> None:
    async with run() as manager:
        await fleet.cluster("a", labels={"price": "9"})
        await fleet.cluster("b", labels={"price": "3"})
        await fleet.place("p", BY_PRICE)
        await fleet.place("q", PlacementSpec(numberOfClusters=1))
        await fleet.chooses("p", "b")
        await fleet.chooses("q", "a")
        await fleet.change_cluster("a", labels={"price": "1"})
        await fleet.chooses("p", "a")
        pid = worker_of(scheduling).pid
        await fleet.cluster("c", labels={"price": "0"})
        await fleet.chooses("p", "c")
        assert worker_of(scheduling).pid == pid
        controller: Any = manager.controllers[PLACEMENT]
        outcome = await controller.inspect(controller.find(fleet.namespace, "p"))
        assert outcome.selected == [fleet.name("c")]


async def test_shadow_waits_for_isolated_plugins(
    start: Start, fleet: HubFleet, scheduling: Scheduling
) -> None:
    await fleet.cluster("a", labels={"price": "9"})
    await fleet.cluster("b", labels={"price": "3"})
    async with start(replace(ALONE, shadow=True, settle=0.0, scheduling=(scheduling,))) as manager:
        await fleet.place("p", BY_PRICE)
        await manager.quiet()
        shadow: Any = manager.controllers[PLACEMENT]
        assert "expected" in shadow.differences[fleet.namespace, "p"][0]


async def test_others_are_decided_while_a_plugin_is_stuck_in_native_code(
    run: Run, fleet: HubFleet, scheduling: Scheduling, stuck: Stuck
) -> None:
    async with run() as manager:
        await fleet.clusters("a")
        await fleet.place("good", BY_PRICE)
        await fleet.chooses("good", "a")
        await fleet.place("stuck", BY_PRICE)
        await stuck()
        await fleet.place("other")
        await fleet.chooses("other", "a")
        assert not fleet.decisions("stuck")
        controller: Any = manager.controllers[PLACEMENT]
        waits = controller.describe_queue(fleet.namespace, "stuck")
        assert waits["reasons"] == ["waits for the process of plugin Cheapest"]
        os.kill(worker_of(scheduling).pid, signal.SIGKILL)
        reason = "plugin Cheapest at PreScore ended by SIGKILL"
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT, about="stuck")))
        assert fleet.events(PLUGIN_FAULT, about="stuck")[0].note == KEPT.format(fault=reason)
        await fleet.eventually(lambda: fleet.condition("stuck")[2] == reason)
        assert fleet.chosen("good") == ["a"]
        counted = values(manager.meters.expose())
        assert counted['fairway_plugin_faults_total{plugin="Cheapest",point="PreScore"}'] == 1


async def test_controller_stops_while_a_plugin_is_stuck(
    run: Run, fleet: HubFleet, scheduling: Scheduling, stuck: Stuck
) -> None:
    async with run():
        await fleet.clusters("a")
        await fleet.place("stuck", BY_PRICE)
        await stuck()
    assert worker_of(scheduling).pid is None


async def test_placement_that_is_deleted_and_created_again_meanwhile_is_decided(
    run: Run, fleet: HubFleet, stuck: Stuck
) -> None:
    async with run():
        await fleet.clusters("a")
        await fleet.place("stuck", BY_PRICE)
        await stuck()
        await fleet.delete(PLACEMENTS, "stuck", namespace=fleet.namespace)
        await fleet.place("stuck")
        await fleet.chooses("stuck", "a")
