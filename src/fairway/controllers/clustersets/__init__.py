"""Cluster sets: how many clusters they have, which bindings lead to them, and the sets every hub has."""

from fairway.controllers.clustersets.controller import ClusterSetController
from fairway.controllers.clustersets.rbac import RULES

__all__ = ["RULES", "ClusterSetController"]
