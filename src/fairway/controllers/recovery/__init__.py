"""Recovery: clusters that stay unhealthy are given up by a taint, until they have been well for longer."""

from fairway.controllers.recovery.controller import Recovery
from fairway.controllers.recovery.coordinate import Coordinate
from fairway.controllers.recovery.policy import Budget, Policy, PolicyError
from fairway.controllers.recovery.rules import RULES

__all__ = ["RULES", "Budget", "Coordinate", "Policy", "PolicyError", "Recovery"]
