"""Keep the bridge's copies of scores up to date.

A change of an original reconciles its cluster. Where values are scaled over the fleet, a change of a calculator's
smallest or largest value reconciles all clusters with that calculator.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.controllers.bridge.keys import AddOnCopyKey, BridgeKey, ManagedCopiesKey
from fairway.controllers.bridge.options import BridgeOptions
from fairway.controllers.bridge.origin import is_original
from fairway.controllers.bridge.plan import Draft, Plan, plan_add_on, plan_managed, updated
from fairway.controllers.bridge.value_ranges import ValueRanges
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.runtime.writer import Writer
from fairway.hosts.clusters.scores import calculator_of
from fairway.observe.meters import Meters
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import T
from kubewire.client import (
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
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

NOT_BRIDGED: Final = "%s of %s: %s"


class BridgeController(Reconciler[BridgeKey]):
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
        self._writer = Writer(client, meters=meters, controller=self.name)
        self._throttle = LogThrottle(log)

    def watch(self, informers: InformerFactory) -> None:
        self._add_on = informers.of(ADD_ON_PLACEMENT_SCORES)
        self._managed = informers.of(MANAGED_CLUSTER_SCORES)
        self._add_on.subscribe(self._add_ons_changed)
        self._managed.subscribe(self._managed_changed)

    def keys(self) -> Iterator[BridgeKey]:
        for cluster in {*self._add_ons, *self._calculated}:
            yield AddOnCopyKey(cluster)
            yield ManagedCopiesKey(cluster)

    def _add_ons_changed(self, batch: Batch[AddOnPlacementScore]) -> None:
        for change in batch.changes:
            new = change.object
            cluster, name = new.metadata.namespace, new.metadata.name
            if isinstance(change, Deleted):
                self._add_ons[cluster].pop(name, None)
                self._confirmed[cluster].pop(name, None)
            else:
                self._add_ons[cluster][name] = new
            # The provider has published, although the values may be equal: its copy is as new as that.
            if isinstance(change, Updated) and _measured_fields(change.old) != _measured_fields(new):
                self._confirmed[cluster][name] = self.clock.wall()
            self._requeue_both(cluster)

    def _managed_changed(self, batch: Batch[ManagedClusterScore]) -> None:
        for change in batch.changes:
            new = change.object
            cluster, is_deleted = new.metadata.namespace, isinstance(change, Deleted)
            if is_deleted:
                self._calculated[cluster].pop(new.metadata.name, None)
                self._observed_at[cluster].pop(new.metadata.name, None)
            else:
                self._calculated[cluster][new.metadata.name] = new
                if not (isinstance(change, Updated) and updated(change.old) == updated(new)):
                    self._observed_at[cluster][new.metadata.name] = self.clock.wall()
            self._requeue_both(cluster)
            calculator = calculator_of(new)
            if not calculator or calculator in self.options.ranges:
                continue
            counts = not is_deleted and is_original(new.metadata) and updated(new) is not None
            # Only a new smallest or largest value changes the copies of other clusters; all others would be reconciled
            # with every score of the fleet.
            if self._spans.put(calculator, cluster, new.value if counts else None):
                for other in self._spans.clusters(calculator):
                    self.queue.add(AddOnCopyKey(other))

    def _requeue_both(self, cluster: str) -> None:
        self.queue.add(AddOnCopyKey(cluster))
        self.queue.add(ManagedCopiesKey(cluster))

    async def reconcile(self, key: BridgeKey) -> None:
        now = self.clock.wall()
        match key:
            case AddOnCopyKey(cluster):
                plan = plan_add_on(
                    self._calculated.get(cluster, {}).values(),
                    self._add_ons.get(cluster, {}).get(self.options.resource),
                    observed_at=self._observed_at.get(cluster, {}),
                    options=self.options,
                    extents=self._spans,
                    now=now,
                )
                await self._carry_out(ADD_ON_PLACEMENT_SCORES, cluster, plan)
            case ManagedCopiesKey(cluster):
                plan = plan_managed(
                    self._add_ons.get(cluster, {}).values(),
                    self._calculated.get(cluster, {}),
                    cluster=cluster,
                    confirmed=self._confirmed.get(cluster, {}),
                    options=self.options,
                    now=now,
                )
                await self._carry_out(MANAGED_CLUSTER_SCORES, cluster, plan)
        if plan.recheck_at is not None:
            self.queue.add_after(key, delay=max(0.0, (plan.recheck_at - now).total_seconds()))

    async def _carry_out(self, resource: Resource[T], cluster: str, plan: Plan) -> None:
        for problem in plan.problems:
            self._throttle.log(
                logging.WARNING, (cluster, problem), NOT_BRIDGED, resource.kind, cluster, problem
            )
        if not (plan.put or plan.drop):
            return
        async with self._writer.batch():
            for meta in plan.drop:
                await self._drop(resource, meta)
            for draft in plan.put:
                try:
                    await self._put(resource, cluster, draft)
                except NotFound:
                    if draft.current is None:
                        raise
                    # Another client deleted it; the watch event requeues the key.

    async def _drop(self, resource: Resource[T], meta: ObjectMeta) -> None:
        try:
            await self._writer.delete(resource, meta)
        except NotFound:
            return  # the watch is about to deliver it

    async def _put(self, resource: Resource[T], cluster: str, draft: Draft) -> None:
        named: dict[str, Any] = {"labels": dict(draft.labels), "annotations": dict(draft.annotations)}
        seen = draft.current
        if seen is None:
            body = {"metadata": {"name": draft.name, **named}}
            created = await self._writer.create(resource, body, namespace=cluster)
            seen = created.metadata
        elif any(seen.annotations.get(key) != value for key, value in draft.annotations.items()):
            patched = await self._writer.patch(resource, seen, {"metadata": named})
            seen = patched.metadata
        status = {"status": draft.status}
        await self._writer.patch(resource, seen, status, subresource="status")


def _measured_fields(score: AddOnPlacementScore) -> tuple[object, ...]:
    """Return the fields that a provider writes after a measurement; after a failure it writes only a condition."""
    return score.status.scores, score.status.validUntil
