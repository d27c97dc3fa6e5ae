"""Which volumes a pod binds, or has provisioned, on a node: for claims that wait for their first consumer.

A claim binds the smallest volume that suffices, or the one that names it. Others are provisioned by their class, unless
the node is outside its topologies, or its driver reports no room for such a volume.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.api.persistent_volume import (
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from fairway.api.storage import StorageClass
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.nodes.pod_columns import CSI_DRIVER, STORAGE_CAPACITY, STORAGE_CLASS, VOLUMES
from fairway.hosts.nodes.selector_index import SelectorIndex
from fairway.hosts.nodes.storage import Storage, VolumeOffer, is_provisioned, size_of, topologies_of
from fairway.hosts.snapshot import Snapshot
from kubewire.api.selector import SELECT_EVERYTHING, SelectorError, compile_selector

NO_VOLUME_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """What a pod binds on a node."""

    bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provisioned: tuple[PersistentVolumeClaim, ...] = ()


class WaitingClaim:
    """A claim that waits for its first consumer, with the volumes that it may bind, best first."""

    def __init__(self, claim: PersistentVolumeClaim, class_: StorageClass, storage: Storage) -> None:
        self.claim = claim
        self.size = size_of(claim.spec.resources.requests)
        self.selected = claim.metadata.annotations.get(SELECTED_NODE)
        """The node for which it is being provisioned."""
        self._class, self._storage = class_, storage
        self.offers: tuple[VolumeOffer, ...] = () if self.selected is not None else self._find_offers()

    def _find_offers(self) -> tuple[VolumeOffer, ...]:
        claim, storage, class_name = self.claim, self._storage, self.claim.storage_class
        key = (claim.metadata.namespace, claim.metadata.name)
        reserved = [
            offer
            for offer in storage.reserved.get(key, {}).values()
            if _names(offer.volume, claim)
            and offer.volume.storage_class == class_name
            and self._suffices(offer)
        ]
        if reserved:
            return (min(reserved, key=_by_name),)
        try:
            given = claim.spec.selector
            selector = SELECT_EVERYTHING if given is None else compile_selector(given)
        except SelectorError:
            return ()
        modes = set(claim.spec.accessModes)
        offers = [
            offer
            for offer in storage.offers.get(class_name, {}).values()
            if offer.available
            and self._suffices(offer)
            and modes.issubset(offer.volume.spec.accessModes)
            and selector.matches(offer.volume.metadata.labels)
        ]
        return tuple(sorted(offers, key=lambda offer: (offer.size, _by_name(offer))))

    def _suffices(self, offer: VolumeOffer) -> bool:
        wanted, spec = self.claim.spec, offer.volume.spec
        return (
            offer.size >= self.size
            and spec.volumeMode == wanted.volumeMode
            and spec.volumeAttributesClassName == wanted.volumeAttributesClassName
            and offer.volume.metadata.deletionTimestamp is None
        )

    @cached_property
    def _offered(self) -> SelectorIndex:
        return SelectorIndex([offer.nodes for offer in self.offers])

    @cached_property
    def _topologies(self) -> SelectorIndex:
        return SelectorIndex([topologies_of(self._class.allowedTopologies)])

    @cached_property
    def _capacities(self) -> SelectorIndex | None:
        """Return where there is room for the volume; None if the driver does not report it."""
        driver = self._storage.drivers.get(self._class.provisioner)
        if driver is None or not driver.spec.storageCapacity or not self.claim.spec.resources.requests:
            return None
        capacities = self._storage.capacities.get(self._class.metadata.name, {}).values()
        return SelectorIndex(
            [
                capacity.nodes
                for capacity in capacities
                if capacity.limit is not None and capacity.limit >= self.size
            ]
        )

    def offer_on(self, node: str, labels: Mapping[str, str], taken: set[str]) -> PersistentVolume | None:
        """Return the best volume that a node reaches and that is not taken."""
        for at in self._offered.matching(node, labels):
            volume = self.offers[at].volume
            if volume.metadata.name not in taken:
                return volume
        return None

    def objection_to(self, node: str, labels: Mapping[str, str]) -> str | None:
        """Return why no volume can be provisioned for a node."""
        if not is_provisioned(self._class) or not self._topologies.matching(node, labels):
            return NO_VOLUME_TO_BIND
        if self._capacities is not None and not self._capacities.matching(node, labels):
            return NO_SPACE
        return None

    def offered_to(self, snapshot: Snapshot[Any], among: Bits) -> Bits:
        """Return the nodes that reach a volume for the claim."""
        return self._offered.select(snapshot, among) if self.offers else snapshot.none()

    def count_offers(self, snapshot: Snapshot[Any]) -> npt.NDArray[np.int64]:
        """Return how many volumes for the claim each node reaches."""
        return self._offered.counts(snapshot)

    def provisioned_for(self, snapshot: Snapshot[Any], among: Bits) -> Bits:
        """Return the nodes for which a volume can be provisioned."""
        if not is_provisioned(self._class):
            return snapshot.none()
        nodes = self._topologies.select(snapshot, among)
        return nodes if self._capacities is None else self._capacities.select(snapshot, nodes)

    def columns(self) -> set[Key]:
        """Return the columns of nodes that decide."""
        columns = self._offered.columns() | self._topologies.columns()
        return columns if self._capacities is None else columns | self._capacities.columns()

    def shared(self) -> set[Key]:
        """Return what decides for all nodes."""
        name = self._class.metadata.name
        return {
            VOLUMES,
            (STORAGE_CLASS, name),
            (STORAGE_CAPACITY, name),
            (CSI_DRIVER, self._class.provisioner),
        }


def in_order(claims: Iterable[WaitingClaim]) -> tuple[WaitingClaim, ...]:
    """Sort claims: those that are being provisioned, then small ones, which leave large volumes to others."""
    return tuple(sorted(claims, key=lambda claim: (claim.selected is None, claim.size)))


def choose_volumes(
    claims: Iterable[WaitingClaim], node: str, labels: Mapping[str, str]
) -> VolumeChoice | str:
    """Return what the claims get on a node, or why it does not suit them. ``claims`` are those of ``in_order``."""
    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
    provisioned: list[WaitingClaim] = []
    taken: set[str] = set()
    for claim in claims:
        if claim.selected is not None:
            if claim.selected != node:
                return NO_VOLUME_TO_BIND
            provisioned.append(claim)
            continue
        volume = claim.offer_on(node, labels, taken)
        if volume is None:
            provisioned.append(claim)
        else:
            taken.add(volume.metadata.name)
            bindings.append((claim.claim, volume))
    for claim in provisioned:
        objection = claim.objection_to(node, labels)
        if objection is not None:
            return objection
    return VolumeChoice(tuple(bindings), tuple(claim.claim for claim in provisioned))


def select_nodes(claims: tuple[WaitingClaim, ...], snapshot: Snapshot[Any], among: Bits) -> Bits:
    """Return the nodes that suit the claims."""
    selected = {claim.selected for claim in claims if claim.selected is not None}
    if selected:
        rows = snapshot.rows_named(list(selected)) if len(selected) == 1 else []
        among = among & bitmap.from_rows(rows, snapshot.capacity)
    all_provisioned, some_provisioned = among, snapshot.none()
    for claim in claims:
        provisioned = claim.provisioned_for(snapshot, among)
        among = among & (claim.offered_to(snapshot, among) | provisioned)
        all_provisioned = all_provisioned & provisioned
        some_provisioned = some_provisioned | provisioned
    offered = [claim for claim in claims if claim.offers]
    if len(offered) < 2:
        return among
    # Several claims may need the same volume. Most nodes have enough for each claim, or not enough for all of them.
    enough = all_provisioned | bitmap.pack(
        np.min([claim.count_offers(snapshot) for claim in offered], axis=0) >= len(offered)
    )
    every = {offer.volume.metadata.name: offer for claim in offered for offer in claim.offers}
    counts = SelectorIndex([offer.nodes for offer in every.values()]).counts(snapshot)
    too_few = bitmap.pack(counts < len(offered)) & ~some_provisioned
    undecided = bitmap.rows_of(among & ~enough & ~too_few).tolist()
    rows = [row for row in undecided if not isinstance(_choose(claims, snapshot, row), str)]
    return (among & enough) | bitmap.from_rows(rows, snapshot.capacity)


def _choose(claims: tuple[WaitingClaim, ...], snapshot: Snapshot[Any], row: int) -> VolumeChoice | str:
    meta = snapshot.host(row).metadata
    return choose_volumes(claims, meta.name, meta.labels)


def _names(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume that names the claim means this one, and not an earlier one of the same name."""
    reference = volume.spec.claimRef
    return reference is not None and reference.uid in ("", claim.metadata.uid)


def _by_name(offer: VolumeOffer) -> str:
    return offer.volume.metadata.name
