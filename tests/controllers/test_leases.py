"""Processes that run different controllers on one hub."""

import asyncio

import pytest

from controllers.conftest import Start
from fairway.controllers.manager import Manager
from fairway.controllers.settings import (
    ACCEPTANCE,
    ALL,
    HOSTING,
    LEASE,
    PLACEMENT,
    RECOVERY,
    Settings,
    lease_of,
)

POLL = 0.02


def elected(*controllers: str) -> Settings:
    return Settings(controllers=frozenset(controllers), event_updates=0)


async def leads(manager: Manager, lease: str) -> None:
    while not manager.leading.get(lease):
        await asyncio.sleep(POLL)


@pytest.mark.embedded
async def test_process_with_hosting_leads_beside_the_process_with_the_other_controllers(start: Start) -> None:
    async with start(elected(ACCEPTANCE)) as usual:
        await leads(usual, LEASE)
        async with start(elected(HOSTING)) as further:
            await leads(further, lease_of(HOSTING))
            assert usual.leading == {LEASE: True}
            assert further.leading == {lease_of(HOSTING): True}


@pytest.mark.embedded
async def test_process_with_several_controllers_leads_with_all_of_their_leases(start: Start) -> None:
    async with start(elected(ACCEPTANCE, RECOVERY, HOSTING)) as manager:
        for lease in (LEASE, lease_of(RECOVERY), lease_of(HOSTING)):
            await leads(manager, lease)


def test_leases_of_controllers_differ_from_those_of_shards() -> None:
    leases = {lease_of(name) for name in ALL - {PLACEMENT}}
    assert LEASE in leases
    assert not [lease for lease in leases if lease.startswith("fairway-placement")]
