"""Recovery: clusters that stay unhealthy are given up by a taint, until they have been well for longer."""

from fairway.controllers.recovery.controller import RecoveryController
from fairway.controllers.recovery.health_source import HealthSource
from fairway.controllers.recovery.policy import Budget, RecoveryPolicy, RecoveryPolicyError
from fairway.controllers.recovery.rbac import RULES

__all__ = ["RULES", "Budget", "HealthSource", "RecoveryController", "RecoveryPolicy", "RecoveryPolicyError"]
