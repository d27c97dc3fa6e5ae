"""Applies the ManifestWorks of a cluster's namespace on the hub to the cluster, as OCM's work agent does."""

from fairway.klusterlet.works.agent import WorkAgent
from fairway.klusterlet.works.applied_works import hub_hash
from fairway.klusterlet.works.rbac import RULES_CLUSTER, RULES_HUB, RULES_HUB_TTL

__all__ = ["RULES_CLUSTER", "RULES_HUB", "RULES_HUB_TTL", "WorkAgent", "hub_hash"]
