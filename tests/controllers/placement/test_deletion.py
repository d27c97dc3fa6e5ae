"""What becomes of decisions when their placement goes."""

import asyncio
from contextlib import suppress

import pytest

from controllers.conftest import Start
from controllers.figures import wakes
from controllers.world import World
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import ALONE
from fairway.controllers.manager import Manager
from fairway.controllers.placement.controller import PlacementController
from fairway.kube import PLACEMENT_DECISIONS, PLACEMENTS, Client, NotFound, Recorder
from fairway.kube.events import Api, HubEvents
from fairway.kube.request_options import Propagation
from fairway.observe.meters import Meters
from rigs.processes import POLL

NOBODY = {
    "apiVersion": "cluster.open-cluster-management.io/v1beta1",
    "kind": "Placement",
    "name": "nobody",
    "uid": "00000000-0000-0000-0000-000000000000",
}


async def collector_caught_up(world: World) -> None:
    """The hub's garbage collector knows the decisions that are there once it has dealt with one that came later.

    Of those that it does not know yet it makes no orphans: it removes them when their owner is gone.
    """
    room = await world.room("stray")
    stray = {"metadata": {"name": "stray", "ownerReferences": [NOBODY]}}
    await world.create(PLACEMENT_DECISIONS, stray, namespace=room)
    with suppress(NotFound):
        while await world.client.get(PLACEMENT_DECISIONS, "stray", namespace=room):
            await asyncio.sleep(POLL)


@pytest.mark.parametrize("how", ["Background", "Foreground"])
async def test_decisions_go_with_their_placement(manager: Manager, world: World, how: Propagation) -> None:
    await world.clusters("a")
    await world.place()
    await world.chooses("p", "a")
    await world.delete(PLACEMENTS, "p", namespace=world.namespace, propagation=how)
    await world.eventually(lambda: world.placement("p") is None and not world.decisions("p"))
    await world.settled(manager)
    assert await world.versions() == {}


async def test_decisions_that_are_orphaned_stay_and_nobody_cares_for_them(
    manager: Manager, world: World
) -> None:
    await world.clusters("a")
    await world.place()
    await world.chooses("p", "a")
    await collector_caught_up(world)
    await world.delete(PLACEMENTS, "p", namespace=world.namespace, propagation="Orphan")
    await world.eventually(lambda: world.placement("p") is None)
    await world.settled(manager)
    before = wakes(manager)
    changed = await world.overwrite("p-decision-1")
    await world.after(manager, PLACEMENT_DECISIONS, changed)
    assert wakes(manager) == before
    assert world.pages("p") == {"p-decision-1": ()}


async def test_a_placement_that_is_made_again_has_a_decision_of_its_own(
    manager: Manager, world: World
) -> None:
    await world.clusters("a")
    await world.place()
    await world.chooses("p", "a")
    await world.delete(PLACEMENTS, "p")
    again = await world.place()

    def owned() -> bool:
        owners = [owner.uid for each in world.decisions("p") for owner in each.metadata.ownerReferences]
        return owners == [again.metadata.uid] and world.chosen("p") == ["a"]

    await world.eventually(owned)
    await world.chooses("p", "a")


async def test_one_takes_over_what_was_orphaned(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.place()
    await world.chooses("p", "a", "b")
    await collector_caught_up(world)
    await world.delete(PLACEMENTS, "p", namespace=world.namespace, propagation="Orphan")
    await world.eventually(lambda: world.placement("p") is None)
    (orphan,) = world.decisions("p")
    again = await world.place()
    await world.chooses("p", "a", "b")
    await world.eventually(
        lambda: (
            [owner.uid for owner in world.decisions("p")[0].metadata.ownerReferences] == [again.metadata.uid]
        )
    )
    assert world.decisions("p")[0].metadata.uid == orphan.metadata.uid
    assert all("a" in pages["p-decision-1"] for pages in world.history if len(pages["p-decision-1"]) > 0)


@pytest.mark.parametrize("gone", [True, False])
async def test_a_decision_gets_no_owner_that_is_leaving(
    start: Start, client: Client, world: World, gone: bool
) -> None:
    """Who has heard that a decision lost its owner, but not why, asks the hub."""
    await world.clusters("a")
    async with start() as manager:
        await world.place()
        await world.chooses("p", "a")
        await world.settled(manager)
    if not gone:
        held = {"metadata": {"finalizers": ["fairway.dev/wait"]}}
        await world.edit(PLACEMENTS, "p", held, namespace=world.namespace)
    orphaned = {"metadata": {"ownerReferences": None}}
    await world.edit(PLACEMENT_DECISIONS, "p-decision-1", orphaned, namespace=world.namespace)
    informers = InformerFactory(client)
    async with Recorder(HubEvents(client), component="test", api=Api.EVENTS) as recorder:
        controller = PlacementController(client, meters=Meters(), recorder=recorder, resync=0)
        controller.watch(informers)
        async with informers:
            await informers.synced()
        # Nothing more is told to it.
        await world.delete(PLACEMENTS, "p")
        owner = (world.namespace, "p")
        assert controller.queue.pop(owner) == owner
        session = controller.decide(owner)
        assert session is not None
        await controller.write(session, ALONE)
        explanation = controller.queue.explain(owner)
        assert explanation is not None
        assert explanation.reasons == ("placement p is being deleted",)
    left = await client.get(PLACEMENT_DECISIONS, "p-decision-1", namespace=world.namespace)
    assert left.metadata.ownerReferences == ()
    if not gone:
        await world.edit(PLACEMENTS, "p", {"metadata": {"finalizers": None}}, namespace=world.namespace)


async def test_while_it_is_being_deleted_nothing_happens(manager: Manager, world: World) -> None:
    """Somebody holds it up; decisions are left as they are until it is gone."""
    await world.clusters("a")
    await world.place()
    await world.chooses("p", "a")
    held = {"metadata": {"finalizers": ["fairway.dev/wait"]}}
    await world.after(manager, PLACEMENTS, await world.edit(PLACEMENTS, "p", held, namespace=world.namespace))
    await world.delete(PLACEMENTS, "p")
    await world.eventually(
        lambda: (found := world.placement("p")) is not None and found.metadata.deletionTimestamp is not None
    )
    leaving = world.placement("p")
    assert leaving is not None
    await world.after(manager, PLACEMENTS, leaving)
    await world.clusters("b")
    await world.after(manager, PLACEMENT_DECISIONS, await world.overwrite("p-decision-1"))
    assert world.pages("p") == {"p-decision-1": ()}
    await world.edit(PLACEMENTS, "p", {"metadata": {"finalizers": None}}, namespace=world.namespace)
    await world.eventually(lambda: not world.decisions("p"))
