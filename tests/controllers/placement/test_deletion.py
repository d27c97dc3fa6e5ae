"""Decisions of deleted placements."""

import asyncio
from contextlib import suppress

import pytest

from controllers.conftest import Start
from controllers.figures import wakes
from controllers.hub_fleet import HubFleet
from controllers.steps.stepwise import carry_out
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.placement.controller import PlacementController
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE, leading
from fairway.observe.meters import Meters
from kubewire.client import Client, NotFound, Recorder
from kubewire.client.events import Api, HubEvents
from kubewire.client.request_options import Propagation
from rigs.processes import POLL

NOBODY = {
    "apiVersion": "cluster.open-cluster-management.io/v1beta1",
    "kind": "Placement",
    "name": "nobody",
    "uid": "00000000-0000-0000-0000-000000000000",
}


async def collector_caught_up(fleet: HubFleet) -> None:
    """Wait until the garbage collector has processed a decision that was created later than the others.

    It deletes decisions that it does not know yet with their owner, instead of orphaning them.
    """
    room = await fleet.create_namespace("stray")
    stray = {"metadata": {"name": "stray", "ownerReferences": [NOBODY]}}
    await fleet.create(PLACEMENT_DECISIONS, stray, namespace=room)
    with suppress(NotFound):
        while await fleet.client.get(PLACEMENT_DECISIONS, "stray", namespace=room):
            await asyncio.sleep(POLL)


@pytest.mark.parametrize("how", ["Background", "Foreground"])
async def test_decisions_are_deleted_with_their_placement(
    manager: Manager, fleet: HubFleet, how: Propagation
) -> None:
    await fleet.clusters("a")
    await fleet.place()
    await fleet.chooses("p", "a")
    await fleet.delete(PLACEMENTS, "p", namespace=fleet.namespace, propagation=how)
    await fleet.eventually(lambda: fleet.placement("p") is None and not fleet.decisions("p"))
    await fleet.settled(manager)
    assert await fleet.versions() == {}


async def test_orphaned_decisions_stay_unmanaged(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.place()
    await fleet.chooses("p", "a")
    await collector_caught_up(fleet)
    await fleet.delete(PLACEMENTS, "p", namespace=fleet.namespace, propagation="Orphan")
    await fleet.eventually(lambda: fleet.placement("p") is None)
    await fleet.settled(manager)
    before = wakes(manager)
    changed = await fleet.overwrite("p-decision-1")
    await fleet.after(manager, PLACEMENT_DECISIONS, changed)
    assert wakes(manager) == before
    assert fleet.pages("p") == {"p-decision-1": ()}


async def test_recreated_placement_gets_its_own_decision(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.place()
    await fleet.chooses("p", "a")
    await fleet.delete(PLACEMENTS, "p")
    again = await fleet.place()

    def owned() -> bool:
        owners = [owner.uid for page in fleet.decisions("p") for owner in page.metadata.ownerReferences]
        return owners == [again.metadata.uid] and fleet.chosen("p") == ["a"]

    await fleet.eventually(owned)
    await fleet.chooses("p", "a")


async def test_recreated_placement_adopts_orphaned_decisions(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    await collector_caught_up(fleet)
    await fleet.delete(PLACEMENTS, "p", namespace=fleet.namespace, propagation="Orphan")
    await fleet.eventually(lambda: fleet.placement("p") is None)
    (orphan,) = fleet.decisions("p")
    again = await fleet.place()
    await fleet.chooses("p", "a", "b")
    await fleet.eventually(
        lambda: (
            [owner.uid for owner in fleet.decisions("p")[0].metadata.ownerReferences] == [again.metadata.uid]
        )
    )
    assert fleet.decisions("p")[0].metadata.uid == orphan.metadata.uid
    assert all("a" in pages["p-decision-1"] for pages in fleet.history if len(pages["p-decision-1"]) > 0)


@pytest.mark.parametrize("gone", [True, False])
async def test_decision_gets_no_owner_that_is_being_deleted(
    start: Start, client: Client, fleet: HubFleet, gone: bool
) -> None:
    """A controller that sees a decision without owner checks the placement on the hub first."""
    await fleet.clusters("a")
    async with start() as manager:
        await fleet.place()
        await fleet.chooses("p", "a")
        await fleet.settled(manager)
    if not gone:
        held = {"metadata": {"finalizers": ["fairway.dev/wait"]}}
        await fleet.edit(PLACEMENTS, "p", held, namespace=fleet.namespace)
    orphaned = {"metadata": {"ownerReferences": None}}
    await fleet.edit(PLACEMENT_DECISIONS, "p-decision-1", orphaned, namespace=fleet.namespace)
    informers = InformerFactory(client)
    async with Recorder(HubEvents(client), component="test", api=Api.EVENTS) as recorder:
        controller = PlacementController(client, meters=Meters(), recorder=recorder, resync=0)
        controller.watch(informers)
        async with informers:
            await informers.synced()
        # It gets no more events.
        await fleet.delete(PLACEMENTS, "p")
        owner = (fleet.namespace, "p")
        assert controller.queue.pop(owner) == owner
        instructions = controller.scheduler.attempt(owner)
        assert instructions
        with leading(ALONE):
            await carry_out(controller.scheduler, instructions)
        explanation = controller.queue.explain(owner)
        assert explanation is not None
        assert explanation.reasons == ("placement p is being deleted",)
    left = await client.get(PLACEMENT_DECISIONS, "p-decision-1", namespace=fleet.namespace)
    assert left.metadata.ownerReferences == ()
    if not gone:
        await fleet.edit(PLACEMENTS, "p", {"metadata": {"finalizers": None}}, namespace=fleet.namespace)


async def test_placement_being_deleted_is_not_written(manager: Manager, fleet: HubFleet) -> None:
    """A finalizer delays the deletion."""
    await fleet.clusters("a")
    await fleet.place()
    await fleet.chooses("p", "a")
    held = {"metadata": {"finalizers": ["fairway.dev/wait"]}}
    await fleet.after(manager, PLACEMENTS, await fleet.edit(PLACEMENTS, "p", held, namespace=fleet.namespace))
    await fleet.delete(PLACEMENTS, "p")
    await fleet.eventually(
        lambda: (
            (placement := fleet.placement("p")) is not None
            and placement.metadata.deletionTimestamp is not None
        )
    )
    leaving = fleet.placement("p")
    assert leaving is not None
    await fleet.after(manager, PLACEMENTS, leaving)
    await fleet.clusters("b")
    await fleet.after(manager, PLACEMENT_DECISIONS, await fleet.overwrite("p-decision-1"))
    assert fleet.pages("p") == {"p-decision-1": ()}
    await fleet.edit(PLACEMENTS, "p", {"metadata": {"finalizers": None}}, namespace=fleet.namespace)
    await fleet.eventually(lambda: not fleet.decisions("p"))
