"""Clusters with health under the test's control, on a hub with the recovery controller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from clocks import ManualClock
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, at_work
from controllers.settling import DEADLINE
from fairway.api.cluster import ManagedCluster, Taint
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS
from fairway.api.score import ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.recovery import RULES, RecoveryController, RecoveryPolicy
from fairway.controllers.recovery.conditions import HEALTHY
from fairway.controllers.recovery.taints import KEY
from fairway.observe.meters import Meters
from kubewire.api.event import Event
from kubewire.api.meta import Condition, find_condition, format_time
from kubewire.client import AlreadyExists, Client, Informer
from kubewire.client.events import EVENTS

VALID = timedelta(seconds=180)
SICK, SO_SO, WELL = 10, 50, 80


class RecoveryHarness:
    """``clock`` advances only by ``passes``, which also renews all scores."""

    def __init__(
        self, fleet: HubFleet, running: RunningController, clock: ManualClock, *, calculator: str = ""
    ) -> None:
        self.fleet, self.running, self.clock, self._calculator = fleet, running, clock, calculator
        self._health: dict[str, int] = {}

    async def clusters(self, *names: str, health: int = WELL) -> None:
        await self.fleet.clusters(*names)
        for name in names:
            await self._publish(name, health)
        await self.running.settled()

    async def publish(self, name: str, health: int) -> None:
        """Until recovery has seen it, and done what there is to do."""
        await self._publish(name, health)
        await self.running.settled()

    async def _publish(self, name: str, health: int) -> None:
        self._health[name] = health
        if self._calculator:
            await self.running.observed(MANAGED_CLUSTER_SCORES, await self._calculate(name, health))
            return
        score = await self.fleet.score(
            name, {"health": health}, resource="health-score", valid_until=self.clock.wall() + VALID
        )
        await self.running.observed(ADD_ON_PLACEMENT_SCORES, score, fields="metadata.name=health-score")

    async def _calculate(self, name: str, health: int) -> ManagedClusterScore:
        cluster = await self.fleet.create_namespace(name)
        name = managed_cluster_score_name(cluster=cluster, calculator=self._calculator)
        with suppress(AlreadyExists):
            body = {"metadata": {"name": name}}
            await self.fleet.client.create(MANAGED_CLUSTER_SCORES, body, namespace=cluster)
        moment = format_time(self.clock.wall())
        condition = {
            "type": "ManagedClusterScoreUpdated",
            "status": "True",
            "reason": "ManagedClusterScoreUpdated",
            "message": "ManagedClusterScore updated successfully",
            "lastTransitionTime": moment,
            "lastUpdateTime": moment,
        }
        status = {"status": {"conditions": [condition], "score": health}}
        return await self.fleet.edit(MANAGED_CLUSTER_SCORES, name, status, namespace=cluster, status=True)

    async def passes(self, seconds: float) -> None:
        """Advance in steps shorter than the validity of scores."""
        while seconds > 0:
            step = min(seconds, VALID.total_seconds() / 2)
            seconds -= step
            self.clock.advance(step)
            for name, health in self._health.items():
                await self._publish(name, health)
            await self.running.settled()

    async def cluster(self, name: str) -> ManagedCluster:
        return await self.fleet.client.get(MANAGED_CLUSTERS, self.fleet.name(name))

    async def taints(self, name: str) -> list[Taint]:
        return list((await self.cluster(name)).spec.taints)

    async def tainted(self) -> list[str]:
        """The words of the clusters that bear the taint."""
        clusters = (await self.fleet.client.list(MANAGED_CLUSTERS)).items
        return sorted(
            self.fleet.short(cluster.metadata.name)
            for cluster in clusters
            if any(taint.key == KEY for taint in cluster.spec.taints)
        )

    async def condition(self, name: str) -> Condition | None:
        return find_condition((await self.cluster(name)).status.conditions or (), HEALTHY)

    async def reason(self, name: str) -> str:
        condition = await self.condition(name)
        return "" if condition is None else condition.reason

    async def event(self, name: str, reason: str) -> Event:
        """As soon as there is one."""
        name = self.fleet.name(name)
        async with (
            asyncio.timeout(DEADLINE),
            Informer(self.fleet.client, EVENTS, namespace="default") as all_,
        ):
            async for _ in all_.changes():
                for obj in all_.store.values():
                    if (obj.regarding.name, obj.reason) == (name, reason):
                        return obj
        raise AssertionError

    async def override(self, name: str, value: str | None) -> None:
        body = {"metadata": {"annotations": {"fairway.dev/recovery": value}}}
        written = await self.fleet.edit(MANAGED_CLUSTERS, self.fleet.name(name), body)
        await self.running.caught_up(MANAGED_CLUSTERS, written)


@asynccontextmanager
async def harness(
    hub: HubUnderTest,
    fleet: HubFleet,
    *,
    policy: RecoveryPolicy | None = None,
    clock: ManualClock | None = None,
) -> AsyncIterator[RecoveryHarness]:
    clock, policy = clock or ManualClock(), policy or RecoveryPolicy()

    def make(client: Client) -> RecoveryController:
        return RecoveryController(client, meters=Meters(), policy=policy, clock=clock)

    async with at_work(hub, make, rules=RULES) as running:
        calculator = "" if policy.health.resource else policy.health.score
        yield RecoveryHarness(fleet, running, clock, calculator=calculator)
