"""Hosting clusters: load that requests do not see, and clusters that host by their own word alone."""

from collections.abc import Iterator
from typing import Final

from fairway.api.hosting_policy import COUNT_MODEL
from fairway.hosts import bitmap
from fairway.lint.finding import Finding, info, warning
from fairway.lint.scene import Scene
from fairway.workloads.hosting import HostingState
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import HostFacts
from fairway.workloads.hosting.fleet.telemetry import Telemetry

OTHER_LOAD: Final = warning(
    "hosting-other-load",
    "A hosting cluster publishes no free CPU and memory, so that requests do not see what other workloads use there.",
)
ANY_CLUSTER: Final = info(
    "hosting-any-cluster",
    "A HostingPolicy has no cluster sets, so that a claim, which agents write, is enough to get hosted clusters.",
)

RULES: Final = (OTHER_LOAD, ANY_CLUSTER)

_COUNT: Final = "only the number of hosted clusters limits it"
_ALLOCATABLE: Final = (
    "what the nodes can give in all limits it, less a small hosted cluster for each that exists"
)


def check(scene: Scene) -> Iterator[Finding]:
    if not scene.hosting_policies and not scene.hosted_requests:
        return  # Placements select the hosts, if there are any
    state = HostingState()
    state.load(scene.objects, now=scene.now)
    for cluster in scene.clusters:
        facts = state.facts.get(cluster.metadata.name)
        if facts is None or not _is_blind(facts) or not isinstance(facts.capacity, Capacity):
            continue
        limit = _COUNT if facts.capacity.model == COUNT_MODEL else _ALLOCATABLE
        yield OTHER_LOAD.at(
            cluster,
            "status.clusterClaims",
            f"the cluster publishes no free CPU and memory: {limit}, and what other workloads use of its nodes counts "
            "as free",
            "run the provider hosted-clusters on it, or keep other workloads off its nodes and set maxPerHost of the "
            "policy to what the rest carries",
        )
    several = scene.populated and bitmap.count(scene.snapshot.live) > len(state.facts)
    for policy in scene.hosting_policies:
        if not policy.spec.clusterSets and several:
            yield ANY_CLUSTER.at(
                policy,
                "spec.clusterSets",
                "the policy has no cluster sets: the agent of any managed cluster can make it a hosting cluster by a "
                "claim, and gets the hosted clusters of all tenants with their Secrets",
                "name the cluster sets of your hosting clusters; agents cannot change the cluster set label of their "
                "cluster",
            )


def _is_blind(facts: HostFacts) -> bool:
    """Return whether the load of a host is known, and does not include other workloads."""
    telemetry = facts.telemetry
    return isinstance(telemetry, Telemetry) and telemetry.free is None and not telemetry.slots
