"""Decisions follow taints and tolerations, also when nothing changes but the time."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import JUST, NOON, Stopped
from controllers.conftest import Start
from controllers.hub_fleet import HubFleet
from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from fairway.controllers.manager import Manager

pytestmark = pytest.mark.embedded

NO_SELECT, IF_NEW, PREFER = "NoSelect", "NoSelectIfNew", "PreferNoSelect"


def taint(key: str, value: str = "", effect: str = NO_SELECT, **rest: Any) -> Taint:
    return Taint(key=key, value=value, effect=effect, **rest)


def tolerant(*tolerations: Toleration, **rest: Any) -> PlacementSpec:
    return PlacementSpec(tolerations=tolerations, **rest)


async def test_taint_excludes_a_cluster(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", taints=(taint("gpu"),))
    await fleet.cluster("b")
    await fleet.place("p")
    await fleet.chooses("p", "b")
    await fleet.change_cluster("b", taints=(taint("gpu"),))
    await fleet.chooses("p")
    assert fleet.reason("p") == "NoManagedClusterMatched"
    await fleet.change_cluster("a", taints=())
    await fleet.chooses("p", "a")


@pytest.mark.both_hubs
async def test_effect_of_a_taint_decides_which_placements_avoid_it(manager: Manager, fleet: HubFleet) -> None:
    """PreferNoSelect only lowers the rank; a toleration of one effect does not cover another."""
    await fleet.cluster("a", taints=(taint("gpu", effect=NO_SELECT),))
    await fleet.cluster("b", taints=(taint("gpu", effect=IF_NEW),))
    await fleet.cluster("c", taints=(taint("gpu", effect=PREFER),))
    await fleet.place("p", tolerant(Toleration(key="gpu", operator="Exists", effect=NO_SELECT)))
    await fleet.chooses("p", "a", "c")
    await fleet.replace("p", tolerations=[{"key": "gpu", "operator": "Exists", "effect": IF_NEW}])
    await fleet.chooses("p", "b", "c")
    await fleet.replace("p", tolerations=[{"key": "gpu", "operator": "Exists"}])
    await fleet.chooses("p", "a", "b", "c")


async def test_no_select_if_new_keeps_selected_clusters(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a")
    await fleet.place("p")
    await fleet.chooses("p", "a")
    written = await fleet.change_cluster("a", taints=(taint("full", effect=IF_NEW),))
    await fleet.after(manager, MANAGED_CLUSTERS, written)
    await fleet.cluster("b", taints=(taint("full", effect=IF_NEW),))
    await fleet.cluster("c")
    await fleet.chooses("p", "a", "c")


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
async def test_corrected_toleration_takes_effect(
    manager: Manager, fleet: HubFleet, toleration: dict[str, str], message: str
) -> None:
    await fleet.clusters("a")
    await fleet.place()
    await fleet.chooses("p", "a")
    await fleet.replace("p", tolerations=[toleration])
    await fleet.chooses("p")
    assert fleet.mistake("p") == message
    assert fleet.reason("p") == "NoManagedClusterMatched"
    await fleet.replace("p", tolerations=[])
    await fleet.chooses("p", "a")
    assert (fleet.mistake("p"), fleet.reason("p")) == ("", "AllDecisionsScheduled")


async def test_toleration_seconds_end_without_another_change(start: Start, fleet: HubFleet) -> None:
    """The tolerations end one after the other; a taint without toleration empties the decision."""
    clock = Stopped(NOON - JUST)
    added, later = NOON - timedelta(seconds=10), NOON + timedelta(seconds=10)
    await fleet.cluster("a", taints=(taint("slow", timeAdded=added),))
    await fleet.cluster("b", taints=(taint("slower", timeAdded=added),))
    await fleet.cluster("c")
    async with start(clock=clock) as manager:
        await fleet.place(
            "p",
            tolerant(
                Toleration(key="slow", operator="Exists", tolerationSeconds=10),
                Toleration(key="slower", operator="Exists", tolerationSeconds=20),
            ),
        )
        await fleet.chooses("p", "a", "b", "c")
        clock.now = NOON
        await fleet.chooses("p", "b", "c")
        clock.now = later - JUST
        await fleet.after(manager, PLACEMENTS, await fleet.touch("p"))
        clock.now = later
        await fleet.chooses("p", "c")
        await fleet.change_cluster("c", taints=(taint("new"),))
        await fleet.chooses("p")


async def test_taint_without_time_is_not_tolerated_for_seconds(start: Start, fleet: HubFleet) -> None:
    """A taint without time is not tolerated for a number of seconds."""
    await fleet.cluster("a", taints=(taint("old", timeAdded=NOON - timedelta(seconds=10)),))
    await fleet.cluster("b", taints=(taint("old"),))
    await fleet.cluster("c")
    async with start(clock=Stopped(NOON)):
        await fleet.place("p", tolerant(Toleration(key="old", operator="Exists", tolerationSeconds=10)))
        await fleet.chooses("p", "c")


async def test_toleration_seconds_of_a_new_cluster_count_from_taint(start: Start, fleet: HubFleet) -> None:
    clock = Stopped(NOON - JUST)
    await fleet.cluster("a")
    async with start(clock=clock):
        await fleet.place("p", tolerant(Toleration(key="old", operator="Exists", tolerationSeconds=10)))
        await fleet.chooses("p", "a")
        await fleet.cluster("b", taints=(taint("old", timeAdded=NOON - timedelta(seconds=10)),))
        await fleet.chooses("p", "a", "b")
        clock.now = NOON
        await fleet.chooses("p", "a")
