"""The bridge on a hub: scores of one kind are copied to the other, and Placements use them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from clocks import ManualClock
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, at_work
from fairway.api.placement import (
    AddOnScore,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
)
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.bridge import RULES, BridgeController, BridgeOptions, Range
from fairway.controllers.bridge.keys import AddOnCopyKey, ManagedCopiesKey
from fairway.controllers.manager import Manager
from fairway.controllers.runtime.leadership import ALONE, leading
from fairway.hosts.clusters.scores import SILENT
from fairway.observe.meters import Meters
from kubewire.api.meta import format_time
from kubewire.client import SYSTEM_CLOCK, AlreadyExists, Client
from kubewire.client.fence import Lost
from metric_values import values
from rigs.waiting import until, until_deleted

pytestmark = [pytest.mark.usefixtures("empty"), pytest.mark.embedded]

RESOURCE = "managed-cluster-scores"
BOTH = BridgeOptions(to_managed=True)
BEST_CPU = PlacementSpec(
    numberOfClusters=1,
    prioritizerPolicy=PrioritizerPolicy(
        mode="Exact",
        configurations=(
            PrioritizerConfig(
                scoreCoordinate=ScoreCoordinate(
                    type="AddOn", addOn=AddOnScore(resourceName=RESOURCE, scoreName="cpu")
                ),
                weight=1,
            ),
        ),
    ),
)


@asynccontextmanager
async def bridging(
    hub: HubUnderTest, options: BridgeOptions = BOTH, *, clock: ManualClock | None = None
) -> AsyncIterator[RunningController]:
    def make(client: Client) -> BridgeController:
        return BridgeController(client, meters=Meters(), options=options, clock=clock or ManualClock())

    async with at_work(hub, make, rules=RULES) as running:
        yield running


async def calculate(
    fleet: HubFleet, word: str, calculator: str, score: int, *, clock: ManualClock
) -> ManagedClusterScore:
    """As the proposal's agent does it."""
    cluster = await fleet.create_namespace(word)
    name = managed_cluster_score_name(cluster=cluster, calculator=calculator)
    with suppress(AlreadyExists):
        await fleet.client.create(MANAGED_CLUSTER_SCORES, {"metadata": {"name": name}}, namespace=cluster)
    moment = format_time(clock.wall())
    condition = {
        "lastTransitionTime": moment,
        "lastUpdateTime": moment,
        "message": "ManagedClusterScore updated successfully",
        "reason": "ManagedClusterScoreUpdated",
        "status": "True",
        "type": "ManagedClusterScoreUpdated",
    }
    body = {"status": {"conditions": [condition], "score": score}}
    return await fleet.edit(MANAGED_CLUSTER_SCORES, name, body, namespace=cluster, status=True)


def having(**wanted: int) -> Callable[[AddOnPlacementScore], bool]:
    return lambda score: {item.name: item.value for item in score.status.scores} == wanted


def worth(score: int) -> Callable[[ManagedClusterScore], bool]:
    return lambda copy: bool(copy.status.conditions) and copy.status.score == score


async def bridged(
    fleet: HubFleet, word: str, wanted: Callable[[AddOnPlacementScore], bool]
) -> AddOnPlacementScore:
    return await until(fleet.client, ADD_ON_PLACEMENT_SCORES, RESOURCE, wanted, namespace=fleet.name(word))


async def mirrored(fleet: HubFleet, word: str, calculator: str, score: int) -> ManagedClusterScore:
    cluster = fleet.name(word)
    name = managed_cluster_score_name(cluster=cluster, calculator=calculator)
    return await until(fleet.client, MANAGED_CLUSTER_SCORES, name, worth(score), namespace=cluster)


async def versions(fleet: HubFleet) -> list[tuple[str, str, str]]:
    versions = [_version(score) for score in (await fleet.client.list(ADD_ON_PLACEMENT_SCORES)).items]
    versions += [_version(score) for score in (await fleet.client.list(MANAGED_CLUSTER_SCORES)).items]
    return sorted(versions)


def _version(score: AddOnPlacementScore | ManagedClusterScore) -> tuple[str, str, str]:
    return score.kind, score.metadata.name, score.metadata.resourceVersion


@pytest.mark.both_hubs
async def test_calculator_amounts_are_copied_as_scores_with_validity(
    hub: HubUnderTest, fleet: HubFleet
) -> None:
    clock = ManualClock()
    options = BridgeOptions(ranges={"cpu": Range(low=0, high=64_000)})
    async with bridging(hub, options, clock=clock):
        await calculate(fleet, "a", "CPU", 60_000, clock=clock)
        await calculate(fleet, "b", "CPU", 8_000, clock=clock)
        score = await bridged(fleet, "a", having(cpu=93))
        assert score.status.validUntil == clock.wall() + timedelta(seconds=300)
        assert score.metadata.labels == {
            "app.kubernetes.io/managed-by": "fairway",
            "fairway.dev/source": "managedclusterscore",
        }
        await bridged(fleet, "b", having(cpu=12))
        # The placement controller uses the system clock, for which these scores have expired.
        for word in ("a", "b"):
            assert (
                (await bridged(fleet, word, lambda _: True)).status.conditions[0].message.startswith("cpu ")
            )


