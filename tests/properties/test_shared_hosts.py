"""Placements with score debits and HostedClusterRequests on the same hosting clusters: neither overlooks the other."""

from collections import Counter
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import (
    CONFIRMED,
    COUNTED,
    RESERVED,
    HostedClusterRequest,
    HostedClusterRequestStatus,
    HostingClusterReference,
)
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.placement import PLACEMENT_LABEL, Placement, PlacementSpec
from fairway.hosts.clusters import cells
from fairway.hosts.instant import SECOND, from_micros
from fairway.testing.builders import addon, binding, cluster_set, placement, policy
from fairway.whatif.world import World
from fairway.workloads.hosting import HostingState, place
from fairway.workloads.hosting.requests.conditions import CONFIRMED_CONDITION
from fairway.workloads.hosting.workload import key_of
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from kubewire.api.meta import TRUE, Condition
from workloads.hosting.hosts import NOW, host, load, request
from workloads.hosting.hosts import policy as hosting_policy

HOSTS = ("a", "b", "c")
MOST = 4
"""Hosted clusters that a host can carry."""
NAMESPACE = "clusters"
LEAST = PlacementSpec(
    numberOfClusters=1,
    prioritizerPolicy=policy(addon(COUNT_SCORE, -1, resource=SCORE_RESOURCE), mode="Exact"),
)
DEBITS = {SCORE_DEBITS: f"{SCORE_RESOURCE}/{COUNT_SCORE}=+1"}


class SharedHub:
    """A hub with both schedulers, each with its own state. Every write is observed at once by both."""

    def __init__(self, *, most: int = MOST) -> None:
        self.now = NOW
        self.version = 0
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.made = 0
        for made in (
            cluster_set("default"),
            binding("default", namespace=NAMESPACE),
            hosting_policy(maxPerHost=most, placementNamespaces=(NAMESPACE,)),
            *(
                host(name, labels={"cluster.open-cluster-management.io/clusterset": "default"})
                for name in HOSTS
            ),
        ):
            self._store(made)
        self.restart_placing()
        self.restart_hosting()
        for name in HOSTS:
            self.publish(name)

    def restart_placing(self) -> None:
        """A new leader knows what the hub has, and nothing else."""
        self.world = World(self.objects.values())

    def restart_hosting(self) -> None:
        self.state = HostingState(tracks_age=True)
        self.state.load(self.objects.values(), now=self.now)

    # Users

    def create_placement(self) -> str:
        """Return the selected host."""
        self.made += 1
        made = placement(f"p{self.made}", namespace=NAMESPACE, spec=LEAST, annotations=DEBITS)
        self.write(made)
        key = (NAMESPACE, made.metadata.name)
        (selected,) = self.world.place(key, now=self.now).outcome.selected
        for page in tuple(self.world.decisions(NAMESPACE).values()):
            if page.metadata.labels[PLACEMENT_LABEL] == made.metadata.name:
                meta = structs.replace(page.metadata, creationTimestamp=from_micros(self.now))
                self.write(structs.replace(page, metadata=meta))
        return selected

    def create_request(self) -> str:
        """Return the selected host; empty if there is none."""
        self.made += 1
        made = request(f"r{self.made}")
        (decision,) = place(self.state, [made], now=self.now)
        if decision.host is None:
            return ""
        reference = HostingClusterReference(name=decision.host.name, uid=decision.host.uid)
        status = HostedClusterRequestStatus(phase=RESERVED, hostingCluster=reference)
        self.write(structs.replace(made, status=status))
        return decision.host.name

    def delete(self, gone: Any) -> None:
        if isinstance(gone, Placement):
            for page in self.of(PlacementDecision):
                if page.metadata.labels[PLACEMENT_LABEL] == gone.metadata.name:
                    self.delete(page)
        del self.objects[_identity(gone)]
        self.state.delete(gone, now=self.now)
        if isinstance(gone, HostedClusterRequest):
            self.world.fleet.delete_request(gone.metadata.namespace, gone.metadata.name)
        elif isinstance(gone, PlacementDecision):
            self.world.fleet.delete_decision(gone.metadata.namespace, gone.metadata.name)

    # Hosting clusters

    def confirm(self, request: HostedClusterRequest) -> None:
        """The host reports the hosted cluster."""
        status = structs.replace(
            request.status, phase=CONFIRMED, conditions=(self._condition(CONFIRMED_CONDITION),)
        )
        self.write(structs.replace(request, status=status))

    def publish(self, name: str) -> None:
        """Publish the number of hosted clusters that exist: those of all decisions, and of reported requests."""
        requests = [request for request in self.requests_on(name) if request.status.phase == CONFIRMED]
        self.write(
            load(
                name,
                count=len(requests) + self.decided()[name],
                at=from_micros(self.now),
                valid=timedelta(minutes=3),
            )
        )
        countable = {request.key for request in self.state.countable(name, now=self.now)}
        for confirmed in requests:
            if key_of(confirmed) in countable:
                conditions = (*confirmed.status.conditions, self._condition(COUNTED))
                self.write(
                    structs.replace(
                        confirmed, status=structs.replace(confirmed.status, conditions=conditions)
                    )
                )

    # Facts

    def of(self, kind: type[Any]) -> list[Any]:
        return [obj for obj in self.objects.values() if isinstance(obj, kind)]

    def requests_on(self, name: str) -> list[HostedClusterRequest]:
        return [
            request for request in self.of(HostedClusterRequest) if request.status.hostingCluster.name == name
        ]

    def decided(self) -> Counter[str]:
        return Counter(
            decision.clusterName for page in self.of(PlacementDecision) for decision in page.status.decisions
        )

    def loads(self) -> dict[str, int]:
        """Return the hosted clusters that exist or are promised."""
        decided = self.decided()
        return {name: decided[name] + len(self.requests_on(name)) for name in HOSTS}

    def write(self, made: Any) -> None:
        stored = self._store(made)
        self.world.put(stored)
        self.state.upsert(stored, now=self.now)

    def _store(self, made: Any) -> Any:
        self.version += 1
        stored = structs.replace(
            made, metadata=structs.replace(made.metadata, resourceVersion=str(self.version))
        )
        self.objects[_identity(stored)] = stored
        return stored

    def _condition(self, type_: str) -> Condition:
        return Condition(type=type_, status=TRUE, lastTransitionTime=from_micros(self.now))


