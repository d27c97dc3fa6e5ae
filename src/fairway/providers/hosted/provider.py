"""The provider: watches HostedClusters, nodes and pods, and reports count and headroom."""

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from fairway.api.meta import ObjectMeta
from fairway.kube import CLUSTER_CLAIMS, Batch, Client, Informer, KubeError, NotFound, Resource
from fairway.kube.rbac import Rule
from fairway.providers.catalogue import Context
from fairway.providers.hosted.capacity import API_HEADROOM, RESOURCE, api_headroom, carried, scores_of
from fairway.providers.hosted.claims import NOT_SERVED, Claims, claimed
from fairway.providers.hosted.hosts import HOST_NODES, HostNode, Hosts
from fairway.providers.hosted.load import rate
from fairway.providers.hosted.options import HostedOptions
from fairway.providers.informer_readiness import (
    ANSWER_SECONDS,
    CANNOT_LIST,
    NOT_LISTED,
    UNREADABLE,
    LivenessCheck,
    nobody,
    unreadable,
    wait_until_current,
)
from fairway.providers.provider import ClusterProvider, ProviderError, Reading, Wake
from fairway.providers.usage.objects import POD_USES, PodUse
from fairway.providers.usage.provider import UNFINISHED

NAME: Final = "hosted-clusters"

NAMED_PROBLEMS: Final = 5

NO_HYPERSHIFT: Final = "HyperShiftMissing"
CLAIMS_NOT_WRITTEN: Final = "ClaimsNotWritten"
RATE_UNKNOWN: Final = "RequestRateUnknown"

CANNOT_HOST: Final = (
    "the cluster does not serve HostedClusters, so it cannot carry any: install the HyperShift operator, or do not "
    "run this provider here"
)
RATE_FAILED: Final = "the rate of requests is not known: {why}"
NO_NUMBER: Final = "Prometheus answers with {value}"

RULES: Final = (
    Rule(groups=("",), resources=("nodes", "pods"), verbs=("get", "list", "watch")),
    Rule(
        groups=("hypershift.openshift.io",),
        resources=("hostedclusters",),
        verbs=("get", "list", "watch"),
    ),
    Rule(
        groups=("cluster.open-cluster-management.io",),
        resources=("clusterclaims",),
        verbs=("get", "list", "watch", "create", "patch"),
    ),
)
"""What it must be allowed on the hosting cluster."""


class HostedCluster(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """That there is one is all that counts: one that is being deleted still takes what it has."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def control_plane(self) -> str:
        """The namespace its control plane runs in."""
        return f"{self.metadata.namespace}-{self.metadata.name.replace('.', '-')}"


HOSTED_CLUSTERS: Final = Resource(
    group="hypershift.openshift.io",
    version="v1beta1",
    plural="hostedclusters",
    kind="HostedCluster",
    namespaced=True,
    type=HostedCluster,
)


class HostedClusters(ClusterProvider):
    """``client`` is of the hosting cluster, and open."""

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
        self._stack: AsyncExitStack | None = None
        self._followed: set[str] = set()
        self._wake: Wake = nobody
        # Once and not whenever it runs: what is heard twice would be counted twice.
        self._nodes.subscribe(self._hear_nodes)
        self._pods.subscribe(self._hear_pods)
        self._hosted.subscribe(self._hear_hosted)

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        self._wake = wake
        self._followed.clear()
        async with AsyncExitStack() as stack:
            self._stack = stack
            await stack.enter_async_context(self._nodes)
            await stack.enter_async_context(self._pods)
            if self.options.prometheus is not None:
                await stack.enter_async_context(self.options.prometheus.open())
            yield

    async def read(self) -> Reading:
        # A cluster that cannot host any must not look like one that hosts none: that would be the best of all.
        await self._follow(self._hosted, missing=ProviderError(CANNOT_HOST, reason=NO_HYPERSHIFT))
        await wait_until_current(self._client, self._hosted, self._nodes, self._pods)
        await self._answers.ensure(interval=self.interval)
        count = len(self._hosted.store)
        values = carried(count, self._hosts.rooms(), self.options)
        problems: list[tuple[str, str]] = []
        if bad := [*self._hosts.problems(), *unreadable(self._hosted, self._nodes, self._pods)]:
            problems.append((UNREADABLE, "; ".join(bad[:NAMED_PROBLEMS])))
        try:
            values[API_HEADROOM] = await self._api_headroom(count)
        except ProviderError as error:
            problems.append((RATE_UNKNOWN, RATE_FAILED.format(why=error)))
        if self.options.claims and (trouble := await self._claim(count)):
            problems.append((CLAIMS_NOT_WRITTEN, trouble))
        return Reading(
            values=values,
            problem="; ".join(words for _, words in problems),
            reason=problems[0][0] if problems else "",
            note=self.options.note,
        )

    async def _api_headroom(self, count: int) -> float:
        """The share of hosted clusters that could still come, if all are asked as much as those that are here."""
        each: float | None = None
        if self.options.prometheus is not None and count:
            namespaces = [hosted.control_plane for hosted in self._hosted.store.values()]
            total = await rate(self.options.prometheus, namespaces)
            if not math.isfinite(total) or total < 0:
                raise ProviderError(NO_NUMBER.format(value=total))
            each = total / count
        return api_headroom(count, self._hosts.capacity(), self.options, rate=each)

    async def _claim(self, count: int) -> str:
        try:
            await self._follow(self._known_claims, missing=ProviderError(NOT_SERVED))
            await wait_until_current(self._client, self._known_claims)
        except ProviderError as error:
            return str(error)
        return await self._claims.write(claimed(count, self.options.limits))

    async def _follow(self, informer: Informer[Any], *, missing: ProviderError) -> None:
        """Starts to watch a kind once the cluster serves it, which may be later than now."""
        kind = informer.resource.kind
        if kind in self._followed or self._stack is None:
            return
        try:
            await self._client.newest(informer.resource, timeout=ANSWER_SECONDS)
        except NotFound:
            raise missing from None
        except KubeError as error:
            raise ProviderError(CANNOT_LIST.format(kind=kind, why=error), reason=NOT_LISTED) from None
        await self._stack.enter_async_context(informer)
        self._followed.add(kind)

    def _hear_nodes(self, batch: Batch[HostNode]) -> None:
        self._hosts.hear_nodes(batch)
        self._wake()

    def _hear_pods(self, batch: Batch[PodUse]) -> None:
        if self._hosts.hear_pods(batch):
            self._wake()

    def _hear_hosted(self, _: Batch[HostedCluster]) -> None:
        self._wake()


def hosted_clusters(options: Mapping[str, Any], context: Context) -> HostedClusters:
    """The factory of the catalogue. Raises OptionsError."""
    read = HostedOptions.read(options, folder=context.folder, environment=context.environment)
    if context.dry_run:
        read = replace(read, claims=False)
    return HostedClusters(context.local_client(), read, owner=context.owner)
