"""Health of a cluster as one score, and as the parts it consists of."""

from fairway.providers.health.options import HealthOptions
from fairway.providers.health.provider import RULES, Health, health

__all__ = ["RULES", "Health", "HealthOptions", "health"]
