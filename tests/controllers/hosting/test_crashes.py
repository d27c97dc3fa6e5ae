"""The hosting controller is killed at every one of its writes, before and after the hub carried it out."""

import asyncio

import pytest

from controllers.hosting.hosting_hub import HostingHub, controlling, living
from fairway.api.hosted_request import CONFIRMED

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

MOST_WRITES = 40


def hub_with_requests() -> HostingHub:
    hub = HostingHub()
    for name in ("h1", "h2"):
        hub.host(name)
    hub.policy(maxPerHost=2, reservationTimeout="5m")
    hub.secret("pull", "c2VjcmV0")
    return hub


async def play(hub: HostingHub) -> None:
    """Three requests come, and one of them goes."""
    for name in ("a", "b", "c"):
        if not hub.has(name) and name not in hub.gone:
            hub.ask(name, secrets=[{"name": "pull"}])
    await hub.until(lambda: hub.dead or all(hub.phase(name) == CONFIRMED for name in ("b", "c")))
    if not hub.dead and "a" not in hub.gone:
        await hub.until(lambda: hub.dead or hub.phase("a") == CONFIRMED)
    if not hub.dead:
        hub.withdraw("a")
        hub.gone.add("a")
        await hub.until(lambda: hub.dead or not hub.has("a"))


async def killed_at(write: int, *, carried_out: bool) -> HostingHub:
    hub = hub_with_requests()
    hub.kill_at = (write, carried_out)
    async with living(hub):
        async with controlling(hub):
            await play(hub)
        hub.revive()
        async with controlling(hub):
            await play(hub)
            await asyncio.sleep(60)
    return hub


async def test_controller_that_is_killed_at_any_write_converges_without_loss_or_duplicate() -> None:
    whole = hub_with_requests()
    async with living(whole), controlling(whole):
        await play(whole)
    writes = whole.sent
    assert 10 < writes < MOST_WRITES
    for write in range(1, writes + 1):
        for carried_out in (False, True):
            hub = await killed_at(write, carried_out=carried_out)
            there = sorted(name for hosted in hub.hosted.values() for name in hosted)
            assert there == ["b", "c"], (write, carried_out)
            assert not hub.has("a")
            assert all(len(hosted) <= 2 for hosted in hub.hosted.values())
            assert len(hub.works()) == 2
            for name in ("b", "c"):
                assert hub.hosted[hub.place(name)][name] == hub.request(name).metadata.uid