async def test_placement_reads_bridged_managed_cluster_scores(
    hub: HubUnderTest, manager: Manager, fleet: HubFleet
) -> None:
    clock = ManualClock()
    clock.advance((SYSTEM_CLOCK.wall() - clock.wall()).total_seconds())
    async with bridging(hub, BridgeOptions(to_managed=True, ttl=36_000), clock=clock):
        await fleet.clusters("a", "b")
        await calculate(fleet, "a", "cpu", 60_000, clock=clock)
        await calculate(fleet, "b", "cpu", 8_000, clock=clock)
        await fleet.place("p", BEST_CPU)
        await fleet.chooses("p", "a")
        await calculate(fleet, "b", "cpu", 90_000, clock=clock)
        await fleet.chooses("p", "b")
        # With two clusters, one has the best and the other the worst value.
        await bridged(fleet, "a", having(cpu=0))


@pytest.mark.both_hubs
async def test_scores_are_copied_to_objects_and_deleted_with_their_source(
    hub: HubUnderTest, fleet: HubFleet
) -> None:
    clock = ManualClock()
    async with bridging(hub, clock=clock) as running:
        end = clock.wall() + timedelta(seconds=180)
        await fleet.score("a", {"health": 40, "healthNodes": 90}, resource="health-score", valid_until=end)
        score = await mirrored(fleet, "a", "health", 40)
        assert score.metadata.labels["fairway.dev/source"] == "addonplacementscore"
        assert score.metadata.annotations == {"fairway.dev/source-score": "health-score/health"}
        assert score.status.conditions[0].lastUpdateTime == clock.wall()
        await mirrored(fleet, "a", "healthnodes", 90)
        clock.advance(10)
        await fleet.score("a", {"health": -40}, resource="health-score", valid_until=end)
        score = await mirrored(fleet, "a", "health", -40)
        assert score.status.conditions[0].lastUpdateTime == clock.wall()
        cluster = fleet.name("a")
        await until_deleted(fleet.client, MANAGED_CLUSTER_SCORES, f"{cluster}-healthnodes", namespace=cluster)
        clock.advance(600)  # it has expired
        written = await calculate(fleet, "b", "other", 1, clock=clock)
        await running.caught_up(MANAGED_CLUSTER_SCORES, written)
        running.controller.queue.add(ManagedCopiesKey(cluster))
        await until_deleted(fleet.client, MANAGED_CLUSTER_SCORES, f"{cluster}-health", namespace=cluster)


async def test_failed_or_silent_calculator_is_not_copied_as_valid(hub: HubUnderTest, fleet: HubFleet) -> None:
    clock = ManualClock()
    async with bridging(hub, clock=clock) as running:
        began, end = clock.wall(), clock.wall() + timedelta(seconds=900)
        await fleet.score("a", {"health": 40}, resource="health-score", valid_until=end)
        await mirrored(fleet, "a", "health", 40)
        cluster = fleet.name("a")

        async def say(condition: dict[str, str], *, until: datetime | None) -> None:
            entry = {**condition, "lastTransitionTime": format_time(began)}
            status = {"conditions": [entry], "validUntil": None if until is None else format_time(until)}
            written = await fleet.edit(
                ADD_ON_PLACEMENT_SCORES, "health-score", {"status": status}, namespace=cluster, status=True
            )
            await running.caught_up(ADD_ON_PLACEMENT_SCORES, written)

        clock.advance(600)  # longer than half of the validity
        await say(
            {"type": "AddOnPlacementScoreUpdated", "status": "False", "reason": "NotListed", "message": "no"},
            until=end,
        )
        score = await until(
            fleet.client,
            MANAGED_CLUSTER_SCORES,
            f"{cluster}-health",
            lambda score: score.status.conditions[0].status == "False",
            namespace=cluster,
        )
        (condition,) = score.status.conditions
        assert (condition.reason, condition.message, condition.lastUpdateTime) == ("NotListed", "no", began)
        mark = {"type": SILENT, "status": "True", "reason": "ScoreExpired", "message": "ran out"}
        await say(mark, until=None)
        await until_deleted(fleet.client, MANAGED_CLUSTER_SCORES, f"{cluster}-health", namespace=cluster)


