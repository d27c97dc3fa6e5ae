"""Create and delete ManagedClusterAddOns for the clusters that an add-on's Placements select."""

from typing import Any, Final

from fairway.api.addon import ADD_ON_GROUP, PLACEMENTS, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import CLUSTER_MANAGEMENT_ADD_ONS, MANAGED_CLUSTER_ADD_ONS
from fairway.controllers.addons import names
from fairway.controllers.addons.index import AddOnIndex, placements_of
from fairway.controllers.runtime.writer import Writer
from kubewire.client import AlreadyExists, Conflict, NotFound

_COPIED: Final = f"{ADD_ON_GROUP}/"
"""Prefix of cluster annotations that are copied to its add-ons."""


class Installer:
    def __init__(self, known: AddOnIndex, writer: Writer) -> None:
        self._index, self._writer = known, writer

    async def install(self, name: str) -> bool:
        """False if it must be retried, because a cluster that was just accepted has no namespace yet."""
        offer = self._index.offers.get(name)
        if offer is None or offer.metadata.deletionTimestamp is not None or is_self_managed(offer):
            return True  # the hub's garbage collector deletes the ManagedClusterAddOns
        if offer.spec.installStrategy.type != PLACEMENTS:
            return True  # users install it
        wanted = frozenset().union(
            *(self._index.selected_clusters(placement) for placement in placements_of(offer))
        )
        installed = {add_on.metadata.namespace: add_on for add_on in self._index.add_ons_named(name)}
        missing = [
            cluster
            for selected in sorted(wanted - installed.keys())
            if (cluster := self._index.cluster(selected)) is not None
            and cluster.metadata.deletionTimestamp is None
            and self._index.accepted(selected)
        ]
        surplus = [
            add_on
            for cluster, add_on in installed.items()
            if cluster not in wanted
            and add_on.metadata.deletionTimestamp is None
            and is_installed(add_on, offer)
        ]
        if not missing and not surplus:
            return True
        complete = True
        async with self._writer.batch():
            for cluster in missing:
                try:
                    await self._writer.create(
                        MANAGED_CLUSTER_ADD_ONS,
                        _body(offer, cluster),
                        namespace=cluster.metadata.name,
                    )
                except AlreadyExists:
                    continue
                except NotFound:
                    complete = False
            # After the new ones: an add-on that moves to other clusters is never on none.
            for add_on in surplus:
                try:
                    await self._writer.delete(MANAGED_CLUSTER_ADD_ONS, add_on.metadata)
                except (NotFound, Conflict):
                    continue  # the watch event requeues it
        return complete


def is_self_managed(offer: ClusterManagementAddOn) -> bool:
    """Whether OCM's addon-manager would leave the add-on alone: for any value but its own, also an empty one."""
    return offer.metadata.annotations.get(names.LIFECYCLE, names.MANAGED) != names.MANAGED


def copied_annotations(obj: ManagedCluster | ManagedClusterAddOn) -> dict[str, str]:
    """The annotations of a cluster that its add-ons have, too, such as the name of the hosting cluster."""
    return {key: value for key, value in obj.metadata.annotations.items() if key.startswith(_COPIED)}


def owner(offer: ClusterManagementAddOn, *, controller: bool) -> dict[str, Any]:
    return {
        "apiVersion": CLUSTER_MANAGEMENT_ADD_ONS.api_version,
        "kind": CLUSTER_MANAGEMENT_ADD_ONS.kind,
        "name": offer.metadata.name,
        "uid": offer.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


def is_installed(add_on: ManagedClusterAddOn, offer: ClusterManagementAddOn) -> bool:
    """Whether the add-on was installed for a Placement, by Fairway or OCM, and not by a user, who removes it."""
    return any(
        reference.uid == offer.metadata.uid and reference.controller
        for reference in add_on.metadata.ownerReferences
    )


def _body(offer: ClusterManagementAddOn, cluster: ManagedCluster) -> dict[str, Any]:
    annotations = copied_annotations(cluster)
    metadata: dict[str, Any] = {
        "name": offer.metadata.name,
        "namespace": cluster.metadata.name,
        "ownerReferences": [owner(offer, controller=True)],
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {}}
