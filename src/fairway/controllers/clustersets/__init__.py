"""Cluster sets: how many clusters they have, which bindings lead to them, and the sets every hub has."""

from fairway.controllers.clustersets.controller import ClusterSets
from fairway.controllers.clustersets.rules import RULES

__all__ = ["RULES", "ClusterSets"]
