"""Times that no clock will ever show, or that were over before there were clocks: hubs accept them all."""

import pytest

from controllers.world import World
from fairway.api.placement import PlacementSpec, Toleration
from fairway.controllers.manager import Manager
from fairway.kube import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.testing import builders

pytestmark = [pytest.mark.usefixtures("bystander"), pytest.mark.embedded]

FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
BEFORE, AFTER = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"
BY_CPU = builders.policy(builders.addon("cpu"), mode="Exact")


def patient(seconds: int) -> PlacementSpec:
    return PlacementSpec(tolerations=(Toleration(operator="Exists", tolerationSeconds=seconds),))


async def taint(world: World, word: str, *, added: str) -> None:
    taints = [{"key": "slow", "effect": "NoSelect", "timeAdded": added}]
    await world.edit(MANAGED_CLUSTERS, world.full(word), {"spec": {"taints": taints}})


@pytest.mark.parametrize("seconds", [10**10, 10**12, 2**62, 2**63 - 1])
async def test_patience_for_ever(manager: Manager, world: World, seconds: int) -> None:
    await taint(world, "a", added="2026-01-01T00:00:00Z")
    await world.place("p", patient(seconds))
    await world.chooses("p", "a", "b")


@pytest.mark.parametrize("seconds", [0, -1, -(2**63)])
async def test_no_patience_at_all(manager: Manager, world: World, seconds: int) -> None:
    await taint(world, "a", added="2026-01-01T00:00:00Z")
    await world.place("p", patient(seconds))
    await world.chooses("p", "b")


@pytest.mark.parametrize(("added", "words"), [(FIRST, "b"), (BEFORE, "b"), (LAST, "ab"), (AFTER, "ab")])
async def test_a_taint_of_another_age(manager: Manager, world: World, added: str, words: str) -> None:
    await taint(world, "a", added=added)
    await world.place("p", patient(5))
    await world.chooses("p", *words)


@pytest.mark.both_hubs
@pytest.mark.parametrize(("until", "word"), [(FIRST, "a"), (BEFORE, "a"), (LAST, "b"), (AFTER, "b")])
async def test_a_score_of_another_age(manager: Manager, world: World, until: str, word: str) -> None:
    await world.score("b", {"cpu": 7})
    await world.edit(
        ADD_ON_PLACEMENT_SCORES,
        "default",
        {"status": {"validUntil": until}},
        namespace=world.full("b"),
        status=True,
    )
    await world.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await world.chooses("p", word)
