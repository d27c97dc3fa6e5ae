"""A term of leadership that several controllers share, seen from within one process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from controllers.hubs import HubUnderTest
from fairway.controllers.manager import Manager
from fairway.controllers.runtime import reconciler
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE, current_leadership
from fairway.controllers.runtime.reconciler import Key, Reconciler
from fairway.controllers.settings import Settings
from fairway.observe.meters import Meters
from kubewire.client import SYSTEM_CLOCK, Client
from kubewire.client.fence import Lost, Unconfirmed

pytestmark = pytest.mark.embedded


class Counting(Reconciler[Key]):
    """Does a batch for each key, and counts those it could do."""

    name: ClassVar[str] = "counting"

    def __init__(self, client: Client) -> None:
        super().__init__(client, meters=Meters(), workers=2)
        self.done = 0
        self.running = 0

    def watch(self, informers: InformerFactory) -> None: ...

    def keys(self) -> Iterable[Key]:
        return ()

    async def reconcile(self, key: Key) -> None:
        async with current_leadership().batch():
            self.done += 1

    async def work(self) -> None:
        self.running += 1
        try:
            await super().work()
        finally:
            self.running -= 1


class Doubtful:
    """A term that raises what it was given, once each."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        if self._errors:
            raise self._errors.pop(0)
        yield

    def ensure(self) -> None: ...


@pytest.fixture
async def client(hub: HubUnderTest) -> AsyncIterator[Client]:
    async with Client(hub.administrator) as opened:
        yield opened


async def test_unconfirmed_lease_is_not_an_unexpected_error(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The hub did not answer in time. The term may still run, and the batch is tried again."""
    counting = Counting(client)
    counting.queue.add(("", "a"))
    working = asyncio.create_task(counting.run(Doubtful(Unconfirmed("no answer"))))
    async with asyncio.timeout(120):
        while not counting.done:
            await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    # The shared hub in this process may log about other tests.
    said = [record for record in caplog.records if record.name == reconciler.__name__]
    assert [record.levelno for record in said] == [logging.WARNING]
    assert "no answer" in said[0].getMessage()


async def test_all_workers_stop_when_one_finds_the_term_lost(client: Client) -> None:
    """Otherwise the workers of an old term would take keys from those of the next, only to find that they must not."""
    first, second = Counting(client), Counting(client)
    informers = InformerFactory(client)
    manager = Manager(
        Settings(),
        informers=informers,
        controllers={"first": first, "second": second},
        meters=Meters(),
        leases=None,
        client=client,
        clock=SYSTEM_CLOCK,
    )
    first.queue.add(("", "a"))
    async with asyncio.timeout(120):
        with pytest.raises(Lost, match="taken"):
            await manager._work("lease", [first, second], Doubtful(Lost("taken by another")))
    assert (first.running, second.running) == (0, 0)
    assert manager.leading == {"lease": False}

    # The next term finds what was left undone.
    working = asyncio.create_task(manager._work("lease", [first, second], ALONE))
    async with asyncio.timeout(120):
        while not first.done:
            await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
