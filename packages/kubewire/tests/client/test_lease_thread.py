"""A leader whose event loop is busy: its Lease is renewed all the same, until it must be taken for dead."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from client.fake_lease import FakeLease

from kubewire.api.lease import Lease
from kubewire.client import Connection, Elector, Fence, LeaseThread, Timing
from kubewire.client.fence import Lost
from kubewire.client.leader import STUCK, TAKEN

QUICK = Timing(lease=60, renew=30.0, retry=0.01)
LIMIT = 60.0
"""Seconds that a failing test waits."""


class Store:
    """A LeaseStore that counts renewals, and lets a thread wait for a number of them."""

    def __init__(self) -> None:
        self.hub, self.renewals = FakeLease(), threading.Semaphore(0)

    async def read(self) -> Lease:
        return self.hub.read()

    async def create(self, spec: Mapping[str, Any]) -> Lease:
        return self.hub.create(spec)

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        answer = self.hub.patch(spec, resource_version)
        self.renewals.release()
        return answer

    def block_until_renewed(self, count: int) -> None:
        """Without letting the event loop turn."""
        for _ in range(count):
            assert self.renewals.acquire(timeout=LIMIT)


def block_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(LIMIT / 0.001)):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("did not happen")


@asynccontextmanager
async def leading(store: Store, timing: Timing) -> AsyncIterator[Fence]:
    begun: asyncio.Future[Fence] = asyncio.get_running_loop().create_future()

    async def work(fence: Fence) -> None:
        begun.set_result(fence)
        await asyncio.Event().wait()

    async with LeaseThread(Connection(server="https://hub.example"), field_manager="test") as thread:
        elector = Elector(store, identity="a", timing=timing, on_started=work, runner=thread)
        running = asyncio.create_task(elector.run())
        try:
            yield await begun
        finally:
            elector.stop()
            running.cancel()
            await asyncio.wait([running])


async def test_lease_is_renewed_while_the_event_loop_is_busy() -> None:
    store = Store()
    async with leading(store, QUICK) as fence:
        store.block_until_renewed(20)
        fence.ensure()
    assert store.hub.holder is None  # given back


async def test_lease_is_not_renewed_while_the_event_loop_is_stuck() -> None:
    store, timing = Store(), Timing(lease=60, renew=30.0, retry=0.01, stuck=0.1)
    async with leading(store, timing) as fence:
        block_until(lambda: bool(fence.ended))
        assert fence.ended == STUCK.format(seconds=0.1)
        with pytest.raises(Lost):
            fence.ensure()
        assert store.hub.holder == "a"  # others wait for its time to pass, in case a write is on its way


async def test_lost_lease_is_detected_while_the_event_loop_is_blocked() -> None:
    store = Store()
    async with leading(store, QUICK) as fence:
        store.block_until_renewed(1)
        store.hub.edit(holderIdentity="b", leaseTransitions=7)
        block_until(lambda: not fence.valid)
        with pytest.raises(Lost, match=TAKEN.format(holder="b")):
            fence.ensure()


async def test_guarded_block_is_cancelled_when_the_thread_finds_the_lease_taken() -> None:
    store = Store()
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(_: Fence) -> None:
        begun.set_result(None)
        await asyncio.Event().wait()

    async with LeaseThread(Connection(server="https://hub.example"), field_manager="test") as thread:
        elector = Elector(store, identity="a", timing=QUICK, on_started=work, runner=thread)
        running = asyncio.create_task(elector.run())
        await begun

        async def hold() -> None:
            async with elector.guard():
                store.hub.edit(holderIdentity="b", leaseTransitions=7)
                await asyncio.Event().wait()

        with pytest.raises(Lost):
            await hold()
        elector.stop()
        await running