def _identity(obj: Any) -> tuple[str, str, str]:
    return obj.kind, obj.metadata.namespace, obj.metadata.name


@settings(max_examples=25)
@given(
    st.lists(
        st.sampled_from(["placement", "request", "placement", "request", "new placer", "new hoster"]),
        max_size=3 * MOST,
    )
)
def test_burst_of_placements_and_requests_is_shared_evenly_within_the_capacity(burst: list[str]) -> None:
    hub = SharedHub()
    for move in burst:
        match move:
            case "placement":
                hub.create_placement()
            case "request":
                assert hub.create_request(), "there is room for the whole burst"
            case "new placer":
                hub.restart_placing()
            case "new hoster":
                hub.restart_hosting()
        loads = hub.loads().values()
        assert max(loads) <= -(-sum(loads) // len(HOSTS)) <= MOST, (
            "nobody has more than the share, rounded up"
        )


def test_requests_wait_once_placements_and_requests_fill_the_hosts() -> None:
    hub = SharedHub()
    for _ in range(MOST):
        for _ in HOSTS[:-1]:
            hub.create_placement()
        assert hub.create_request()
    assert set(hub.loads().values()) == {MOST}
    assert hub.create_request() == ""
    hub.delete(hub.of(Placement)[0])
    assert hub.create_request()
    assert set(hub.loads().values()) == {MOST}


class SharedHosts(RuleBasedStateMachine):
    """Both schedulers place, hosts report and publish, and leaders change, in any order."""

    most = 2

    def __init__(self) -> None:
        super().__init__()
        self.hub = SharedHub(most=self.most)

    @rule()
    def place(self) -> None:
        self.hub.create_placement()

    @rule()
    def ask(self) -> None:
        selected = self.hub.create_request()
        if selected:
            assert self.hub.loads()[selected] <= self.most, "a request got a place that was promised before"

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        choices = [*self.hub.of(Placement), *self.hub.of(HostedClusterRequest)]
        if choices:
            self.hub.delete(data.draw(st.sampled_from(choices)))

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        reserved = [
            request for request in self.hub.of(HostedClusterRequest) if request.status.phase == RESERVED
        ]
        if reserved:
            self.hub.confirm(data.draw(st.sampled_from(reserved)))

    @rule(name=st.sampled_from(HOSTS))
    def publish(self, name: str) -> None:
        self.hub.publish(name)

    @rule(seconds=st.sampled_from([1, 40, 200, 700]))
    def wait(self, seconds: int) -> None:
        self.hub.now += seconds * SECOND
        self.hub.state.advance(now=self.hub.now)

    @rule()
    def restart(self) -> None:
        self.hub.restart_placing()
        self.hub.restart_hosting()

    @invariant()
    def requests_that_placements_see_are_those_with_a_place_that_is_not_counted(self) -> None:
        snapshot = self.hub.world.fleet.snapshot()
        counts = snapshot.counts(cells.PROMISED).values
        for name in HOSTS:
            uncounted = [
                request
                for request in self.hub.state.on(self.hub.state.facts[name].key)
                if not request.counted
            ]
            assert counts[snapshot.hosts.row_of[name]] == len(uncounted)

    @invariant()
    def observed_state_is_the_rebuilt_one(self) -> None:
        rebuilt = HostingState(tracks_age=True)
        rebuilt.load(self.hub.objects.values(), now=self.hub.now)
        for name in HOSTS:
            assert self.hub.state.facts[name].promised == rebuilt.facts[name].promised


TestSharedHosts = SharedHosts.TestCase
TestSharedHosts.settings = settings(max_examples=15, stateful_step_count=25)
