"""Informers of the add-on controller, and indexes over them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from fairway.api.addon import PLACEMENTS as BY_PLACEMENTS
from fairway.api.addon import AddOnConfig, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_template import AddOnTemplate
from fairway.api.cluster import CONDITION_ACCEPTED, ManagedCluster
from fairway.api.decision import PlacementDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.work import ManifestWork
from fairway.controllers.addons import configs, names
from fairway.controllers.addons.ocm_detection import LEASE
from fairway.controllers.addons.registration import is_klusterlet
from fairway.controllers.addons.rollout_plan import Group
from fairway.controllers.kinds import ROLE_BINDINGS, RoleBinding
from fairway.controllers.runtime.informer_factory import InformerFactory
from kubewire.api.meta import TRUE, find_condition
from kubewire.api.resource import Key, key_of
from kubewire.client import Batch, Updated
from kubewire.client.csr import SIGNING_REQUESTS, CertificateSigningRequest
from kubewire.client.lease import LEASES


class AddOnIndex:
    """``offers`` are the ClusterManagementAddOns."""

    def __init__(self, informers: InformerFactory) -> None:
        self.offers = informers.of(CLUSTER_MANAGEMENT_ADD_ONS)
        self.add_ons = informers.of(MANAGED_CLUSTER_ADD_ONS)
        self.templates = informers.of(ADD_ON_TEMPLATES)
        self.deployments = informers.of(ADD_ON_DEPLOYMENT_CONFIGS)
        self.clusters = informers.of(MANAGED_CLUSTERS)
        self.placements = informers.of(PLACEMENTS)
        self.decisions = informers.of(PLACEMENT_DECISIONS)
        self.works = informers.of(MANIFEST_WORKS)
        self.bindings = informers.of(ROLE_BINDINGS)
        self.requests = informers.of(SIGNING_REQUESTS)
        self.leases = informers.of(LEASES, fields=f"metadata.name={LEASE}")
        self._pages: defaultdict[Key, dict[Key, frozenset[str]]] = defaultdict(dict)
        """The clusters in each page of a Placement. Pages are large, and most questions are about one cluster."""
        self._on_cluster = self.add_ons.index(cluster_of)
        self._of_name = self.add_ons.index(name_of)
        self._waiting = self.requests.index(waiting_for)
        self._granted = self.bindings.index(granted_to)
        self._works = self.works.index(owner_of_work)
        """By cluster and add-on, also those on a hosting cluster."""
        self.decisions.subscribe(self._index_decisions)

    def add_ons_on(self, cluster: str) -> Iterator[ManagedClusterAddOn]:
        yield from sorted(self._on_cluster.find(cluster), key=key_of)

    def add_ons_named(self, name: str) -> Iterator[ManagedClusterAddOn]:
        yield from sorted(self._of_name.find(name), key=key_of)

    def count_named(self, name: str) -> int:
        return self._of_name.count(name)

    def selected_clusters(self, placement: Key) -> frozenset[str]:
        """The clusters that a Placement selects; none if it does not exist."""
        if placement not in self.placements.store:
            return frozenset()
        return frozenset().union(*self._pages.get(placement, {}).values())

    def groups(self, placement: Key) -> list[Group]:
        """The decision groups of a Placement. Pages without a valid index are in the first group."""
        clusters: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        for key, page in self._pages.get(placement, {}).items():
            labels = self.decisions.store[key].metadata.labels
            index = labels.get(GROUP_INDEX_LABEL, "")
            number = int(index) if index.isascii() and index.isdecimal() and len(index) < 10 else 0
            clusters[number, labels.get(GROUP_NAME_LABEL, "")] |= page
        return [Group(index, name, frozenset(selected)) for (index, name), selected in clusters.items()]

    def effective_placement(self, offer: ClusterManagementAddOn, cluster: str) -> Key | None:
        """The last Placement of an add-on that selects a cluster."""
        return next(
            (placement for placement in reversed(placements_of(offer)) if self.has(placement, cluster)), None
        )

    def works_of(self, add_on: ManagedClusterAddOn) -> Iterator[ManifestWork]:
        """The ManifestWorks of an add-on, in the cluster's namespace and in that of its hosting cluster."""
        meta = add_on.metadata
        places = meta.namespace, meta.annotations.get(names.HOSTING_CLUSTER)
        for work in sorted(self._works.find((meta.namespace, meta.name)), key=key_of):
            if work.metadata.namespace in places:
                yield work

    def has(self, placement: Key, cluster: str) -> bool:
        if placement not in self.placements.store:
            return False
        return any(cluster in page for page in self._pages.get(placement, {}).values())

    def selecting_placements(self, offer: ClusterManagementAddOn, cluster: str) -> Iterator[Key]:
        """The Placements of an add-on that select a cluster."""
        yield from (placement for placement in placements_of(offer) if self.has(placement, cluster))

    def offers_by(self, placement: Key) -> Iterator[ClusterManagementAddOn]:
        yield from (offer for offer in self.offers.store.values() if placement in placements_of(offer))

    def references(self, add_on: ManagedClusterAddOn) -> tuple[AddOnConfig, ...]:
        offer = self.offers.get(add_on.metadata.name)
        chosen = () if offer is None else self.selecting_placements(offer, add_on.metadata.namespace)
        return configs.named(add_on, offer, placements=chosen)

    def add_ons_using(self, kind: configs.Kind, key: Key) -> Iterator[Key]:
        """Add-ons on clusters to which a configuration applies."""
        for add_on_key, add_on in self.add_ons.store.items():
            for config in self.references(add_on):
                if (config.group, config.resource) == kind and (config.namespace, config.name) == key:
                    yield add_on_key

    def template_of(self, add_on: ManagedClusterAddOn) -> AddOnTemplate | None:
        """The add-on's template; None if it has none, or if that is missing or another add-on's."""
        if self.offers.get(add_on.metadata.name) is None:
            return None
        try:
            return configs.resolve(
                self.references(add_on),
                add_on=add_on.metadata.name,
                templates=self.templates.store,
                deployments=self.deployments.store,
            ).template
        except configs.ConfigError:
            return None

    def granted(self, add_on: ManagedClusterAddOn) -> Iterator[RoleBinding]:
        """The bindings of the add-on in the cluster's namespace."""
        meta = add_on.metadata
        for binding in sorted(self._granted.find((meta.namespace, meta.name)), key=key_of):
            if any(reference.uid == meta.uid for reference in binding.metadata.ownerReferences):
                yield binding

    def accepted(self, cluster: str) -> bool:
        """Whether the cluster is accepted and has its namespace.

        A cluster whose name is a namespace of another owner is never accepted, whatever its spec.
        """
        managed_cluster = self.clusters.get(cluster)
        if managed_cluster is None or not managed_cluster.spec.hubAcceptsClient:
            return False
        accepted = find_condition(managed_cluster.status.conditions or (), CONDITION_ACCEPTED)
        return accepted is not None and accepted.status == TRUE

    def waiting(self, add_on: Key) -> Iterable[str]:
        """Undecided certificate requests of an add-on on a cluster."""
        return [request.metadata.name for request in self._waiting.find(add_on)]

    def work(self, cluster: str, name: str) -> ManifestWork | None:
        return self.works.get(name, namespace=cluster)

    def cluster(self, name: str) -> ManagedCluster | None:
        return self.clusters.get(name)

    def _index_decisions(self, batch: Batch[PlacementDecision]) -> None:
        for page in old_and_new(batch):
            key = page.metadata.namespace, page.metadata.name
            self._pages[placement_of(page)].pop(key, None)
            now = self.decisions.store.get(key)
            if now is not None:
                clusters = frozenset(decision.clusterName for decision in now.status.decisions)
                self._pages[placement_of(now)][key] = clusters


