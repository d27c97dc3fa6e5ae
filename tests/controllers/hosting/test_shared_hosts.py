"""The placement controller and the hosting controller on one hub, with Placements and requests for the same hosts."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from controllers.conftest import Start
from controllers.hub_fleet import SET, HubFleet
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.hosted_request import UNSCHEDULABLE, HostedClusterRequest
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.placement import PlacementSpec
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, HOSTING_POLICIES, MANAGED_CLUSTERS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.settings import HOSTING, PLACEMENT, Settings
from fairway.testing import builders
from fairway.workloads.hosting.fleet.telemetry import HOSTING_CLAIM
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from rigs.fake_hub import reported_condition
from rigs.waiting import until, until_deleted

BOTH: Final = Settings(controllers=frozenset({PLACEMENT, HOSTING}), election=None, event_updates=0)
MOST: Final = 2
LEAST: Final = PlacementSpec(
    numberOfClusters=1,
    prioritizerPolicy=builders.policy(builders.addon(COUNT_SCORE, -1, resource=SCORE_RESOURCE), mode="Exact"),
)
DEBITS: Final = {SCORE_DEBITS: f"{SCORE_RESOURCE}/{COUNT_SCORE}=+1"}


class SharedHosts:
    """Two empty hosts that take two hosted clusters each, and publish no further score."""

    def __init__(self, fleet: HubFleet) -> None:
        self.fleet = fleet
        self._asked: list[str] = []

    async def build(self) -> None:
        fleet = self.fleet
        # The hub is shared with other tests, and a request that one of them left behind takes room on these hosts.
        left = (await fleet.client.list(HOSTED_CLUSTER_REQUESTS)).items
        assert not left, "requests of other tests: delete them where they are created"
        for word in ("a", "b"):
            await fleet.cluster(word, claims={HOSTING_CLAIM: "true"})
            conditions = [reported_condition(CONDITION_AVAILABLE, "True")]
            await fleet.edit(
                MANAGED_CLUSTERS, fleet.name(word), {"status": {"conditions": conditions}}, status=True
            )
            until = datetime.now(UTC) + timedelta(hours=1)
            await fleet.score(word, {COUNT_SCORE: 0}, resource=SCORE_RESOURCE, valid_until=until)
        policy = {
            "metadata": {"name": fleet.name("few")},
            "spec": {
                "clusterSets": [fleet.name(SET)],
                "maxPerHost": MOST,
                "placementNamespaces": [fleet.namespace],
            },
        }
        await fleet.create(HOSTING_POLICIES, policy)

    async def place(self, name: str, manager: Manager) -> None:
        await self.fleet.place(name, LEAST, annotations=DEBITS)
        await self.fleet.settled(manager)

    async def ask(self, name: str, manager: Manager) -> HostedClusterRequest:
        spec = {"hostedCluster": {"spec": {"platform": {"type": "None"}}}, "policy": self.fleet.name("few")}
        self._asked.append(name)
        await self.fleet.create(
            HOSTED_CLUSTER_REQUESTS,
            {"metadata": {"name": name}, "spec": spec},
            namespace=self.fleet.namespace,
        )
        await self.fleet.settled(manager)
        return await self.request(name)

    async def request(self, name: str) -> HostedClusterRequest:
        return await self.fleet.client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=self.fleet.namespace)

    async def loads(self, *placements: str) -> Counter[str]:
        """Return the hosted clusters of each host that exist or are promised."""
        hosts = [self.fleet.name(word) for name in placements for word in self.fleet.chosen(name)]
        for name in self._asked:
            place = (await self.request(name)).status.hostingCluster
            hosts += [] if place is None else [place.name]
        return Counter(hosts)

    async def clear(self) -> None:
        for name in self._asked:
            await self.fleet.delete(HOSTED_CLUSTER_REQUESTS, name)
            await until_deleted(
                self.fleet.client, HOSTED_CLUSTER_REQUESTS, name, namespace=self.fleet.namespace
            )
        await self.fleet.delete(HOSTING_POLICIES, self.fleet.name("few"))


async def test_placements_and_requests_leave_each_others_room_alone_also_after_a_restart(
    start: Start, fleet: HubFleet
) -> None:
    hosts = SharedHosts(fleet)
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
        reasons = " ".join(rejection.reason for rejection in refused.status.rejections)
        assert f"reserved by placement {fleet.namespace}/p" in reasons
        (free,) = fleet.chosen("p1")
        await fleet.delete(PLACEMENTS, "p1")
        placed = await until(
            fleet.client,
            HOSTED_CLUSTER_REQUESTS,
            "r3",
            lambda current: current.status.hostingCluster is not None,
            namespace=fleet.namespace,
        )
        assert placed.status.hostingCluster is not None
        assert placed.status.hostingCluster.name == fleet.name(free)
        await hosts.clear()
