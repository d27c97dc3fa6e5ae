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
from fairway.api.event import Event
from fairway.api.meta import Condition, find_condition, format_time
from fairway.api.score import ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.recovery import RULES, RecoveryController, RecoveryPolicy
from fairway.controllers.recovery.conditions import HEALTHY
from fairway.controllers.recovery.taints import KEY
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTERS,
    AlreadyExists,
    Client,
    Informer,
)
from fairway.kube.events import EVENTS
from fairway.observe.meters import Meters

VALID = timedelta(seconds=180)
SICK, SO_SO, WELL = 10, 50, 80


class RecoveryHarness:
    """``clock`` advances only by ``passes``, which also renews all scores."""

    def __init__(
        self, fleet: HubFleet, running: RunningController, clock: ManualClock, *, calculator: str = ""
    ) -> None:
        self.fleet, self.running, self.clock, self._calculator = fleet, running, clock, calculator
        self._health: dict[str, int] = {}

    async def clusters(self, *words: str, health: int = WELL) -> None:
        await self.fleet.clusters(*words)
        for word in words:
            await self._publish(word, health)
        await self.running.settled()

    async def publish(self, word: str, health: int) -> None:
        """Until recovery has seen it, and done what there is to do."""
        await self._publish(word, health)
        await self.running.settled()

    async def _publish(self, word: str, health: int) -> None:
        self._health[word] = health
        if self._calculator:
            await self.running.observed(MANAGED_CLUSTER_SCORES, await self._calculate(word, health))
            return
        score = await self.fleet.score(
            word, {"health": health}, resource="health-score", valid_until=self.clock.wall() + VALID
        )
        await self.running.observed(ADD_ON_PLACEMENT_SCORES, score, fields="metadata.name=health-score")

    async def _calculate(self, word: str, health: int) -> ManagedClusterScore:
        cluster = await self.fleet.create_namespace(word)
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
            for word, health in self._health.items():
                await self._publish(word, health)
            await self.running.settled()

    async def cluster(self, word: str) -> ManagedCluster:
        return await self.fleet.client.get(MANAGED_CLUSTERS, self.fleet.name(word))

    async def taints(self, word: str) -> list[Taint]:
        return list((await self.cluster(word)).spec.taints)

    async def tainted(self) -> list[str]:
        """The words of the clusters that bear the taint."""
        there = (await self.fleet.client.list(MANAGED_CLUSTERS)).items
        return sorted(
            self.fleet.short(each.metadata.name)
            for each in there
            if any(taint.key == KEY for taint in each.spec.taints)
        )

    async def condition(self, word: str) -> Condition | None:
        return find_condition((await self.cluster(word)).status.conditions or (), HEALTHY)

    async def reason(self, word: str) -> str:
        found = await self.condition(word)
        return "" if found is None else found.reason

    async def event(self, word: str, reason: str) -> Event:
        """As soon as there is one."""
        name = self.fleet.name(word)
        async with (
            asyncio.timeout(DEADLINE),
            Informer(self.fleet.client, EVENTS, namespace="default") as all_,
        ):
            async for _ in all_.changes():
                for each in all_.store.values():
                    if (each.regarding.name, each.reason) == (name, reason):
                        return each
        raise AssertionError

    async def override(self, word: str, value: str | None) -> None:
        body = {"metadata": {"annotations": {"fairway.dev/recovery": value}}}
        written = await self.fleet.edit(MANAGED_CLUSTERS, self.fleet.name(word), body)
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
