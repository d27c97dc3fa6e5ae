"""Add-ons: installs them where no OCM addon-manager runs.

    ClusterManagementAddOn + Placement ──installation──▶ ManagedClusterAddOn in the namespace of each selected cluster
    ManagedClusterAddOn + AddOnTemplate ──configs, rendering──▶ ManifestWork
    ClusterManagementAddOn ──offer_status, rollout_plan, references──▶ references of an add-on with its own manager
    status of the ManifestWork ──health──▶ conditions of the ManagedClusterAddOn

``index`` finds objects by cluster and by add-on, ``deployment`` reconciles one add-on on one cluster, ``registration``
and ``csr_approval`` give its agent an identity, ``labels`` publishes its state as cluster labels, ``orphaned_works``
releases works of removed clusters, ``ocm_detection`` checks for OCM's own addon-manager. ``keys`` has
the kinds of keys in the controller's queue. An *offer* is a ClusterManagementAddOn.
"""

from fairway.controllers.addons.controller import AddOnController
from fairway.controllers.addons.rbac import RULES

__all__ = ["RULES", "AddOnController"]
