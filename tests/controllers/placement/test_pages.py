"""Decisions of several pages, and how clusters move between them; all but one test have pages of 10 clusters."""

from collections import Counter

import pytest

from controllers.conftest import Start
from controllers.figures import writes
from controllers.world import World
from fairway.api.placement import GROUP_NAME_LABEL, PLACEMENT_LABEL, PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS, PLACEMENT_DECISIONS
from fairway.placement import pages

pytestmark = pytest.mark.embedded


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 10)


SMALL_PAGES = pytest.mark.usefixtures("small_pages")


def many(count: int, *, first: int = 0) -> list[str]:
    return [f"c{number:03}" for number in range(first, first + count)]


async def test_101_clusters_are_two_pages_of_one_group(manager: Manager, world: World) -> None:
    words = many(101)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    assert world.pages("p") == {"p-decision-1": tuple(words[:100]), "p-decision-2": (words[100],)}
    assert {index for index, _, _ in world.groups("p")} == {"0"}
    (group,) = world.status("p").decisionGroups
    assert (group.clusterCount, group.decisions) == (101, ("p-decision-1", "p-decision-2"))
    assert world.reason("p") == "AllDecisionsScheduled"


@SMALL_PAGES
async def test_surplus_pages_are_deleted_and_others_written_once(manager: Manager, world: World) -> None:
    words = many(13)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    await world.settled(manager)
    before = writes(manager)
    await world.replace("p", numberOfClusters=4)
    await world.chooses("p", *words[:4])
    await world.settled(manager)
    assert writes(manager) - before == {
        "patch placementdecisions": 1,
        "delete placementdecisions": 1,
        "patch placements": 1,
    }
    assert list(world.pages("p")) == ["p-decision-1"]
    await world.replace("p", numberOfClusters=13)
    await world.chooses("p", *words)
    await world.replace("p", numberOfClusters=0)
    await world.chooses("p")
    assert world.pages("p") == {"p-decision-1": ()}


@SMALL_PAGES
async def test_next_controller_writes_nothing(start: Start, world: World) -> None:
    words = many(13)
    await world.clusters(*words)
    async with start():
        await world.place()
        await world.chooses("p", *words)
    before = await world.versions()
    async with start() as manager:
        await world.settled(manager)
        assert writes(manager) == Counter()
    assert await world.versions() == before


@SMALL_PAGES
async def test_mislabelled_and_missing_pages_are_repaired(manager: Manager, world: World) -> None:
    words = many(13)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    changed = {"metadata": {"labels": {GROUP_NAME_LABEL: "wrong", "mine": "yes"}}}
    await world.edit(PLACEMENT_DECISIONS, "p-decision-1", changed, namespace=world.namespace)
    await world.delete(PLACEMENT_DECISIONS, "p-decision-2")
    await world.eventually(lambda: len(world.decisions("p")) == 2 and world.chosen("p") == words)
    await world.eventually(lambda: {name for _, name, _ in world.groups("p")} == {""})
    assert "mine" not in world.decisions("p")[0].metadata.labels


@SMALL_PAGES
async def test_selected_cluster_is_on_a_page_at_any_time(manager: Manager, world: World) -> None:
    """One that sorts first pushes all others back by one, over every page; when it goes, they move up again."""
    words = many(25)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    begun = len(world.history)
    await world.clusters("a")
    await world.chooses("p", "a", *words)
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.chooses("p", *words)
    assert len(world.history) - begun >= 6
    for each in world.history[begun:]:
        assert {word for page in each.values() for word in page} >= set(words)


@SMALL_PAGES
async def test_page_is_deleted_only_when_others_have_its_clusters(manager: Manager, world: World) -> None:
    """From three pages to two, and from pages of 10 to pages of 3 and back."""
    words = many(25)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    begun = len(world.history)
    gone, left = words[:6], words[6:]
    for word in gone:
        await world.delete(MANAGED_CLUSTERS, world.full(word))
    await world.chooses("p", *left)
    assert len(world.pages("p")) == 2
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 3}})
    await world.eventually(lambda: len(world.status("p").decisionGroups) == 7)
    await world.replace("p", decisionStrategy=None)
    await world.eventually(lambda: len(world.status("p").decisionGroups) == 1)
    await world.chooses("p", *left)
    for each in world.history[begun:]:
        assert {word for page in each.values() for word in page} >= set(left)


@SMALL_PAGES
async def test_restarted_controller_keeps_every_selected_cluster_on_a_page(
    start: Start, world: World
) -> None:
    """Half of the clusters are new and sort in between, so pages must swap clusters."""
    words = many(16)
    even, odd = words[::2], words[1::2]
    await world.clusters(*even)
    async with start():
        await world.place("p", PlacementSpec())
        await world.chooses("p", *even)
    await world.clusters(*odd)
    begun = len(world.history)
    async with start():
        await world.chooses("p", *words)
    for each in world.history[begun:]:
        assert {word for page in each.values() for word in page} >= set(even)


@SMALL_PAGES
async def test_pages_are_found_by_their_label(manager: Manager, world: World) -> None:
    words = many(11)
    await world.clusters(*words)
    await world.place()
    await world.chooses("p", *words)
    found = await world.client.list(
        PLACEMENT_DECISIONS, namespace=world.namespace, labels=f"{PLACEMENT_LABEL}=p"
    )
    union = {each.clusterName for decision in found.items for each in decision.status.decisions}
    assert union == {world.full(word) for word in words}
