"""Requests that are refused together: with equal demands, and equal constraints on hosts.

What a request creates on its host may differ. Only two plugins read it, NamesFree and RequiredFields; what they reject
is not shared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fairway.api.hosted_request import HostingConstraints
from fairway.api.placement import PlacementSpec
from fairway.engine.refused_alike import Alike
from fairway.engine.workload import HostKey, Workload
from fairway.workloads.hosting.plugins.names_free import NAME as NAMES_FREE
from fairway.workloads.hosting.plugins.required_fields import NAME as REQUIRED_FIELDS
from fairway.workloads.hosting.rules.policy import Policy
from fairway.workloads.hosting.workload import HostingSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalGroup:
    """What plugins read of a request, besides what it creates."""

    namespace: str
    tenant: str
    problem: str
    target: str
    is_placed: bool
    is_displaced: bool
    size: str
    availability: str
    amounts: tuple[tuple[str, int], ...]
    is_listed: bool
    """Whether the request lists its demand, which reasons and what-ifs depend on."""
    in_sets: bool
    # These cannot be hashed, or only slowly.
    policy: Policy = field(hash=False)
    constraints: HostingConstraints = field(hash=False)
    placement: PlacementSpec | None = field(hash=False)
    avoided: Mapping[HostKey, str] = field(hash=False)


def group_of(workload: Workload[HostingSpec]) -> RefusalGroup:
    spec = workload.spec
    asked = spec.request.spec
    return RefusalGroup(
        namespace=workload.namespace,
        tenant=spec.tenant,
        problem=spec.problem,
        target=spec.target,
        is_placed=spec.is_placed,
        is_displaced=spec.is_displaced,
        size=asked.size,
        availability=asked.availability,
        amounts=() if spec.demand is None else tuple(sorted(spec.demand.amounts.items())),
        is_listed=asked.demand is not None,
        in_sets=spec.in_sets,
        policy=spec.policy,
        constraints=asked.constraints,
        placement=None if spec.selection is None else spec.selection.placement.spec,
        avoided=spec.avoided,
    )


ALIKE: Final = Alike(group_of=group_of, distinguishing=frozenset({NAMES_FREE, REQUIRED_FIELDS}))


def content_of(workload: Workload[HostingSpec]) -> bytes:
    """Return what the request creates, without names: what-ifs of a group depend on it, too."""
    asked = workload.spec.request.spec
    return msgspec.json.encode([asked.hostedCluster.spec, [pool.spec for pool in asked.nodePools]])
