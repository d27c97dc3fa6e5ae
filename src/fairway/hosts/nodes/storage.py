"""The storage of a cluster: claims, volumes, classes, and what CSI drivers report.

Claims and volumes are those of the API server with what the scheduler assumes: a volume that a pod in progress is going
to bind has its claim already, and a claim that is to be provisioned its node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairway.api.persistent_volume import AVAILABLE, STORAGE, PersistentVolume, PersistentVolumeClaim
from fairway.api.pod_requests import amount_of
from fairway.api.storage import (
    MIGRATED_PLUGINS,
    NO_PROVISIONER,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    TopologyTerm,
    VolumeAttachment,
)
from fairway.hosts.nodes.node_selection import NodeRequirement, NodeTerm, RequiredNodes, compile_terms
from fairway.hosts.nodes.pod_template import PodTemplate
from kubewire.api.quantity import QuantityError
from kubewire.api.selector import LabelSelector, SelectorError, compile_selector

ObjectKey = tuple[str, str]
"""(namespace, name)."""

IN_TREE_DRIVERS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""The CSI drivers that replace volume plugins of Kubernetes, on nodes whose CSINode names the plugin as migrated."""
_PLUGINS_OF_DISKS: Final[Mapping[str, str]] = {"aws": "kubernetes.io/aws-ebs", "gce": "kubernetes.io/gce-pd"}
_MIGRATABLE: Final = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""Provisioners that are never counted: kube-scheduler has no limit for their drivers."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class VolumeOffer:
    """A volume that a claim may bind."""

    volume: PersistentVolume
    size: int
    """Bytes."""
    nodes: RequiredNodes | None
    """None if every node reaches it."""

    @property
    def available(self) -> bool:
        return self.volume.status.phase == AVAILABLE


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """A CSIStorageCapacity."""

    limit: int | None
    """The size in bytes of the largest volume that fits; None if it is not known."""
    nodes: RequiredNodes

    @classmethod
    def of(cls, capacity: CSIStorageCapacity) -> "FreeCapacity":
        return cls(capacity_limit(capacity), selected_nodes(capacity.nodeTopology))


@dataclass(frozen=True, slots=True)
class AttachedVolume:
    driver: str
    id: str


