"""Cluster sets: counts their clusters, validates their bindings, and creates the sets every hub has.

    cluster labels ──membership──▶ condition ClusterSetEmpty of the ManagedClusterSet, condition Bound of bindings

``defaults`` has the sets ``default`` and ``global``; ``conditions`` has OCM's messages; ``keys`` the
kinds of keys in the controller's queue.
"""

from fairway.controllers.clustersets.controller import ClusterSetController
from fairway.controllers.clustersets.rbac import RULES

__all__ = ["RULES", "ClusterSetController"]
