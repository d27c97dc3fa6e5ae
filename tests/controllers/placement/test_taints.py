"""Decisions follow taints and tolerations, also when nothing changes but the time."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.world import World
from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS, PLACEMENTS

pytestmark = pytest.mark.embedded

NO_SELECT, IF_NEW, PREFER = "NoSelect", "NoSelectIfNew", "PreferNoSelect"


def taint(key: str, value: str = "", effect: str = NO_SELECT, **rest: Any) -> Taint:
    return Taint(key=key, value=value, effect=effect, **rest)


def tolerant(*tolerations: Toleration, **rest: Any) -> PlacementSpec:
    return PlacementSpec(tolerations=tolerations, **rest)


async def test_a_taint_keeps_placements_away(manager: Manager, world: World) -> None:
    await world.cluster("a", taints=(taint("gpu"),))
    await world.cluster("b")
    await world.place("p")
    await world.chooses("p", "b")
    await world.change_cluster("b", taints=(taint("gpu"),))
    await world.chooses("p")
    assert world.reason("p") == "NoManagedClusterMatched"
    await world.change_cluster("a", taints=())
    await world.chooses("p", "a")


@pytest.mark.both_hubs
async def test_effect_of_a_taint_decides_which_placements_avoid_it(manager: Manager, world: World) -> None:
    """What should be avoided is chosen all the same; what is tolerated for one effect is not for another."""
    await world.cluster("a", taints=(taint("gpu", effect=NO_SELECT),))
    await world.cluster("b", taints=(taint("gpu", effect=IF_NEW),))
    await world.cluster("c", taints=(taint("gpu", effect=PREFER),))
    await world.place("p", tolerant(Toleration(key="gpu", operator="Exists", effect=NO_SELECT)))
    await world.chooses("p", "a", "c")
    await world.replace("p", tolerations=[{"key": "gpu", "operator": "Exists", "effect": IF_NEW}])
    await world.chooses("p", "b", "c")
    await world.replace("p", tolerations=[{"key": "gpu", "operator": "Exists"}])
    await world.chooses("p", "a", "b", "c")


async def test_what_is_chosen_stays_where_only_new_ones_are_kept_away(manager: Manager, world: World) -> None:
    await world.cluster("a")
    await world.place("p")
    await world.chooses("p", "a")
    written = await world.change_cluster("a", taints=(taint("full", effect=IF_NEW),))
    await world.after(manager, MANAGED_CLUSTERS, written)
    await world.cluster("b", taints=(taint("full", effect=IF_NEW),))
    await world.cluster("c")
    await world.chooses("p", "a", "c")


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        (
            {"key": "gpu", "operator": "Exists", "value": "big"},
            "TaintToleration:If the operator is Exists, the value should be empty.",
        ),
        ({"value": "big"}, "TaintToleration:If the key is empty, operator must be Exists."),
    ],
    ids=["value", "key"],
)
async def test_a_toleration_that_makes_no_sense_is_mended(
    manager: Manager, world: World, toleration: dict[str, str], message: str
) -> None:
    await world.clusters("a")
    await world.place()
    await world.chooses("p", "a")
    await world.replace("p", tolerations=[toleration])
    await world.chooses("p")
    assert world.mistake("p") == message
    assert world.reason("p") == "NoManagedClusterMatched"
    await world.replace("p", tolerations=[])
    await world.chooses("p", "a")
    assert (world.mistake("p"), world.reason("p")) == ("", "AllDecisionsScheduled")


async def test_patience_ends_without_anything_happening(start: Start, world: World) -> None:
    """First one taint's time is over, then the other's; a taint that nobody tolerates empties the decision."""
    clock = Stopped(NOON - JUST)
    added, later = NOON - timedelta(seconds=10), NOON + timedelta(seconds=10)
    await world.cluster("a", taints=(taint("slow", timeAdded=added),))
    await world.cluster("b", taints=(taint("slower", timeAdded=added),))
    await world.cluster("c")
    async with start(clock=clock) as manager:
        await world.place(
            "p",
            tolerant(
                Toleration(key="slow", operator="Exists", tolerationSeconds=10),
                Toleration(key="slower", operator="Exists", tolerationSeconds=20),
            ),
        )
        await world.chooses("p", "a", "b", "c")
        clock.now = NOON
        await world.chooses("p", "b", "c")
        clock.now = later - JUST
        await world.after(manager, PLACEMENTS, await world.touch("p"))
        clock.now = later
        await world.chooses("p", "c")
        await world.change_cluster("c", taints=(taint("new"),))
        await world.chooses("p")


async def test_patience_that_is_over_before_it_begins(start: Start, world: World) -> None:
    """A taint of nobody knows when is not tolerated for a time."""
    await world.cluster("a", taints=(taint("old", timeAdded=NOON - timedelta(seconds=10)),))
    await world.cluster("b", taints=(taint("old"),))
    await world.cluster("c")
    async with start(clock=Stopped(NOON)):
        await world.place("p", tolerant(Toleration(key="old", operator="Exists", tolerationSeconds=10)))
        await world.chooses("p", "c")


async def test_patience_with_a_cluster_that_was_not_there_before(start: Start, world: World) -> None:
    clock = Stopped(NOON - JUST)
    await world.cluster("a")
    async with start(clock=clock):
        await world.place("p", tolerant(Toleration(key="old", operator="Exists", tolerationSeconds=10)))
        await world.chooses("p", "a")
        await world.cluster("b", taints=(taint("old", timeAdded=NOON - timedelta(seconds=10)),))
        await world.chooses("p", "a", "b")
        clock.now = NOON
        await world.chooses("p", "a")
