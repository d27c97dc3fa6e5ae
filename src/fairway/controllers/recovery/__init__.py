"""Recovery: taints clusters that stay unhealthy, and removes the taint once they are healthy for longer.

    score (health_source) ──▶ events ──▶ state_machine (no I/O) ──▶ decision ──▶ taint, condition, event on the cluster

``policy`` has thresholds, dwell times and budgets; ``cluster_sets`` maps clusters to sets, whose budgets also hold;
``conditions`` has the messages. A taint is *withheld* while a budget is used up or the provider is suspected to fail.
"""

from fairway.controllers.recovery.controller import RecoveryController
from fairway.controllers.recovery.health_source import HealthSource
from fairway.controllers.recovery.policy import Budget, RecoveryPolicy, RecoveryPolicyError
from fairway.controllers.recovery.rbac import RULES

__all__ = ["RULES", "Budget", "HealthSource", "RecoveryController", "RecoveryPolicy", "RecoveryPolicyError"]
