"""OCM's own placement controller, where there is one: Fairway steps back, and as its shadow finds no difference.

The variable names the program, ``placement`` as OCM builds it. Where it is not set there is nothing to compare with.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from controllers.conftest import ALONE, Start
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.shadow import variety
from fairway.api.placement import Placement
from fairway.api.resources import PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.placement.shadow import Shadow
from kubewire.client import AlreadyExists, Client, NotFound
from kubewire.client.lease import LEASES
from rigs.processes import LOOPBACK, POLL, Port, Process

PROGRAM = "FAIRWAY_OCM_PLACEMENT"
COUNT = 60
ROUNDS = 4
DEADLINE = 120.0
pytestmark = pytest.mark.skipif(PROGRAM not in os.environ, reason=f"{PROGRAM} names no program")


async def same(manager: Manager, shadow: Shadow, *, since: Placement) -> None:
    """Wait until the shadow has observed these writes and finds no difference."""
    informer, version = manager.informers.of(PLACEMENTS), int(since.metadata.resourceVersion)
    try:
        async with asyncio.timeout(DEADLINE):
            while int(informer.resource_version) < version or shadow.queue.busy or shadow.differences:
                await asyncio.sleep(POLL)
    except TimeoutError:
        pytest.fail(f"waited in vain: {shadow.differences}")


@pytest.fixture
async def reference(hub: HubUnderTest, client: Client, tmp_path: Path) -> AsyncIterator[Process]:
    """At work: it holds its Lease."""
    with suppress(AlreadyExists):
        await client.request(
            "POST", "/api/v1/namespaces", body={"metadata": {"name": ocm_detection.NAMESPACE}}
        )
    with Port() as port:
        process = Process(
            [
                Path(os.environ[PROGRAM]),
                "controller",
                f"--kubeconfig={hub.kubeconfig}",
                f"--namespace={ocm_detection.NAMESPACE}",
                f"--listen={LOOPBACK}:{port}",
            ],
            log=tmp_path / "ocm.log",
            env={"POD_NAME": "ocm", "HOME": str(tmp_path)},
        )
        try:
            async with asyncio.timeout(DEADLINE):
                while not await _held(client):
                    assert process.alive, process.tail()
                    await asyncio.sleep(POLL)
            yield process
        finally:
            await process.stop()
            with suppress(NotFound):
                await client.delete(LEASES, ocm_detection.LEASE, namespace=ocm_detection.NAMESPACE)


async def _held(client: Client) -> bool:
    try:
        lease = await client.get(LEASES, ocm_detection.LEASE, namespace=ocm_detection.NAMESPACE)
    except NotFound:
        return False
    return bool(lease.spec.holderIdentity)


async def test_shadow_agrees_with_the_real_ocm_controller(
    reference: Process, start: Start, fleet: HubFleet, client: Client
) -> None:
    with pytest.raises(OcmControllerRunning, match=ocm_detection.LEASE):
        async with start():
            pytest.fail("it started")

    chance = random.Random(5)
    await variety.people(fleet, chance=chance)
    names = [f"p{number:02}" for number in range(COUNT)]
    for name, spec in zip(names, variety.specs(chance, COUNT), strict=True):
        await fleet.place(name, spec)
    await fleet.eventually(lambda: all(fleet.status(name).conditions for name in names))
    async with start(replace(ALONE, shadow=True, settle=0.0)) as manager:
        shadow = manager.placement
        assert isinstance(shadow, Shadow)
        for _ in range(ROUNDS):
            await variety.unrest(fleet, chance=chance)
            for name, spec in zip(names, variety.specs(chance, COUNT), strict=True):
                if chance.random() < 0.3:
                    body = {"spec": {**dict.fromkeys(_fields()), **msgspec.to_builtins(spec)}}
                    await fleet.edit(PLACEMENTS, name, body, namespace=fleet.namespace)
            await same(manager, shadow, since=await fleet.touch(names[-1]))
            assert len({len(fleet.chosen(name)) for name in names}) > 5, "they are of many kinds"


def _fields() -> tuple[str, ...]:
    return ("numberOfClusters", "predicates", "prioritizerPolicy", "tolerations", "decisionStrategy")
