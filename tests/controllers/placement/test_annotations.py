"""Placements that are left alone, and those that keep what they have when something is wrong with them."""

from typing import Any

import pytest

from controllers.figures import writes
from controllers.world import World
from fairway.api.placement import SCHEDULING_DISABLED_ANNOTATION, PlacementStatus
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS, PLACEMENT_DECISIONS, PLACEMENTS
from fairway.placement.conditions import MISCONFIGURED
from fairway.placement.reconcile_plan import KEEP, ON_MISCONFIGURATION

pytestmark = pytest.mark.embedded

DISABLED = {SCHEDULING_DISABLED_ANNOTATION: "true"}
WRONG = [{"key": "gpu", "operator": "Exists", "value": "big"}]


async def test_a_disabled_placement_is_not_touched(manager: Manager, world: World) -> None:
    await world.clusters("a")
    made = await world.place("p", annotations=DISABLED)
    await world.after(manager, PLACEMENTS, made)
    assert world.status("p") == PlacementStatus()
    assert world.decisions("p") == []
    assert not writes(manager)


async def test_disabling_freezes_what_is_there(manager: Manager, world: World) -> None:
    """Nothing is created, updated or deleted, whatever happens, until it is enabled again."""
    await world.clusters("a", "b")
    await world.place()
    await world.chooses("p", "a", "b")
    frozen = await annotate(world, **DISABLED)
    await world.after(manager, PLACEMENTS, frozen)
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.settled(manager)
    assert world.chosen("p") == ["a", "b"]
    await world.delete(PLACEMENT_DECISIONS, "p-decision-1")
    await world.settled(manager)
    assert world.decisions("p") == []
    await annotate(world, **{SCHEDULING_DISABLED_ANNOTATION: None})
    await world.chooses("p", "b")


@pytest.mark.parametrize("value", ["false", "True", "yes", ""])
async def test_only_true_disables(manager: Manager, world: World, value: str) -> None:
    await world.clusters("a")
    await world.place("p", annotations={SCHEDULING_DISABLED_ANNOTATION: value})
    await world.chooses("p", "a")


async def test_a_misconfigured_placement_loses_its_decision(manager: Manager, world: World) -> None:
    """As in OCM, unless it asks for something else."""
    await world.clusters("a")
    await world.place("p", annotations={ON_MISCONFIGURATION: "evict"})
    await world.chooses("p", "a")
    await world.replace("p", tolerations=WRONG)
    await world.chooses("p")
    assert world.mistake("p")


async def test_one_that_asks_for_it_keeps_its_decision(manager: Manager, world: World) -> None:
    """Its status goes on telling what is decided, and what is wrong; once mended it goes on from there."""
    await world.clusters("a", "b")
    await world.place("p", annotations={ON_MISCONFIGURATION: KEEP})
    await world.chooses("p", "a", "b")
    (before,) = world.decisions("p")
    groups = world.status("p").decisionGroups
    await world.replace("p", tolerations=WRONG)
    await world.eventually(lambda: bool(world.mistake("p")))
    await world.clusters("c")
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.settled(manager)
    (kept,) = world.decisions("p")
    assert kept.metadata.resourceVersion == before.metadata.resourceVersion
    assert world.status("p").numberOfSelectedClusters == 2
    assert world.status("p").decisionGroups == groups
    assert world.condition("p", MISCONFIGURED)[:2] == ("True", "Misconfigured")
    await world.replace("p", tolerations=[])
    await world.chooses("p", "b", "c")
    await world.eventually(lambda: not world.mistake("p"))


async def test_keeping_is_asked_for_too_late(manager: Manager, world: World) -> None:
    """What is gone is gone; the first good decision is kept from then on."""
    await world.clusters("a")
    await world.place()
    await world.replace("p", tolerations=WRONG)
    await world.chooses("p")
    await annotate(world, **{ON_MISCONFIGURATION: KEEP})
    await world.replace("p", tolerations=[])
    await world.chooses("p", "a")
    await world.replace("p", tolerations=WRONG)
    await world.eventually(lambda: bool(world.mistake("p")))
    assert world.chosen("p") == ["a"]
    await annotate(world, **{ON_MISCONFIGURATION: None})
    await world.chooses("p")


async def annotate(world: World, **annotations: str | None) -> Any:
    body = {"metadata": {"annotations": annotations}}
    return await world.edit(PLACEMENTS, "p", body, namespace=world.namespace)
