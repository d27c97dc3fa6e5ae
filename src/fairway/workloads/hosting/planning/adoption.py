"""Adoption of hosted clusters that no HostedClusterRequest created: a plan for a person. Nothing is written.

The hub has names and specs of those whose HostedCluster a ManifestWork carries, and only the number of all others: a
person reads these on the hosting cluster. An adopted hosted cluster keeps its author. Its request has the place that it
takes, so that plans see it, and follows it; nothing is created, changed or deleted on the host.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from fairway.api.hosted_request import (
    REQUEST_UID_LABEL,
    HostedClusterRequest,
    HostedClusterRequestSpec,
    HostedClusterRequestStatus,
    HostedClusterTemplate,
    NodePoolTemplate,
)
from fairway.api.work import WORK_APPLIED, ManifestWork
from fairway.engine.workload import HostKey
from fairway.hosts.clusters.promises import place_of
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.requests import request_status
from fairway.workloads.hosting.requests.demand import SIZES, SMALL, DemandError, demand_of
from fairway.workloads.hosting.requests.work import (
    HOSTED_CLUSTERS,
    HYPERSHIFT_GROUP,
    is_created_by_fairway,
    is_kind,
    object_name,
)
from fairway.workloads.hosting.resources import HOSTED, MILLI
from fairway.workloads.hosting.rules.policy import PolicyError, policy_for
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import ADOPTS, policy_name
from kubewire.api.meta import TRUE, ObjectMeta, find_condition

SIZE_LABEL: Final = f"{HYPERSHIFT_GROUP}/hosted-cluster-size"
"""Label of HostedClusters that HyperShift's size controller writes."""
MOST_POOLS: Final = 64
"""NodePools in a request."""
LONGEST_NAME: Final = 253

UNNAMED: Final = "its manifest has no name or no namespace"
WORK_DELETING: Final = "ManifestWork {work} is being deleted, and the hosted cluster with it"
NOT_REPORTED: Final = "ManifestWork {work}: the agent has not reported that it applied the HostedCluster"
STRAY: Final = (
    "ManifestWork {work} was created for a HostedClusterRequest that no longer exists, and is deleted"
)
CARRIED_TWICE: Final = "ManifestWorks {works} carry it: remove it from all but one"
DELETING: Final = "it is being deleted"
TOO_MANY_POOLS: Final = "it has {count} NodePools, and a request lists at most {most}"
UNAVAILABLE: Final = "{host} {outage}: adopt it when the host is available"


