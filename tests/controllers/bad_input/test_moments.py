"""Times at the ends of the calendar, which hubs accept."""

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.controllers.manager import Manager
from fairway.testing import builders

pytestmark = [pytest.mark.usefixtures("bystander"), pytest.mark.embedded]

FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
BEFORE, AFTER = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"
BY_CPU = builders.policy(builders.addon("cpu"), mode="Exact")


def patient(seconds: int) -> PlacementSpec:
    return PlacementSpec(tolerations=(Toleration(operator="Exists", tolerationSeconds=seconds),))


async def taint(fleet: HubFleet, word: str, *, added: str) -> None:
    taints = [{"key": "slow", "effect": "NoSelect", "timeAdded": added}]
    await fleet.edit(MANAGED_CLUSTERS, fleet.name(word), {"spec": {"taints": taints}})


async def test_extreme_toleration_seconds(manager: Manager, fleet: HubFleet) -> None:
    await taint(fleet, "a", added="2026-01-01T00:00:00Z")
    for seconds, words in {10**10: "ab", 2**63 - 1: "ab", 0: "b", -1: "b", -(2**63): "b"}.items():
        name = f"p{seconds}".replace("-", "minus")
        await fleet.place(name, patient(seconds))
        await fleet.chooses(name, *words)


async def test_taint_added_at_an_extreme_time(manager: Manager, fleet: HubFleet) -> None:
    await fleet.place("p", patient(5))
    for added, words in {FIRST: "b", LAST: "ab", BEFORE: "b", AFTER: "ab"}.items():
        await taint(fleet, "a", added=added)
        await fleet.chooses("p", *words)


@pytest.mark.both_hubs
async def test_score_that_expires_at_an_extreme_time(manager: Manager, fleet: HubFleet) -> None:
    await fleet.score("b", {"cpu": 7})
    await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    for until, word in {FIRST: "a", LAST: "b", BEFORE: "a", AFTER: "b"}.items():
        status = {"status": {"validUntil": until}}
        namespace = fleet.name("b")
        await fleet.edit(ADD_ON_PLACEMENT_SCORES, "default", status, namespace=namespace, status=True)
        await fleet.chooses("p", word)
