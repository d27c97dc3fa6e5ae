"""The provider of resource usage: watches nodes and pods, and reports free resources."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from fairway.kube import Added, Batch, Client, Deleted, Informer, Updated
from fairway.kube.rbac import Rule
from fairway.providers.catalogue import Context
from fairway.providers.informer_readiness import (
    UNREADABLE,
    LivenessCheck,
    end,
    nobody,
    unreadable,
    wait_until_current,
)
from fairway.providers.provider import ClusterProvider, Reading, Wake
from fairway.providers.usage.accounting import Accounting
from fairway.providers.usage.measures import measures
from fairway.providers.usage.metrics import Meter
from fairway.providers.usage.objects import NODE_ROOMS, POD_USES, UPSTREAM_POD_USES, NodeRoom, PodUse
from fairway.providers.usage.options import UsageOptions

NAME: Final = "resource-usage"

UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""What has ended takes nothing, and there may be more of it than of the rest."""

NAMED_PROBLEMS: Final = 5

METRICS_UNAVAILABLE: Final = "MetricsUnavailable"

MORE_PROBLEMS: Final = "and {count} more"
METRICS_BROKE: Final = "unexpected error while reading node metrics"

RULES: Final = (
    Rule(groups=("",), resources=("nodes", "pods"), verbs=("get", "list", "watch")),
    Rule(groups=("metrics.k8s.io",), resources=("nodes",), verbs=("get", "list")),
)
"""What it must be allowed on the cluster it reads."""

_log = logging.getLogger(__name__)


class ResourceUsage(ClusterProvider):
    """``client`` is of the cluster that is read, and open. Raises OptionsError.

    After ``running`` began it holds a few hundred bytes per pod.
    """

    name = NAME

    def __init__(self, client: Client, options: UsageOptions | None = None) -> None:
        self.options = options = options or UsageOptions()
        self.interval, self.resource = options.interval, options.resource
        self._client = client
        self._measures = measures(options)
        self.scores = tuple(each.score for each in self._measures)
        self.accounting = Accounting(
            policy=options.policy,
            shapes=options.shapes,
            basis=options.basis,
            floor=options.parity == "none",
        )
        pods = POD_USES if options.parity == "none" else UPSTREAM_POD_USES
        self._nodes: Informer[NodeRoom] = Informer(client, NODE_ROOMS, labels=options.node_selector)
        self._pods: Informer[PodUse] = Informer(client, pods, fields=UNFINISHED)
        self._answers = LivenessCheck(client, self._nodes)
        self._meter: Meter | None = None
        self._asked = asyncio.Event()
        """What is used was asked for once, if it is asked for at all: the first reading is like all others."""
        self._wake: Wake = nobody
        # Once and not whenever it runs: what is heard twice would be told twice.
        self._nodes.subscribe(self._hear_nodes)
        self._pods.subscribe(self._hear_pods)

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
                asking = asyncio.create_task(self._keep_asking(self._meter), name="node metrics")
                stack.push_async_callback(end, asking)
            else:
                self._asked.set()
            yield

    async def read(self) -> Reading:
        """Waits for a while if not everything is here yet."""
        await wait_until_current(self._client, self._nodes, self._pods)
        await self._answers.ensure(interval=self.interval)
        await self._asked.wait()
        totals = self.accounting.totals()
        values = {}
        for each in self._measures:
            value = each.take(totals)
            if value is not None:
                values[each.score.name] = value
        problem, reason = self._problem()
        return Reading(values=values, problem=problem, reason=reason)

    def _problem(self) -> tuple[str, str]:
        bad = [*self.accounting.problems, *unreadable(self._nodes, self._pods)]
        told = bad[:NAMED_PROBLEMS]
        if len(bad) > len(told):
            told.append(MORE_PROBLEMS.format(count=len(bad) - len(told)))
        reason = UNREADABLE if told else ""
        if self._meter is not None and self._meter.problem:
            told.append(self._meter.problem)
            reason = reason or METRICS_UNAVAILABLE
        return "; ".join(told), reason

    def _hear_nodes(self, batch: Batch[NodeRoom]) -> None:
        account, moved = self.accounting, False
        for change in batch.changes:
            match change:
                case Added(node) | Updated(_, node):
                    moved |= account.node(node)
                case Deleted(node):
                    moved |= account.no_node(node)
        if moved:
            self._wake()

    def _hear_pods(self, batch: Batch[PodUse]) -> None:
        account, moved = self.accounting, False
        for change in batch.changes:
            match change:
                case Added(pod) | Updated(_, pod):
                    moved |= account.pod(pod)
                case Deleted(pod):
                    moved |= account.no_pod(pod)
        if moved:
            self._wake()

    async def _keep_asking(self, meter: Meter) -> None:
        while True:
            try:
                used = await meter.ask()
            except Exception:
                _log.exception(METRICS_BROKE)
            else:
                if used is not None and self.accounting.used(used):
                    self._wake()
            self._asked.set()
            await asyncio.sleep(self.interval)


def resource_usage(options: Mapping[str, Any], context: Context) -> ResourceUsage:
    """The factory of the catalogue. Raises OptionsError."""
    return ResourceUsage(context.local_client(), UsageOptions.read(options, environment=context.environment))