class HostedClusterName(NamedTuple):
    """Identifies a hosted cluster on its host."""

    host: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingHostedCluster:
    """A hosted cluster of another author, as a ManifestWork carries it, or as it was read on its host."""

    identity: HostedClusterName
    manifest: Mapping[str, Any]
    pools: tuple[NodePoolTemplate, ...] = ()
    work: ManifestWork | None = None
    since: datetime | None = None
    """When the host reported it, or it was created."""
    obstacle: str = ""
    """Why it cannot be adopted; empty if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    existing: ExistingHostedCluster
    host: HostKey
    request: HostedClusterRequest
    """To create, or the one that an adoption which did not end has created."""
    amounts: Mapping[str, int]
    counted: bool
    """Whether the published load of the host includes it."""

    @property
    def is_begun(self) -> bool:
        return bool(self.request.metadata.uid)

    def status(self, request: HostedClusterRequest, *, now: datetime) -> HostedClusterRequestStatus:
        """Return the status of its request, as the hub has it now."""
        return request_status.adopted(
            request,
            self.host,
            namespace=self.existing.identity.namespace,
            policy=policy_name(self.request),
            work=self.existing.work,
            amounts=self.amounts,
            counted=self.counted,
            since=self.existing.since or now,
            now=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPlan:
    adoptions: tuple[Adoption, ...] = ()
    refused: tuple[ExistingHostedCluster, ...] = ()
    """Those that cannot be adopted, with the obstacle."""
    adopted: int = 0
    """Those that belong to a request already."""
    unknown: Mapping[str, int | None] = field(default_factory=dict)
    """By host: the number of hosted clusters of which the hub has no name; None if it does not have the number."""


def in_works(works: Iterable[ManifestWork]) -> Iterator[ExistingHostedCluster]:
    """Yield the HostedClusters that ManifestWorks carry."""
    for work in works:
        manifests = work.spec.workload.manifests
        for manifest in manifests:
            if is_kind(manifest, "HostedCluster"):
                identity = HostedClusterName(work.metadata.namespace, *object_name(manifest))
                since = _applied_since(work, identity)
                yield ExistingHostedCluster(
                    identity=identity,
                    manifest=manifest,
                    pools=_pools_of(identity, manifests),
                    work=work,
                    since=since,
                    obstacle=_obstacle_of(work, identity, is_reported=since is not None),
                )


def on_host(host: str, documents: Iterable[Mapping[str, Any]]) -> Iterator[ExistingHostedCluster]:
    """Yield the HostedClusters that were read on a host. ``documents`` may have their NodePools."""
    everything = list(documents)
    for document in everything:
        if not is_kind(document, "HostedCluster"):
            continue
        identity = HostedClusterName(host, *object_name(document))
        metadata = document["metadata"] if isinstance(document.get("metadata"), Mapping) else {}
        obstacle = UNNAMED if not (identity.namespace and identity.name) else ""
        if metadata.get("deletionTimestamp"):
            obstacle = DELETING
        created = metadata.get("creationTimestamp")
        yield ExistingHostedCluster(
            identity=identity,
            manifest={**document, "metadata": {"labels": metadata.get("labels")}},
            pools=_pools_of(identity, everything),
            since=_time(created),
            obstacle=obstacle,
        )


def plan_adoption(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    existing: Iterable[ExistingHostedCluster],
    hosts: Collection[str],
    *,
    namespace: str,
    policy: str,
    size: str = SMALL,
) -> AdoptionPlan:
    """Plan to adopt the hosted clusters on some hosts, by requests in a namespace of the hub.

    ``size``: of those that have no label with their size. Raises PolicyError if the policy is not for the namespace,
    and DemandError for an unknown size.
    """
    asked = HostedClusterRequest(
        metadata=ObjectMeta(namespace=namespace), spec=HostedClusterRequestSpec(policy=policy, size=size)
    )
    demand_of(asked, sizes=policy_for(asked, state.policies).sizes)
    requested = _Requested(requests, asked)
    adoptions: list[Adoption] = []
    refused: list[ExistingHostedCluster] = []
    adopted = 0
    unknown: dict[str, int | None] = {}
    by_host = _by_host(existing)
    for host in sorted(hosts):
        facts = state.facts[host]
        capacity = facts.capacity
        # The published number of hosted clusters, without those of requests. Each that is named here is one of them.
        others = capacity.others.get(HOSTED, 0) // MILLI if isinstance(capacity, Capacity) else 0
        of_requests = {
            (hosted_namespace, name)
            for resident in state.on(facts.key)
            for kind, hosted_namespace, name, _ in resident.objects
            if kind == "HostedCluster"
        }
        for item in by_host.get(host, ()):
            if item.identity[1:] in of_requests or requested.has_created(item.work):
                adopted += 1
                continue
            if facts.unavailable:
                item = replace(item, obstacle=UNAVAILABLE.format(host=host, outage=facts.unavailable))
            elif not item.obstacle and is_created_by_fairway(item.work):
                item = replace(item, obstacle=STRAY.format(work=_name_of(item.work)))
            try:
                request = requested.for_existing(item)
                demand = demand_of(request, sizes=policy_for(request, state.policies).sizes)
            except (DemandError, PolicyError, _NoRequestError) as error:
                item = replace(item, obstacle=item.obstacle or str(error))
            if item.obstacle:
                refused.append(item)
                others -= item.since is not None
                continue
            requested.add(request)
            amounts = capacity.amounts_for(demand) if isinstance(capacity, Capacity) else demand.amounts
            adoptions.append(
                Adoption(existing=item, host=facts.key, request=request, amounts=amounts, counted=others > 0)
            )
            others -= 1
        if not isinstance(capacity, Capacity):
            unknown[host] = None
        elif others > 0:
            unknown[host] = others
    return AdoptionPlan(adoptions=tuple(adoptions), refused=tuple(refused), adopted=adopted, unknown=unknown)


class _NoRequestError(ValueError):
    """A hosted cluster that no request can describe."""


class _Requested:
    """The requests of the hub, and those that a plan creates."""

    def __init__(self, requests: Iterable[HostedClusterRequest], asked: HostedClusterRequest) -> None:
        """``asked``: what all new requests have in common."""
        known = list(requests)
        self._asked = asked
        self._names = {(request.metadata.namespace, request.metadata.name) for request in known}
        self._uids = {request.metadata.uid for request in known}
        self._begun = {
            adopts: request
            for request in known
            if (adopts := request.metadata.annotations.get(ADOPTS)) and place_of(request) is None
        }

    def has_created(self, work: ManifestWork | None) -> bool:
        """Return whether a ManifestWork was created for a request that exists, also if it has left its place."""
        return (
            is_created_by_fairway(work)
            and work is not None
            and work.metadata.labels.get(REQUEST_UID_LABEL) in self._uids
        )

    def for_existing(self, item: ExistingHostedCluster) -> HostedClusterRequest:
        """Return the request that an adoption which did not end has created, or a new one."""
        if (begun := self._begun.get(str(item.identity))) is not None:
            return begun
        metadata, spec = self._asked.metadata, self._asked.spec
        _, hosted_namespace, name = item.identity
        if len(item.pools) > MOST_POOLS:
            raise _NoRequestError(TOO_MANY_POOLS.format(count=len(item.pools), most=MOST_POOLS))
        hosted = item.manifest.get("spec")
        size = _labels(item.manifest).get(SIZE_LABEL, "")
        return HostedClusterRequest(
            metadata=structs.replace(
                metadata, name=self._free_name(item.identity), annotations={ADOPTS: str(item.identity)}
            ),
            spec=structs.replace(
                spec,
                hostedCluster=HostedClusterTemplate(
                    name=name,
                    namespace=hosted_namespace,
                    spec=hosted if isinstance(hosted, dict) else {},
                ),
                nodePools=item.pools,
                size=size if size in SIZES else spec.size,
            ),
        )

    def add(self, request: HostedClusterRequest) -> None:
        self._names.add((request.metadata.namespace, request.metadata.name))

    def _free_name(self, identity: HostedClusterName) -> str:
        """Return the name of the hosted cluster. Those of several hosts and namespaces may have the same."""
        if (self._asked.metadata.namespace, identity.name) not in self._names:
            return identity.name
        digest = hashlib.sha256(str(identity).encode()).hexdigest()[:8]
        return f"{identity.name[: LONGEST_NAME - len(digest) - 1]}-{digest}"


def _by_host(existing: Iterable[ExistingHostedCluster]) -> dict[str, list[ExistingHostedCluster]]:
    """Return the hosted clusters of each host by name. Of several sources of one, a ManifestWork has precedence."""
    sources: dict[HostedClusterName, list[ExistingHostedCluster]] = {}
    for item in existing:
        sources.setdefault(item.identity, []).append(item)
    by_host: dict[str, list[ExistingHostedCluster]] = {}
    for identity in sorted(sources):
        items = sorted(
            sources[identity], key=lambda item: (item.work is None, item.obstacle, _name_of(item.work))
        )
        chosen = items[0]
        works = [_name_of(item.work) for item in items if item.work is not None and not item.obstacle]
        if len(works) > 1:
            chosen = replace(chosen, obstacle=CARRIED_TWICE.format(works=" and ".join(works)))
        by_host.setdefault(identity.host, []).append(chosen)
    return by_host


def _pools_of(
    identity: HostedClusterName, documents: Iterable[Mapping[str, Any]]
) -> tuple[NodePoolTemplate, ...]:
    pools: dict[str, NodePoolTemplate] = {}
    for document in documents:
        namespace, name = object_name(document)
        spec = document.get("spec")
        if (
            is_kind(document, "NodePool")
            and name
            and namespace == identity.namespace
            and isinstance(spec, dict)
            and spec.get("clusterName") == identity.name
        ):
            own = {field: value for field, value in spec.items() if field != "clusterName"}
            pools[name] = NodePoolTemplate(name=name, spec=own)
    return tuple(pools[name] for name in sorted(pools))


def _applied_since(work: ManifestWork, identity: HostedClusterName) -> datetime | None:
    """Return since when the host reports that it applied the HostedCluster; None if it does not."""
    for manifest in work.status.resourceStatus.manifests:
        meta = manifest.resourceMeta
        if (meta.group, meta.resource, meta.namespace, meta.name) == (
            HYPERSHIFT_GROUP,
            HOSTED_CLUSTERS,
            identity.namespace,
            identity.name,
        ):
            applied = find_condition(manifest.conditions, WORK_APPLIED)
            return applied.lastTransitionTime if applied is not None and applied.status == TRUE else None
    return None


def _obstacle_of(work: ManifestWork, identity: HostedClusterName, *, is_reported: bool) -> str:
    if not (identity.namespace and identity.name):
        return UNNAMED
    if work.metadata.deletionTimestamp is not None:
        return WORK_DELETING.format(work=work.metadata.name)
    return "" if is_reported else NOT_REPORTED.format(work=work.metadata.name)


def _name_of(work: ManifestWork | None) -> str:
    return "" if work is None else work.metadata.name


def _labels(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def _time(text: object) -> datetime | None:
    with suppress(msgspec.ValidationError):
        moment = msgspec.convert(text, datetime)
        return moment if moment.tzinfo is not None else None
    return None
