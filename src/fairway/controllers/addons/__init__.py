"""Add-ons: brought to the clusters they are wanted on, where nobody else does it."""

from fairway.controllers.addons.controller import AddOns
from fairway.controllers.addons.rules import RULES

__all__ = ["RULES", "AddOns"]
