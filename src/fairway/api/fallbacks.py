"""Values that replace unreadable fields of OCM's and Fairway's kinds, where a missing field would grant more.

A score without ``validUntil`` never expires, a selector without its second requirement selects more, a taint without an
effect repels nothing. This table lists all of these; ``fairway.api`` registers it, so before any object is decoded.
"""

from typing import Final

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
from fairway.api.placement import Placement, PlacementSpec
from fairway.api.placement_v1alpha1 import PlacementSpecV1Alpha1, PlacementV1Alpha1
from fairway.api.score import (
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScoreCondition,
    ManagedClusterScoreStatus,
)
from fairway.api.work import ORPHAN, AppliedManifestWork, DeleteOption, ManifestWork, ManifestWorkSpec
from kubewire.api.fallback import LONG_AGO, REQUIRED, UNREADABLE, Fallback, FieldOf

UNREADABLE_TAINT: Final = Taint(key="fairway.dev/unreadable", value=UNREADABLE, effect=NO_SELECT)
_NO_MEMBERS: Final = ManagedClusterSetSpec(
    clusterSelector=ManagedClusterSelector(selectorType=LABEL_SELECTOR, labelSelector=None)
)


FALLBACKS: Final[dict[FieldOf, Fallback]] = {
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
