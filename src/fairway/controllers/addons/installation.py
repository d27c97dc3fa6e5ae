"""Create and delete ManagedClusterAddOns for the clusters that an add-on's Placements select."""

from typing import Any, Final

from fairway.api.addon import ADD_ON_GROUP, PLACEMENTS, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.cluster import ManagedCluster
from fairway.controllers.addons import names
from fairway.controllers.addons.index import AddOnIndex, placements_of
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.leadership import Leadership
from fairway.kube import (
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    AlreadyExists,
    Conflict,
    NotFound,
)

_COPIED: Final = f"{ADD_ON_GROUP}/"
"""Prefix of cluster annotations that are copied to its add-ons."""


class Installer:
    def __init__(self, known: AddOnIndex, writes: FencedWriter) -> None:
        self._index, self._writer = known, writes

    async def install(self, name: str, leadership: Leadership) -> bool:
        """False if it must be retried, because a cluster that was just accepted has no namespace yet."""
        offer = self._index.offers.get(name)
        if offer is None or offer.metadata.deletionTimestamp is not None or is_self_managed(offer):
            return True  # the hub's garbage collector deletes the ManagedClusterAddOns
        if offer.spec.installStrategy.type != PLACEMENTS:
            return True  # users install it
        wanted = frozenset().union(*(self._index.selected_clusters(each) for each in placements_of(offer)))
        there = {each.metadata.namespace: each for each in self._index.add_ons_named(name)}
        missing = [
            cluster
            for each in sorted(wanted - there.keys())
            if (cluster := self._index.cluster(each)) is not None
            and cluster.metadata.deletionTimestamp is None
            and self._index.accepted(each)
        ]
        surplus = [
            each
            for cluster, each in there.items()
            if cluster not in wanted and each.metadata.deletionTimestamp is None and _is_ours(each, offer)
        ]
        if not missing and not surplus:
            return True
        complete = True
        async with leadership.batch():
            for cluster in missing:
                try:
                    await self._writer.create(
                        MANAGED_CLUSTER_ADD_ONS,
                        _body(offer, cluster),
                        leadership=leadership,
                        namespace=cluster.metadata.name,
                    )
                except AlreadyExists:
                    continue
                except NotFound:
                    complete = False
            for each in surplus:
                try:
                    await self._writer.delete(MANAGED_CLUSTER_ADD_ONS, each.metadata, leadership=leadership)
                except (NotFound, Conflict):
                    continue  # the watch event requeues it
        return complete


def is_self_managed(offer: ClusterManagementAddOn) -> bool:
    return offer.metadata.annotations.get(names.LIFECYCLE) == names.SELF_MANAGED


def owner(offer: ClusterManagementAddOn, *, controller: bool) -> dict[str, Any]:
    return {
        "apiVersion": CLUSTER_MANAGEMENT_ADD_ONS.api_version,
        "kind": CLUSTER_MANAGEMENT_ADD_ONS.kind,
        "name": offer.metadata.name,
        "uid": offer.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


def _is_ours(add_on: ManagedClusterAddOn, offer: ClusterManagementAddOn) -> bool:
    """Whether the add-on was installed for a Placement, by Fairway or OCM, and not by a user, who removes it."""
    return any(each.uid == offer.metadata.uid and each.controller for each in add_on.metadata.ownerReferences)


def _body(offer: ClusterManagementAddOn, cluster: ManagedCluster) -> dict[str, Any]:
    annotations = {
        key: value for key, value in cluster.metadata.annotations.items() if key.startswith(_COPIED)
    }
    metadata: dict[str, Any] = {
        "name": offer.metadata.name,
        "namespace": cluster.metadata.name,
        "ownerReferences": [owner(offer, controller=True)],
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {}}
