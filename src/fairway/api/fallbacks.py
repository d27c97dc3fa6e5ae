"""Values that replace fields that cannot be decoded.

A dropped field gets the default of its type. That is wrong wherever a missing field
grants more than a present one: a score without ``validUntil`` never expires, a selector without its second
requirement selects more, a taint without an effect repels nothing. This table lists all of these. The rule behind
every line: an unreadable field must not give its writer more than a missing one.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from fairway.api.addon import ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.claim import ClusterClaim as ClaimObject
from fairway.api.cluster import NO_SELECT, ClusterClaim, ManagedCluster, ManagedClusterSpec, Taint
from fairway.api.clusterset import (
    LABEL_SELECTOR,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetSpec,
)
from fairway.api.decision import ClusterDecision
from fairway.api.lease import Lease, LeaseSpec
from fairway.api.meta import UNKNOWN, Condition, ObjectMeta
from fairway.api.placement import Placement, PlacementSpec
from fairway.api.placement_v1alpha1 import PlacementSpecV1Alpha1, PlacementV1Alpha1
from fairway.api.score import (
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScoreCondition,
    ManagedClusterScoreStatus,
)
from fairway.api.work import ORPHAN, AppliedManifestWork, DeleteOption, ManifestWork, ManifestWorkSpec

NO_FALLBACK: Final = object()
"""Use the default of the field."""
REQUIRED: Final = object()
"""Treat the parent as unreadable, too: an item of a list is dropped as a whole."""

UNREADABLE: Final = "Unreadable"
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNREADABLE_TAINT: Final = Taint(key="fairway.dev/unreadable", value=UNREADABLE, effect=NO_SELECT)
_NO_MEMBERS: Final = ManagedClusterSetSpec(
    clusterSelector=ManagedClusterSelector(selectorType=LABEL_SELECTOR, labelSelector=None)
)


@dataclass(frozen=True, slots=True)
class Fallback:
    value: object = NO_FALLBACK
    item: object = NO_FALLBACK
    """Replaces a single item of a list; without one, the item is dropped."""
    whole: bool = False
    """One unreadable part makes the whole unreadable, because its meaning depends on all parts."""


_NONE: Final = Fallback()

_TABLE: Final[dict[tuple[type[Struct], str], Fallback]] = {
    # A deletion with an unreadable time has still begun.
    (ObjectMeta, "deletionTimestamp"): Fallback(LONG_AGO),
    # An unreadable condition is Unknown. The rest of it must be valid, because controllers write the
    # list of conditions back with their own.
    (Condition, "type"): Fallback(REQUIRED),
    (Condition, "status"): Fallback(UNKNOWN),
    (Condition, "lastTransitionTime"): Fallback(LONG_AGO),
    (Condition, "reason"): Fallback(UNREADABLE),
    # Without a time of update, a ManagedClusterScore would be fresh where age is not checked.
    (ManagedClusterScoreCondition, "lastUpdateTime"): Fallback(LONG_AGO),
    (ManagedClusterScoreStatus, "score"): Fallback(REQUIRED),
    # Without validUntil, a score would never expire. Without its value, it would be 0 instead of missing.
    (AddOnPlacementScoreStatus, "validUntil"): Fallback(LONG_AGO),
    (AddOnPlacementScoreItem, "name"): Fallback(REQUIRED),
    (AddOnPlacementScoreItem, "value"): Fallback(REQUIRED),
    (ClusterClaim, "name"): Fallback(REQUIRED),
    (ClusterClaim, "value"): Fallback(REQUIRED),
    (ClusterDecision, "clusterName"): Fallback(REQUIRED),
    # A taint keeps its readable parts, and its position in the list, which patches refer to.
    (Taint, "key"): Fallback(UNREADABLE_TAINT.key),
    (Taint, "value"): Fallback(UNREADABLE_TAINT.value),
    (Taint, "effect"): Fallback(NO_SELECT),
    (ManagedClusterSpec, "taints"): Fallback((UNREADABLE_TAINT,), item=UNREADABLE_TAINT),
    (ManagedCluster, "spec"): Fallback(ManagedClusterSpec(taints=(UNREADABLE_TAINT,))),
    # A Lease with an unreadable holder must not count as free.
    (LeaseSpec, "holderIdentity"): Fallback(UNREADABLE),
    (Lease, "spec"): Fallback(LeaseSpec(holderIdentity=UNREADABLE)),
    # Dropping a selector, a toleration or a manifest changes the meaning. Controllers report the field on the object.
    (Placement, "spec"): Fallback(PlacementSpec(numberOfClusters=0), whole=True),
    (PlacementV1Alpha1, "spec"): Fallback(PlacementSpecV1Alpha1(numberOfClusters=0), whole=True),
    (ManagedClusterSet, "spec"): Fallback(_NO_MEMBERS, whole=True),
    (ManagedClusterSetBinding, "spec"): Fallback(whole=True),
    (ManifestWorkSpec, "workload"): Fallback(whole=True),
    (ManifestWorkSpec, "manifestConfigs"): Fallback(whole=True),
    (ManifestWorkSpec, "executor"): Fallback(whole=True),
    # Without a readable deleteOption all objects are kept when the work is deleted.
    (ManifestWorkSpec, "deleteOption"): Fallback(DeleteOption(propagationPolicy=ORPHAN), whole=True),
    (ManifestWork, "spec"): Fallback(ManifestWorkSpec(deleteOption=DeleteOption(propagationPolicy=ORPHAN))),
    (AppliedManifestWork, "spec"): Fallback(whole=True),
    (AddOnTemplate, "spec"): Fallback(whole=True),
    (AddOnDeploymentConfig, "spec"): Fallback(whole=True),
    (ClusterManagementAddOn, "spec"): Fallback(whole=True),
    (ManagedClusterAddOn, "spec"): Fallback(whole=True),
    (ClaimObject, "spec"): Fallback(whole=True),
}


def fallback_of(struct: type[Struct], name: str) -> Fallback:
    """Return the fallback of a field, including inherited ones."""
    for each in struct.__mro__:
        found = _TABLE.get((each, name))
        if found is not None:
            return found
    return _NONE
