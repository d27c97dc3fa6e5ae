"""The provider: watches HostedClusters, nodes and pods, and reports count and headroom."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from fairway.api.hosted_request import REQUEST_UID_LABEL
from fairway.api.resources import CLUSTER_CLAIMS
from fairway.providers.catalogue import Context
from fairway.providers.hosted.capacity import API_HEADROOM, RESOURCE, api_headroom, capacity_values, scores_of
from fairway.providers.hosted.claims import NOT_SERVED, SCHEMA, Claims, claims_for, room_claims
from fairway.providers.hosted.headroom import Headroom
from fairway.providers.hosted.hosts import HOST_NODES, HostNode, Hosts
from fairway.providers.hosted.load import rate
from fairway.providers.hosted.options import HostedOptions
from fairway.providers.hosted.schema import RequiredFields
from fairway.providers.informer_readiness import (
    ANSWER_SECONDS,
    CANNOT_LIST,
    NOT_LISTED,
    UNREADABLE,
    LivenessCheck,
    ignore_wake,
    unreadable_objects,
    wait_until_current,
)
from fairway.providers.provider import ClusterProvider, ProviderError, Reading, Wake
from fairway.providers.publication import CONDITION
from fairway.providers.usage.objects import POD_USES, PodUse
from fairway.providers.usage.provider import UNFINISHED
from kubewire.api.meta import ObjectMeta
from kubewire.client import Batch, Client, Informer, KubeError, NotFound, Resource
from kubewire.client.rbac import Rule

NAME: Final = "hosted-clusters"

NAMED_PROBLEMS: Final = 5

NO_HYPERSHIFT: Final = "HyperShiftMissing"
CLAIMS_NOT_WRITTEN: Final = "ClaimsNotWritten"
RATE_UNKNOWN: Final = "RequestRateUnknown"

CONDITIONS: Final = {
    ("AddOnPlacementScore", CONDITION): {
        NO_HYPERSHIFT: "The cluster does not serve HostedClusters.",
        CLAIMS_NOT_WRITTEN: "The ClusterClaims could not be written.",
        RATE_UNKNOWN: "The request rate of the hosted API servers is unknown.",
    }
}

CANNOT_HOST: Final = (
    "the cluster does not serve HostedClusters, so it cannot host any: install the HyperShift operator, or do not "
    "run this provider here"
)
RATE_FAILED: Final = "the request rate is unknown: {why}"
NO_NUMBER: Final = "Prometheus returned {value}"

RULES: Final = (
    Rule(groups=("",), resources=("nodes", "pods"), verbs=("get", "list", "watch")),
    Rule(groups=("hypershift.openshift.io",), resources=("hostedclusters",), verbs=("get", "list", "watch")),
    Rule(
        groups=("cluster.open-cluster-management.io",),
        resources=("clusterclaims",),
        verbs=("get", "list", "watch", "create", "patch"),
    ),
)
"""Required permissions on the hosting cluster."""


class HostedCluster(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Only its existence counts: it uses resources until it is deleted."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def control_plane(self) -> str:
        """Namespace of its control plane."""
        return f"{self.metadata.namespace}-{self.metadata.name.replace('.', '-')}"

    @property
    def is_of_request(self) -> bool:
        """Whether it was created for a HostedClusterRequest."""
        return REQUEST_UID_LABEL in self.metadata.labels


HOSTED_CLUSTERS: Final = Resource(
    group="hypershift.openshift.io",
    version="v1beta1",
    plural="hostedclusters",
    kind="HostedCluster",
    namespaced=True,
    type=HostedCluster,
)


class HostedClusters(ClusterProvider):
    """``client`` is an open client of the hosting cluster."""

    name = NAME
    resource = RESOURCE

    def __init__(
        self, client: Client, options: HostedOptions | None = None, *, owner: str | None = None
    ) -> None:
        """``owner``: the ClusterRole that owns the claims."""
        self.options = options = options or HostedOptions()
        self.interval = options.interval
        self.scores = scores_of(options)
        self._client = client
        self._hosts = Hosts()
        self._nodes: Informer[HostNode] = Informer(client, HOST_NODES)
        self._pods: Informer[PodUse] = Informer(client, POD_USES, fields=UNFINISHED)
        self._hosted: Informer[HostedCluster] = Informer(client, HOSTED_CLUSTERS)
        self._answers = LivenessCheck(client, self._nodes)
        self._known_claims = Informer(client, CLUSTER_CLAIMS)
        self._claims = Claims(client, self._known_claims, owner=owner)
        self._required_fields = RequiredFields(client)
        self._stack: AsyncExitStack | None = None
        self._watched: set[str] = set()
        self._wake: Wake = ignore_wake
        # Subscribe once, not per run: a second subscription would count objects twice.
        self._nodes.subscribe(self._on_nodes)
        self._pods.subscribe(self._on_pods)
        self._hosted.subscribe(self._on_hosted)

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        self._wake = wake
        self._watched.clear()
        async with AsyncExitStack() as stack:
            self._stack = stack
            await stack.enter_async_context(self._nodes)
            await stack.enter_async_context(self._pods)
            if self.options.prometheus is not None:
                await stack.enter_async_context(self.options.prometheus.open())
            yield

    async def read(self) -> Reading:
        # Without HostedClusters, a count of 0 would rank the cluster first although it cannot host any.
        await self._watch(self._hosted, missing=ProviderError(CANNOT_HOST, reason=NO_HYPERSHIFT))
        await wait_until_current(self._client, self._hosted, self._nodes, self._pods)
        await self._answers.ensure(interval=self.interval)
        count = len(self._hosted.store)
        headrooms = self._hosts.headrooms()
        of_requests = sum(hosted.is_of_request for hosted in self._hosted.store.values())
        values = capacity_values(count, headrooms, self.options, of_requests=of_requests)
        problems: list[tuple[str, str]] = []
        if bad := [*self._hosts.problems(), *unreadable_objects(self._hosted, self._nodes, self._pods)]:
            problems.append((UNREADABLE, "; ".join(bad[:NAMED_PROBLEMS])))
        try:
            values[API_HEADROOM] = await self._api_headroom(count)
        except ProviderError as error:
            problems.append((RATE_UNKNOWN, RATE_FAILED.format(why=error)))
        if self.options.claims and (problem := await self._write_claims(count, headrooms)):
            problems.append((CLAIMS_NOT_WRITTEN, problem))
        return Reading(
            values=values,
            problem="; ".join(words for _, words in problems),
            reason=problems[0][0] if problems else "",
            note=self.options.note,
        )

    async def _api_headroom(self, count: int) -> float:
        """Free share of the capacity, at the average request rate of the present hosted clusters."""
        per_cluster: float | None = None
        if self.options.prometheus is not None and count:
            namespaces = [hosted.control_plane for hosted in self._hosted.store.values()]
            total = await rate(self.options.prometheus, namespaces)
            if not math.isfinite(total) or total < 0:
                raise ProviderError(NO_NUMBER.format(value=total))
            per_cluster = total / count
        return api_headroom(count, self._hosts.capacity(), self.options, rate=per_cluster)

    async def _write_claims(self, count: int, headrooms: Sequence[Headroom]) -> str:
        try:
            await self._watch(self._known_claims, missing=ProviderError(NOT_SERVED))
            await wait_until_current(self._client, self._known_claims)
        except ProviderError as error:
            return str(error)
        claims = {**claims_for(count, self.options.limits), **room_claims(headrooms)}
        if schema := await self._required_fields.claim():
            claims[SCHEMA] = schema
        return await self._claims.write(claims)

    async def _watch(self, informer: Informer[Any], *, missing: ProviderError) -> None:
        """Start to watch a kind once the cluster serves it."""
        kind = informer.resource.kind
        if kind in self._watched or self._stack is None:
            return
        try:
            await self._client.newest(informer.resource, timeout=ANSWER_SECONDS)
        except NotFound:
            raise missing from None
        except KubeError as error:
            raise ProviderError(CANNOT_LIST.format(kind=kind, why=error), reason=NOT_LISTED) from None
        await self._stack.enter_async_context(informer)
        self._watched.add(kind)

    def _on_nodes(self, batch: Batch[HostNode]) -> None:
        self._hosts.update_nodes(batch)
        self._wake()

    def _on_pods(self, batch: Batch[PodUse]) -> None:
        if self._hosts.update_pods(batch):
            self._wake()

    def _on_hosted(self, _: Batch[HostedCluster]) -> None:
        self._wake()


def hosted_clusters(options: Mapping[str, Any], context: Context) -> HostedClusters:
    """Catalogue factory. Raises OptionsError."""
    read = HostedOptions.read(options, folder=context.folder, environment=context.environment)
    if context.dry_run:
        read = replace(read, claims=False)
    return HostedClusters(context.local_client(), read, owner=context.owner)
