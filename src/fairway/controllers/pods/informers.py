"""What the scheduling of pods follows on the hub: nodes, pods, and the kinds that decide where pods run."""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from fairway.api.pod import Pod
from fairway.api.pod_group import PodGroup
from fairway.api.resources import NODES, PODS
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.pods.kinds import (
    ATTACHMENTS,
    BUDGETS,
    CAPACITIES,
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    OWNERS,
    POD_GROUPS,
    STORAGE,
    STORAGE_CLASSES,
    VOLUMES,
)
from fairway.controllers.pods.scheduling import PodScheduling
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.optional_kinds import OptionalKinds
from fairway.controllers.runtime.store_changes import StoreChanges
from fairway.hosts.steps import Steps, strides
from kubewire.api.resource import Resource, T
from kubewire.client import Added, Batch, Deleted, Informer, Updated

log: Final = logging.getLogger(__name__)

WITHOUT_GROUPS: Final = "the hub does not serve %s: pods that name a pod group are not scheduled"


class PodInformers:
    """Informers last as long as the process, a PodScheduling for one term: ``load`` fills it, ``report_to`` reports
    what changed since ``hold``, and from then on.

    ``groups`` is whether PodGroups are watched; None to follow their definition. ``storage`` are the kinds of
    ``STORAGE`` that the hub serves.
    """

    def __init__(
        self, informers: InformerFactory, *, groups: bool | None, storage: Collection[Resource[Any]]
    ) -> None:
        self._scheduling: PodScheduling | None = None
        self._changes = StoreChanges()
        self.nodes, self.pods = informers.of(NODES), informers.of(PODS)
        self.claims, self.volumes = informers.of(CLAIMS), informers.of(VOLUMES)
        self._namespaces, self._budgets = informers.of(NAMESPACES), informers.of(BUDGETS)
        self._owners: tuple[Informer[Any], ...] = tuple(informers.of(kind) for kind in OWNERS)
        self._storage = {kind: informers.of(kind) for kind in STORAGE if kind in storage}
        self._groups: OptionalKinds | None = None
        if groups is not False:
            self._groups = OptionalKinds(
                informers, (POD_GROUPS,), changed=self._follow_groups, fixed=groups is True
            )
            self._follow_groups()
        self._follow(self.nodes, PodScheduling.upsert_node, PodScheduling.delete_node)
        self.pods.subscribe(lambda batch: self._changes.report(lambda: self._pods_changed(batch)))
        self._follow(self._namespaces, PodScheduling.upsert_namespace, PodScheduling.delete_namespace)
        self._follow(self.claims, PodScheduling.upsert_claim, PodScheduling.delete_claim)
        self._follow(self.volumes, PodScheduling.upsert_volume, PodScheduling.delete_volume)
        for stored in self._storage.values():
            self._follow(stored, PodScheduling.upsert_storage, PodScheduling.delete_storage)
        self._follow(self._budgets, PodScheduling.upsert_budget, PodScheduling.delete_budget)
        for owners in self._owners:
            self._follow(owners, PodScheduling.upsert_owner, PodScheduling.delete_owner)

    def hold(self) -> None:
        """Hold changes back until ``report_to``: a term is being loaded."""
        self._changes.hold()

    def load(self, scheduling: PodScheduling) -> Steps[None]:
        """Fill a scheduling with what the hub shows."""
        scheduling.fleet.load_others(
            namespaces={
                namespace.metadata.name: namespace.metadata.labels
                for namespace in self._namespaces.store.values()
            },
            claims=self.claims.store.values(),
            volumes=self.volumes.store.values(),
            classes=self._stored(STORAGE_CLASSES),
            drivers=self._stored(CSI_DRIVERS),
            csi_nodes=self._stored(CSI_NODES),
            capacities=self._stored(CAPACITIES),
            attachments=self._stored(ATTACHMENTS),
            budgets=self._budgets.store.values(),
        )
        for owners in self._owners:
            for some in strides(owners.store.values()):
                yield
                for owner in some:
                    scheduling.owners.upsert(owner)
        for group in self._pod_groups():
            scheduling.upsert_group(group)
        yield from scheduling.load(self.nodes.store.values(), self.pods.store.values())

    def report_to(self, scheduling: PodScheduling | None) -> None:
        """Report the changes that were held back, and all later ones; None to report them to nothing."""
        self._scheduling = scheduling
        self._changes.release()

    def _stored(self, kind: Resource[T]) -> list[T]:
        informer: Informer[T] | None = self._storage.get(kind)
        return [] if informer is None else list(informer.store.values())

    def _pod_groups(self) -> Iterable[PodGroup]:
        if self._groups is not None and not self._groups.informers:
            log.warning(WITHOUT_GROUPS, POD_GROUPS)
        informers = () if self._groups is None else self._groups.informers
        return [group for informer in informers for group in informer.store.values()]

    def _follow_groups(self) -> None:
        for informer in () if self._groups is None else self._groups.informers:
            self._follow(informer, PodScheduling.upsert_group, PodScheduling.delete_group)

    def _follow(
        self,
        informer: Informer[T],
        upsert: Callable[[PodScheduling, T], None],
        delete: Callable[[PodScheduling, T], None],
    ) -> None:
        def changed(object_: T) -> None:
            if self._scheduling is not None:
                upsert(self._scheduling, object_)

        def deleted(object_: T) -> None:
            if self._scheduling is not None:
                delete(self._scheduling, object_)

        self._changes.follow(informer, changed, deleted)

    def _pods_changed(self, batch: Batch[Pod]) -> None:
        if self._scheduling is None:
            return
        for change in batch.changes:
            match change:
                case Updated(old, new) if old.spec.nodeName and not new.spec.nodeName:
                    self._scheduling.reset_pod(new)
                case Updated(old, new):
                    self._scheduling.upsert_pod(new, old)
                case Added(new):
                    self._scheduling.upsert_pod(new)
                case Deleted(old):
                    self._scheduling.delete_pod(old)
