"""Add-ons: installs them where no OCM addon-manager runs.

    ClusterManagementAddOn + Placement ──installation──▶ ManagedClusterAddOn in the namespace of each selected cluster
    ManagedClusterAddOn + AddOnTemplate ──configs, rendering──▶ ManifestWork
    status of the ManifestWork ──health──▶ conditions of the ManagedClusterAddOn

``index`` finds objects by cluster and by add-on, ``deployment`` reconciles one add-on on one cluster, ``registration``
and ``csr_approval`` give its agent an identity, ``labels`` publishes its state as cluster labels, ``orphaned_works``
releases works of removed clusters, ``ocm_detection`` checks for OCM's own addon-manager. An *offer* is a
ClusterManagementAddOn.
"""

from fairway.controllers.addons.controller import AddOnController
from fairway.controllers.addons.rbac import RULES

__all__ = ["RULES", "AddOnController"]
