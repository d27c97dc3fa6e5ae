"""Permissions of the placement controller; ``SHADOW`` is the read-only part."""

from typing import Final

from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS
from fairway.controllers.placement.ocm_detection import LEASE
from kubewire.client.rbac import Rule

_READ: Final = ("list", "watch")
_KINDS: Final = (
    "addonplacementscores",
    "managedclusters",
    "managedclustersetbindings",
    "managedclustersets",
    "placementdecisions",
    "placements",
)

SHADOW: Final = (
    Rule(groups=(MANAGED_CLUSTERS.group,), resources=_KINDS, verbs=_READ),
    Rule(groups=(MANAGED_CLUSTER_SCORES.group,), resources=(MANAGED_CLUSTER_SCORES.plural,), verbs=_READ),
    Rule(groups=(HOSTED_CLUSTER_REQUESTS.group,), resources=(HOSTED_CLUSTER_REQUESTS.plural,), verbs=_READ),
)

RULES: Final = (
    *SHADOW,
    Rule(
        groups=(MANAGED_CLUSTERS.group,),
        resources=("placementdecisions",),
        verbs=("create", "delete", "patch"),
    ),
    Rule(
        groups=(MANAGED_CLUSTERS.group,),
        resources=("placementdecisions/status", "placements/status"),
        verbs=("patch",),
    ),
    Rule(groups=(MANAGED_CLUSTERS.group,), resources=("placements",), verbs=("get",)),
    # Decisions are owned by their placement in a way that holds up its deletion, which takes this right.
    Rule(groups=(MANAGED_CLUSTERS.group,), resources=("placements/finalizers",), verbs=("update",)),
    Rule(groups=("coordination.k8s.io",), resources=("leases",), verbs=("get",), names=(LEASE,)),
    # Those of the core group for scores that change without a decision: only their message can be replaced.
    Rule(groups=("", "events.k8s.io"), resources=("events",), verbs=("create", "patch")),
)
