"""Reconcilers: keys without anything to do hold the loop for a short time only, however many there are."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.controllers.runtime.reconciler import Key, Reconciler
from fairway.observe.meters import Meters
from kubewire.client import Client, Connection
from loop.clocks import SlowClock
from loop.steps import CLUSTERS, check_bounded, longest_callback


class Idle(Reconciler[Key]):
    """Reconciles objects that are all up to date."""

    name = "idle"

    def __init__(self, count: int) -> None:
        hub = Client(Connection(server="https://hub"))
        super().__init__(hub, meters=Meters(), workers=1, clock=SlowClock())
        self.count = count

    def watch(self, informers: InformerFactory) -> None:
        del informers

    def keys(self) -> Iterator[Key]:
        return (("", f"c{number}") for number in range(self.count))

    async def reconcile(self, key: Key, /) -> None:
        del key


async def start(count: int) -> None:
    idle = Idle(count)
    work = asyncio.create_task(idle.run(ALONE))
    await asyncio.sleep(0)
    await idle.quiet()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


def test_keys_without_work_are_queued_and_reconciled_in_slices() -> None:
    check_bounded(lambda count: longest_callback(start(count)), sizes=(200, 800), limit=CLUSTERS)
