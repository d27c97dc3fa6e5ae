"""Health of a cluster as one score, and as the parts it consists of.

    nodes, pods (objects) ──▶ cluster_state (shares, restarts in a window) ──parts──▶ readings

The provider watches nodes and pods of its own cluster, and measures how fast the API server responds.
"""

from fairway.providers.health.options import HealthOptions
from fairway.providers.health.provider import RULES, Health, health

__all__ = ["RULES", "Health", "HealthOptions", "health"]
