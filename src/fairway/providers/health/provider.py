"""The provider of health: watches nodes and pods, and probes the API server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from fairway.providers.catalogue import Context
from fairway.providers.health.cluster_state import ClusterState
from fairway.providers.health.objects import NODES, PODS, SUCCEEDED, NodeHealth, PodHealth
from fairway.providers.health.options import HealthOptions
from fairway.providers.health.parts import (
    ADD_ONS,
    API,
    HEALTH,
    PARTS,
    RESTARTS,
    combine,
    describe_worst,
    scores,
)
from fairway.providers.health.parts import NODES as NODES_PART
from fairway.providers.health.window import Latency
from fairway.providers.informer_readiness import STALE_SECONDS, cancel_and_wait, ignore_wake
from fairway.providers.provider import ClusterProvider, ProviderError, Reading, Wake
from fairway.providers.publication import CONDITION
from kubewire.client import SYSTEM_CLOCK, ApiError, Batch, Client, Clock, Informer, KubeError, ServerError
from kubewire.client.rbac import Rule

NAME: Final = "health"
RESOURCE: Final = "health-score"
FIRST_PROBES: Final = 3
"""Probes before the first reading, which should not depend on a single one."""
SYNC_SECONDS: Final = 10.0

PART_UNKNOWN: Final = "PartUnknown"
ALL_UNKNOWN: Final = "NothingKnown"

CONDITIONS: Final = {
    ("AddOnPlacementScore", CONDITION): {
        PART_UNKNOWN: "A part of the cluster's health is unknown and left out.",
        ALL_UNKNOWN: "The state of the cluster is unknown.",
    }
}

UNKNOWN: Final = "{part} is unknown and left out: {why}"
NOTHING: Final = "the state of the cluster is unknown: {why}"
NO_NODES: Final = "the cluster has no nodes"
NO_ADD_ONS: Final = "there are no pods in {namespaces}"
NO_CONTAINERS: Final = "no container runs"
NOT_ASKED: Final = "the API server has not been probed yet"
CANNOT_LIST: Final = "{kind}s cannot be listed"
NO_NEWS: Final = "{kind}s have not been watched for {seconds:.0f} s"

RULES: Final = (
    Rule(groups=("",), resources=("nodes", "pods"), verbs=("get", "list", "watch")),
    Rule(groups=("",), resources=("namespaces",), names=("kube-system",), verbs=("get",)),
)
"""Required permissions on the cluster."""


class Health(ClusterProvider):
    """``client`` is an open client of the cluster."""

    name = NAME
    resource = RESOURCE

    def __init__(
        self, client: Client, options: HealthOptions | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.options = options = options or HealthOptions()
        self.interval = options.interval
        self.scores = scores(options.thresholds)
        self._scales = {score.name: score.scale for score in self.scores}
        self._client, self._clock = client, clock
        self._state = ClusterState(namespaces=options.namespaces, window=options.window)
        self._latency = Latency(seconds=options.window)
        self._nodes: Informer[NodeHealth] = Informer(client, NODES)
        self._pods: Informer[PodHealth] = Informer(client, PODS, fields=f"status.phase!={SUCCEEDED}")
        self._probed = asyncio.Event()
        self._wake: Wake = ignore_wake
        # Subscribe once, not per run: a second subscription would count events twice.
        self._nodes.subscribe(self._on_nodes)
        self._pods.subscribe(self._on_pods)

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        self._wake = wake
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._nodes)
            await stack.enter_async_context(self._pods)
            probing = asyncio.create_task(self._keep_probing(), name="API latency")
            stack.push_async_callback(cancel_and_wait, probing)
            yield

    async def read(self) -> Reading:
        waiting = (self._nodes.synced.wait(), self._pods.synced.wait(), self._probed.wait())
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await asyncio.gather(*waiting)
        except TimeoutError:
            pass  #  read what is available
        values, absent, unseen = self._parts()
        parts = {name: self._scales[name].score(value) for name, value in values.items()}
        health = combine(parts, self.options.weights)
        if health is None:
            raise ProviderError(NOTHING.format(why="; ".join([*unseen, *absent])), reason=ALL_UNKNOWN)
        return Reading(
            values={HEALTH: health, **values},
            problem="; ".join(unseen),
            reason=PART_UNKNOWN if unseen else "",
            note="; ".join([describe_worst(parts, values), *absent]),
        )

    def _parts(self) -> tuple[dict[str, float], list[str], list[str]]:
        """Return raw values, reasons of absent parts, and reasons of unknown parts."""
        now, state = self._clock.monotonic(), self._state
        nodes, pods = self._staleness(self._nodes), self._staleness(self._pods)
        high = self._latency.high(now=now)
        namespaces = ", ".join(self.options.namespaces)
        parts: dict[str, tuple[float | None, str, str]] = {
            NODES_PART: (state.nodes_ready(), NO_NODES, nodes),
            API: (None if high is None else 1000.0 * high, "", "" if high is not None else NOT_ASKED),
            ADD_ONS: (state.add_ons_ready(), NO_ADD_ONS.format(namespaces=namespaces), pods),
            RESTARTS: (state.restarts(now=now), NO_CONTAINERS, pods),
        }
        values: dict[str, float] = {}
        absent: list[str] = []
        unseen: list[str] = []
        for part in PARTS:
            value, without, hidden = parts[part]
            if hidden:
                unseen.append(UNKNOWN.format(part=part, why=hidden))
            elif value is None:
                absent.append(UNKNOWN.format(part=part, why=without))
            else:
                values[part] = value
        return values, absent, unseen

    def _staleness(self, informer: Informer[Any]) -> str:
        kind, lag = informer.resource.kind, informer.lag
        if not informer.synced.is_set():
            return CANNOT_LIST.format(kind=kind)
        return NO_NEWS.format(kind=kind, seconds=lag) if lag > STALE_SECONDS else ""

    def _on_nodes(self, batch: Batch[NodeHealth]) -> None:
        if self._state.update_nodes(batch):
            self._wake()

    def _on_pods(self, batch: Batch[PodHealth]) -> None:
        if self._state.update_pods(batch, now=self._clock.monotonic(), wall=self._clock.wall):
            self._wake()

    async def _keep_probing(self) -> None:
        for _ in range(FIRST_PROBES):
            await self._probe()
        self._probed.set()
        while True:
            await asyncio.sleep(self.options.probe_interval)
            await self._probe()

    async def _probe(self) -> None:
        """Measure one request. Every response counts as answered, except server errors."""
        began = self._clock.monotonic()
        answered = True
        try:
            await self._client.request("GET", self.options.probe, timeout=self.options.probe_timeout)
        except ServerError:
            answered = False
        except ApiError:
            pass
        except KubeError:
            answered = False
        now = self._clock.monotonic()
        took = now - began if answered else max(now - began, self.options.probe_timeout)
        self._latency.add(took, now=now)


def health(options: Mapping[str, Any], context: Context) -> Health:
    """Catalogue factory. Raises OptionsError."""
    return Health(context.local_client(), HealthOptions.read(options), clock=context.clock)
