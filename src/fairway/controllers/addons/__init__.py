"""Add-ons: brought to the clusters they are wanted on, where nobody else does it."""

from fairway.controllers.addons.controller import AddOnController
from fairway.controllers.addons.rbac import RULES

__all__ = ["RULES", "AddOnController"]
