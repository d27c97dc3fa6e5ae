"""What becomes of recovery's writes when hubs, webhooks and terms fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clocks import ManualClock
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.recovery.harness import SICK, WELL, RecoveryHarness
from controllers.running import at_work
from fairway.api.cluster import WEBHOOK_SETS_TIME_ADDED, ManagedCluster
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.controllers.recovery import RULES, Budget, RecoveryController, RecoveryPolicy
from fairway.controllers.recovery import controller as module
from fairway.controllers.recovery.keys import ClusterKey
from fairway.controllers.recovery.taints import KEY
from fairway.controllers.runtime.leadership import ALONE, leading
from fairway.observe.meters import Meters
from kubewire.client import BadRequest, Client, TransportError
from kubewire.client.fence import Lost
from metric_values import values
from rigs.waiting import until

ONE = RecoveryPolicy(fleet=Budget(percent=100, count=1), per_set=Budget(percent=100))
pytestmark = [pytest.mark.parametrize("hub", ["embedded"], indirect=True), pytest.mark.usefixtures("empty")]

Patching = Callable[..., Any]


@asynccontextmanager
async def harness(
    hub: HubUnderTest,
    fleet: HubFleet,
    *,
    policy: RecoveryPolicy = ONE,
    around: Callable[[Patching], Patching],
) -> AsyncIterator[RecoveryHarness]:
    """``around`` makes something else of the client's patches."""
    clock = ManualClock()

    def make(client: Client) -> RecoveryController:
        setattr(client, "patch", around(client.patch))  # noqa: B010 - mypy forbids the plain assignment
        return RecoveryController(client, meters=Meters(), policy=policy, clock=clock)

    async with at_work(hub, make, rules=RULES) as running:
        yield RecoveryHarness(fleet, running, clock)


def tainted(cluster: ManagedCluster) -> bool:
    return any(taint.key == KEY for taint in cluster.spec.taints)


async def test_lost_response_does_not_use_up_the_budget(hub: HubUnderTest, fleet: HubFleet) -> None:
    """The response to a taint is lost; then that cluster recovers and another one becomes unhealthy."""
    lost: list[str] = []

    def around(patch: Patching) -> Patching:
        async def losing(resource: Any, name: str, body: Any, **options: Any) -> Any:
            answer = await patch(resource, name, body, **options)
            if not lost and "taints" in str(body):
                lost.append(name)
                raise TransportError("the answer was lost")
            return answer

        return losing

    async with harness(hub, fleet, around=around) as here:
        await here.clusters("a", "b", "c", "d")
        await here.publish("a", SICK)
        await here.passes(700)
        await here.publish("b", SICK)
        await here.passes(400)
        assert lost == [fleet.name("a")]
        assert await here.tainted() == ["a"]


async def test_taints_are_written_without_time_beside_a_stamping_webhook(
    hub: HubUnderTest, fleet: HubFleet
) -> None:
    def around(patch: Patching) -> Patching:
        async def refusing(resource: Any, name: str, body: Any, **options: Any) -> Any:
            if "timeAdded" in str(body):
                raise BadRequest(f"admission webhook denied: {WEBHOOK_SETS_TIME_ADDED} of taint")
            return await patch(resource, name, body, **options)

        return refusing

    async with harness(hub, fleet, around=around) as here:
        await here.clusters("a", "b")
        await here.publish("a", SICK)
        await here.passes(300)
        (taint,) = await here.taints("a")
        assert taint.timeAdded is None


async def test_rejected_taint_leaves_the_budget_to_the_next_cluster(
    hub: HubUnderTest, fleet: HubFleet
) -> None:
    refused = asyncio.Event()

    def around(patch: Patching) -> Patching:
        async def refusing(resource: Any, name: str, body: Any, **options: Any) -> Any:
            if name == fleet.name("a") and "taints" in str(body):
                refused.set()
                raise BadRequest("this cluster is not to be tainted")
            return await patch(resource, name, body, **options)

        return refusing

    async with harness(hub, fleet, around=around) as here:
        await here.clusters("a", "b", "c", "d", "e")
        await here.publish("a", SICK - 10)
        await here.publish("b", SICK)
        await here.passes(300)
        await refused.wait()
        await here.publish("b", SICK + 1)
        await until(fleet.client, MANAGED_CLUSTERS, fleet.name("b"), tainted)
        assert await here.tainted() == ["b"]
        await here.publish("a", WELL)


