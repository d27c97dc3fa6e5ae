"""The machines controller is killed at every one of its writes, before and after the hub carried it out."""

import asyncio

import pytest

from controllers.pods.pod_hub import PodHub, scheduling
from fairway.workloads.pods.plugins.coscheduling import GROUP_LABEL

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

CONFIG = """
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: fairway
- schedulerName: gang
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
"""
WAITING = ("high", "g1", "g2", "web")


def scene() -> PodHub:
    """Return a hub on which a gang, a preemptor and a pod fit if one of the low pods is evicted."""
    hub = PodHub()
    hub.node("n1", cpu="2", labels={"pool": "old"})
    hub.node("n2", cpu="3", labels={"pool": "new"})
    for name in ("low1", "low2"):
        hub.pod(name, node="n1")
    hub.group("job", members=2, timeout=30)
    return hub


async def play(hub: PodHub) -> None:
    if not hub.has("web"):
        hub.pod("web", nodeSelector={"pool": "new"})
        for name in ("g1", "g2"):
            labels = {GROUP_LABEL: "job"}
            hub.pod(name, scheduler="gang", labels=labels, nodeSelector={"pool": "new"})
        hub.pod("high", priority=10, nodeSelector={"pool": "old"})
        hub.pod("never", cpu="64")
    await hub.until(
        lambda: (
            hub.dead or (all(hub.place(name) for name in WAITING) and hub.condition("never")[0] == "False")
        )
    )


async def killed_at(write: int, *, carried_out: bool) -> PodHub:
    hub = scene()
    hub.kill_at = (write, carried_out)
    async with scheduling(hub, config=CONFIG):
        await play(hub)
    hub.revive()
    async with scheduling(hub, config=CONFIG):
        await play(hub)
        await asyncio.sleep(120)
    return hub


async def test_controller_that_is_killed_at_any_write_converges() -> None:
    whole = scene()
    async with scheduling(whole, config=CONFIG):
        await play(whole)
    writes = whole.sent
    assert writes >= 8
    for write in range(1, writes + 1):
        for carried_out in (False, True):
            hub = await killed_at(write, carried_out=carried_out)
            assert hub.load() == {"n1": 2, "n2": 3}, (write, carried_out)
            assert all(hub.place(name) for name in WAITING), (write, carried_out)
            assert sum(hub.has(name) for name in ("low1", "low2")) == 1, (write, carried_out)
            assert hub.condition("never")[:2] == ("False", "Unschedulable"), (write, carried_out)
