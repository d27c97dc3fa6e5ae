"""A standby that leads after a long time."""

import asyncio
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controllers.hub_fleet import HubFleet
from fairway.api.resources import PLACEMENTS
from fairway.controllers.placement import PlacementController
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.observe.meters import Meters
from kubewire.client import SYSTEM_CLOCK, Client

pytestmark = pytest.mark.embedded

HOUR = 3600.0


class Leaping:
    """The machine's clock, and however far a test has let it leap."""

    def __init__(self) -> None:
        self.leapt = 0.0

    def wall(self) -> datetime:
        return SYSTEM_CLOCK.wall()

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.leapt


def reacted(meters: Meters) -> float:
    """Seconds of all reactions together."""
    text = meters.expose().decode()
    (seconds,) = (
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "fairway_reaction_seconds_sum"
    )
    return seconds


async def test_standby_time_does_not_count_as_reaction_time(client: Client, fleet: HubFleet) -> None:
    clock, meters, silent = Leaping(), Meters(), SimpleNamespace(event=lambda *_, **__: True)
    recorder: Any = silent
    controller = PlacementController(client, meters=meters, recorder=recorder, clock=clock)
    namespace = fleet.namespace
    await client.create(PLACEMENTS, {"metadata": {"name": "p"}, "spec": {}}, namespace=namespace)
    informers = InformerFactory(client)
    controller.watch(informers)
    async with informers:
        await informers.synced()
        clock.leapt = HOUR
        work = asyncio.create_task(controller.run(ALONE))
        await controller.quiet()
        assert [*controller.state.decisions_of((namespace, "p"))], "it leads"
        assert reacted(meters) < HOUR
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
