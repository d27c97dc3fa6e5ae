"""Keep the bridge's copies of scores up to date.

A change of an original reconciles its cluster. Where values are scaled over the fleet, a change of a calculator's
smallest or largest value reconciles all clusters with that calculator.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

from fairway.api.meta import ObjectMeta
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.clusters.scores import calculator_of
from fairway.controllers.bridge.options import BridgeOptions
from fairway.controllers.bridge.origin import is_original
from fairway.controllers.bridge.plan import Draft, Plan, plan_add_on, plan_managed, updated
from fairway.controllers.bridge.value_ranges import ValueRanges
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Key, Reconciler
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    SYSTEM_CLOCK,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    NotFound,
    Resource,
    Updated,
)
from fairway.kube.log_throttle import LogThrottle
from fairway.kube.resource import T
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

ADD_ON: Final = "addonplacementscores"
MANAGED: Final = "managedclusterscores"
"""Keys are (cluster, name of the copy)."""

NOT_BRIDGED: Final = "%s of %s: %s"


class BridgeController(Reconciler):
    name: ClassVar[str] = "bridge"

    _add_on: Informer[AddOnPlacementScore]
    _managed: Informer[ManagedClusterScore]

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        options: BridgeOptions | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self.options = options or BridgeOptions()
        self._add_ons: defaultdict[str, dict[str, AddOnPlacementScore]] = defaultdict(dict)
        self._calculated: defaultdict[str, dict[str, ManagedClusterScore]] = defaultdict(dict)
        self._spans = ValueRanges()
        self._confirmed: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._observed_at: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._writer = FencedWriter(client, meters=meters, controller=self.name)
        self._throttle = LogThrottle(log)

    def watch(self, informers: InformerFactory) -> None:
        self._add_on = informers.of(ADD_ON_PLACEMENT_SCORES)
        self._managed = informers.of(MANAGED_CLUSTER_SCORES)
        self._add_on.subscribe(self._add_ons_changed)
        self._managed.subscribe(self._managed_changed)

    def keys(self) -> Iterator[Key]:
        for cluster in {*self._add_ons, *self._calculated}:
            yield cluster, ADD_ON
            yield cluster, MANAGED

    def _add_ons_changed(self, batch: Batch[AddOnPlacementScore]) -> None:
        for change in batch.changes:
            new = change.new if isinstance(change, Updated) else change.object
            cluster, name = new.metadata.namespace, new.metadata.name
            if isinstance(change, Deleted):
                self._add_ons[cluster].pop(name, None)
                self._confirmed[cluster].pop(name, None)
            else:
                self._add_ons[cluster][name] = new
            if isinstance(change, Updated) and _measured_fields(change.old) != _measured_fields(new):
                self._confirmed[cluster][name] = self.clock.wall()
            self._look(cluster)

    def _managed_changed(self, batch: Batch[ManagedClusterScore]) -> None:
        for change in batch.changes:
            new = change.new if isinstance(change, Updated) else change.object
            cluster, gone = new.metadata.namespace, isinstance(change, Deleted)
            if gone:
                self._calculated[cluster].pop(new.metadata.name, None)
                self._observed_at[cluster].pop(new.metadata.name, None)
            else:
                self._calculated[cluster][new.metadata.name] = new
                if not (isinstance(change, Updated) and updated(change.old) == updated(new)):
                    self._observed_at[cluster][new.metadata.name] = self.clock.wall()
            self._look(cluster)
            calculator = calculator_of(new)
            if not calculator or calculator in self.options.ranges:
                continue
            counts = not gone and is_original(new.metadata) and updated(new) is not None
            if self._spans.put(calculator, cluster, new.value if counts else None):
                for other in self._spans.clusters(calculator):
                    self.queue.add((other, ADD_ON))

    def _look(self, cluster: str) -> None:
        self.queue.add((cluster, ADD_ON))
        self.queue.add((cluster, MANAGED))

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        cluster, made = key
        now = self.clock.wall()
        if made == ADD_ON:
            plan = plan_add_on(
                self._calculated.get(cluster, {}).values(),
                self._add_ons.get(cluster, {}).get(self.options.resource),
                observed_at=self._observed_at.get(cluster, {}),
                options=self.options,
                extents=self._spans,
                now=now,
            )
            await self._carry_out(ADD_ON_PLACEMENT_SCORES, cluster, plan, leadership)
        else:
            plan = plan_managed(
                self._add_ons.get(cluster, {}).values(),
                self._calculated.get(cluster, {}),
                cluster=cluster,
                confirmed=self._confirmed.get(cluster, {}),
                options=self.options,
                now=now,
            )
            await self._carry_out(MANAGED_CLUSTER_SCORES, cluster, plan, leadership)
        if plan.look is not None:
            self.queue.add_after(key, delay=max(0.0, (plan.look - now).total_seconds()))

    async def _carry_out(
        self, resource: Resource[T], cluster: str, plan: Plan, leadership: Leadership
    ) -> None:
        for problem in plan.problems:
            self._throttle.log(
                logging.WARNING, (cluster, problem), NOT_BRIDGED, resource.kind, cluster, problem
            )
        if not (plan.put or plan.drop):
            return
        async with leadership.batch():
            for meta in plan.drop:
                await self._drop(resource, meta, leadership)
            for draft in plan.put:
                try:
                    await self._put(resource, cluster, draft, leadership)
                except NotFound:
                    if draft.current is None:
                        raise
                    # Another client deleted it; the watch event requeues the key.

    async def _drop(self, resource: Resource[T], meta: ObjectMeta, leadership: Leadership) -> None:
        try:
            await self._writer.delete(resource, meta, leadership=leadership)
        except NotFound:
            return  # the watch is about to deliver it

    async def _put(self, resource: Resource[T], cluster: str, draft: Draft, leadership: Leadership) -> None:
        named: dict[str, Any] = {"labels": dict(draft.labels), "annotations": dict(draft.annotations)}
        seen = draft.current
        if seen is None:
            body = {"metadata": {"name": draft.name, **named}}
            made = await self._writer.create(resource, body, leadership=leadership, namespace=cluster)
            seen = made.metadata
        elif any(seen.annotations.get(key) != value for key, value in draft.annotations.items()):
            patched = await self._writer.patch(resource, seen, {"metadata": named}, leadership=leadership)
            seen = patched.metadata
        status = {"status": draft.status}
        await self._writer.patch(resource, seen, status, leadership=leadership, subresource="status")


def _measured_fields(score: AddOnPlacementScore) -> tuple[object, ...]:
    """The fields that a provider writes after a measurement; after a failure it writes only a condition."""
    return score.status.scores, score.status.validUntil
