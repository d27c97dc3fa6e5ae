"""Availability: clusters that fall silent are not to be chosen any more."""

from fairway.controllers.availability.controller import AvailabilityController
from fairway.controllers.availability.rbac import RULES

__all__ = ["RULES", "AvailabilityController"]
