"""The placement controller and the hosting controller on one hub, with Placements and requests for the same hosts."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from controllers.conftest import Start
from controllers.world import SET, World
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.hosted_request import UNSCHEDULABLE, HostedClusterRequest
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.controllers.settings import HOSTING, PLACEMENT, Settings
from fairway.hosting.telemetry import HOSTING_CLAIM
from fairway.kube import HOSTED_CLUSTER_REQUESTS, HOSTING_POLICIES, MANAGED_CLUSTERS, PLACEMENTS
from fairway.plugins.score_debits import SCORE_DEBITS
from fairway.testing import builders
from rigs.fake_hub import reported_condition
from rigs.waiting import gone, until

BOTH: Final = Settings(controllers=frozenset({PLACEMENT, HOSTING}), election=None, event_updates=0)
MOST: Final = 2
LEAST: Final = PlacementSpec(
    numberOfClusters=1,
    prioritizerPolicy=builders.policy(builders.addon(COUNT_SCORE, -1, resource=SCORE_RESOURCE), mode="Exact"),
)
DEBITS: Final = {SCORE_DEBITS: f"{SCORE_RESOURCE}/{COUNT_SCORE}=+1"}


class SharedHosts:
    """Two empty hosts that take two hosted clusters each, and publish no further score."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._asked: list[str] = []

    async def build(self) -> None:
        world = self.world
        for word in ("a", "b"):
            await world.cluster(word, claims={HOSTING_CLAIM: "true"})
            conditions = [reported_condition(CONDITION_AVAILABLE, "True")]
            await world.edit(
                MANAGED_CLUSTERS, world.full(word), {"status": {"conditions": conditions}}, status=True
            )
            until = datetime.now(UTC) + timedelta(hours=1)
            await world.score(word, {COUNT_SCORE: 0}, resource=SCORE_RESOURCE, valid_until=until)
        policy = {
            "metadata": {"name": world.full("few")},
            "spec": {"clusterSets": [world.full(SET)], "maxPerHost": MOST},
        }
        await world.create(HOSTING_POLICIES, policy)

    async def place(self, name: str, manager: Manager) -> None:
        await self.world.place(name, LEAST, annotations=DEBITS)
        await self.world.settled(manager)

    async def ask(self, name: str, manager: Manager) -> HostedClusterRequest:
        spec = {"hostedCluster": {"spec": {"platform": {"type": "None"}}}, "policy": self.world.full("few")}
        self._asked.append(name)
        await self.world.create(
            HOSTED_CLUSTER_REQUESTS,
            {"metadata": {"name": name}, "spec": spec},
            namespace=self.world.namespace,
        )
        await self.world.settled(manager)
        return await self.request(name)

    async def request(self, name: str) -> HostedClusterRequest:
        return await self.world.client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=self.world.namespace)

    async def loads(self, *placements: str) -> Counter[str]:
        """Return the hosted clusters of each host that exist or are promised."""
        hosts = [self.world.full(word) for name in placements for word in self.world.chosen(name)]
        for name in self._asked:
            place = (await self.request(name)).status.hostingCluster
            hosts += [] if place is None else [place.name]
        return Counter(hosts)

    async def clear(self) -> None:
        for name in self._asked:
            await self.world.delete(HOSTED_CLUSTER_REQUESTS, name)
            await gone(self.world.client, HOSTED_CLUSTER_REQUESTS, name, namespace=self.world.namespace)
        await self.world.delete(HOSTING_POLICIES, self.world.full("few"))


async def test_placements_and_requests_leave_each_others_room_alone_also_after_a_restart(
    start: Start, world: World
) -> None:
    hosts = SharedHosts(world)
    await hosts.build()
    async with start(BOTH) as manager:
        await hosts.place("p1", manager)
        await hosts.ask("r1", manager)
        assert sorted((await hosts.loads("p1")).values()) == [1, 1], "not on the host of the Placement"
    async with start(BOTH) as manager:
        await hosts.ask("r2", manager)
        await hosts.place("p2", manager)
        assert sorted((await hosts.loads("p1", "p2")).values()) == [MOST, MOST]
        refused = await hosts.ask("r3", manager)
        assert refused.status.phase == UNSCHEDULABLE
        reasons = " ".join(each.reason for each in refused.status.rejections)
        assert f"reserved by placement {world.namespace}/p" in reasons
        (free,) = world.chosen("p1")
        await world.delete(PLACEMENTS, "p1")
        placed = await until(
            world.client,
            HOSTED_CLUSTER_REQUESTS,
            "r3",
            lambda each: each.status.hostingCluster is not None,
            namespace=world.namespace,
        )
        assert placed.status.hostingCluster is not None
        assert placed.status.hostingCluster.name == world.full(free)
        await hosts.clear()
