"""What counts in place of a field that cannot be read.

A dropped field takes the default of its type, as if it had not been written. That is wrong wherever a missing field
means more than a present one: a score without ``validUntil`` is valid for ever, a selector without its second
requirement selects more, a taint without an effect keeps nothing away. This table has all of these. The rule behind
every line: being unreadable must not give the writer anything that it could not have by writing nothing at all.
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
"""The default of the field counts."""
REQUIRED: Final = object()
"""What the field is part of cannot be read either: an item of a list is dropped as a whole."""

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
    """In place of a single item of a list; without one, the item is dropped."""
    whole: bool = False
    """One unreadable part makes all of it unreadable: parts of it would mean something else."""


_NONE: Final = Fallback()

_TABLE: Final[dict[tuple[type[Struct], str], Fallback]] = {
    # A deletion that cannot be dated has begun all the same.
    (ObjectMeta, "deletionTimestamp"): Fallback(LONG_AGO),
    # A condition that cannot be read says nothing. What is left of it must be valid, because controllers write the
    # list of conditions back with their own in it.
    (Condition, "type"): Fallback(REQUIRED),
    (Condition, "status"): Fallback(UNKNOWN),
    (Condition, "lastTransitionTime"): Fallback(LONG_AGO),
    (Condition, "reason"): Fallback(UNREADABLE),
    # Without a time of update, a ManagedClusterScore would be fresh where age is not checked.
    (ManagedClusterScoreCondition, "lastUpdateTime"): Fallback(LONG_AGO),
    (ManagedClusterScoreStatus, "score"): Fallback(REQUIRED),
    # Without an end, a score would be valid for ever. Without its value, it would be 0 instead of missing.
    (AddOnPlacementScoreStatus, "validUntil"): Fallback(LONG_AGO),
    (AddOnPlacementScoreItem, "name"): Fallback(REQUIRED),
    (AddOnPlacementScoreItem, "value"): Fallback(REQUIRED),
    (ClusterClaim, "name"): Fallback(REQUIRED),
    (ClusterClaim, "value"): Fallback(REQUIRED),
    (ClusterDecision, "clusterName"): Fallback(REQUIRED),
    # A taint keeps placements away whatever of it can be read, and keeps its place in the list, which patches name.
    (Taint, "key"): Fallback(UNREADABLE_TAINT.key),
    (Taint, "value"): Fallback(UNREADABLE_TAINT.value),
    (Taint, "effect"): Fallback(NO_SELECT),
    (ManagedClusterSpec, "taints"): Fallback((UNREADABLE_TAINT,), item=UNREADABLE_TAINT),
    (ManagedCluster, "spec"): Fallback(ManagedClusterSpec(taints=(UNREADABLE_TAINT,))),
    # An election that cannot read the holder must not take the Lease for free.
    (LeaseSpec, "holderIdentity"): Fallback(UNREADABLE),
    (Lease, "spec"): Fallback(LeaseSpec(holderIdentity=UNREADABLE)),
    # A selector, a toleration or a manifest less means something else. Controllers name the field on the object.
    (Placement, "spec"): Fallback(PlacementSpec(numberOfClusters=0), whole=True),
    (PlacementV1Alpha1, "spec"): Fallback(PlacementSpecV1Alpha1(numberOfClusters=0), whole=True),
    (ManagedClusterSet, "spec"): Fallback(_NO_MEMBERS, whole=True),
    (ManagedClusterSetBinding, "spec"): Fallback(whole=True),
    (ManifestWorkSpec, "workload"): Fallback(whole=True),
    (ManifestWorkSpec, "manifestConfigs"): Fallback(whole=True),
    (ManifestWorkSpec, "executor"): Fallback(whole=True),
    # What stays when the work is deleted is not known then, so everything does.
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
    """Of a field, also where a Struct inherited it."""
    for each in struct.__mro__:
        found = _TABLE.get((each, name))
        if found is not None:
            return found
    return _NONE
