"""The provider of resource usage: watches nodes and pods, and reports free resources."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from fairway.providers.catalogue import Context
from fairway.providers.informer_readiness import (
    UNREADABLE,
    LivenessCheck,
    cancel_and_wait,
    ignore_wake,
    unreadable_objects,
    wait_until_current,
)
from fairway.providers.provider import ClusterProvider, Reading, Wake
from fairway.providers.publication import CONDITION
from fairway.providers.usage.accounting import Accounting
from fairway.providers.usage.measures import measures
from fairway.providers.usage.metrics import Meter
from fairway.providers.usage.objects import NODE_ROOMS, POD_USES, UPSTREAM_POD_USES, NodeRoom, PodUse
from fairway.providers.usage.options import UsageOptions
from kubewire.client import Added, Batch, Client, Deleted, Informer, Updated
from kubewire.client.rbac import Rule

NAME: Final = "resource-usage"

UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Excludes finished pods, which use nothing and may be the majority."""

NAMED_PROBLEMS: Final = 5

METRICS_UNAVAILABLE: Final = "MetricsUnavailable"

CONDITIONS: Final = {
    ("AddOnPlacementScore", CONDITION): {
        METRICS_UNAVAILABLE: "The metrics API of the cluster does not answer."
    }
}

MORE_PROBLEMS: Final = "and {count} more"
METRICS_BROKE: Final = "unexpected error while reading node metrics"

RULES: Final = (
    Rule(groups=("",), resources=("nodes", "pods"), verbs=("get", "list", "watch")),
    Rule(groups=("metrics.k8s.io",), resources=("nodes",), verbs=("get", "list")),
)
"""Required permissions on the cluster."""

_log = logging.getLogger(__name__)


class ResourceUsage(ClusterProvider):
    """``client`` is an open client of the cluster. Raises OptionsError.

    Holds a few hundred bytes per pod while running.
    """

    name = NAME

    def __init__(self, client: Client, options: UsageOptions | None = None) -> None:
        self.options = options = options or UsageOptions()
        self.interval, self.resource = options.interval, options.resource
        self._client = client
        self._measures = measures(options)
        self.scores = tuple(measure.score for measure in self._measures)
        self.accounting = Accounting(
            policy=options.policy, shapes=options.shapes, basis=options.basis, floor=options.parity == "none"
        )
        pods = POD_USES if options.parity == "none" else UPSTREAM_POD_USES
        self._nodes: Informer[NodeRoom] = Informer(client, NODE_ROOMS, labels=options.node_selector)
        self._pods: Informer[PodUse] = Informer(client, pods, fields=UNFINISHED)
        self._answers = LivenessCheck(client, self._nodes)
        self._meter: Meter | None = None
        self._metrics_requested = asyncio.Event()
        """Set after the first request of node metrics, which the first reading waits for."""
        self._wake: Wake = ignore_wake
        # Subscribe once, not per run: a second subscription would count objects twice.
        self._nodes.subscribe(self._on_nodes)
        self._pods.subscribe(self._on_pods)

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        self._wake = wake
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._nodes)
            await stack.enter_async_context(self._pods)
            if self.options.basis != "requests":
                self._meter = Meter(
                    self._client, interval=self.interval, clock=asyncio.get_running_loop().time
                )
                polling = asyncio.create_task(self._poll_metrics(self._meter), name="node metrics")
                stack.push_async_callback(cancel_and_wait, polling)
            else:
                self._metrics_requested.set()
            yield

    async def read(self) -> Reading:
        await wait_until_current(self._client, self._nodes, self._pods)
        await self._answers.ensure(interval=self.interval)
        await self._metrics_requested.wait()
        totals = self.accounting.totals()
        values = {}
        for measure in self._measures:
            value = measure.measure(totals)
            if value is not None:
                values[measure.score.name] = value
        problem, reason = self._problem()
        return Reading(values=values, problem=problem, reason=reason)

    def _problem(self) -> tuple[str, str]:
        bad = [*self.accounting.problems, *unreadable_objects(self._nodes, self._pods)]
        listed = bad[:NAMED_PROBLEMS]
        if len(bad) > len(listed):
            listed.append(MORE_PROBLEMS.format(count=len(bad) - len(listed)))
        reason = UNREADABLE if listed else ""
        if self._meter is not None and self._meter.problem:
            listed.append(self._meter.problem)
            reason = reason or METRICS_UNAVAILABLE
        return "; ".join(listed), reason

    def _on_nodes(self, batch: Batch[NodeRoom]) -> None:
        account, changed = self.accounting, False
        for change in batch.changes:
            match change:
                case Added(node) | Updated(_, node):
                    changed |= account.update_node(node)
                case Deleted(node):
                    changed |= account.remove_node(node)
        if changed:
            self._wake()

    def _on_pods(self, batch: Batch[PodUse]) -> None:
        account, changed = self.accounting, False
        for change in batch.changes:
            match change:
                case Added(pod) | Updated(_, pod):
                    changed |= account.update_pod(pod)
                case Deleted(pod):
                    changed |= account.remove_pod(pod)
        if changed:
            self._wake()

    async def _poll_metrics(self, meter: Meter) -> None:
        while True:
            try:
                used = await meter.request()
            except Exception:
                _log.exception(METRICS_BROKE)
            else:
                if used is not None and self.accounting.update_usage(used):
                    self._wake()
            self._metrics_requested.set()
            await asyncio.sleep(self.interval)


def resource_usage(options: Mapping[str, Any], context: Context) -> ResourceUsage:
    """Catalogue factory. Raises OptionsError."""
    return ResourceUsage(context.local_client(), UsageOptions.read(options, environment=context.environment))
