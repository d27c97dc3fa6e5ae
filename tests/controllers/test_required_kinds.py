"""Which kinds a process waits for before its controllers start."""

import asyncio
import logging

import pytest

from controllers.hubs import HubUnderTest
from fairway.api import crds
from fairway.controllers import required_kinds
from fairway.controllers.controller_factory import ControllerFactory
from fairway.controllers.kinds import DEFINITIONS
from fairway.controllers.required_kinds import OPTIONAL, REQUIRED, RequiredKinds
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.optional_kinds import definition_name
from fairway.controllers.settings import ALL, MACHINES, Settings
from fairway.observe.meters import Meters
from fairway.testing.hub import hub_in_thread
from kubewire.client import SYSTEM_CLOCK, Client
from rigs.processes import POLL
from rigs.waiting import DEADLINE

CUSTOM = {definition["metadata"]["name"] for definition in crds()}


@pytest.mark.embedded
@pytest.mark.parametrize("controller", sorted(ALL - {MACHINES}))
async def test_required_and_optional_kinds_are_those_that_a_controller_reads(
    hub: HubUnderTest, controller: str
) -> None:
    async with Client(hub.administrator) as client:
        informers = InformerFactory(client)
        settings = Settings(controllers=frozenset({controller}))
        factory = ControllerFactory(settings, client=client, meters=Meters(), clock=SYSTEM_CLOCK)
        async with factory:
            for created in (await factory.create()).values():
                created.watch(informers)
        read = {informer.resource for informer in informers.all}
    wanted = {*REQUIRED.get(controller, ()), *OPTIONAL.get(controller, ())}
    assert {definition_name(kind) for kind in read} & CUSTOM == {definition_name(kind) for kind in wanted}


async def test_wait_ends_after_the_definitions_that_come_together(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(required_kinds, "POLL_SECONDS", POLL)
    # Longer than the test waits: only the last definition ends it.
    monkeypatch.setattr(required_kinds, "SETTLE_SECONDS", 2 * DEADLINE)
    caplog.set_level(logging.ERROR, "fairway.controllers")
    with hub_in_thread(folder=tmp_path_factory.mktemp("hub"), definitions=()) as hub:
        async with Client.from_kubeconfig(hub.kubeconfig) as client:
            kinds = RequiredKinds(client, ALL)
            await kinds.find_missing()
            required = {definition_name(kind) for needed in REQUIRED.values() for kind in needed}
            assert kinds.unready() == [f"the hub does not serve {name}" for name in sorted(required)]
            (record,) = caplog.records
            assert "\n" not in record.getMessage()
            assert all(name in record.getMessage() for name in required)
            assert "fairway crds | kubectl apply -f -" in record.getMessage()
            waiting = asyncio.create_task(kinds.wait())
            definitions = crds()
            optional = {definition_name(kind) for read in OPTIONAL.values() for kind in read}
            last = next(one for one in definitions if one["metadata"]["name"] in optional)
            for definition in definitions:
                if definition is not last:
                    await client.create(DEFINITIONS, definition)
            async with asyncio.timeout(DEADLINE):
                while kinds.missing:
                    await asyncio.sleep(POLL)
                assert not waiting.done()
                await client.create(DEFINITIONS, last)
                await waiting
            assert kinds.unready() == []
