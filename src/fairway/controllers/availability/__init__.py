"""Availability: clusters that fall silent are not to be chosen any more."""

from fairway.controllers.availability.controller import Availability
from fairway.controllers.availability.rules import RULES

__all__ = ["RULES", "Availability"]
