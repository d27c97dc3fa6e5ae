"""Decisions of more than a hundred clusters: pages, and how clusters move between them."""

from collections import Counter

import pytest

from controllers.conftest import Start
from controllers.figures import writes
from controllers.world import World
from fairway.api.placement import GROUP_NAME_LABEL, PLACEMENT_LABEL, PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS, PLACEMENT_DECISIONS

pytestmark = pytest.mark.embedded


def many(count: int, *, first: int = 0) -> list[str]:
    return [f"c{number:03}" for number in range(first, first + count)]


async def test_a_hundred_and_one_are_two_pages_of_one_group(manager: Manager, world: World) -> None:
    words = many(101)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    assert world.pages("p") == {"p-decision-1": tuple(words[:100]), "p-decision-2": (words[100],)}
    assert {index for index, _, _ in world.groups("p")} == {"0"}
    (group,) = world.status("p").decisionGroups
    assert (group.clusterCount, group.decisions) == (101, ("p-decision-1", "p-decision-2"))
    assert world.reason("p") == "AllDecisionsScheduled"


async def test_fewer_and_none(manager: Manager, world: World) -> None:
    """What is surplus is deleted, what stays is written once."""
    words = many(128)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    await world.settled(manager)
    before = writes(manager)
    await world.replace("p", numberOfClusters=10)
    await world.chooses("p", *words[:10])
    await world.settled(manager)
    assert writes(manager) - before == {
        "patch placementdecisions": 1,
        "delete placementdecisions": 1,
        "patch placements": 1,
    }
    assert list(world.pages("p")) == ["p-decision-1"]
    await world.replace("p", numberOfClusters=128)
    await world.chooses("p", *words)
    await world.replace("p", numberOfClusters=0)
    await world.chooses("p")
    assert world.pages("p") == {"p-decision-1": ()}


async def test_whoever_comes_next_finds_everything_right(start: Start, world: World) -> None:
    words = many(128)
    await world.clusters(*words)
    async with start():
        await world.place()
        await world.chooses("p", *words)
    before = await world.versions()
    async with start() as manager:
        await world.settled(manager)
        assert writes(manager) == Counter()
    assert await world.versions() == before


async def test_one_page_is_mislabelled_and_the_other_missing(manager: Manager, world: World) -> None:
    words = many(128)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    changed = {"metadata": {"labels": {GROUP_NAME_LABEL: "wrong", "mine": "yes"}}}
    await world.edit(PLACEMENT_DECISIONS, "p-decision-1", changed, namespace=world.namespace)
    await world.delete(PLACEMENT_DECISIONS, "p-decision-2")
    await world.eventually(lambda: len(world.decisions("p")) == 2 and world.chosen("p") == words)
    await world.eventually(lambda: {name for _, name, _ in world.groups("p")} == {""})
    assert "mine" not in world.decisions("p")[0].metadata.labels


async def test_a_cluster_is_never_on_no_page(manager: Manager, world: World) -> None:
    """One that sorts first pushes all others back by one, over every page; when it goes, they move up again."""
    words = many(205)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    begun = len(world.history)
    await world.clusters("a")
    await world.chooses("p", "a", *words)
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.chooses("p", *words)
    assert len(world.history) - begun >= 6
    for pages in world.history[begun:]:
        assert {word for page in pages.values() for word in page} >= set(words)


async def test_a_page_is_given_up_only_when_others_have_its_clusters(manager: Manager, world: World) -> None:
    """From three pages to two, and from pages by a hundred to pages by thirty and back."""
    words = many(205)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    begun = len(world.history)
    gone, left = words[:10], words[10:]
    for word in gone:
        await world.delete(MANAGED_CLUSTERS, world.full(word))
    await world.chooses("p", *left)
    assert len(world.pages("p")) == 2
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 30}})
    await world.eventually(lambda: len(world.status("p").decisionGroups) == 7)
    await world.replace("p", decisionStrategy=None)
    await world.eventually(lambda: len(world.status("p").decisionGroups) == 1)
    await world.chooses("p", *left)
    for pages in world.history[begun:]:
        assert {word for page in pages.values() for word in page} >= set(left)


async def test_a_controller_that_was_away_does_it_no_worse(start: Start, world: World) -> None:
    """Also where pages must swap clusters: half of them are new, and sort in between."""
    words = many(150)
    even, odd = words[::2], words[1::2]
    await world.clusters(*even)
    async with start():
        await world.place("p", PlacementSpec())
        await world.chooses("p", *even)
    await world.clusters(*odd)
    begun = len(world.history)
    async with start():
        await world.chooses("p", *words)
    for pages in world.history[begun:]:
        assert {word for page in pages.values() for word in page} >= set(even)


async def test_every_page_is_found_by_its_label(manager: Manager, world: World) -> None:
    """As consumers do it."""
    words = many(101)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    found = await world.client.list(
        PLACEMENT_DECISIONS, namespace=world.namespace, labels=f"{PLACEMENT_LABEL}=p"
    )
    union = {each.clusterName for decision in found.items for each in decision.status.decisions}
    assert union == {world.full(word) for word in words}