async def test_future_update_time_does_not_extend_validity(hub: HubUnderTest, fleet: HubFleet) -> None:
    clock, ahead = ManualClock(), ManualClock()
    ahead.advance(86_400)
    async with bridging(hub, clock=clock) as running:
        await calculate(fleet, "a", "cpu", 50, clock=ahead)
        score = await bridged(fleet, "a", having(cpu=50))
        assert score.status.validUntil == clock.wall() + timedelta(seconds=300)
        clock.advance(300)
        cluster = fleet.name("a")
        running.controller.queue.add(AddOnCopyKey(cluster))
        await until_deleted(fleet.client, ADD_ON_PLACEMENT_SCORES, RESOURCE, namespace=cluster)
        ahead.advance(1)
        await calculate(fleet, "a", "cpu", 50, clock=ahead)
        score = await bridged(fleet, "a", having(cpu=50))
        assert score.status.validUntil == clock.wall() + timedelta(seconds=300)


@pytest.mark.both_hubs
async def test_bridging_both_ways_converges(hub: HubUnderTest, fleet: HubFleet) -> None:
    clock = ManualClock()
    async with bridging(hub, clock=clock) as running:
        await calculate(fleet, "a", "cpu", 50, clock=clock)
        await fleet.score("a", {"cpu": 1, "disk": 2}, resource="usage")
        await bridged(fleet, "a", having(cpu=50))
        await mirrored(fleet, "a", "disk", 2)
        settled = await _rest(fleet, running)
        # The name that both have is the original's on its own side, and is not copied over it.
        cpu = await mirrored(fleet, "a", "cpu", 50)
        assert "fairway.dev/source" not in cpu.metadata.labels
        for key in list(running.controller.keys()):
            running.controller.queue.add(key)
        assert await _rest(fleet, running) == settled


async def _rest(fleet: HubFleet, running: RunningController) -> list[tuple[str, str, str]]:
    """The objects after the controller has processed all changes."""
    await running.settled()
    return await versions(fleet)


async def test_objects_of_other_owners_are_not_changed_by_the_bridge(
    hub: HubUnderTest, fleet: HubFleet
) -> None:
    clock = ManualClock()
    mine = await fleet.score("a", {"mine": 1}, resource=RESOURCE)
    theirs = await calculate(fleet, "a", "mine", 7, clock=clock)
    async with bridging(hub, clock=clock) as running:
        await _rest(fleet, running)
    cluster = fleet.name("a")
    left = await fleet.client.get(ADD_ON_PLACEMENT_SCORES, RESOURCE, namespace=cluster)
    assert left.metadata.resourceVersion == mine.metadata.resourceVersion
    kept = await fleet.client.get(MANAGED_CLUSTER_SCORES, f"{cluster}-mine", namespace=cluster)
    assert kept.metadata.resourceVersion == theirs.metadata.resourceVersion


async def test_copies_of_a_disabled_direction_are_deleted(hub: HubUnderTest, fleet: HubFleet) -> None:
    clock = ManualClock()
    async with bridging(hub, clock=clock):
        await fleet.score("a", {"disk": 2}, resource="usage")
        await mirrored(fleet, "a", "disk", 2)
    async with bridging(hub, BridgeOptions(), clock=clock):
        cluster = fleet.name("a")
        await until_deleted(fleet.client, MANAGED_CLUSTER_SCORES, f"{cluster}-disk", namespace=cluster)


async def test_unchanged_renewals_are_copied_at_half_validity(hub: HubUnderTest, fleet: HubFleet) -> None:
    clock = ManualClock()
    async with bridging(hub, clock=clock) as running:
        await calculate(fleet, "a", "cpu", 50, clock=clock)
        await bridged(fleet, "a", having(cpu=50))
        await _rest(fleet, running)
        before = _writes(running)
        for _ in range(20):
            clock.advance(30)
            await running.caught_up(
                MANAGED_CLUSTER_SCORES, await calculate(fleet, "a", "cpu", 50, clock=clock)
            )
        await _rest(fleet, running)
        assert _writes(running) - before == 20 * 30 / 150
        score = await bridged(fleet, "a", having(cpu=50))
        assert score.status.validUntil is not None
        assert score.status.validUntil > clock.wall()


def _writes(running: RunningController) -> float:
    figures = values(running.controller.meters.expose())
    return sum(value for name, value in figures.items() if name.startswith("fairway_writes_total"))


async def test_bridge_writes_nothing_after_the_term(
    hub: HubUnderTest, fleet: HubFleet, client: Client
) -> None:
    class EndedTerm:
        def batch(self) -> Any:
            return ALONE.batch()

        def ensure(self) -> None:
            raise Lost("the term is over")

    clock = ManualClock()
    async with bridging(hub, BridgeOptions(calculators=frozenset({"none"})), clock=clock) as running:
        written = await calculate(fleet, "a", "cpu", 50, clock=clock)
        await running.caught_up(MANAGED_CLUSTER_SCORES, written)
        bridge = BridgeController(client, meters=Meters(), clock=clock)
        bridge.watch(running.informers)
        with leading(EndedTerm()), pytest.raises(Lost):
            await bridge.reconcile(AddOnCopyKey(fleet.name("a")))
    assert [score.metadata.name for score in (await client.list(ADD_ON_PLACEMENT_SCORES)).items] == []
