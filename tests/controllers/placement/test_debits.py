"""Score debits of decisions that the controller writes, and after a restart."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.conftest import ALONE, Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.scheduling import Supervisor, load
from fairway.testing import builders
from fairway.workloads.placement.conditions import MISCONFIGURED
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from fairway.workloads.placement.profile import PLACEMENT_KIND

pytestmark = pytest.mark.embedded

BEST = PlacementSpec(
    numberOfClusters=1, prioritizerPolicy=builders.policy(builders.addon("cpu"), mode="Exact")
)
BY_FIVE = {SCORE_DEBITS: "default/cpu=-5"}


async def test_burst_of_placements_is_shared_by_equal_clusters(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b", "c")
    for name in "abc":
        await fleet.score(name, {"cpu": 50})
    names = [f"p{at}" for at in range(9)]
    for name in names:
        await fleet.place(name, BEST, annotations=BY_FIVE)
    await fleet.settled(manager)
    assert Counter(cluster for name in names for cluster in fleet.chosen(name)) == {"a": 3, "b": 3, "c": 3}


async def test_debits_of_the_profile_count_for_placements_that_rank_by_the_score(
    start: Start, fleet: HubFleet, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- pluginConfig:\n"
        "  - {name: PrioritizerPolicy, args: {debits: {default/cpu: -5}}}\n"
    )
    scheduling = load(file, kind=PLACEMENT_KIND, supervisor=Supervisor(clock=lambda: 0.0))
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 53})
    await fleet.score("b", {"cpu": 50})
    async with start(replace(ALONE, scheduling=(scheduling,))) as manager:
        await fleet.place("p", BEST)
        await fleet.chooses("p", "a")
        await fleet.place("q", BEST)
        await fleet.chooses("q", "b")
        await fleet.place("r", BEST, annotations={SCORE_DEBITS: "none"})
        await fleet.chooses("r", "a")
        await fleet.settled(manager)


async def test_debits_end_with_publication_and_with_the_decision(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 53})
    await fleet.score("b", {"cpu": 50})
    await fleet.place("p", BEST, annotations=BY_FIVE)
    await fleet.chooses("p", "a")
    await fleet.place("q", BEST, annotations=BY_FIVE)
    await fleet.chooses("q", "b")
    await fleet.delete(PLACEMENTS, "p", namespace=fleet.namespace)
    await fleet.settled(manager)
    await fleet.place("r", BEST, annotations=BY_FIVE)
    await fleet.chooses("r", "a")
    await fleet.score("a", {"cpu": 49})
    await fleet.settled(manager)
    await fleet.place("s", BEST, annotations=BY_FIVE)
    await fleet.chooses("s", "a")


async def test_debits_are_rebuilt_after_a_restart(start: Start, fleet: HubFleet) -> None:
    await fleet.clusters("a", "b")
    await fleet.score("a", {"cpu": 53})
    await fleet.score("b", {"cpu": 50})
    async with start() as manager:
        await fleet.place("p", BEST, annotations=BY_FIVE)
        await fleet.chooses("p", "a")
        await fleet.settled(manager)
    async with start() as manager:
        await fleet.place("q", BEST, annotations=BY_FIVE)
        await fleet.chooses("q", "b")


async def test_invalid_debit_is_reported_on_the_placement(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.place("p", BEST, annotations={SCORE_DEBITS: "default/cpu=5"})
    await fleet.chooses("p", "a")
    assert "is not a score and a signed change" in fleet.condition("p", MISCONFIGURED)[2]
