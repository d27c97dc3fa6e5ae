"""Decisions of several pages, and how clusters move between them; all but one test have pages of 10 clusters."""

from collections import Counter

import pytest

from controllers.conftest import Start
from controllers.figures import writes
from controllers.hub_fleet import HubFleet
from fairway.api.placement import GROUP_NAME_LABEL, PLACEMENT_LABEL, PlacementSpec
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENT_DECISIONS
from fairway.controllers.manager import Manager
from fairway.workloads.placement import pages

pytestmark = pytest.mark.embedded


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 10)


SMALL_PAGES = pytest.mark.usefixtures("small_pages")


def many(count: int, *, first: int = 0) -> list[str]:
    return [f"c{number:03}" for number in range(first, first + count)]


async def test_101_clusters_are_two_pages_of_one_group(manager: Manager, fleet: HubFleet) -> None:
    words = many(101)
    await fleet.clusters(*words)
    await fleet.place()
    await fleet.chooses("p", *words)
    assert fleet.pages("p") == {"p-decision-1": tuple(words[:100]), "p-decision-2": (words[100],)}
    assert {index for index, _, _ in fleet.groups("p")} == {"0"}
    (group,) = fleet.status("p").decisionGroups
    assert (group.clusterCount, group.decisions) == (101, ("p-decision-1", "p-decision-2"))
    assert fleet.reason("p") == "AllDecisionsScheduled"


@SMALL_PAGES
async def test_surplus_pages_are_deleted_and_others_written_once(manager: Manager, fleet: HubFleet) -> None:
    words = many(13)
    await fleet.clusters(*words)
    await fleet.place()
    await fleet.chooses("p", *words)
    await fleet.settled(manager)
    before = writes(manager)
    await fleet.replace("p", numberOfClusters=4)
    await fleet.chooses("p", *words[:4])
    await fleet.settled(manager)
    assert writes(manager) - before == {
        "patch placementdecisions": 1,
        "delete placementdecisions": 1,
        "patch placements": 1,
    }
    assert list(fleet.pages("p")) == ["p-decision-1"]
    await fleet.replace("p", numberOfClusters=13)
    await fleet.chooses("p", *words)
    await fleet.replace("p", numberOfClusters=0)
    await fleet.chooses("p")
    assert fleet.pages("p") == {"p-decision-1": ()}


@SMALL_PAGES
async def test_restarted_controller_rewrites_no_page(start: Start, fleet: HubFleet) -> None:
    words = many(13)
    await fleet.clusters(*words)
    async with start():
        await fleet.place()
        await fleet.chooses("p", *words)
    before = await fleet.versions()
    async with start() as manager:
        await fleet.settled(manager)
        assert writes(manager) == Counter()
    assert await fleet.versions() == before


@SMALL_PAGES
async def test_mislabelled_and_missing_pages_are_repaired(manager: Manager, fleet: HubFleet) -> None:
    words = many(13)
    await fleet.clusters(*words)
    await fleet.place()
    await fleet.chooses("p", *words)
    changed = {"metadata": {"labels": {GROUP_NAME_LABEL: "wrong", "mine": "yes"}}}
    await fleet.edit(PLACEMENT_DECISIONS, "p-decision-1", changed, namespace=fleet.namespace)
    await fleet.delete(PLACEMENT_DECISIONS, "p-decision-2")
    await fleet.eventually(lambda: len(fleet.decisions("p")) == 2 and fleet.chosen("p") == words)
    await fleet.eventually(lambda: {name for _, name, _ in fleet.groups("p")} == {""})
    assert "mine" not in fleet.decisions("p")[0].metadata.labels


@SMALL_PAGES
async def test_selected_cluster_is_on_a_page_at_any_time(manager: Manager, fleet: HubFleet) -> None:
    """A new first cluster moves all others by one position, on every page, and back when it is deleted."""
    words = many(25)
    await fleet.clusters(*words)
    await fleet.place()
    await fleet.chooses("p", *words)
    begun = len(fleet.history)
    await fleet.clusters("a")
    await fleet.chooses("p", "a", *words)
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.chooses("p", *words)
    assert len(fleet.history) - begun >= 6
    for moment in fleet.history[begun:]:
        assert {word for page in moment.values() for word in page} >= set(words)


@SMALL_PAGES
async def test_page_is_deleted_only_when_others_have_its_clusters(manager: Manager, fleet: HubFleet) -> None:
    """From three pages to two, and from pages of 10 to pages of 3 and back."""
    words = many(25)
    await fleet.clusters(*words)
    await fleet.place()
    await fleet.chooses("p", *words)
    begun = len(fleet.history)
    gone, left = words[:6], words[6:]
    for word in gone:
        await fleet.delete(MANAGED_CLUSTERS, fleet.name(word))
    await fleet.chooses("p", *left)
    assert len(fleet.pages("p")) == 2
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 3}})
    await fleet.eventually(lambda: len(fleet.status("p").decisionGroups) == 7)
    await fleet.replace("p", decisionStrategy=None)
    await fleet.eventually(lambda: len(fleet.status("p").decisionGroups) == 1)
    await fleet.chooses("p", *left)
    for moment in fleet.history[begun:]:
        assert {word for page in moment.values() for word in page} >= set(left)


@SMALL_PAGES
async def test_restarted_controller_keeps_every_selected_cluster_on_a_page(
    start: Start, fleet: HubFleet
) -> None:
    """Half of the clusters are new and sort in between, so pages must swap clusters."""
    words = many(16)
    even, odd = words[::2], words[1::2]
    await fleet.clusters(*even)
    async with start():
        await fleet.place("p", PlacementSpec())
        await fleet.chooses("p", *even)
    await fleet.clusters(*odd)
    begun = len(fleet.history)
    async with start():
        await fleet.chooses("p", *words)
    for moment in fleet.history[begun:]:
        assert {word for page in moment.values() for word in page} >= set(even)


@SMALL_PAGES
async def test_pages_are_found_by_their_label(manager: Manager, fleet: HubFleet) -> None:
    words = many(11)
    await fleet.clusters(*words)
    await fleet.place()
    await fleet.chooses("p", *words)
    listing = await fleet.client.list(
        PLACEMENT_DECISIONS, namespace=fleet.namespace, labels=f"{PLACEMENT_LABEL}=p"
    )
    union = {
        cluster_decision.clusterName
        for decision in listing.items
        for cluster_decision in decision.status.decisions
    }
    assert union == {fleet.name(word) for word in words}