class Storage:
    """The part of the storage that snapshots share. Inner dictionaries are replaced, never modified."""

    __slots__ = (
        "attached_to",
        "attachments",
        "capacities",
        "claims",
        "classes",
        "csi_nodes",
        "drivers",
        "offers",
        "reserved",
        "stamp",
        "volumes",
    )

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self.claims: dict[ObjectKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.offers: dict[str, Mapping[str, VolumeOffer]] = {}
        """Volumes without a claim, by class and name."""
        self.reserved: dict[ObjectKey, Mapping[str, VolumeOffer]] = {}
        """Volumes that name their claim, by claim and name."""
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.capacities: dict[str, Mapping[ObjectKey, FreeCapacity]] = {}
        """By class."""
        self.attachments: dict[str, Mapping[str, VolumeAttachment]] = {}
        """By node."""
        self.attached_to: dict[str, Mapping[str, str]] = {}
        """The node of each attachment of a volume, by the names of volume and attachment."""

    def fork(self) -> "Storage":
        other = Storage()
        for name in self.__slots__:
            if name != "stamp":
                setattr(other, name, getattr(self, name).copy())
        return other

    def load(
        self,
        *,
        claims: Iterable[PersistentVolumeClaim],
        volumes: Iterable[PersistentVolume],
        classes: Iterable[StorageClass],
        drivers: Iterable[CSIDriver],
        csi_nodes: Iterable[CSINode],
        capacities: Iterable[CSIStorageCapacity],
        attachments: Iterable[VolumeAttachment],
    ) -> None:
        """Fill an empty storage at once."""
        self.claims = {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
        self.volumes = {volume.metadata.name: volume for volume in volumes}
        self.classes = {storage_class.metadata.name: storage_class for storage_class in classes}
        self.drivers = {driver.metadata.name: driver for driver in drivers}
        self.csi_nodes = {node.metadata.name: node for node in csi_nodes}
        offers: dict[str, dict[str, VolumeOffer]] = {}
        reserved: dict[ObjectKey, dict[str, VolumeOffer]] = {}
        for volume in self.volumes.values():
            claim, name = claim_of(volume), volume.metadata.name
            if claim is None:
                offers.setdefault(volume.storage_class, {})[name] = offer_of(volume)
            else:
                reserved.setdefault(claim, {})[name] = offer_of(volume)
        sizes: dict[str, dict[ObjectKey, FreeCapacity]] = {}
        for capacity in capacities:
            meta = capacity.metadata
            sizes.setdefault(capacity.storageClassName, {})[meta.namespace, meta.name] = FreeCapacity.of(
                capacity
            )
        attached: dict[str, dict[str, VolumeAttachment]] = {}
        for attachment in attachments:
            spec, name = attachment.spec, attachment.metadata.name
            attached.setdefault(spec.nodeName, {})[name] = attachment
            put(self.attached_to, spec.source.persistentVolumeName, name, spec.nodeName)
        self.offers, self.reserved = {**offers}, {**reserved}
        self.capacities, self.attachments = {**sizes}, {**attached}

    def put_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        self.drop_volume(name)
        self.volumes[name] = volume
        self._put_offer(volume)

    def drop_volume(self, name: str) -> None:
        old = self.volumes.pop(name, None)
        if old is None:
            return
        remove(self.offers, old.storage_class, name)
        if (claim := claim_of(old)) is not None:
            remove(self.reserved, claim, name)

    def _put_offer(self, volume: PersistentVolume) -> None:
        claim = claim_of(volume)
        if claim is None:
            put(self.offers, volume.storage_class, volume.metadata.name, offer_of(volume))
        else:
            put(self.reserved, claim, volume.metadata.name, offer_of(volume))

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        meta = capacity.metadata
        free = FreeCapacity.of(capacity)
        put(self.capacities, capacity.storageClassName, (meta.namespace, meta.name), free)

    def drop_capacity(self, capacity: CSIStorageCapacity) -> None:
        meta = capacity.metadata
        remove(self.capacities, capacity.storageClassName, (meta.namespace, meta.name))

    # Volumes that are attached to nodes

    def put_attachment(self, attachment: VolumeAttachment) -> None:
        spec, name = attachment.spec, attachment.metadata.name
        put(self.attachments, spec.nodeName, name, attachment)
        put(self.attached_to, spec.source.persistentVolumeName, name, spec.nodeName)

    def drop_attachment(self, attachment: VolumeAttachment) -> None:
        spec, name = attachment.spec, attachment.metadata.name
        remove(self.attachments, spec.nodeName, name)
        remove(self.attached_to, spec.source.persistentVolumeName, name)

    def volumes_of(self, template: PodTemplate, node: str) -> set[AttachedVolume]:
        """Return the volumes of CSI drivers that a pod attaches to a node, as far as they are known."""
        volumes: set[AttachedVolume] = set()
        for name in template.claims:
            claim = self.claims.get((template.namespace, name))
            volume = None if claim is None else self._attached(claim, node)
            if volume is not None:
                volumes.add(volume)
        for disk in template.disks:
            plugin = _PLUGINS_OF_DISKS.get(disk.kind)
            if plugin is not None and self._is_migrated(plugin, node):
                volumes.add(AttachedVolume(IN_TREE_DRIVERS[plugin], disk.names[0]))
        return volumes

    def depends_on_node(self, template: PodTemplate) -> bool:
        """Return whether the volumes of a pod belong to CSI drivers on some nodes only."""
        if any(disk.kind in _PLUGINS_OF_DISKS for disk in template.disks):
            return True
        for name in template.claims:
            claim = self.claims.get((template.namespace, name))
            if claim is None:
                continue
            volume = self.volumes.get(claim.spec.volumeName)
            if volume is None:
                class_ = self.classes.get(claim.storage_class)
                if class_ is not None and class_.provisioner in IN_TREE_DRIVERS:
                    return True
            elif volume.spec.csi is None and _in_tree_disk(volume) is not None:
                return True
        return False

    def attachments_on(self, node: str) -> set[AttachedVolume]:
        """Return the volumes of CSI drivers that VolumeAttachments attach to a node, or detach."""
        volumes: set[AttachedVolume] = set()
        for attachment in self.attachments.get(node, {}).values():
            spec = attachment.spec
            volume = self.volumes.get(spec.source.persistentVolumeName)
            if spec.attacher and volume is not None and volume.spec.csi is not None:
                volumes.add(AttachedVolume(spec.attacher, volume.spec.csi.volumeHandle))
        return volumes

    def limits(self, node: str) -> dict[str, int | None]:
        """Return how many volumes of each driver a node takes, for the drivers that it has; None for no limit."""
        csi_node = self.csi_nodes.get(node)
        if csi_node is None:
            return {}
        return {
            driver.name: None if driver.allocatable is None else driver.allocatable.count
            for driver in csi_node.spec.drivers
        }

    def _attached(self, claim: PersistentVolumeClaim, node: str) -> AttachedVolume | None:
        volume = self.volumes.get(claim.spec.volumeName)
        if volume is None:
            return self._expected(claim, node)
        if (csi := volume.spec.csi) is not None:
            return AttachedVolume(csi.driver, csi.volumeHandle) if csi.driver and csi.volumeHandle else None
        disk = _in_tree_disk(volume)
        if disk is None or not self._is_migrated(disk[0], node):
            return None
        return AttachedVolume(IN_TREE_DRIVERS[disk[0]], disk[1])

    def _expected(self, claim: PersistentVolumeClaim, node: str) -> AttachedVolume | None:
        """Return the volume that will be provisioned for a claim."""
        class_ = self.classes.get(claim.storage_class)
        if class_ is None or not class_.provisioner:
            return None
        driver, meta = class_.provisioner, claim.metadata
        if driver in IN_TREE_DRIVERS:
            if not self._is_migrated(driver, node):
                return None
            driver = IN_TREE_DRIVERS[driver]
        elif driver in _MIGRATABLE:
            return None
        # No volume handle has a line break.
        return AttachedVolume(driver, f"claim\n{meta.namespace}/{meta.name}")

    def _is_migrated(self, plugin: str, node: str) -> bool:
        csi_node = self.csi_nodes.get(node)
        if csi_node is None:
            return False
        return plugin in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def put(index: dict[K, Mapping[V, Any]], key: K, name: V, value: Any) -> None:
    index[key] = {**index.get(key, {}), name: value}


def remove(index: dict[K, Mapping[V, Any]], key: K, name: V) -> None:
    objects = index.get(key)
    if objects is not None and name in objects:
        left = {other: value for other, value in objects.items() if other != name}
        if left:
            index[key] = left
        else:
            del index[key]


def claim_of(volume: PersistentVolume) -> ObjectKey | None:
    """Return the claim that a volume names."""
    reference = volume.spec.claimRef
    return None if reference is None else (reference.namespace, reference.name)


def offer_of(volume: PersistentVolume) -> VolumeOffer:
    return VolumeOffer(volume, size_of(volume.spec.capacity), nodes_of(volume))


def size_of(amounts: Mapping[str, str | int | float]) -> int:
    """Return the bytes of storage; 0 for none, or for an invalid quantity."""
    try:
        return amount_of(STORAGE, amounts.get(STORAGE, 0))
    except QuantityError:
        return 0


def nodes_of(volume: PersistentVolume) -> RequiredNodes | None:
    """Return the nodes that reach a volume; None for all."""
    affinity = volume.spec.nodeAffinity
    if affinity is None or affinity.required is None:
        return None
    return RequiredNodes((), compile_terms(affinity.required.nodeSelectorTerms))


def topologies_of(terms: tuple[TopologyTerm, ...]) -> RequiredNodes | None:
    """Return the nodes that the allowed topologies of a class mean; None for all."""
    if not terms:
        return None
    return RequiredNodes(
        (),
        tuple(
            NodeTerm(
                tuple(
                    NodeRequirement(expression.key, "In", frozenset(expression.values))
                    for expression in term.matchLabelExpressions
                )
            )
            for term in terms
            if term.matchLabelExpressions
        ),
    )


def selected_nodes(selector: LabelSelector | None) -> RequiredNodes:
    """Return the nodes that a selector of labels means; none for None."""
    try:
        compiled = compile_selector(selector)
    except SelectorError:
        return RequiredNodes((), ())
    if selector is None:
        return RequiredNodes((), ())
    requirements = tuple(
        NodeRequirement(requirement.key, requirement.operator, requirement.values)
        for requirement in compiled.requirements
    )
    return RequiredNodes((), (NodeTerm(requirements),))


def capacity_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the size of the largest volume that the capacity has room for."""
    given = capacity.capacity if capacity.maximumVolumeSize is None else capacity.maximumVolumeSize
    return None if given is None else size_of({STORAGE: given})


def is_provisioned(class_: StorageClass) -> bool:
    return class_.provisioner not in ("", NO_PROVISIONER)


def _in_tree_disk(volume: PersistentVolume) -> tuple[str, str] | None:
    """Return the plugin and the disk of a volume that a CSI driver may have taken over."""
    spec = volume.spec
    for plugin, disk in (
        ("kubernetes.io/aws-ebs", spec.awsElasticBlockStore and spec.awsElasticBlockStore.volumeID),
        ("kubernetes.io/azure-disk", spec.azureDisk and spec.azureDisk.diskURI),
        ("kubernetes.io/cinder", spec.cinder and spec.cinder.volumeID),
        ("kubernetes.io/gce-pd", spec.gcePersistentDisk and spec.gcePersistentDisk.pdName),
        ("kubernetes.io/portworx-volume", spec.portworxVolume and spec.portworxVolume.volumeID),
    ):
        if disk:
            return plugin, disk
    return None
