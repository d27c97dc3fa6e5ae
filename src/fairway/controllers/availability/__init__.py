"""Availability: marks clusters whose agent stops renewing its Lease, and taints them.

    Lease ──heartbeats──▶ condition ManagedClusterConditionAvailable ──taints──▶ taint unreachable or unavailable

Silence is measured on this process's monotonic clock, so differing clocks of agents and hub do not matter;
``clock_sync`` reports them.
"""

from fairway.controllers.availability.controller import AvailabilityController
from fairway.controllers.availability.rbac import RULES

__all__ = ["RULES", "AvailabilityController"]
