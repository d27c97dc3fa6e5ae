"""Reconcile the status of cluster sets and of their bindings, and the default sets."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import Any, ClassVar

from fairway.api.cluster import CLUSTER_SET_LABEL, ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.controllers.clustersets import conditions, defaults
from fairway.controllers.clustersets.keys import BindingKey, ClusterKey, ClusterSetsKey, SetKey
from fairway.controllers.clustersets.membership import Membership
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Reconciler
from fairway.controllers.runtime.writer import Writer, truncate, with_condition
from fairway.observe.meters import Meters
from kubewire.api.encoding import encode
from kubewire.api.meta import unreadable_within
from kubewire.client import (
    SYSTEM_CLOCK,
    Added,
    AlreadyExists,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    Updated,
)


class ClusterSetController(Reconciler[ClusterSetsKey]):
    """``default_label``: put clusters without a set into ``default``, as OCM's webhook does on its hubs.

    Runs once all informers are synced; until then the number of clusters of a set is unknown.
    """

    name: ClassVar[str] = "clustersets"

    _clusters: Informer[ManagedCluster]
    _sets: Informer[ManagedClusterSet]
    _bindings: Informer[ManagedClusterSetBinding]

    def __init__(
        self, client: Client, *, meters: Meters, default_label: bool = True, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self._default_label = default_label
        self._membership = Membership()
        self._bindings_to: defaultdict[str, set[BindingKey]] = defaultdict(set)
        self._writer = Writer(client, meters=meters, controller=self.name)

    def watch(self, informers: InformerFactory) -> None:
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._sets = informers.of(MANAGED_CLUSTER_SETS)
        self._bindings = informers.of(MANAGED_CLUSTER_SET_BINDINGS)
        self._clusters.subscribe(self._clusters_changed)
        self._sets.subscribe(self._sets_changed)
        self._bindings.subscribe(self._bindings_changed)

    def keys(self) -> Iterator[ClusterSetsKey]:
        yield from (SetKey(name) for _, name in self._sets.store)
        yield from starmap(BindingKey, self._bindings.store)
        yield from map(SetKey, defaults.SELECTORS)
        for cluster in self._clusters.store.values():
            if self._unlabelled(cluster):
                yield ClusterKey(cluster.metadata.name)

    async def reconcile(self, key: ClusterSetsKey) -> None:
        match key:
            case ClusterKey(name):
                await self._label(name)
            case BindingKey(namespace, name):
                await self._bind(name, namespace)
            case SetKey(name):
                await self._write_status(name)

    def _clusters_changed(self, batch: Batch[ManagedCluster]) -> None:
        for change in batch.changes:
            match change:
                case Added(new) | Updated(_, new):
                    meta = new.metadata
                    self._affected(self._membership.put_cluster(meta.name, meta.labels))
                    if self._unlabelled(new):
                        self.queue.add(ClusterKey(meta.name))
                case Deleted(old):
                    self._affected(self._membership.drop_cluster(old.metadata.name))

    def _affected(self, sets: Iterable[str]) -> None:
        for name in sets:
            self.queue.add(SetKey(name))

    def _sets_changed(self, batch: Batch[ManagedClusterSet]) -> None:
        for change in batch.changes:
            match change:
                case Added(new):
                    self._membership.put_set(new)
                    self._requeue_set_and_bindings(new.metadata.name)
                case Updated(_, new):
                    # Not its bindings: their condition says whether the set exists, not what it selects.
                    self._membership.put_set(new)
                    self.queue.add(SetKey(new.metadata.name))
                case Deleted(old):
                    self._membership.drop_set(old.metadata.name)
                    self._requeue_set_and_bindings(old.metadata.name)

    def _requeue_set_and_bindings(self, name: str) -> None:
        self.queue.add(SetKey(name))
        for key in self._bindings_to.get(name, ()):
            self.queue.add(key)

    def _bindings_changed(self, batch: Batch[ManagedClusterSetBinding]) -> None:
        for change in batch.changes:
            match change:
                case Added(new):
                    self._bindings_to[new.spec.clusterSet].add(_key_of(new))
                    self.queue.add(_key_of(new))
                case Updated(old, new):
                    self._unbind(old)
                    self._bindings_to[new.spec.clusterSet].add(_key_of(new))
                    self.queue.add(_key_of(new))
                case Deleted(old):
                    self._unbind(old)

    def _unbind(self, old: ManagedClusterSetBinding) -> None:
        keys = self._bindings_to[old.spec.clusterSet]
        keys.discard(_key_of(old))
        if not keys:
            del self._bindings_to[old.spec.clusterSet]

    def _unlabelled(self, cluster: ManagedCluster) -> bool:
        meta = cluster.metadata
        return (
            self._default_label and not meta.labels.get(CLUSTER_SET_LABEL) and meta.deletionTimestamp is None
        )

    async def _label(self, name: str) -> None:
        cluster = self._clusters.get(name)
        if cluster is None or not self._unlabelled(cluster):
            return
        body = {"metadata": {"labels": {CLUSTER_SET_LABEL: defaults.DEFAULT}}}
        async with self._writer.batch():
            await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, body)

    async def _bind(self, name: str, namespace: str) -> None:
        seen = self._bindings.get(name, namespace=namespace)
        if seen is None or seen.metadata.deletionTimestamp is not None:
            return
        exists = self._sets.get(seen.spec.clusterSet) is not None
        before = seen.status.conditions
        wanted = with_condition(before, conditions.bound_condition(exists=exists), clock=self.clock)
        if wanted == before:
            return
        async with self._writer.batch():
            await self._writer.conditions(MANAGED_CLUSTER_SET_BINDINGS, seen.metadata, wanted)

    async def _write_status(self, name: str) -> None:
        seen = self._sets.get(name)
        if seen is None:
            if name in defaults.SELECTORS:
                await self._create(name)
            return
        if seen.metadata.deletionTimestamp is not None:
            return
        if defaults.needs_reset(seen):
            # The change requeues the set, which is counted then.
            selector = _selector(name)
            body = [{"op": "add", "path": "/spec/clusterSelector", "value": selector}]
            async with self._writer.batch():
                await self._writer.patch(MANAGED_CLUSTER_SETS, seen.metadata, body)
            return
        error = self._membership.error(name)
        if error is None:
            condition = conditions.empty_condition(count=self._membership.count(name))
        else:
            unreadable = unreadable_within(seen, "spec") is not None
            problem = error if unreadable else conditions.fault(seen.spec.clusterSelector, error=error)
            condition = conditions.broken_condition(truncate(problem))
        before = seen.status.conditions
        wanted = with_condition(before, condition, clock=self.clock)
        if wanted != before:
            async with self._writer.batch():
                await self._writer.conditions(MANAGED_CLUSTER_SETS, seen.metadata, wanted)

    async def _create(self, name: str) -> None:
        body = {"metadata": {"name": name}, "spec": {"clusterSelector": _selector(name)}}
        async with self._writer.batch():
            try:
                await self._writer.create(MANAGED_CLUSTER_SETS, body)
            except AlreadyExists:
                return  # the watch is about to deliver it


def _key_of(binding: ManagedClusterSetBinding) -> BindingKey:
    return BindingKey(binding.metadata.namespace, binding.metadata.name)


def _selector(name: str) -> dict[str, Any]:
    return encode(defaults.SELECTORS[name])