def old_and_new(batch: Batch[Any]) -> Iterator[Any]:
    """The old and the new state of every changed object."""
    for change in batch.changes:
        if isinstance(change, Updated):
            yield change.old
        yield change.object


def placements_of(offer: ClusterManagementAddOn) -> tuple[Key, ...]:
    strategy = offer.spec.installStrategy
    if strategy.type != BY_PLACEMENTS:
        return ()
    return tuple((placement.namespace, placement.name) for placement in strategy.placements)


def placement_of(decision: PlacementDecision) -> Key:
    return decision.metadata.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, "")


def add_on_of_work(work: ManifestWork) -> Key | None:
    """The cluster and add-on that a work belongs to."""
    meta = work.metadata
    add_on = meta.labels.get(names.ADD_ON_LABEL)
    return (meta.labels.get(names.ADD_ON_NAMESPACE_LABEL) or meta.namespace, add_on) if add_on else None


def add_on_of(request: CertificateSigningRequest) -> Key | None:
    """The cluster and add-on in the request's labels."""
    labels = request.metadata.labels
    cluster, add_on = labels.get(names.CLUSTER_LABEL, ""), labels.get(names.ADD_ON_LABEL, "")
    return (cluster, add_on) if cluster and add_on else None


def cluster_of(add_on: ManagedClusterAddOn) -> tuple[str]:
    return (add_on.metadata.namespace,)


def name_of(add_on: ManagedClusterAddOn) -> tuple[str]:
    return (add_on.metadata.name,)


def owner_of_work(work: ManifestWork) -> tuple[Key, ...]:
    add_on = add_on_of_work(work)
    return () if add_on is None else (add_on,)


def granted_to(binding: RoleBinding) -> tuple[Key, ...]:
    meta = binding.metadata
    if names.TEMPLATE_LABEL not in meta.labels:
        return ()
    return ((meta.namespace, meta.labels.get(names.ADD_ON_LABEL, "")),)


def waiting_for(request: CertificateSigningRequest) -> tuple[Key, ...]:
    """Only requests of the cluster itself count: any requester can set the label."""
    add_on = add_on_of(request)
    return () if add_on is None or request.decided or not is_klusterlet(request, add_on[0]) else (add_on,)
