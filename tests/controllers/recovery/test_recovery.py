"""Recovery on a hub, with placements that follow it. Hours pass in an instant: the clock is the test's."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from clocks import ManualClock
from controllers.conftest import Start
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.recovery.harness import SICK, SO_SO, WELL, RecoveryHarness, harness
from controllers.running import RunningController
from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.controllers.manager import Manager
from fairway.controllers.recovery import Budget, HealthSource, RecoveryPolicy
from fairway.controllers.recovery.conditions import NOT_LOW_ANY_MORE, RELEASED
from fairway.controllers.recovery.controller import HELD_EVENT, RECOVERED_EVENT, UNHEALTHY_EVENT
from fairway.controllers.recovery.decision import EXEMPT, LOW, MISSING, OVER_BUDGET, RECOVERED, SUSPECT
from fairway.controllers.recovery.policy import UNHEALTHY
from fairway.controllers.recovery.taints import KEY
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.scores.policy import SilencePolicy as Silencing
from fairway.controllers.scores.silence_marker import silent_status
from fairway.controllers.settings import BRIDGE, RECOVERY, Settings
from rigs.waiting import until

pytestmark = [pytest.mark.usefixtures("empty"), pytest.mark.embedded]

EMBEDDED = pytest.mark.parametrize("hub", ["embedded"], indirect=True)
"""For what depends on decisions and not on the API server: a real one takes its time."""

ROOMY = RecoveryPolicy(fleet=Budget(percent=100), per_set=Budget(percent=100))


@pytest.fixture
async def here(hub: HubUnderTest, fleet: HubFleet) -> AsyncIterator[RecoveryHarness]:
    """With the default policy."""
    async with harness(hub, fleet) as opened:
        yield opened


@pytest.mark.both_hubs
async def test_placement_leaves_an_unhealthy_cluster_and_returns_after_recovery_dwell(
    here: RecoveryHarness, manager: Manager, fleet: HubFleet
) -> None:
    await here.clusters("a", "b", "c")
    await fleet.place("p")
    await fleet.place("tolerant", PlacementSpec(tolerations=(Toleration(key=KEY, operator="Exists"),)))
    await fleet.chooses("p", "a", "b", "c")
    await fleet.chooses("tolerant", "a", "b", "c")
    await here.publish("a", SICK)
    await here.passes(299)
    assert await here.tainted() == []
    assert await here.reason("a") == ""
    await here.passes(1)
    await fleet.chooses("p", "b", "c")
    assert fleet.chosen("tolerant") == ["a", "b", "c"]
    (taint,) = await here.taints("a")
    assert (taint.value, taint.effect, taint.timeAdded) == (LOW, "NoSelect", here.clock.wall())
    condition = await here.condition("a")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", LOW)
    assert condition.message == (
        "health-score/health is 10, below 40 since 2026-03-01T12:00:00Z: "
        "the cluster is tainted NoSelect until it is at least 60 for 900 s"
    )
    event = await here.event("a", UNHEALTHY_EVENT)
    assert (event.type, event.note, event.reportingController) == (
        "Warning",
        condition.message,
        "fairway-recovery",
    )
    await here.publish("a", WELL)
    await here.passes(899)
    assert await here.tainted() == ["a"]
    await here.passes(1)
    await fleet.chooses("p", "a", "b", "c")
    condition = await here.condition("a")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", RECOVERED)
    assert condition.message == (
        "health-score/health is 80, at least 60 since 2026-03-01T12:05:00Z: the taint is removed"
    )
    assert (await here.event("a", RECOVERED_EVENT)).type == "Normal"


@EMBEDDED
async def test_short_health_changes_are_ignored(here: RecoveryHarness) -> None:
    await here.clusters("a", "b")
    for _ in range(4):
        await here.publish("a", SICK)
        await here.passes(200)
        await here.publish("a", SO_SO)
        await here.passes(10)
    assert await here.tainted() == []
    await here.publish("a", SICK)
    await here.passes(300)
    assert await here.tainted() == ["a"]
    for _ in range(4):
        await here.publish("a", WELL)
        await here.passes(600)
        await here.publish("a", SO_SO)  # neither well nor unhealthy
        await here.passes(10)
    assert await here.tainted() == ["a"]


async def test_least_healthy_clusters_are_tainted_within_the_budget(
    hub: HubUnderTest, fleet: HubFleet
) -> None:
    policy = replace(ROOMY, fleet=Budget(percent=20))
    async with harness(hub, fleet, policy=policy) as here:
        await here.clusters("a", "b", "c", "d", "e", "f", "g", "h")
        await here.publish("a", SICK)
        await here.publish("b", SICK - 10)
        await here.publish("c", SICK - 1)
        await here.passes(300)
        assert await here.tainted() == ["b"]
        condition = await here.condition("a")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", OVER_BUDGET)
        assert condition.message == (
            "health-score/health is 10, below 40 since 2026-03-01T12:00:00Z, but it is not tainted: "
            "the budget of 1 tainted clusters is used up (1 tainted)"
        )
        assert (await here.event("a", HELD_EVENT)).type == "Warning"
        await here.publish("a", SO_SO)
        await here.passes(1)
        assert await here.reason("a") == NOT_LOW_ANY_MORE
        await here.publish("b", WELL)
        await here.passes(900)
        assert await here.tainted() == ["c"]
        assert await here.reason("c") == LOW


@EMBEDDED
async def test_each_cluster_set_has_its_own_budget(hub: HubUnderTest, fleet: HubFleet) -> None:
    await fleet.cluster_set("other")
    async with harness(hub, fleet, policy=replace(ROOMY, per_set=Budget(percent=50))) as here:
        await here.clusters("a", "b", "c")
        for word in ("x", "y"):
            await fleet.cluster(word, member_of="other")
            await here.publish(word, WELL)
        await here.publish("a", SICK)
        await here.passes(700)
        await here.publish("b", SICK)
        await here.passes(300)
        assert await here.tainted() == ["a"]
        condition = await here.condition("b")
        assert condition is not None
        assert f"tainted clusters in cluster set {fleet.name('s')} is used up" in condition.message
        await here.passes(400)
        await here.publish("y", SICK)
        await here.passes(300)
        assert await here.tainted() == ["a", "y"]


@EMBEDDED
async def test_last_available_cluster_is_not_tainted(hub: HubUnderTest, fleet: HubFleet) -> None:
    away = Taint(key="cluster.open-cluster-management.io/unreachable", effect="NoSelect")
    async with harness(hub, fleet, policy=ROOMY) as here:
        await here.clusters("a", "b", "c")
        for word in ("b", "c"):
            written = await fleet.change_cluster(word, taints=(away,))
            await here.running.caught_up(MANAGED_CLUSTERS, written)
        await here.publish("a", SICK)
        await here.passes(300)
        assert await here.tainted() == []
        condition = await here.condition("a")
        assert condition is not None
        assert (condition.reason, condition.message.rpartition(": ")[2]) == (
            OVER_BUDGET,
            "no other cluster of the fleet is available",
        )
        written = await fleet.change_cluster("b", taints=())
        await here.running.caught_up(MANAGED_CLUSTERS, written)
        assert await here.tainted() == ["a"]


@EMBEDDED
async def test_invalid_recovery_annotation_is_reported(
    here: RecoveryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await here.clusters("a", "b")
    await here.override("a", "on")
    await here.override("a", "false")
    (warning,) = [message for message in caplog.messages if "fairway.dev/recovery" in message]
    assert warning.endswith(
        "annotation fairway.dev/recovery: false has no effect; write off to exempt this cluster from recovery"
    )
    await here.publish("a", SICK)
    await here.passes(300)
    assert await here.tainted() == ["a"]


@EMBEDDED
async def test_only_cluster_of_a_set_is_not_tainted(hub: HubUnderTest, fleet: HubFleet) -> None:
    await fleet.cluster_set("other")
    async with harness(hub, fleet, policy=ROOMY) as here:
        await here.clusters("a", "b", "c")
        await fleet.cluster("x", member_of="other")
        await here.publish("x", SICK)
        await here.passes(300)
        assert await here.tainted() == []
        condition = await here.condition("x")
        assert condition is not None
        assert condition.message.endswith(f"it is the only cluster of cluster set {fleet.name('other')}")


@EMBEDDED
async def test_failing_health_provider_taints_no_cluster(hub: HubUnderTest, fleet: HubFleet) -> None:
    async with harness(hub, fleet, policy=ROOMY) as here:
        await here.clusters("a", "b", "c", "d")
        for word in ("a", "b", "c"):
            await here.publish(word, -100)
        await here.passes(3600)
        assert await here.tainted() == []
        condition = await here.condition("a")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", SUSPECT)
        assert "3 of 4 clusters became unhealthy within 600 s" in condition.message
        await here.publish("b", WELL)
        await here.publish("c", WELL)
        await here.passes(1)  # now it is one cluster, and has been for an hour
        assert await here.tainted() == ["a"]
        assert await here.reason("b") == NOT_LOW_ANY_MORE


@pytest.mark.both_hubs
async def test_foreign_taints_stay_unchanged(here: RecoveryHarness, fleet: HubFleet) -> None:
    moment = here.clock.wall()
    others = [
        Taint(key="gpu", value="only", effect="NoSelect", timeAdded=moment),
        Taint(key=KEY, value="by hand", effect="NoSelect", timeAdded=moment),
        Taint(key=KEY, value=LOW, effect="PreferNoSelect", timeAdded=moment),
    ]
    await fleet.cluster("a", taints=others)
    await here.clusters("b", "c")
    await here.publish("a", SICK)
    await here.passes(300)
    *kept, ours = await here.taints("a")
    assert kept == others
    assert (ours.key, ours.value, ours.effect) == (KEY, LOW, "NoSelect")
    await here.publish("a", WELL)
    await here.passes(900)
    assert await here.taints("a") == others


async def test_exempt_cluster_is_not_tainted(here: RecoveryHarness, fleet: HubFleet) -> None:
    await here.clusters("a", "b")
    await here.override("a", "off")
    await here.publish("a", SICK)
    await here.passes(900)
    assert await here.tainted() == []
    assert await here.condition("a") is None
    await here.override("a", None)
    await here.passes(300)
    assert await here.tainted() == ["a"]
    await here.override("a", "OFF")
    assert await here.tainted() == []
    condition = await here.condition("a")
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", EXEMPT)


@EMBEDDED
async def test_removed_taint_returns_after_the_full_dwell(here: RecoveryHarness, fleet: HubFleet) -> None:
    await here.clusters("a", "b")
    await here.publish("a", SICK)
    await here.passes(300)
    assert await here.tainted() == ["a"]
    written = await fleet.change_cluster("a", taints=())
    await here.running.caught_up(MANAGED_CLUSTERS, written)
    await here.passes(299)
    assert await here.tainted() == []
    assert await here.reason("a") == RELEASED
    await here.passes(1)
    assert await here.tainted() == ["a"]
    assert await here.reason("a") == LOW


@EMBEDDED
async def test_new_process_keeps_taints_and_restarts_dwell_times(hub: HubUnderTest, fleet: HubFleet) -> None:
    async with harness(hub, fleet) as here:
        await here.clusters("a", "b", "c")
        await here.publish("a", SICK)
        await here.passes(300)
        await here.publish("b", SICK)
        await here.passes(299)
    async with harness(hub, fleet, clock=here.clock) as anew:
        await anew.publish("c", WELL)
        await anew.publish("a", WELL)
        await anew.publish("b", SICK)
        assert await anew.tainted() == ["a"]
        await anew.passes(299)
        assert await anew.reason("b") == ""
        await anew.passes(601)
        assert await anew.tainted() == ["b"]  # the place of the other, which has been well for long enough


@EMBEDDED
@pytest.mark.parametrize("missing", ["ignore", UNHEALTHY])
async def test_expired_health_counts_as_missing(hub: HubUnderTest, fleet: HubFleet, missing: str) -> None:
    async with harness(hub, fleet, policy=RecoveryPolicy(missing=missing)) as here:
        await here.clusters("a", "b", "c")
        await here.publish("a", SICK)
        here._health.pop("a")
        await here.passes(179)
        await here.passes(1)  # its score has expired now; the others' were renewed
        written = await fleet.change_cluster("a", labels={"touched": "now"})
        await here.running.caught_up(MANAGED_CLUSTERS, written)
        await here.passes(900)
        written = await fleet.change_cluster("a", labels={"touched": "again"})
        await here.running.caught_up(MANAGED_CLUSTERS, written)
        assert await here.tainted() == (["a"] if missing == UNHEALTHY else [])
        if missing == UNHEALTHY:
            assert await here.reason("a") == MISSING


@EMBEDDED
@pytest.mark.parametrize("missing", ["ignore", UNHEALTHY])
async def test_silenced_score_is_not_health(hub: HubUnderTest, fleet: HubFleet, missing: str) -> None:
    """The replacement value is for consumers that ignore validUntil; the health itself is unknown."""
    async with harness(hub, fleet, policy=RecoveryPolicy(missing=missing)) as here:
        await here.clusters("a", "b", "c")
        here._health.pop("a")
        resource, namespace = "health-score", fleet.name("a")
        score = await fleet.client.get(ADD_ON_PLACEMENT_SCORES, resource, namespace=namespace)
        status = silent_status(
            score, Silencing(), reason="ScoreExpired", since=here.clock.wall(), clock=here.clock
        )
        marked = await fleet.edit(
            ADD_ON_PLACEMENT_SCORES, resource, {"status": status}, namespace=namespace, status=True
        )
        assert [item.value for item in marked.status.scores] == [-100]
        await here.running.caught_up(ADD_ON_PLACEMENT_SCORES, marked, fields="metadata.name=health-score")
        await here.passes(900)
        written = await fleet.change_cluster("a", labels={"touched": "now"})
        await here.running.caught_up(MANAGED_CLUSTERS, written)
        assert await here.tainted() == (["a"] if missing == UNHEALTHY else [])
        assert await here.reason("a") == (MISSING if missing == UNHEALTHY else "")


@EMBEDDED
async def test_missing_health_does_not_remove_the_taint(here: RecoveryHarness, fleet: HubFleet) -> None:
    await here.clusters("a", "b")
    await here.publish("a", SICK)
    await here.passes(300)
    here._health.pop("a")
    await fleet.client.delete(ADD_ON_PLACEMENT_SCORES, "health-score", namespace=fleet.name("a"))
    await here.passes(3600)
    assert await here.tainted() == ["a"]


async def test_health_is_read_from_a_calculator(hub: HubUnderTest, fleet: HubFleet) -> None:
    """Thresholds are in the unit of the calculator."""
    policy = RecoveryPolicy(health=HealthSource.parse("Heartbeats"), below=1000, above=5000)
    async with harness(hub, fleet, policy=policy) as here:
        await here.clusters("a", "b", health=7000)
        await here.publish("a", 400)
        await here.passes(300)
        assert await here.tainted() == ["a"]
        condition = await here.condition("a")
        assert condition is not None
        assert condition.message.startswith("heartbeats is 400, below 1000")
        await here.publish("a", 5000)
        await here.passes(900)
        assert await here.tainted() == []


async def test_no_select_if_new_keeps_existing_decisions(
    hub: HubUnderTest, manager: Manager, fleet: HubFleet
) -> None:
    """A process with another effect than the previous one corrects the taint."""
    async with harness(hub, fleet, policy=RecoveryPolicy(effect="NoSelectIfNew")) as here:
        await here.clusters("a", "b")
        await fleet.place("old")
        await fleet.chooses("old", "a", "b")
        await here.publish("a", SICK)
        await here.passes(300)
        await fleet.settled(manager)  # clusters selected before the taint stay
        await fleet.place("new")
        await fleet.chooses("new", "b")
        assert fleet.chosen("old") == ["a", "b"]
    async with harness(hub, fleet, clock=here.clock):
        await fleet.chooses("old", "b")
    assert [taint.effect for taint in await here.taints("a")] == ["NoSelect"]


@EMBEDDED
async def test_deleted_and_unaccepted_clusters_are_ignored_by_recovery(
    here: RecoveryHarness, fleet: HubFleet
) -> None:
    await here.clusters("a", "b", "c")
    written = await fleet.edit(MANAGED_CLUSTERS, fleet.name("a"), {"spec": {"hubAcceptsClient": False}})
    await here.running.caught_up(MANAGED_CLUSTERS, written)
    await here.publish("a", SICK)
    await here.publish("b", SICK)
    await here.passes(300)
    assert await here.tainted() == ["b"]
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("b"))
    await here.running.settled()
    await here.publish("c", SICK)
    await here.passes(300)
    assert await here.reason("c") == OVER_BUDGET  # it is the only one left


@pytest.mark.both_hubs
async def test_recovery_runs_with_the_installed_rights(start: Start, fleet: HubFleet) -> None:
    """As ``fairway run`` runs it, beside the bridge: health is published as one kind and read as the other."""
    clock = ManualClock()
    settings = Settings(
        controllers=frozenset({BRIDGE, RECOVERY}),
        election=None,
        recovery=RecoveryPolicy(health=HealthSource.parse("managed-cluster-scores/health")),
    )
    async with start(settings, clock=clock) as manager:
        controller = manager.controllers[RECOVERY]
        assert isinstance(controller, Reconciler)
        running = RunningController(controller, manager.informers)
        here = RecoveryHarness(fleet, running, clock, calculator="health")
        await here.clusters("a", "b", "c")
        await here.publish("a", SICK)
        await bridged(fleet, "a", SICK)
        await fleet.settled(manager)
        for _ in range(5):
            clock.advance(60)
            for word, health in (("a", SICK), ("b", WELL), ("c", WELL)):
                await here.publish(word, health)
            await fleet.settled(manager)
        written = await fleet.change_cluster("a", labels={"touched": "now"})
        await running.caught_up(MANAGED_CLUSTERS, written)
        await until(
            fleet.client, MANAGED_CLUSTERS, fleet.name("a"), lambda cluster: bool(cluster.spec.taints)
        )
        assert await here.tainted() == ["a"]
        assert (await here.event("a", UNHEALTHY_EVENT)).type == "Warning"


async def bridged(fleet: HubFleet, word: str, health: int) -> None:
    def wanted(score: AddOnPlacementScore) -> bool:
        return [item.value for item in score.status.scores] == [health]

    namespace = fleet.name(word)
    await until(fleet.client, ADD_ON_PLACEMENT_SCORES, "managed-cluster-scores", wanted, namespace=namespace)
