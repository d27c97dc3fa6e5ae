"""Install and manage add-ons on a hub where OCM's addon-manager does not run.

ClusterManagementAddOn → ManagedClusterAddOn in the namespace of every selected cluster → ManifestWork with the agent,
its registration and its permissions on the hub → conditions of the ManagedClusterAddOn and labels of the cluster. An
add-on without an AddOnTemplate has its own controller; it only gets ManagedClusterAddOns and labels here.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from fairway.api.lease import Lease
from fairway.controllers.addons import ocm_detection
from fairway.controllers.addons.configs import DEPLOYMENTS, TEMPLATES
from fairway.controllers.addons.csr_approval import AddOnApprover
from fairway.controllers.addons.deployment import Deployer
from fairway.controllers.addons.index import AddOnIndex, add_on_of, old_and_new, placement_of
from fairway.controllers.addons.installation import Installer
from fairway.controllers.addons.labels import Labeller
from fairway.controllers.addons.names import ADD_ON_LABEL
from fairway.controllers.addons.orphaned_works import OrphanedAddOnWorks, is_held, klusterlet_binding
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Key, Reconciler
from fairway.kube import (
    MANAGED_CLUSTER_ADD_ONS,
    SYSTEM_CLOCK,
    Batch,
    Client,
    Clock,
    Deleted,
    Informer,
    NotFound,
)
from fairway.observe.meters import Meters

log: Final = logging.getLogger(__name__)

# These take the place of the namespace in keys of other kinds. No namespace has such a name.
OFFER: Final = ""
CLUSTER: Final = ":cluster"
REQUEST: Final = ":request"
WAITING: Final = ":waiting"
OCM: Final = ":ocm"
AGAIN_SECONDS: Final = 2.0

GONE: Final = "ManagedClusterAddOn %s/%s was deleted meanwhile"


class AddOnController(Reconciler):
    name: ClassVar[str] = "addons"

    _index: AddOnIndex
    _installer: Installer
    _deployer: Deployer
    _approver: AddOnApprover
    _labeller: Labeller
    _orphaned_works: OrphanedAddOnWorks

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        ocm_namespace: str = ocm_detection.NAMESPACE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self._ocm_namespace = ocm_namespace
        self._writer = FencedWriter(client, meters=meters, controller=self.name)
        self._paused = False

    def watch(self, informers: InformerFactory) -> None:
        # First, so that later subscribers find the indexes up to date.
        known = self._index = AddOnIndex(informers)
        self._installer = Installer(known, self._writer)
        self._deployer = Deployer(known, self._writer, clock=self.clock)
        self._approver = AddOnApprover(known, self._writer)
        self._labeller = Labeller(known, self._writer)
        self._orphaned_works = OrphanedAddOnWorks(known, self._writer)
        known.offers.subscribe(self._offers_changed)
        known.add_ons.subscribe(self._add_ons_changed)
        known.placements.subscribe(self._placements_changed)
        known.decisions.subscribe(self._decisions_changed)
        known.clusters.subscribe(self._clusters_changed)
        known.requests.subscribe(self._requests_changed)
        known.leases.subscribe(self._leases_changed)
        known.works.subscribe(self._works_changed)
        known.bindings.subscribe(self._bindings_changed)
        for informer in (known.works, known.bindings):
            self._subscribe_belongings(informer)
        for kind, configs in ((TEMPLATES, known.templates), (DEPLOYMENTS, known.deployments)):
            self._subscribe_configs(kind, configs)

    def keys(self) -> Iterator[Key]:
        yield OCM, ""
        yield from ((OFFER, name) for _, name in self._index.offers.store)
        yield from self._index.add_ons.store
        yield from ((CLUSTER, name) for _, name in self._index.clusters.store)
        yield from ((REQUEST, name) for _, name in self._index.requests.store)
        yield from self._orphaned_works.keys()
        yield from ((WAITING, cluster) for cluster in self._orphaned_works.places())

    async def reconcile(self, key: Key, leadership: Leadership) -> None:
        if key[0] == OCM:
            self._check_for_ocm()
            return
        if self._ocm_lease_remaining() > 0:
            self.queue.add((OCM, ""))
            return
        match key:
            case (kind, name) if kind == OFFER:
                if not await self._installer.install(name, leadership):
                    self.queue.add_after(key, delay=AGAIN_SECONDS)
            case (kind, name) if kind == CLUSTER:
                await self._labeller.label(name, leadership)
            case (kind, name) if kind == REQUEST:
                await self._approver.decide(name, leadership)
            case (kind, name) if kind == WAITING:
                self._orphaned_works.report(name)
            case (cluster, name) if key not in self._index.add_ons.store:
                await self._orphaned_works.release(cluster, name, leadership)
            case (cluster, name):
                await self._deploy(cluster, name, leadership)

    async def _deploy(self, cluster: str, name: str, leadership: Leadership) -> None:
        """An add-on that was deleted meanwhile, for example by a restored backup, is no error."""
        try:
            await self._deployer.deploy(cluster, name, leadership)
        except NotFound:
            found = await self.client.list(
                MANAGED_CLUSTER_ADD_ONS, namespace=cluster, fields=f"metadata.name={name}"
            )
            if found.items:
                raise  # another object is missing
            log.debug(GONE, cluster, name)

    def _check_for_ocm(self) -> None:
        """Requeue all keys once the addon-manager's lease has expired."""
        lasts = self._ocm_lease_remaining()
        if lasts > 0:
            if not self._paused:
                lease = self._ocm_lease()
                assert lease is not None
                log.warning(
                    ocm_detection.RUNS, lease.spec.holderIdentity, self._ocm_namespace, ocm_detection.LEASE
                )
            self._paused = True
            self.queue.add_after((OCM, ""), delay=lasts)
        elif self._paused:
            self._paused = False
            log.warning(ocm_detection.GONE)
            for key in self.keys():
                self.queue.add(key)

    def _ocm_lease_remaining(self) -> float:
        return ocm_detection.remaining(self._ocm_lease(), self.clock.wall())

    def _ocm_lease(self) -> Lease | None:
        return self._index.leases.get(ocm_detection.LEASE, namespace=self._ocm_namespace)

    # From changed objects to keys

    def _offers_changed(self, batch: Batch[Any]) -> None:
        for name in {each.metadata.name for each in old_and_new(batch)}:
            self.queue.add((OFFER, name))
            for add_on in self._index.add_ons_named(name):
                self.queue.add((add_on.metadata.namespace, name))

    def _add_ons_changed(self, batch: Batch[Any]) -> None:
        for key in {(each.metadata.namespace, each.metadata.name) for each in old_and_new(batch)}:
            self.queue.add(key)
            self.queue.add((OFFER, key[1]))
            self.queue.add((CLUSTER, key[0]))
            for request in self._index.waiting(key):
                self.queue.add((REQUEST, request))

    def _placements_changed(self, batch: Batch[Any]) -> None:
        """Only the existence of a Placement matters here; its decisions have the selected clusters."""
        for change in batch.changes:
            key = getattr(change, "object", None)
            if key is not None:
                self._requeue_selected((key.metadata.namespace, key.metadata.name), ())

    def _decisions_changed(self, batch: Batch[Any]) -> None:
        anew: dict[Key, set[str]] = {}
        for each in old_and_new(batch):
            clusters = {decision.clusterName for decision in each.status.decisions}
            anew.setdefault(placement_of(each), set()).symmetric_difference_update(clusters)
        for placement, clusters in anew.items():
            self._requeue_selected(placement, clusters)

    def _requeue_selected(self, placement: Key, clusters: Any) -> None:
        for offer in self._index.offers_by(placement):
            self.queue.add((OFFER, offer.metadata.name))
            for cluster in clusters:
                if (cluster, offer.metadata.name) in self._index.add_ons.store:
                    self.queue.add((cluster, offer.metadata.name))

    def _clusters_changed(self, batch: Batch[Any]) -> None:
        for each in old_and_new(batch):
            name = each.metadata.name
            self.queue.add((CLUSTER, name))
            if self._index.cluster(name) is None:
                self._on_cluster_deleted(name)
            for offer in self._index.offers.store.values():
                missing = (name, offer.metadata.name) not in self._index.add_ons.store
                if missing and any(self._index.selecting_placements(offer, name)):
                    self.queue.add((OFFER, offer.metadata.name))
            for add_on in self._index.add_ons_on(name):
                self.queue.add((name, add_on.metadata.name))
                for request in self._index.waiting((name, add_on.metadata.name)):
                    self.queue.add((REQUEST, request))

    def _on_cluster_deleted(self, name: str) -> None:
        for key in self._orphaned_works.keys(name):
            self.queue.add(key)
        self.queue.add((WAITING, name))

    def _works_changed(self, batch: Batch[Any]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._orphaned_works.forget(change.object)
        for each in old_and_new(batch):
            if is_held(each):
                self.queue.add((WAITING, each.metadata.namespace))
            if each.metadata.deletionTimestamp is not None and each.metadata.labels.get(ADD_ON_LABEL):
                self.queue.add((each.metadata.namespace, each.metadata.labels[ADD_ON_LABEL]))

    def _bindings_changed(self, batch: Batch[Any]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                meta = change.object.metadata
                if meta.name == klusterlet_binding(meta.namespace):
                    self._on_cluster_deleted(meta.namespace)

    def _requests_changed(self, batch: Batch[Any]) -> None:
        for each in old_and_new(batch):
            if add_on_of(each) is not None and not each.decided:
                self.queue.add((REQUEST, each.metadata.name))

    def _leases_changed(self, batch: Batch[Any]) -> None:
        if any(each.metadata.namespace == self._ocm_namespace for each in old_and_new(batch)):
            self.queue.add((OCM, ""))

    def _subscribe_belongings(self, informer: Informer[Any]) -> None:
        def changed(batch: Batch[Any]) -> None:
            for each in old_and_new(batch):
                key = each.metadata.namespace, each.metadata.labels.get(ADD_ON_LABEL, "")
                if key in self._index.add_ons.store:
                    self.queue.add(key)

        informer.subscribe(changed)

    def _subscribe_configs(self, kind: tuple[str, str], informer: Informer[Any]) -> None:
        def changed(batch: Batch[Any]) -> None:
            seen: Mapping[Key, Any] = {
                (each.metadata.namespace, each.metadata.name): each for each in old_and_new(batch)
            }
            for key in seen:
                for add_on in self._index.add_ons_using(kind, key):
                    self.queue.add(add_on)

        informer.subscribe(changed)
