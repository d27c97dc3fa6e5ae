"""Score debits of decisions that the controller writes, and after a restart."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.conftest import ALONE, Start
from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import PLACEMENTS
from fairway.placement.conditions import MISCONFIGURED
from fairway.plugins.score_debits import SCORE_DEBITS
from fairway.scheduling import PLACEMENT_DEFAULTS, Supervisor, load
from fairway.testing import builders

pytestmark = pytest.mark.embedded

BEST = PlacementSpec(
    numberOfClusters=1, prioritizerPolicy=builders.policy(builders.addon("cpu"), mode="Exact")
)
BY_FIVE = {SCORE_DEBITS: "default/cpu=-5"}


async def test_burst_of_placements_is_shared_by_equal_clusters(manager: Manager, world: World) -> None:
    await world.clusters("a", "b", "c")
    for name in "abc":
        await world.score(name, {"cpu": 50})
    names = [f"p{at}" for at in range(9)]
    for name in names:
        await world.place(name, BEST, annotations=BY_FIVE)
    await world.settled(manager)
    assert Counter(cluster for name in names for cluster in world.chosen(name)) == {"a": 3, "b": 3, "c": 3}


async def test_debits_of_the_profile_count_for_placements_that_rank_by_the_score(
    start: Start, world: World, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- pluginConfig:\n"
        "  - {name: PrioritizerPolicy, args: {debits: {default/cpu: -5}}}\n"
    )
    scheduling = load(file, base=PLACEMENT_DEFAULTS, supervisor=Supervisor(clock=lambda: 0.0))
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 53})
    await world.score("b", {"cpu": 50})
    async with start(replace(ALONE, scheduling=scheduling)) as manager:
        await world.place("p", BEST)
        await world.chooses("p", "a")
        await world.place("q", BEST)
        await world.chooses("q", "b")
        await world.place("r", BEST, annotations={SCORE_DEBITS: "none"})
        await world.chooses("r", "a")
        await world.settled(manager)


async def test_debits_end_with_publication_and_with_the_decision(manager: Manager, world: World) -> None:
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 53})
    await world.score("b", {"cpu": 50})
    await world.place("p", BEST, annotations=BY_FIVE)
    await world.chooses("p", "a")
    await world.place("q", BEST, annotations=BY_FIVE)
    await world.chooses("q", "b")
    await world.delete(PLACEMENTS, "p", namespace=world.namespace)
    await world.settled(manager)
    await world.place("r", BEST, annotations=BY_FIVE)
    await world.chooses("r", "a")
    await world.score("a", {"cpu": 49})
    await world.settled(manager)
    await world.place("s", BEST, annotations=BY_FIVE)
    await world.chooses("s", "a")


async def test_debits_are_rebuilt_after_a_restart(start: Start, world: World) -> None:
    await world.clusters("a", "b")
    await world.score("a", {"cpu": 53})
    await world.score("b", {"cpu": 50})
    async with start() as manager:
        await world.place("p", BEST, annotations=BY_FIVE)
        await world.chooses("p", "a")
        await world.settled(manager)
    async with start() as manager:
        await world.place("q", BEST, annotations=BY_FIVE)
        await world.chooses("q", "b")


async def test_invalid_debit_is_reported_on_the_placement(manager: Manager, world: World) -> None:
    await world.clusters("a")
    await world.place("p", BEST, annotations={SCORE_DEBITS: "default/cpu=5"})
    await world.chooses("p", "a")
    assert "is not a score and a signed change" in world.condition("p", MISCONFIGURED)[2]
