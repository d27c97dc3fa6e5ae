"""Rules about who else is on a host hold at every moment, whatever is decided, written, lost or deleted at once."""

import asyncio
import os
import random
from collections import Counter

import pytest

from controllers.hosting.hosting_hub import HostingHub, controlling, wall
from fairway.api.hosted_request import PLACED, HostedClusterRequest
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTERS,
)
from fairway.hosts.instant import to_micros
from fairway.workloads.hosting import HostingState, place
from rigs.fake_hub import Call, Document, Entry, Key

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

RUNS = int(os.environ.get("FAIRWAY_HOSTING_RUNS", "12"))
STEPS = 25
DECIDING = (MANAGED_CLUSTERS, ADD_ON_PLACEMENT_SCORES, HOSTING_POLICIES, HOSTED_CLUSTER_REQUESTS)
TENANTS = ("red", "green", "blue")
NAMES = ("shop", "bank")
"""Names of hosted clusters, of which each tenant uses both."""


class CrowdedHub(HostingHub):
    """Checks after every write that no two residents of a host violate a rule. Writes take random time."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.asked = 0
        self.apart = False
        """Whether tenants must be apart."""

    async def before_write(self, call: Call) -> None:
        await asyncio.sleep(self.chance.choice((0, 0.01, 0.5, 3)))

    def store(self, key: Key, document: Document, *, author: str = "", touch: bool = False) -> Entry:
        entry = super().store(key, document, author=author, touch=touch)
        if key[0] == HOSTED_CLUSTER_REQUESTS.plural:
            self.check()
        return entry

    def requests(self) -> list[HostedClusterRequest]:
        return list(self.all(HOSTED_CLUSTER_REQUESTS).values())

    def check(self) -> None:
        residents = [
            (request.status.hostingCluster.name, request)
            for request in self.requests()
            if request.status.hostingCluster is not None and request.status.phase in PLACED
        ]
        names = Counter(
            (host, request.metadata.namespace, request.spec.hostedCluster.name) for host, request in residents
        )
        assert max(names.values(), default=0) <= 1, f"one name twice: {names}"
        tenants = Counter((host, request.metadata.namespace) for host, request in residents)
        assert not self.apart or max(tenants.values(), default=0) <= 1, f"one tenant twice: {tenants}"

    def ask_for(self, name: str, *, tenant: str) -> None:
        self.asked += 1
        spec = {"name": name, "spec": {"platform": {"type": "None"}}}
        self.ask(f"r{self.asked:02}", namespace=tenant, hostedCluster=spec)

    def rename(self, request: HostedClusterRequest, name: str) -> None:
        meta = request.metadata
        key = (HOSTED_CLUSTER_REQUESTS.plural, meta.namespace, meta.name)
        old = self.documents[key]
        if not old["status"].get("phase"):
            hosted = {**old["spec"]["hostedCluster"], "name": name}
            self.write(key, {**old, "spec": {**old["spec"], "hostedCluster": hosted}})

    def settled(self) -> bool:
        return all(request.status.phase for request in self.requests())


async def test_requests_of_one_moment_do_not_get_one_name_on_one_host() -> None:
    hub = CrowdedHub()
    hub.host("h1")
    hub.publish("h1", lasts=3600)
    async with controlling(hub):
        for _ in range(3):
            hub.ask_for("shop", tenant="red")
        await hub.until(hub.settled)
        refused = [request for request in hub.requests() if request.status.phase == "Unschedulable"]
        assert len(refused) == 2
        assert all("belongs to request red/" in request.status.conditions[0].message for request in refused)


async def test_burst_of_one_tenant_that_must_be_apart_gets_one_place_on_each_host() -> None:
    hub = CrowdedHub()
    hub.apart = True
    hub.policy(tenantAntiAffinity="Required", capacity={"maxAge": "1h"})
    for name in ("h1", "h2", "h3", "h4"):
        hub.host(name)
        hub.publish(name, lasts=3600)
    async with controlling(hub):
        for number in range(8):
            hub.ask_for(f"c{number}", tenant="red")
        await hub.until(hub.settled)
        phases = Counter(request.status.phase == "Unschedulable" for request in hub.requests())
        assert phases == {False: 4, True: 4}
        # A what-if about the same objects agrees.
        state = HostingState()
        objects = [thing for resource in DECIDING for thing in hub.all(resource).values()]
        state.load(objects, now=to_micros(wall()))
        waiting = [request for request in hub.requests() if request.status.phase == "Unschedulable"]
        assert all(decision.host is None for decision in place(state, waiting, now=to_micros(wall())))


@pytest.mark.parametrize("seed", range(RUNS))
async def test_no_two_residents_of_a_host_ever_violate_a_rule(seed: int) -> None:
    hub = CrowdedHub(seed)
    hub.apart = seed % 2 == 0
    hub.policy(
        maxPerHost=hub.chance.choice((2, 4)),
        reservationTimeout="1m",
        capacity={"maxAge": "10h"},
        tenantAntiAffinity="Required" if hub.apart else "None",
    )
    for name in ("h1", "h2", "h3"):
        hub.host(name)
        hub.publish(name, lasts=36_000)
    steps = STEPS
    while steps:
        async with controlling(hub):
            while steps and not hub.dead:
                steps -= 1
                step(hub)
                await asyncio.sleep(hub.chance.choice((0, 0, 0.02, 1, 10, 70)))
        hub.revive()


def step(hub: CrowdedHub) -> None:
    chance, requests = hub.chance, hub.requests()
    match chance.choice(("ask", "ask", "ask", "withdraw", "rename", "erase", "work", "kill")):
        case "ask":
            for _ in range(chance.randint(1, 4)):
                hub.ask_for(chance.choice(NAMES), tenant=chance.choice(TENANTS))
        case "withdraw" if requests:
            meta = chance.choice(requests).metadata
            hub.withdraw(meta.name, namespace=meta.namespace)
        case "rename" if requests:
            hub.rename(chance.choice(requests), chance.choice(NAMES))
        case "erase" if requests and chance.random() < 0.3:
            meta = chance.choice(requests).metadata
            hub.erase((HOSTED_CLUSTER_REQUESTS.plural, meta.namespace, meta.name))
        case "work":
            hub.work()
        case "kill":
            hub.kill_at = (hub.sent + chance.randint(1, 6), chance.random() < 0.5)
