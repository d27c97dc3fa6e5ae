"""A term begins with many pods: the event loop serves other tasks meanwhile, and changes are not lost."""

import asyncio

import pytest

from clocks import LoopClock
from controllers.pods.pod_hub import PodHub, scheduling
from fairway.controllers.runtime.slicing import SLICE_SECONDS
from fairway.hosts.steps import STRIDE

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

STRIDES = 8


class BusyClock(LoopClock):
    """Each step takes a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = 0.0

    def monotonic(self) -> float:
        self.busy += SLICE_SECONDS
        return super().monotonic() + self.busy


async def test_term_that_begins_yields_and_then_shows_what_changed_meanwhile() -> None:
    hub = PodHub()
    hub.node("n1", cpu="4", pods=2 * STRIDES * STRIDE, labels={"disk": "ssd"})
    hub.pod("big", cpu="3", node="n1", scheduler="default-scheduler")
    for at in range(STRIDES * STRIDE):
        hub.pod(f"small-{at}", cpu="0", node="n1", scheduler="default-scheduler")
    hub.pod("early", cpu="2", nodeSelector={"disk": "ssd"})
    async with scheduling(hub, clock=BusyClock()):
        for _ in range(STRIDES // 2):
            await asyncio.sleep(0)  # a turn: half of the strides of the pods
        assert hub.condition("early") == ("", "", "")
        hub.end("big")
        hub.node("n2", cpu="8")
        hub.pod("late", cpu="8")
        await hub.until(lambda: bool(hub.place("early") and hub.place("late")))
    assert hub.place("late") == "n2"
    assert hub.place("early") == "n1"
    assert [verb for verb, _ in hub.writes] == ["create", "create"]  # neither pod was rejected first
