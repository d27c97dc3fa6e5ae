"""Typed objects of OCM, Fairway, Kubernetes and virtual machines, and what follows from their types.

- One frozen msgspec Struct per kind (``cluster``, ``clusterset``, ``placement``, ``decision``, ``score``, ``addon``,
  ``work``, ``hosted_request``, ``pod``, …), with the field names of the wire. ``kinds`` decodes objects by apiVersion
  and kind, ``resources`` has the path of each kind.
- ``crd`` lists the kinds whose CRDs Fairway writes, ``validation`` checks files, ``fallbacks`` has the values that
  replace unreadable fields.

Everything here is pure: no I/O. The basics, such as metadata, quantities and selectors, are in ``kubewire.api``.
"""

from fairway.api.addon import (
    AddOnConfig,
    ClusterManagementAddOn,
    ManagedClusterAddOn,
    ManagedClusterAddOnSpec,
    ManagedClusterAddOnStatus,
    RegistrationConfig,
)
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate, AddOnTemplateSpec
from fairway.api.cluster import (
    ClientConfig,
    ClusterClaim,
    ClusterSetManagedNamespaceStatus,
    ClusterVersion,
    ManagedCluster,
    ManagedClusterSpec,
    ManagedClusterStatus,
    Taint,
    cluster_as_json,
)
from fairway.api.clusterset import (
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetBindingStatus,
    ManagedClusterSetSpec,
    ManagedClusterSetStatus,
    ManagedNamespace,
)
from fairway.api.crd import GROUP, RESOURCES, crds
from fairway.api.decision import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from fairway.api.fallbacks import FALLBACKS
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.kinds import KINDS, DecodeError, KubeObject, decode, identity_of, type_of
from fairway.api.machine_migration import MachineMigration
from fairway.api.placement import (
    AddOnScore,
    ClusterCelSelector,
    ClusterClaimSelector,
    ClusterPredicate,
    ClusterSelector,
    DecisionGroup,
    DecisionGroupStatus,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    Placement,
    PlacementSpec,
    PlacementStatus,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
    SpreadConstraint,
    SpreadPolicy,
    Toleration,
)
from fairway.api.score import (
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScore,
    ManagedClusterScoreCondition,
    ManagedClusterScoreStatus,
    managed_cluster_score_name,
)
from fairway.api.validation import Problem, check
from fairway.api.work import (
    AppliedManifestWork,
    AppliedResource,
    ManifestCondition,
    ManifestConfig,
    ManifestResourceMeta,
    ManifestWork,
    ManifestWorkSpec,
    ManifestWorkStatus,
)
from kubewire.api.custom_resource import crd
from kubewire.api.defaults import apply_defaults
from kubewire.api.encoding import encode
from kubewire.api.event import CoreEvent, Event, EventSeries, EventSource, ObjectReference
from kubewire.api.fallback import register_fallbacks
from kubewire.api.lease import Lease, LeaseSpec, MicroTime, format_micro_time
from kubewire.api.meta import (
    Condition,
    ObjectMeta,
    OwnerReference,
    find_condition,
    format_time,
    set_condition,
)
from kubewire.api.quantity import Quantity, QuantityError, quantity_float
from kubewire.api.selector import (
    SELECT_EVERYTHING,
    SELECT_NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    Selector,
    SelectorError,
    compile_requirements,
    compile_selector,
)

__all__ = [
    "GROUP",
    "KINDS",
    "RESOURCES",
    "SELECT_EVERYTHING",
    "SELECT_NOTHING",
    "AddOnConfig",
    "AddOnDeploymentConfig",
    "AddOnPlacementScore",
    "AddOnPlacementScoreItem",
    "AddOnPlacementScoreStatus",
    "AddOnScore",
    "AddOnTemplate",
    "AddOnTemplateSpec",
    "AppliedManifestWork",
    "AppliedResource",
    "ClientConfig",
    "ClusterCelSelector",
    "ClusterClaim",
    "ClusterClaimSelector",
    "ClusterDecision",
    "ClusterManagementAddOn",
    "ClusterPredicate",
    "ClusterSelector",
    "ClusterSetManagedNamespaceStatus",
    "ClusterVersion",
    "Condition",
    "CoreEvent",
    "DecisionGroup",
    "DecisionGroupStatus",
    "DecisionStrategy",
    "DecodeError",
    "Event",
    "EventSeries",
    "EventSource",
    "GroupClusterSelector",
    "GroupStrategy",
    "HostedClusterRequest",
    "HostingPolicy",
    "KubeObject",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "MachineMigration",
    "ManagedCluster",
    "ManagedClusterAddOn",
    "ManagedClusterAddOnSpec",
    "ManagedClusterAddOnStatus",
    "ManagedClusterScore",
    "ManagedClusterScoreCondition",
    "ManagedClusterScoreStatus",
    "ManagedClusterSelector",
    "ManagedClusterSet",
    "ManagedClusterSetBinding",
    "ManagedClusterSetBindingSpec",
    "ManagedClusterSetBindingStatus",
    "ManagedClusterSetSpec",
    "ManagedClusterSetStatus",
    "ManagedClusterSpec",
    "ManagedClusterStatus",
    "ManagedNamespace",
    "ManifestCondition",
    "ManifestConfig",
    "ManifestResourceMeta",
    "ManifestWork",
    "ManifestWorkSpec",
    "ManifestWorkStatus",
    "MicroTime",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "Placement",
    "PlacementDecision",
    "PlacementDecisionStatus",
    "PlacementSpec",
    "PlacementStatus",
    "PrioritizerConfig",
    "PrioritizerPolicy",
    "Problem",
    "Quantity",
    "QuantityError",
    "RegistrationConfig",
    "Requirement",
    "ScoreCoordinate",
    "Selector",
    "SelectorError",
    "SpreadConstraint",
    "SpreadPolicy",
    "Taint",
    "Toleration",
    "apply_defaults",
    "check",
    "cluster_as_json",
    "compile_requirements",
    "compile_selector",
    "crd",
    "crds",
    "decode",
    "encode",
    "find_condition",
    "format_micro_time",
    "format_time",
    "identity_of",
    "managed_cluster_score_name",
    "quantity_float",
    "set_condition",
    "type_of",
]

# Importing a module of this package runs this first, so that no object is decoded without its fallbacks.
register_fallbacks(FALLBACKS)