async def test_recovery_writes_nothing_after_the_term(hub: HubUnderTest, fleet: HubFleet) -> None:
    class EndedTerm:
        def batch(self) -> Any:
            return ALONE.batch()

        def ensure(self) -> None:
            raise Lost("the term is over")

    async with harness(hub, fleet, around=lambda patch: patch) as here:
        await here.clusters("a", "b")
        recovery = here.running.controller
        assert isinstance(recovery, RecoveryController)
        await here.publish("a", SICK)
        await here.passes(270)
        here.clock.advance(30)  # no reconcile has run since
        with leading(EndedTerm()), pytest.raises(Lost):
            await recovery.reconcile(ClusterKey(fleet.name("a")))
        assert await here.tainted() == []
        assert not recovery.machine.is_taint_uncertain(fleet.name("a"))
        await here.publish("a", WELL)


async def test_new_leader_counts_taints_that_the_watch_has_not_delivered(
    hub: HubUnderTest, fleet: HubFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness(hub, fleet, around=lambda patch: patch) as here:
        await here.clusters("a", "b", "c", "d")
        recovery = here.running.controller
        assert isinstance(recovery, RecoveryController)
        clusters = here.running.informers.of(MANAGED_CLUSTERS)._replica
        apply = clusters.apply
        monkeypatch.setattr(clusters, "apply", lambda *_, **__: apply(()))
        taint = {"key": KEY, "value": "HealthLow", "effect": "NoSelect"}
        await fleet.edit(MANAGED_CLUSTERS, fleet.name("a"), {"spec": {"taints": [taint]}})
        assert recovery.machine.census().tainted == 0
        await recovery._catch_up()
        assert recovery.machine.census().tainted == 1


async def test_no_cluster_is_tainted_while_the_score_watch_is_down(
    hub: HubUnderTest, fleet: HubFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.01)
    async with harness(hub, fleet, around=lambda patch: patch) as here:
        await here.clusters("a", "b", "c")
        await here.publish("a", SICK)
        await here.passes(180)
        scores = here.running.informers.of(ADD_ON_PLACEMENT_SCORES, fields="metadata.name=health-score")
        recovery = here.running.controller
        assert isinstance(recovery, RecoveryController)
        assert scores._clock is not None
        scores._current, scores._current_at = False, scores._clock() - 3600.0
        here.clock.advance(60)
        machine = recovery.machine
        async with asyncio.timeout(120):
            while machine._due.since(machine._states[fleet.name("a")]) != here.clock.monotonic():
                await asyncio.sleep(0.01)
        scores._current = True
        await here.passes(299)
        assert await here.tainted() == []
        await here.passes(1)
        assert await here.tainted() == ["a"]


async def test_recovery_metrics(hub: HubUnderTest, fleet: HubFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.01)
    async with harness(hub, fleet, around=lambda patch: patch) as here:
        await here.clusters("a", "b", "c", "d", "e")
        await fleet.cluster("silent")
        await here.override("e", "off")
        await here.publish("a", SICK)
        await here.publish("b", SICK)
        await here.passes(300)
        wanted = {"low": 2, "tainted": 1, "held": 1, "exempt": 1, "unknown": 1}
        async with asyncio.timeout(120):
            while True:
                metrics = values(here.running.controller.meters.expose())
                states = {key: metrics[f'fairway_recovery_clusters{{state="{key}"}}'] for key in wanted}
                if states == wanted:
                    break
                await asyncio.sleep(0.01)
        assert metrics["fairway_recovery_provider_suspected"] == 0
