"""Install and manage add-ons on a hub where OCM's addon-manager does not run.

ClusterManagementAddOn → ManagedClusterAddOn in the namespace of every selected cluster → ManifestWork with the agent,
its registration and its permissions on the hub → conditions of the ManagedClusterAddOn and labels of the cluster. An
add-on without an AddOnTemplate has its own manager, which deploys it; it gets ManagedClusterAddOns, the references to
its configurations, their rollout and labels here.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any, ClassVar, Final

from fairway.api.addon import ClusterManagementAddOn
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS
from fairway.controllers import ocm_lease
from fairway.controllers.addons import ocm_detection
from fairway.controllers.addons.configs import DEPLOYMENTS, TEMPLATES
from fairway.controllers.addons.csr_approval import AddOnApprover
from fairway.controllers.addons.deployment import Deployer
from fairway.controllers.addons.index import (
    AddOnIndex,
    add_on_of,
    add_on_of_work,
    old_and_new,
    placement_of,
)
from fairway.controllers.addons.installation import Installer
from fairway.controllers.addons.keys import (
    AddOnKey,
    AddOnsKey,
    ClusterKey,
    CsrKey,
    OcmLeaseKey,
    OfferKey,
    OrphanedWorksKey,
)
from fairway.controllers.addons.labels import Labeller
from fairway.controllers.addons.names import ADD_ON_LABEL
from fairway.controllers.addons.offer_status import OfferReporter
from fairway.controllers.addons.orphaned_works import OrphanedAddOnWorks, is_held, klusterlet_binding
from fairway.controllers.addons.references import basis, has_template
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.reconciler import Key, Reconciler
from fairway.controllers.runtime.writer import Writer
from fairway.hosts.steps import strides
from fairway.observe.meters import Meters
from kubewire.api.lease import Lease
from kubewire.client import (
    SYSTEM_CLOCK,
    Batch,
    Client,
    Clock,
    Deleted,
    HubEvents,
    Informer,
    NotFound,
    Recorder,
    Updated,
)
from kubewire.client.events import Api

log: Final = logging.getLogger(__name__)

# These take the place of the namespace in keys of other kinds. No namespace has such a name.
AGAIN_SECONDS: Final = 2.0
REPORTER: Final = "fairway-addons"
COUNTED_AT_ONCE: Final = 1000
"""Clusters whose progress is counted at every change. For each further one, changes are collected a bit longer."""
SECONDS_FOR_EACH: Final = 0.0005

GONE: Final = "ManagedClusterAddOn %s/%s was deleted meanwhile"


class AddOnController(Reconciler[AddOnsKey]):
    name: ClassVar[str] = "addons"

    _index: AddOnIndex
    _installer: Installer
    _offers: OfferReporter
    _deployer: Deployer
    _approver: AddOnApprover
    _labeller: Labeller
    _orphaned_works: OrphanedAddOnWorks

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        ocm_namespace: str = ocm_lease.NAMESPACE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(client, meters=meters, clock=clock)
        self._ocm_namespace = ocm_namespace
        self._writer = Writer(client, meters=meters, controller=self.name)
        self._paused = False

    def watch(self, informers: InformerFactory) -> None:
        # First, so that later subscribers find the indexes up to date.
        known = self._index = AddOnIndex(informers)
        self._installer = Installer(known, self._writer)
        self._offers = OfferReporter(known, self._writer, clock=self.clock)
        self._deployer = Deployer(known, self._writer, offers=self._offers, clock=self.clock)
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

    def keys(self) -> Iterator[AddOnsKey]:
        yield OcmLeaseKey()
        yield from (OfferKey(name) for _, name in self._index.offers.store)
        yield from starmap(AddOnKey, self._index.add_ons.store)
        yield from (ClusterKey(name) for _, name in self._index.clusters.store)
        yield from (CsrKey(name) for _, name in self._index.requests.store)
        yield from starmap(AddOnKey, self._orphaned_works.keys())
        yield from (OrphanedWorksKey(cluster) for cluster in self._orphaned_works.places())

    async def work(self) -> None:
        recorder = Recorder(HubEvents(self.client), component=REPORTER, api=Api.EVENTS, clock=self.clock)
        async with recorder:
            self._deployer.recorder = recorder
            try:
                await super().work()
            finally:
                self._deployer.recorder = None

    async def reconcile(self, key: AddOnsKey) -> None:
        if isinstance(key, OcmLeaseKey):
            self._check_for_ocm()
            return
        if self._ocm_lease_remaining() > 0:
            self.queue.add(OcmLeaseKey())
            return
        match key:
            case OfferKey(name):
                if not await self._installer.install(name):
                    self.queue.add_after(key, delay=AGAIN_SECONDS)
                await self._report(name)
            case ClusterKey(name):
                await self._labeller.label(name)
            case CsrKey(name):
                await self._approver.decide(name)
            case OrphanedWorksKey(cluster):
                self._orphaned_works.report(cluster)
            case AddOnKey(cluster, name) if (cluster, name) not in self._index.add_ons.store:
                await self._orphaned_works.release(cluster, name)
            case AddOnKey(cluster, name):
                await self._deploy(cluster, name)

    async def _deploy(self, cluster: str, name: str) -> None:
        """An add-on that was deleted meanwhile, for example by a restored backup, is no error."""
        try:
            await self._deployer.deploy(cluster, name)
        except NotFound:
            remaining = await self.client.list(
                MANAGED_CLUSTER_ADD_ONS, namespace=cluster, fields=f"metadata.name={name}"
            )
            if remaining.items:
                raise  # another object is missing
            log.debug(GONE, cluster, name)

    async def _report(self, name: str) -> None:
        """Also requeue the add-ons on clusters whose turn it is in a rollout."""
        turns, again = await self._offers.report(name)
        for part in strides(turns):
            for cluster in part:
                self.queue.add(AddOnKey(cluster, name))
            await asyncio.sleep(0)
        if again is not None:
            self.queue.add_after(OfferKey(name), delay=again)

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
            self.queue.add_after(OcmLeaseKey(), delay=lasts)
        elif self._paused:
            self._paused = False
            log.warning(ocm_detection.GONE)
            for key in self.keys():
                self.queue.add(key)

    def _ocm_lease_remaining(self) -> float:
        return ocm_lease.remaining(self._ocm_lease(), self.clock.wall())

    def _ocm_lease(self) -> Lease | None:
        return self._index.leases.get(ocm_detection.LEASE, namespace=self._ocm_namespace)

    # From changed objects to keys

    def _offers_changed(self, batch: Batch[Any]) -> None:
        for change in batch.changes:
            name = change.object.metadata.name
            self.queue.add(OfferKey(name))
            if isinstance(change, Updated) and _about(change.old) == _about(change.object):
                continue  # only its progress changed, as it does with every cluster
            for add_on in self._index.add_ons_named(name):
                self.queue.add(AddOnKey(add_on.metadata.namespace, name))

    def _add_ons_changed(self, batch: Batch[Any]) -> None:
        for name in {add_on.metadata.name for add_on in _installed_or_removed(batch)}:
            self.queue.add(OfferKey(name))
        for key in {(add_on.metadata.namespace, add_on.metadata.name) for add_on in old_and_new(batch)}:
            self.queue.add(AddOnKey(*key))
            # Its progress counts all clusters, and every cluster changes several times during a rollout.
            many = max(self._index.count_named(key[1]) - COUNTED_AT_ONCE, 0)
            self.queue.add_after(OfferKey(key[1]), delay=many * SECONDS_FOR_EACH)
            self.queue.add(ClusterKey(key[0]))
            for request in self._index.waiting(key):
                self.queue.add(CsrKey(request))

    def _placements_changed(self, batch: Batch[Any]) -> None:
        """The existence of a Placement matters here, and the size of its groups; its decisions have the clusters."""
        for change in batch.changes:
            placement = change.object
            if (
                isinstance(change, Updated)
                and change.old.spec.decisionStrategy == placement.spec.decisionStrategy
            ):
                continue
            self._requeue_selected((placement.metadata.namespace, placement.metadata.name), ())

    def _decisions_changed(self, batch: Batch[Any]) -> None:
        changed: dict[Key, set[str]] = {}
        for page in old_and_new(batch):
            clusters = {decision.clusterName for decision in page.status.decisions}
            # A cluster of the old and the new page has not changed, also if it moved from one page to another.
            changed.setdefault(placement_of(page), set()).symmetric_difference_update(clusters)
        for placement, clusters in changed.items():
            self._requeue_selected(placement, clusters)

    def _requeue_selected(self, placement: Key, clusters: Any) -> None:
        for offer in self._index.offers_by(placement):
            self.queue.add(OfferKey(offer.metadata.name))
            for cluster in clusters:
                if (cluster, offer.metadata.name) in self._index.add_ons.store:
                    self.queue.add(AddOnKey(cluster, offer.metadata.name))

    def _clusters_changed(self, batch: Batch[Any]) -> None:
        for cluster in old_and_new(batch):
            name = cluster.metadata.name
            self.queue.add(ClusterKey(name))
            if self._index.cluster(name) is None:
                self._on_cluster_deleted(name)
            for offer in self._index.offers.store.values():
                missing = (name, offer.metadata.name) not in self._index.add_ons.store
                if missing and any(self._index.selecting_placements(offer, name)):
                    self.queue.add(OfferKey(offer.metadata.name))
            for add_on in self._index.add_ons_on(name):
                self.queue.add(AddOnKey(name, add_on.metadata.name))
                for request in self._index.waiting((name, add_on.metadata.name)):
                    self.queue.add(CsrKey(request))

    def _on_cluster_deleted(self, name: str) -> None:
        for key in self._orphaned_works.keys(name):
            self.queue.add(AddOnKey(*key))
        self.queue.add(OrphanedWorksKey(name))

    def _works_changed(self, batch: Batch[Any]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                self._orphaned_works.forget(change.object)
        for work in old_and_new(batch):
            if is_held(work):
                self.queue.add(OrphanedWorksKey(work.metadata.namespace))
            if (hosted := add_on_of_work(work)) is not None and hosted in self._index.add_ons.store:
                self.queue.add(AddOnKey(*hosted))
            if work.metadata.deletionTimestamp is not None and work.metadata.labels.get(ADD_ON_LABEL):
                self.queue.add(AddOnKey(work.metadata.namespace, work.metadata.labels[ADD_ON_LABEL]))

    def _bindings_changed(self, batch: Batch[Any]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                meta = change.object.metadata
                if meta.name == klusterlet_binding(meta.namespace):
                    self._on_cluster_deleted(meta.namespace)

    def _requests_changed(self, batch: Batch[Any]) -> None:
        for request in old_and_new(batch):
            if add_on_of(request) is not None and not request.decided:
                self.queue.add(CsrKey(request.metadata.name))

    def _leases_changed(self, batch: Batch[Any]) -> None:
        if any(lease.metadata.namespace == self._ocm_namespace for lease in old_and_new(batch)):
            self.queue.add(OcmLeaseKey())

    def _subscribe_belongings(self, informer: Informer[Any]) -> None:
        def changed(batch: Batch[Any]) -> None:
            for obj in old_and_new(batch):
                key = obj.metadata.namespace, obj.metadata.labels.get(ADD_ON_LABEL, "")
                if key in self._index.add_ons.store:
                    self.queue.add(AddOnKey(*key))

        informer.subscribe(changed)

    def _subscribe_configs(self, kind: tuple[str, str], informer: Informer[Any]) -> None:
        def changed(batch: Batch[Any]) -> None:
            seen: Mapping[Key, Any] = {
                (config.metadata.namespace, config.metadata.name): config for config in old_and_new(batch)
            }
            for key in seen:
                for add_on in self._index.add_ons_using(kind, key):
                    self.queue.add(AddOnKey(*add_on))
            for offer in self._index.offers.store.values():
                if has_template(offer):
                    self.queue.add(OfferKey(offer.metadata.name))

        informer.subscribe(changed)


def _installed_or_removed(batch: Batch[Any]) -> Iterator[Any]:
    for change in batch.changes:
        if (
            not isinstance(change, Updated)
            or change.old.metadata.ownerReferences != change.object.metadata.ownerReferences
        ):
            yield change.object


def _about(offer: ClusterManagementAddOn) -> tuple[object, ...]:
    """What the add-ons on clusters follow from."""
    meta = offer.metadata
    return meta.uid, meta.deletionTimestamp, meta.annotations, basis(offer)
